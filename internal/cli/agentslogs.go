// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/internal/launch"
)

func (p *program) agentsLogsCommand() *cobra.Command {
	o := logsOptions{tail: -1}
	var name, pod string
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what an agent's container has written",
		Long: "Prints what a container of an agent's newest pod has written to its outputs, or of the pod that --pod\n" +
			"names.\n\n" +
			"With -f it goes on until the container ends, or until Ctrl-C.",
		Example: p.examples(`
			berth agents logs researcher --tail 20

			# why the container before this one ended
			berth agents logs researcher --previous`),
		Args:              one("the name of an agent"),
		ValidArgsFunction: p.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if name, err = agentName(args[0]); err != nil {
				return err
			}
			return p.explainAgents(p.agentsLogs(cmd.Context(), name, pod, o))
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&pod, "pod", "", "of this pod of the agent; by default of the newest")
	return cmd
}

func (p *program) agentsLogs(ctx context.Context, name, pod string, o logsOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	a, err := p.needWorkload(ctx, c, name)
	if err != nil {
		return err
	}
	pods, err := c.podsOfWorkload(ctx, a.workload)
	if err != nil {
		return err
	}
	chosen, err := p.chosenPod(a, pods, pod)
	if err != nil {
		return err
	}
	o.again, o.events = "agents logs "+name, "why agentruntime/"+name
	return p.printLogs(ctx, c, chosen, o)
}

// chosenPod is the pod of an agent that is wanted, by default the newest that is not on its way out.
func (p *program) chosenPod(a agent, pods []*corev1.Pod, wanted string) (*corev1.Pod, error) {
	if len(pods) == 0 {
		err := &problem{cause: fmt.Errorf("agent %s has no pod, and so no logs", a.Name), next: p.lookAt(a.Name)}
		if launch.Suspended(a.workload) {
			err.cause = fmt.Errorf("agent %s is suspended and has no pod", a.Name)
			err.next = []string{p.command("agents resume", a.Name) + " starts it again"}
		}
		return nil, err
	}
	if wanted == "" {
		for _, pod := range slices.Backward(pods) {
			if pod.DeletionTimestamp == nil {
				return pod, nil
			}
		}
		return pods[len(pods)-1], nil
	}
	var names []string
	for _, pod := range pods {
		if pod.Name == wanted {
			return pod, nil
		}
		names = append(names, pod.Name)
	}
	return nil, &problem{cause: fmt.Errorf("agent %s has no pod %q", a.Name, wanted), next: []string{"choose with --pod one of: " + strings.Join(names, ", ")}}
}
