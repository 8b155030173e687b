// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// turn is one of suspend and resume.
type turn struct {
	command  string
	mode     agents.OperatingMode
	replicas int32
	doing    string // what the sandbox does meanwhile
	already  string // what one is that was so before
	done     string // and then is
	// judge says whether a sandbox is as wanted, what it waits for, or why it never will be.
	judge func(*agents.Sandbox) outcome
}

func suspending() turn {
	return turn{command: "suspend", mode: agents.OperatingModeSuspended, replicas: 0, doing: "suspending", already: "suspended", done: "suspended", judge: judgeSuspended}
}

func resuming() turn {
	return turn{command: "resume", mode: agents.OperatingModeRunning, replicas: 1, doing: "resuming", already: "running", done: "Ready", judge: judgeResumed}
}

func (p *program) suspendCommand() *cobra.Command {
	return p.turnCommand(suspending(), &cobra.Command{
		Use:   "suspend CLAIM",
		Short: "Stop a claimed sandbox's pod and keep its volumes",
		Long: "Suspends the sandbox of a claim, or one that is named as sandbox/NAME, and waits until its pod is\n" +
			"gone. What is on its volumes stays, and what is in memory or elsewhere in the container does not.\n" +
			"The claim stays, too; resume makes a new pod.",
		Example: p.examples(`
			berth suspend analysis
			berth resume analysis`),
	})
}

func (p *program) resumeCommand() *cobra.Command {
	return p.turnCommand(resuming(), &cobra.Command{
		Use:   "resume CLAIM",
		Short: "Start a suspended sandbox again and wait until it is Ready",
		Long: "Resumes the suspended sandbox of a claim, or one that is named as sandbox/NAME, and waits until it is\n" +
			"Ready. It has a new pod, maybe on another node and with another address, and the volumes it had.",
		Example: p.examples(`
			berth resume analysis --timeout 5m`),
	})
}

func (p *program) turnCommand(t turn, cmd *cobra.Command) *cobra.Command {
	var timeout time.Duration
	cmd.Args = one("the name of a claim")
	cmd.ValidArgsFunction = p.completeOneTarget
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		of, err := parseTarget(args[0])
		if err != nil {
			return err
		}
		return p.turn(cmd.Context(), t, of, timeout)
	}
	waitFlag(cmd.Flags(), &timeout, "how long to wait until it is "+t.done)
	return cmd
}

func (p *program) turn(ctx context.Context, t turn, of target, timeout time.Duration) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	sandbox, err := p.sandboxOf(ctx, c, of)
	if err != nil {
		return err
	}
	if owner := metav1.GetControllerOf(sandbox); owner != nil && owner.Kind == extensions.SandboxWarmPoolKind {
		return &problem{cause: fmt.Errorf("sandbox %s waits in pool %s, which wants its members running", sandbox.Name, owner.Name),
			next: []string{p.command("claim", owner.Name) + " takes one of them, to " + t.command}}
	}
	if ctx.Err() != nil {
		return &problem{cause: fmt.Errorf("interrupted; sandbox %s is as it was", sandbox.Name), code: exitInterrupted}
	}
	if t.over(sandbox) {
		fmt.Fprintf(p.streams.Out, "sandbox %s is %s already\n", sandbox.Name, t.already)
		return nil
	}
	start := "Sandbox %s is %s.\n"
	if t.is(sandbox) {
		start = "Sandbox %s is %s already.\n"
	}
	if err := p.setMode(ctx, c, sandbox, t); err != nil {
		return err
	}
	fmt.Fprintf(p.streams.ErrOut, start, sandbox.Name, t.doing)
	began := time.Now()
	if err := p.awaitTurn(ctx, c, of, sandbox, t, timeout); err != nil {
		return err
	}
	fmt.Fprintf(p.streams.ErrOut, "It took %s.\n", within(time.Since(began)))
	fmt.Fprintf(p.streams.Out, "sandbox %s is %s\n", sandbox.Name, t.done)
	return nil
}

// is says whether a sandbox is meant to be what the turn makes of it.
func (t turn) is(sandbox *agents.Sandbox) bool { return sandbox.Running() == (t.replicas == 1) }

// over says whether there is nothing to do nor to wait for.
func (t turn) over(sandbox *agents.Sandbox) bool { return t.is(sandbox) && t.judge(sandbox).ready }

// setMode writes what the sandbox should be, if it is not that. The answer is awaited even if a person
// gives up meanwhile: it says what was done.
func (p *program) setMode(ctx context.Context, c *cluster, sandbox *agents.Sandbox, t turn) error {
	if t.is(sandbox) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	spec := map[string]any{"operatingMode": t.mode}
	if sandbox.Spec.Replicas != nil {
		spec["replicas"] = t.replicas // off if either is off, and servers before 1.36 do not keep them equal
	}
	// With the UID, the patch is not for a later sandbox of the same name.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": sandbox.UID}, "spec": spec})
	if err != nil {
		return err
	}
	name := sandbox.Name
	switch err := c.Patch(ctx, sandbox, client.RawPatch(types.MergePatchType, patch)); {
	case apierrors.IsNotFound(err) && !notServed(err), apierrors.IsConflict(err):
		return &problem{cause: fmt.Errorf("sandbox %s was deleted meanwhile", name), next: []string{p.command("ls") + " shows what there is"}}
	case err != nil && !refused(err):
		return &problem{cause: fmt.Errorf("%s sandbox %s: %w; whether it was done is not known", t.command, name, err), next: []string{p.command("ls") + " shows its state"}}
	case err != nil:
		return fmt.Errorf("%s sandbox %s: %w", t.command, name, err)
	}
	return nil
}

// awaitTurn waits until the sandbox is as wanted, and tells what it waits for.
func (p *program) awaitTurn(ctx context.Context, c *cluster, of target, sandbox *agents.Sandbox, t turn, timeout time.Duration) error {
	waiting := ctx
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		waiting = limited
	}
	progress := newProgress(p.streams.ErrOut, "Waiting until sandbox "+sandbox.Name+" is "+t.done)
	defer progress.Close()
	var last outcome
	look := []string{p.command("ls") + " shows its state", p.command("events", of.String()) + " shows what happened to it"}
	err := follower[*agents.Sandbox]{
		cluster: c,
		list:    &agents.SandboxList{},
		empty:   func() *agents.Sandbox { return &agents.Sandbox{} },
		see: func(seen *agents.Sandbox, gone bool) (bool, error) {
			last = t.judge(seen)
			switch {
			case gone:
				return true, &problem{cause: fmt.Errorf("sandbox %s was deleted while it was %s", sandbox.Name, t.doing), next: look[:1]}
			case !t.is(seen):
				return true, &problem{cause: fmt.Errorf("somebody else changed sandbox %s back while it was %s", sandbox.Name, t.doing), next: look}
			case last.ready:
				return true, nil
			case last.failed:
				return true, &problem{cause: fmt.Errorf("sandbox %s is not %s: %s", sandbox.Name, t.done, last), next: append([]string{last.next}, look...)}
			case last.reason != "":
				progress.Say("Waiting: %s", last)
			}
			return false, nil
		},
		lost: func(err error) { progress.Say("The connection to the API server broke: %v; trying again.", err) },
	}.follow(waiting, sandbox)
	switch {
	case err != nil && ctx.Err() != nil:
		return &problem{cause: fmt.Errorf("interrupted; sandbox %s goes on %s", sandbox.Name, t.doing), next: look[:1], code: exitInterrupted}
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{cause: fmt.Errorf("sandbox %s is not %s after %s, and goes on %s: %s", sandbox.Name, t.done, timeout, t.doing, last), next: look}
	}
	return err
}

// judgeResumed says whether a sandbox that should run does.
func judgeResumed(sandbox *agents.Sandbox) outcome {
	ready := meta.FindStatusCondition(sandbox.Status.Conditions, agents.ConditionReady)
	if ready == nil || ready.ObservedGeneration < sandbox.Generation {
		return outcome{} // it is of the time before
	}
	seen := outcome{ready: ready.Status == metav1.ConditionTrue, reason: ready.Reason, message: ready.Message}
	switch ready.Reason {
	case agents.ReasonSandboxExpired:
		seen.failed, seen.next = true, "claim again; an expired sandbox does not come back"
	case agents.ReasonMultiplePods:
		seen.failed, seen.next = true, "delete all of its pods but one: kubectl get pods -n "+sandbox.Namespace+" -l "+agents.LabelSandboxUID+"="+string(sandbox.UID)
	case agents.ReasonPodSucceeded, agents.ReasonPodFailed:
		seen.failed, seen.next = true, "see why the pod ended: kubectl logs -n "+sandbox.Namespace+" "+sandbox.Name
	}
	return seen
}

// judgeSuspended says whether the pod of a sandbox that should not run is gone.
func judgeSuspended(sandbox *agents.Sandbox) outcome {
	suspended := meta.FindStatusCondition(sandbox.Status.Conditions, agents.ConditionSuspended)
	if suspended == nil || suspended.ObservedGeneration < sandbox.Generation {
		return outcome{}
	}
	seen := outcome{ready: suspended.Status == metav1.ConditionTrue, reason: suspended.Reason, message: suspended.Message}
	if suspended.Reason == agents.ReasonPodNotOwned {
		seen.failed, seen.next = true, "delete or rename the pod of the sandbox's name, which is not its own"
	}
	return seen
}
