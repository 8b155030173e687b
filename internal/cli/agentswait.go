// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/workload"
)

func (p *program) agentsWaitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until an agent is Ready: its pods run, and have its configuration",
		Long: "Waits until an agent is Ready: all of its pods run, were made with the configuration as it is, and are\n" +
			"ready. Without a readiness probe, a container counts as ready when it has run for three seconds. One that\n" +
			"has ended counts again when it has run for longer than the time before, and for ten seconds at the\n" +
			"least; a minute is enough.\n\n" +
			"The wait ends early when waiting does not help: there is no such agent, it is suspended, another\n" +
			"AgentRuntime has its workload, its pods cannot start or end again and again. The exit code is then 1.",
		Example: p.examples(`
			berth agents wait researcher --timeout 5m`),
		Args:              one("the name of an agent"),
		ValidArgsFunction: p.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := agentName(args[0])
			if err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			if err := p.awaitReady(cmd.Context(), c, name, time.Now(), timeout); err != nil {
				return err
			}
			fmt.Fprintf(p.streams.Out, "agentruntime/%s is Ready\n", name)
			return nil
		},
	}
	waitFlag(cmd.Flags(), &timeout, "how long to wait until it is Ready")
	return cmd
}

// awaitReady waits until an agent is Ready, and tells what it waits for and how long it took since the command began.
func (p *program) awaitReady(ctx context.Context, c *cluster, name string, began time.Time, timeout time.Duration) error {
	err := p.awaitAgent(ctx, c, name, "Ready", timeout, judgeAgent)
	if err == nil {
		fmt.Fprintf(p.streams.ErrOut, "Agent %s is Ready after %s.\n", name, within(time.Since(began)))
	}
	return err
}

// errReplan: the agent has another workload than its pods were looked for.
var errReplan = errors.New("the workload is another one")

// awaitAgent waits until an agent is judged ready; done says what it is then. The error says why it is not,
// and what to do.
func (p *program) awaitAgent(ctx context.Context, c *cluster, name, done string, timeout time.Duration, judge func(agent) outcome) error {
	waiting := ctx
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		waiting = limited
	}
	progress := newProgress(p.streams.ErrOut, "Waiting for agent "+name)
	defer progress.Close()
	var last outcome
	see := func(a agent) (bool, error) {
		last = judge(a)
		switch {
		case last.ready:
			return true, nil
		case last.failed:
			return true, &problem{cause: fmt.Errorf("agent %s is not %s: %s", name, done, last), next: append([]string{p.nextFor(last, name)}, p.lookAt(name)...)}
		case last.reason != "" && !last.outdated:
			progress.Say("Waiting: %s", last)
		}
		return false, nil
	}
	again := func() time.Duration { return last.again }
	err := errReplan
	for errors.Is(err, errReplan) {
		err = p.followAgent(waiting, c, name, progress, see, again)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return &problem{cause: fmt.Errorf("interrupted; agent %s goes on as it is", name), next: p.lookAt(name), code: exitInterrupted}
	case errors.Is(err, context.DeadlineExceeded):
		next := p.lookAt(name)
		if last.reason == "" {
			next = append([]string{"see that a controller of AgentRuntimes runs: " + p.command("version")}, next...)
		}
		return &problem{cause: fmt.Errorf("agent %s is not %s after %s: %s", name, done, timeout, last), next: next}
	}
	return err
}

func (p *program) nextFor(seen outcome, name string) string {
	switch {
	case seen.reason == stateSuspended:
		return p.command("agents resume", name) + " starts it"
	case seen.pod != "":
		return p.command("agents logs", name, "--pod", seen.pod, "-c", seen.container, "--previous") + " shows what it wrote before it ended"
	}
	return seen.next
}

// lookAt says how to see more of an agent.
func (p *program) lookAt(name string) []string {
	return []string{p.command("why", "agentruntime/"+name) + " says what its controller makes of it", p.command("agents ls") + " shows its state"}
}

// followAgent shows see every state of an agent until it is done or fails. After each, again says when to
// show it once more though nothing has changed, or 0.
func (p *program) followAgent(ctx context.Context, c *cluster, name string, progress *progress, see func(agent) (bool, error),
	again func() time.Duration) error {
	a, err := p.runtimeOf(ctx, c, name)
	if err != nil {
		return ended(ctx, err)
	}
	t, err := p.targetOf(a)
	if err != nil {
		return err
	}
	w, err := p.workloadOf(ctx, c, t)
	if err != nil {
		return ended(ctx, err)
	}
	queries := agentQueries(a, t, w)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := c.mirror(watching, queries)
	all, answered := make(found, len(queries)), map[int]bool{}
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
		case u := <-changes:
			switch {
			case u.err != nil:
				return ended(ctx, p.explainAgents(u.err))
			case u.lost != nil:
				progress.Say("The connection to the API server broke: %v; trying again.", u.lost)
				continue
			}
			all.apply(u)
			answered[u.query] = true
		}
		if len(answered) < len(queries) {
			continue
		}
		seen, err := p.agentAmong(all, a, t, w)
		if err != nil {
			return err
		}
		if done, err := see(seen); done || err != nil {
			return err
		}
		due = nil
		if d := again(); d > 0 {
			due = time.After(d)
		}
	}
}

// ended is the end of the context, where that is why a request failed.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// agentQueries find an AgentRuntime, its workload and, if that is known, its pods.
func agentQueries(a *api.AgentRuntime, t workload.Target, w client.Object) []query {
	named := func(name string) []client.ListOption {
		return []client.ListOption{client.InNamespace(a.Namespace), client.MatchingFields{"metadata.name": name}}
	}
	queries := []query{
		{list: func() client.ObjectList { return &api.AgentRuntimeList{} }, options: named(a.Name)},
		{list: func() client.ObjectList { _, list := newWorkload(t.Kind); return list }, options: named(t.Name)},
	}
	if w != nil {
		queries = append(queries, podsBelow(w)...)
	}
	return queries
}

// agentAmong makes an agent from what agentQueries find. It is errReplan if they have to be others.
func (p *program) agentAmong(all found, before *api.AgentRuntime, t workload.Target, w client.Object) (agent, error) {
	runtimes := typed[*api.AgentRuntime](all[0])
	if len(runtimes) == 0 || runtimes[0].UID != before.UID {
		return agent{}, &problem{cause: fmt.Errorf("agent %s was deleted meanwhile", before.Name), next: []string{p.command("agents ls") + " shows what there is"}}
	}
	a := agent{AgentRuntime: runtimes[0], target: t, now: time.Now()}
	if now, err := p.targetOf(a.AgentRuntime); err != nil || now != t {
		return agent{}, errReplan
	}
	if len(all[1]) > 0 {
		a.workload = all[1][0]
	}
	if uidOf(a.workload) != uidOf(w) && a.workload != nil {
		return agent{}, errReplan
	}
	if w != nil {
		a.pods, a.read = podsAmong(w, slices.Concat(all[2:]...)), !slices.ContainsFunc(all[2:], func(list []client.Object) bool { return list == nil })
	}
	return a, nil
}

func uidOf(obj client.Object) types.UID {
	if obj == nil {
		return ""
	}
	return obj.GetUID()
}
