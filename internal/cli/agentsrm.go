// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/launch"
)

type agentsRmOptions struct {
	volumes bool
	wait    bool
	timeout time.Duration
}

func (p *program) agentsRmCommand() *cobra.Command {
	var o agentsRmOptions
	cmd := &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"delete", "remove"},
		Short:   "Remove agents, with everything that was made for them",
		Long: "Removes agents: what runs them, their Service and ServiceAccount, and the AgentRuntime. A line tells of\n" +
			"each object. Volumes are kept, and used again by an agent of the same name, unless --delete-volumes\n" +
			"deletes them, too.\n\n" +
			"Only what \"agents run\" made is removed. Of an agent that was made otherwise that is the\n" +
			"AgentRuntime, whose workload stays. An agent that was only half made is removed, too.",
		Example: p.examples(`
			berth agents rm researcher

			# with what is on its volume, and until its pods are gone
			berth agents rm researcher --delete-volumes --wait`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: p.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := agentNames(cmd, args)
			if err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			return p.each(cmd.Context(), names, "not removed", func(name string) error {
				return p.explainAgents(p.removeAgent(cmd.Context(), c, name, o))
			})
		},
	}
	cmd.Flags().BoolVar(&o.volumes, "delete-volumes", false, "delete volumes, and what is on them, too")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until the agent and its pods are gone")
	waitFlag(cmd.Flags(), &o.timeout, "how long --wait waits for each agent")
	return cmd
}

func (p *program) removeAgent(ctx context.Context, c *cluster, name string, o agentsRmOptions) error {
	made, unread := c.madeFor(ctx, name)
	made = slices.DeleteFunc(made, func(obj client.Object) bool { // a volume on its way out is no agent
		_, volume := obj.(*corev1.PersistentVolumeClaim)
		return volume && obj.GetDeletionTimestamp() != nil
	})
	runtime := &api.AgentRuntime{}
	switch err := c.get(ctx, name, runtime); {
	case err == nil && !slices.ContainsFunc(made, func(o client.Object) bool { return o.GetUID() == runtime.UID }):
		made = append(made, runtime)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("remove agent %s: %w", name, err)
	case notServed(err):
		return p.explainAgents(err)
	}
	for _, err := range unread {
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("remove agent %s: %w", name, err)
		}
	}
	volumes, failed := 0, unread
	for _, obj := range made {
		if _, volume := obj.(*corev1.PersistentVolumeClaim); volume && !o.volumes {
			volumes++
		}
	}
	if len(made) == volumes && len(unread) == 0 {
		return p.nothingToRemove(name, c.namespace, volumes)
	}
	for _, obj := range made {
		if err := p.removeObject(ctx, c, obj, o); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", objectWord(obj), err))
		}
	}
	p.tellOfWorkload(runtime, made)
	if len(failed) > 0 {
		return &problem{cause: fmt.Errorf("agent %s is not removed with all that belongs to it: %w", name, errors.Join(failed...)),
			next: []string{"mend what the message says, and try again: " + p.command("agents rm", name)}}
	}
	if o.wait {
		return p.awaitRemoved(ctx, c, name, o)
	}
	return nil
}

func (p *program) nothingToRemove(name, namespace string, volumes int) error {
	err := &problem{cause: fmt.Errorf("there is no agent %q in namespace %q, and nothing that was made for it", name, namespace),
		next: []string{p.name + " agents ls -A shows all there are"}}
	if volumes > 0 {
		err.cause = fmt.Errorf("there is no agent %q in namespace %q; only its volume is left", name, namespace)
		err.next = []string{p.command("agents rm", name, "--delete-volumes") + " deletes it", "an agent of that name with --storage uses it again"}
	}
	return err
}

// removeObject deletes one object and tells what became of it.
func (p *program) removeObject(ctx context.Context, c *cluster, obj client.Object, o agentsRmOptions) error {
	word := objectWord(obj)
	if _, volume := obj.(*corev1.PersistentVolumeClaim); volume && !o.volumes {
		fmt.Fprintf(p.streams.Out, "%s kept (--delete-volumes deletes it)\n", word)
		return nil
	}
	if obj.GetDeletionTimestamp() != nil {
		fmt.Fprintf(p.streams.Out, "%s is being deleted already\n", word)
		return nil
	}
	gone, err := c.deleteObject(ctx, obj)
	switch {
	case err != nil:
		fmt.Fprintf(p.streams.Out, "%s not deleted\n", word)
	case gone:
		fmt.Fprintf(p.streams.Out, "%s deleted\n", word)
	default:
		fmt.Fprintf(p.streams.Out, "%s was gone\n", word)
	}
	return err
}

// tellOfWorkload says that a workload stays which somebody else made.
func (p *program) tellOfWorkload(a *api.AgentRuntime, made []client.Object) {
	if a.Name == "" {
		return
	}
	t, err := p.targetOf(a)
	if err != nil {
		return
	}
	if !slices.ContainsFunc(made, func(o client.Object) bool { return targetOfWorkload(o) == t }) && !launch.Made(a, a.Name) {
		fmt.Fprintf(p.streams.Out, "%s kept: it was not made by \"agents run\"\n", targetWord(a.Spec.TargetRef))
	}
}

// awaitRemoved waits until nothing of an agent is left but volumes that are kept.
func (p *program) awaitRemoved(ctx context.Context, c *cluster, name string, o agentsRmOptions) error {
	waiting := ctx
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		waiting = limited
	}
	progress := newProgress(p.streams.ErrOut, "Waiting until agent "+name+" is gone")
	defer progress.Close()
	queries := goneQueries(c.namespace, name, o.volumes)
	watching, cancel := context.WithCancel(waiting)
	defer cancel()
	changes := c.mirror(watching, queries)
	all, answered := make(found, len(queries)), map[int]bool{}
	for {
		select {
		case <-waiting.Done():
			return p.notGone(ctx, name, slices.Concat(all...), o)
		case u := <-changes:
			switch {
			case u.err != nil:
				return u.err
			case u.lost != nil:
				progress.Say("The connection to the API server broke: %v; trying again.", u.lost)
				continue
			}
			all.apply(u)
			answered[u.query] = true
		}
		left := slices.Concat(all...)
		if len(answered) == len(queries) && len(left) == 0 {
			fmt.Fprintf(p.streams.Out, "agent %s is gone\n", name)
			return nil
		}
		if len(left) > 0 {
			progress.Say("Waiting: %s is not gone yet", objectWord(left[0]))
		}
	}
}

// goneQueries find what is left of an agent.
func goneQueries(namespace, name string, volumes bool) []query {
	labelled := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{launch.LabelAgent: name}}
	named := []client.ListOption{client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}}
	queries := []query{
		{list: func() client.ObjectList { return &api.AgentRuntimeList{} }, options: named},
		{list: func() client.ObjectList { return &corev1.PodList{} }, options: labelled, optional: true},
	}
	for _, empty := range madeLists() {
		switch empty.(type) {
		case *api.AgentRuntimeList:
			continue
		case *corev1.PersistentVolumeClaimList:
			if !volumes {
				continue
			}
		}
		queries = append(queries, query{list: func() client.ObjectList { return empty.DeepCopyObject().(client.ObjectList) }, options: labelled, optional: true})
	}
	return queries
}

func (p *program) notGone(ctx context.Context, name string, left []client.Object, o agentsRmOptions) error {
	next := []string{p.command("agents ls") + " shows what is left"}
	if ctx.Err() != nil {
		return &problem{cause: fmt.Errorf("interrupted; agent %s goes on being deleted", name), next: next, code: exitInterrupted}
	}
	what := "nothing is known of it"
	if len(left) > 0 {
		what = objectWord(left[0]) + " is not gone"
	}
	return &problem{cause: fmt.Errorf("agent %s is being deleted, and not gone after %s: %s", name, o.timeout, what), next: next}
}
