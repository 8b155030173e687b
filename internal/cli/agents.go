// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/workload"
)

func (p *program) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agents",
		Aliases: []string{"agent"},
		Short:   "Run agents and tools that have their namespace's configuration",
		Long: "Runs agents and tools: workloads that an AgentRuntime gives the configuration of their namespace, and\n" +
			"sees to it that no pod is left without.\n\n" +
			"An agent is named after its AgentRuntime, and the commands take any there is, however it was made. NAME\n" +
			"may be written as agentruntime/NAME, too.\n\n" +
			"A person needs these rights in the namespace: get, list, watch, create and delete on agentruntimes\n" +
			"(agent.rossoctl.dev), services, serviceaccounts and persistentvolumeclaims; the same and patch on the\n" +
			"kinds of workloads that are used: sandboxes (agents.x-k8s.io), deployments and statefulsets (apps);\n" +
			"get, list and watch on pods and replicasets; delete on pods to restart a Sandbox; get on pods/log.",
		Example: p.examples(`
			# an agent, until its pod is Ready
			berth agents run researcher --image registry.example/researcher:1.4 --env MODEL=small

			berth agents ls
			berth agents logs researcher -f
			berth agents rm researcher`),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			next := cmd.CommandPath() + " --help lists the commands"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				next = "did you mean: " + cmd.CommandPath() + " " + strings.Join(near, ", ") + "?"
			}
			return &problem{cause: fmt.Errorf("there is no command %q", "agents "+args[0]), next: []string{next}}
		},
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(
		p.agentsRunCommand(),
		p.agentsLsCommand(),
		p.agentsGetCommand(),
		p.agentsWaitCommand(),
		p.agentsLogsCommand(),
		p.agentsRestartCommand(),
		p.agentsSuspendCommand(),
		p.agentsResumeCommand(),
		p.agentsRmCommand(),
	)
	return cmd
}

// agentKinds are what the kind of an AgentRuntime may be written as.
var agentKinds = []string{"agent", "agents", "agentruntime", "agentruntimes", "art", "agentrt", "agentruntime." + api.GroupName}

// agentName reads NAME and agentruntime/NAME.
func agentName(text string) (string, error) {
	kind, name, slash := strings.Cut(text, "/")
	if !slash {
		kind, name = "agent", text
	}
	for _, known := range agentKinds {
		if strings.EqualFold(kind, known) && name != "" {
			return name, nil
		}
	}
	return "", &problem{cause: fmt.Errorf("%q does not name an agent", text), next: []string{"write NAME or agentruntime/NAME"}}
}

// agentNames reads the arguments of a command that takes several agents.
func agentNames(cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usage(cmd, fmt.Errorf("%s needs the name of an agent", cmd.Name()))
	}
	var names []string
	for _, arg := range args {
		name, err := agentName(arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// explainAgents explains what a cluster that lacks a kind answers.
func (p *program) explainAgents(err error) error {
	var known *problem
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &known) || !notServed(err) || !errors.As(err, &status) {
		return p.explain(err)
	}
	if details := status.Status().Details; details != nil && details.Group == agents.GroupName {
		return &problem{cause: fmt.Errorf("the cluster does not know Sandboxes: it does not serve %s", agents.GroupVersion),
			next: []string{"install Berth there, or another controller of Sandboxes", "let a Deployment run the agent: --kind deployment"}}
	}
	return &problem{cause: fmt.Errorf("the cluster does not know agents: it does not serve %s", api.GroupVersion),
		next: []string{"install Berth there, or choose another cluster with --context"}}
}

// runtimeOf reads the AgentRuntime of an agent.
func (p *program) runtimeOf(ctx context.Context, c *cluster, name string) (*api.AgentRuntime, error) {
	a := &api.AgentRuntime{}
	err := c.get(ctx, name, a)
	if apierrors.IsNotFound(err) && !notServed(err) {
		return nil, p.noAgent(name, c.namespace)
	}
	return a, p.explainAgents(err)
}

func (p *program) noAgent(name, namespace string) error {
	return &problem{cause: fmt.Errorf("there is no agent %q in namespace %q", name, namespace),
		next: []string{p.name + " agents ls -A shows all there are"}}
}

// targetOf is the workload that an AgentRuntime names.
func (p *program) targetOf(a *api.AgentRuntime) (workload.Target, error) {
	t, err := workload.TargetOf(a.Namespace, a.Spec.TargetRef)
	if err != nil {
		return t, &problem{cause: fmt.Errorf("agent %s names no workload that runs agents: %w", a.Name, err),
			next: []string{"correct it: kubectl edit agentruntime " + a.Name + " -n " + a.Namespace}}
	}
	return t, nil
}

// completeAgents completes any number of agents.
func (p *program) completeAgents(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	list := &api.AgentRuntimeList{}
	if !p.listForCompletion(cmd, list) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, a := range list.Items {
		names = append(names, a.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeAgent completes the one agent of a command.
func (p *program) completeAgent(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeAgents(cmd, args, typed)
}
