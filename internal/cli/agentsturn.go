// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/launch"
)

type agentsTurnOptions struct {
	timeout time.Duration
	detach  bool
}

func (p *program) agentsSuspendCommand() *cobra.Command {
	return p.agentsTurnCommand(&cobra.Command{
		Use:   "suspend NAME...",
		Short: "Stop agents' pods, and keep everything else",
		Long: "Suspends agents, and waits until their pods are gone. A Sandbox's operatingMode becomes Suspended; a\n" +
			"Deployment or a StatefulSet has no replicas then, and an annotation keeps how many it had. What is on\n" +
			"volumes stays. A suspended agent gets new configuration, too, and starts with it.",
		Example: p.examples(`
			berth agents suspend researcher
			berth agents resume researcher`),
	}, "their pods are gone", "not suspended", p.suspendAgent)
}

func (p *program) agentsResumeCommand() *cobra.Command {
	return p.agentsTurnCommand(&cobra.Command{
		Use:   "resume NAME...",
		Short: "Start suspended agents again and wait until they are Ready",
		Long: "Ends the suspension of agents, and waits until they are Ready. A Deployment or a StatefulSet has as many\n" +
			"replicas as before.\n\n" +
			"An agent that was never configured is not started before it is. So this goes on, too, where \"agents\n" +
			"run\" was killed half-way.",
		Example: p.examples(`
			berth agents resume researcher --timeout 5m`),
	}, "they are Ready", "not resumed", p.resumeAgent)
}

func (p *program) agentsRestartCommand() *cobra.Command {
	return p.agentsTurnCommand(&cobra.Command{
		Use:   "restart NAME...",
		Short: "Replace agents' pods and wait until the new ones are Ready",
		Long: "Replaces the pods of agents. A Sandbox's pod is deleted, by its UID, and the Sandbox makes another; a\n" +
			"Deployment or a StatefulSet replaces its pods as its strategy says. An agent that is suspended stays\n" +
			"so: its next pod is a new one anyway.",
		Example: p.examples(`
			berth agents restart researcher search`),
	}, "they are Ready again", "not restarted", p.restartAgent)
}

// agentsTurnCommand completes a command that does something to agents and waits.
func (p *program) agentsTurnCommand(cmd *cobra.Command, until, undone string, do func(context.Context, *cluster, agent, agentsTurnOptions) error) *cobra.Command {
	var o agentsTurnOptions
	cmd.Args = cobra.ArbitraryArgs
	cmd.ValidArgsFunction = p.completeAgents
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names, err := agentNames(cmd, args)
		if err != nil {
			return err
		}
		c, err := p.connect()
		if err != nil {
			return err
		}
		return p.each(cmd.Context(), names, undone, func(name string) error {
			a, err := p.turnable(cmd.Context(), c, name)
			if err != nil {
				return p.explainAgents(err)
			}
			return p.explainAgents(do(cmd.Context(), c, a, o))
		})
	}
	waitFlag(cmd.Flags(), &o.timeout, "how long to wait for each until "+until)
	cmd.Flags().BoolVar(&o.detach, "detach", false, "do not wait until "+until)
	return cmd
}

// turnable is an agent that can be suspended, resumed and restarted by itself.
func (p *program) turnable(ctx context.Context, c *cluster, name string) (agent, error) {
	a, err := p.needWorkload(ctx, c, name)
	if err != nil {
		return agent{}, err
	}
	if owner := metav1.GetControllerOf(a.workload); owner != nil && owner.Kind == extensions.SandboxWarmPoolKind {
		return agent{}, &problem{cause: fmt.Errorf("agent %s: sandbox %s waits in pool %s, whose members are all alike", name, a.target.Name, owner.Name),
			next: []string{p.command("claim", owner.Name) + " takes one of them"}}
	}
	return a, nil
}

func (p *program) suspendAgent(ctx context.Context, c *cluster, a agent, o agentsTurnOptions) error {
	word := objectWord(a.workload)
	if patch := launch.Stop(a.workload); patch != nil {
		if err := p.patchObject(ctx, c, a.workload, patch); err != nil {
			return err
		}
		fmt.Fprintf(p.streams.Out, "%s suspended\n", word)
	} else {
		fmt.Fprintf(p.streams.Out, "%s is suspended already\n", word)
	}
	if o.detach {
		return nil
	}
	return p.awaitAgent(ctx, c, a.Name, "suspended", o.timeout, judgeStopped)
}

// judgeStopped says whether the pods of an agent that should have none are gone.
func judgeStopped(a agent) outcome {
	switch {
	case a.workload == nil:
		return outcome{failed: true, reason: api.ReasonTargetNotFound, message: "its workload was deleted meanwhile", next: "remove what is left of the agent, or run it again"}
	case !launch.Suspended(a.workload):
		return outcome{failed: true, reason: "Resumed", message: "somebody else changed it back", next: "suspend it again, unless that was on purpose"}
	case a.read && len(a.pods) > 0:
		return outcome{reason: "PodTerminating", message: fmt.Sprintf("pod %s is not gone yet", a.pods[0].Name)}
	case a.read:
		return outcome{ready: true}
	}
	switch w := a.workload.(type) {
	case *agents.Sandbox:
		return judgeSuspended(w)
	case *appsv1.Deployment:
		return outcome{ready: w.Status.ObservedGeneration >= w.Generation && w.Status.Replicas == 0}
	case *appsv1.StatefulSet:
		return outcome{ready: w.Status.ObservedGeneration >= w.Generation && w.Status.Replicas == 0}
	}
	return outcome{}
}

func (p *program) resumeAgent(ctx context.Context, c *cluster, a agent, o agentsTurnOptions) error {
	word := objectWord(a.workload)
	if a.Status.AppliedConfigHash == "" && launch.Suspended(a.workload) {
		if err := p.awaitAgent(ctx, c, a.Name, "configured", o.timeout, judgeConfigured); err != nil {
			return err
		}
	}
	suspended := launch.Suspended(a.workload)
	if err := p.start(ctx, c, a); err != nil {
		return err
	}
	if suspended {
		fmt.Fprintf(p.streams.Out, "%s resumed\n", word)
	} else {
		fmt.Fprintf(p.streams.Out, "%s is not suspended\n", word)
	}
	if o.detach {
		return nil
	}
	return p.awaitReady(ctx, c, a.Name, time.Now(), o.timeout)
}

func (p *program) restartAgent(ctx context.Context, c *cluster, a agent, o agentsTurnOptions) error {
	word := objectWord(a.workload)
	if launch.Suspended(a.workload) {
		fmt.Fprintf(p.streams.Out, "%s is suspended, and stays so: its next pod is a new one anyway\n", word)
		return nil
	}
	if err := p.unrestartable(a); err != nil {
		return err
	}
	var err error
	if _, ok := a.workload.(*agents.Sandbox); ok {
		err = p.restartSandbox(ctx, c, a)
	} else if err = p.patchObject(ctx, c, a.workload, launch.Restart(time.Now().UTC().Format(time.RFC3339Nano))); err == nil {
		fmt.Fprintf(p.streams.Out, "%s restarted\n", word)
	}
	if err != nil || o.detach {
		return err
	}
	return p.awaitReady(ctx, c, a.Name, time.Now(), o.timeout)
}

// unrestartable says why a workload would not replace its pods.
func (p *program) unrestartable(a agent) error {
	switch w := a.workload.(type) {
	case *appsv1.Deployment:
		if w.Spec.Paused {
			return &problem{cause: fmt.Errorf("agent %s: deployment %s is paused, and replaces no pods", a.Name, w.Name),
				next: []string{"kubectl rollout resume deployment/" + w.Name + " -n " + w.Namespace}}
		}
	case *appsv1.StatefulSet:
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			return &problem{cause: fmt.Errorf("agent %s: statefulset %s replaces pods only when they are deleted (OnDelete)", a.Name, w.Name),
				next: []string{"kubectl delete pod " + w.Name + "-0 -n " + w.Namespace + " replaces one"}}
		}
	}
	return nil
}

// restartSandbox deletes the pods that a Sandbox has now, and no later ones.
func (p *program) restartSandbox(ctx context.Context, c *cluster, a agent) error {
	word := objectWord(a.workload)
	pods, err := c.podsOfWorkload(ctx, a.workload)
	if err != nil {
		return fmt.Errorf("list the pods of %s: %w", word, err)
	}
	if len(pods) == 0 {
		fmt.Fprintf(p.streams.Out, "%s has no pod: its next one is new\n", word)
	}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			fmt.Fprintf(p.streams.Out, "%s is being restarted already: pod %s is terminating\n", word, pod.Name)
			continue
		}
		if _, err := c.deleteObject(ctx, pod); err != nil {
			return fmt.Errorf("delete pod %s: %w", pod.Name, err)
		}
		fmt.Fprintf(p.streams.Out, "%s restarted: pod %s deleted\n", word, pod.Name)
	}
	return nil
}
