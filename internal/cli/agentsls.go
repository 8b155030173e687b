// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/launch"
	"github.com/berthdev/berth/internal/workload"
)

func (p *program) agentsLsCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List agents, and how far their pods are with the configuration",
		Long: "Lists the agents of a namespace, that is its AgentRuntimes.\n\n" +
			"STATE is one of\n" +
			"  Ready      all of its pods run and have the configuration\n" +
			"  Waiting    its workload is not there, or no controller has looked at it yet\n" +
			"  NotReady   its pods are not Ready yet, or do not have the configuration yet\n" +
			"  Suspended  it should have no pods\n" +
			"  Failed     it stays so until somebody changes something; -o wide shows what is wrong\n" +
			"  Deleting   it is being deleted\n\n" +
			"PODS are those that are ready and were made with the configuration, of all there are. CONFIG is the\n" +
			"beginning of the configuration's hash; an arrow leads from the one that the workload has to the one\n" +
			"that it should have. REASON is the one that the Ready condition gives.",
		Example: p.examples(`
			berth agents ls

			# a rollout, as it goes on
			berth agents ls -w -o wide`),
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.explainAgents(p.agentsLs(cmd.Context(), &o))
		},
	}
	o.addFlags(cmd)
	o.addScopeFlags(cmd)
	return cmd
}

func (p *program) agentsLs(ctx context.Context, o *listOptions) error {
	return p.list(ctx, o, "agents ls", func(c *cluster, scope []client.ListOption) view {
		queries := []query{{list: func() client.ObjectList { return &api.AgentRuntimeList{} }, options: scope}}
		for _, kind := range []string{workload.Sandbox, workload.Deployment, workload.StatefulSet} {
			queries = append(queries, query{list: func() client.ObjectList { _, list := newWorkload(kind); return list }, options: scope[:1], optional: true})
		}
		return view{
			queries: queries,
			objects: func(all found) []client.Object { return sorted(all[0]) },
			table:   func(all found, now time.Time) *metav1.Table { return agentTable(agentsOf(all), o.everywhere, now) },
			key:     []string{"Namespace", "Name"},
			ages:    "Age",
			state:   "State",
			colour:  stateColour,
			nothing: fmt.Sprintf("No agents %s.", o.place(c)),
		}
	})
}

// agentsOf makes agents from AgentRuntimes and workloads.
func agentsOf(all found) []agent {
	workloads := map[workload.Target]client.Object{}
	for _, obj := range slices.Concat(all[1:]...) {
		workloads[targetOfWorkload(obj)] = obj
	}
	var list []agent
	for _, a := range sorted(typed[*api.AgentRuntime](all[0])) {
		one := agent{AgentRuntime: a}
		if t, err := workload.TargetOf(a.Namespace, a.Spec.TargetRef); err == nil {
			one.target, one.workload = t, workloads[t]
		}
		list = append(list, one)
	}
	return list
}

func targetOfWorkload(obj client.Object) workload.Target {
	t := workload.Target{Namespace: obj.GetNamespace(), Group: appsv1.GroupName, Name: obj.GetName()}
	switch obj.(type) {
	case *appsv1.Deployment:
		t.Kind = workload.Deployment
	case *appsv1.StatefulSet:
		t.Kind = workload.StatefulSet
	default:
		t.Kind, t.Group = workload.Sandbox, agents.GroupName
	}
	return t
}

func agentTable(rows []agent, withNamespace bool, now time.Time) *metav1.Table {
	return tableFrom(rows, []column[agent]{
		{"Name", 0, func(a agent) string { return a.Name }},
		{"Type", 0, func(a agent) string { return string(a.Spec.Type) }},
		{"Target", 0, func(a agent) string { return targetWord(a.Spec.TargetRef) }},
		{"State", 0, func(a agent) string { return agentState(a).state }},
		{"Reason", 0, func(a agent) string { return agentState(a).reason }},
		{"Pods", 0, podsWord},
		{"Config", 0, configWord},
		{"Age", 0, func(a agent) string { return duration.HumanDuration(now.Sub(a.CreationTimestamp.Time)) }},
		{"mTLS", onlyWide, func(a agent) string { return string(a.MTLS()) }},
		{"Message", onlyWide, func(a agent) string { return agentState(a).message }},
	}, namespaceOf(withNamespace, func(a agent) string { return a.Namespace }))
}

func targetWord(ref api.TargetReference) string { return strings.ToLower(ref.Kind) + "/" + ref.Name }

func podsWord(a agent) string {
	if a.Status.Pods == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", a.Status.Pods.Ready, a.Status.Pods.Total)
}

// configWord is the hash that the workload has, and the one it should have if that is another.
func configWord(a agent) string {
	short := func(hash string) string { return hash[:min(len(hash), 12)] }
	has, wants := short(a.Status.AppliedConfigHash), short(a.Status.DesiredConfigHash)
	if has == wants {
		return has
	}
	return has + "->" + wants
}

func (p *program) agentsGetCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show one agent: its state, its conditions and its objects",
		Long:  "Shows an agent, what its controller says about it, and the objects that \"agents run\" made for it.",
		Example: p.examples(`
			berth agents get researcher

			# the hash that its pods have
			berth agents get researcher -o jsonpath='{.status.appliedConfigHash}'`),
		Args:              one("the name of an agent"),
		ValidArgsFunction: p.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := agentName(args[0])
			if err != nil {
				return err
			}
			return p.explainAgents(p.agentsGet(cmd.Context(), &o, name))
		},
	}
	o.addOutput(cmd, "json, yaml, name, or jsonpath=TEMPLATE", "json", "yaml", outputName)
	return cmd
}

func (p *program) agentsGet(ctx context.Context, o *listOptions, name string) error {
	printer, err := o.printer(p, "agents get "+name)
	if err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	a, err := p.runtimeOf(ctx, c, name)
	if err != nil {
		return err
	}
	if printer != nil {
		a.SetGroupVersionKind(api.GroupVersion.WithKind(api.AgentRuntimeKind))
		return printer.PrintObj(a, p.streams.Out)
	}
	seen := agent{AgentRuntime: a}
	if t, err := p.targetOf(a); err == nil {
		seen.target = t
		// What is wrong with reading it stands in the conditions, too.
		seen.workload, _ = p.workloadOf(ctx, c, t)
	}
	made, unread := c.madeFor(ctx, name)
	_, err = io.WriteString(p.streams.Out, describeAgent(seen, made, time.Now()))
	for _, err := range unread {
		fmt.Fprintln(p.streams.ErrOut, "Not read:", err)
	}
	return err
}

// describeAgent is an agent for people to read.
func describeAgent(a agent, made []client.Object, now time.Time) string {
	var text strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&text, "%-12s %s\n", key+":", value)
		}
	}
	state := agentState(a)
	line("Name", a.Name)
	line("Namespace", a.Namespace)
	line("Type", string(a.Spec.Type))
	line("Target", targetWord(a.Spec.TargetRef))
	line("mTLS", string(a.MTLS()))
	line("Age", duration.HumanDuration(now.Sub(a.CreationTimestamp.Time)))
	line("State", state.state)
	line("Reason", outcome{reason: state.reason, message: state.message}.String())
	if a.Status.Pods != nil {
		n := a.Status.Pods
		line("Pods", fmt.Sprintf("%d, of which %d have the configuration, and %d of those are ready", n.Total, n.Updated, n.Ready))
	}
	line("Config", configWord(a))
	if a.Paused() {
		line("Rollouts", "paused by the annotation "+api.AnnotationPaused)
	}
	text.WriteString("Conditions:\n")
	for _, c := range a.Status.Conditions {
		fmt.Fprintf(&text, "  %-16s %-6s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	if len(a.Status.Conditions) == 0 {
		text.WriteString("  none: no controller has looked at it yet\n")
	}
	text.WriteString("Objects:\n")
	fmt.Fprintf(&text, "  %s\n", objectWord(a.AgentRuntime))
	if a.workload != nil && !launch.Made(a.workload, a.Name) {
		fmt.Fprintf(&text, "  %s (made by somebody else)\n", objectWord(a.workload))
	}
	for _, obj := range made {
		if obj.GetUID() != a.UID {
			fmt.Fprintf(&text, "  %s\n", objectWord(obj))
		}
	}
	return text.String()
}
