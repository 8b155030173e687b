// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/explain"
)

// The exit codes of why for what is not as it should be.
const (
	exitUnderway = 2 // it goes on by itself
	exitStuck    = 3 // somebody has to do something
)

func (p *program) whyCommand() *cobra.Command {
	var format string
	namespace, operator := controllerNamespace, agentruntime.DefaultOperatorNamespace
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Say why a claim, sandbox, pool, template or agent is as it is",
		Long: "Says what the controller sees in an object, what it does next, what it waits for and for whom, and\n" +
			"what a person can do. KIND is claim, sandbox, pool, template or agentruntime (art); a name alone\n" +
			"is a claim's.\n\n" +
			"The answer comes from the controller's own code: it decides here, on what the cluster shows now,\n" +
			"and nothing is written. To that the command adds what the controller does not look at: why a pod has\n" +
			"no node, cannot pull its image or ends again and again; nodes that are gone; volumes that are\n" +
			"missing; finalizers that hold a deletion; the latest warnings; and whether a controller runs.\n\n" +
			"A claim is told with the sandbox it has or the pool it waits for, and with its place in that pool's\n" +
			"queue. What a controller was started with is not known here and is taken to be the default, unless\n" +
			"what it wrote on the object shows otherwise.\n\n" +
			"The exit code is\n\n" +
			"  0    the object is what it should be, or has ended as it was to: Ready, suspended, expired\n" +
			"  1    the command failed; there may be no such object\n" +
			"  2    it is not yet, and goes on by itself\n" +
			"  3    it stays as it is until somebody does something; \"What you can do\" says what",
		Example: p.examples(`
			berth why analysis
			berth why pool/python
			berth why agentruntime/researcher

			# what there is to do, for a script
			berth why sandbox/analysis -o json | jq -r '.advice[]'`),
		Args:              one("what to explain: KIND/NAME"),
		ValidArgsFunction: p.completeWhy,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.why(cmd.Context(), args[0], format, namespace, operator)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "json or yaml")
	cmd.Flags().StringVar(&namespace, "controller-namespace", namespace, "where the controllers run and keep their Lease")
	cmd.Flags().StringVar(&operator, "operator-namespace", operator, "where the cluster's configuration of agents is")
	return cmd
}

// whyKinds are the names that the kinds go by.
var whyKinds = []struct {
	kind  explain.Kind
	names []string
}{
	{explain.Claim, []string{"claim", "claims", "sandboxclaim", "sandboxclaims", "sandboxclaim." + extensions.GroupName}},
	{explain.Sandbox, []string{"sandbox", "sandboxes", "sandbox." + agents.GroupName}},
	{explain.Pool, []string{"pool", "pools", "sandboxwarmpool", "sandboxwarmpools", "swp", "sandboxwarmpool." + extensions.GroupName}},
	{explain.Template, []string{"template", "templates", "sandboxtemplate", "sandboxtemplates", "sandboxtemplate." + extensions.GroupName}},
	{explain.AgentRuntime, agentKinds},
}

// parseWhy reads NAME and KIND/NAME, the long forms of "-o name" included.
func parseWhy(text string) (explain.Kind, string, error) {
	word, name, slash := strings.Cut(text, "/")
	if !slash {
		word, name = "claim", text
	}
	for _, known := range whyKinds {
		for _, alias := range known.names {
			if strings.EqualFold(word, alias) && name != "" {
				return known.kind, name, nil
			}
		}
	}
	return "", "", &problem{cause: fmt.Errorf("%q names no claim, sandbox, pool, template or agentruntime", text),
		next: []string{"write CLAIM, claim/CLAIM, sandbox/SANDBOX, pool/POOL, template/TEMPLATE or agentruntime/NAME"}}
}

func (p *program) why(ctx context.Context, what, format, controllers, operator string) error {
	kind, name, err := parseWhy(what)
	if err != nil {
		return err
	}
	write, known := map[string]func(io.Writer, *explain.Report) error{"": p.writeReport, "json": reportJSON, "yaml": reportYAML}[format]
	if !known {
		return &problem{cause: fmt.Errorf("there is no output format %q", format), next: []string{p.command("why", what, "-o json") + "; the other is yaml"}}
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	reader, err := explain.NewReader(c.config)
	if err != nil {
		return err
	}
	report, err := explain.Of(ctx, reader, kind, types.NamespacedName{Namespace: c.namespace, Name: name},
		explain.Options{Now: time.Now(), ControllerNamespace: controllers, OperatorNamespace: operator, Command: p.command})
	var missing *explain.NotFoundError
	if errors.As(err, &missing) {
		return p.notThere(missing)
	}
	if err != nil && kind == explain.AgentRuntime {
		return p.explainAgents(err)
	}
	if err != nil {
		return err
	}
	if err := write(p.streams.Out, report); err != nil {
		return err
	}
	switch report.Verdict {
	case explain.Underway:
		return exitCode(exitUnderway)
	case explain.Stuck:
		return exitCode(exitStuck)
	default:
		return nil
	}
}

// notThere says what there is instead of what a person asked for.
func (p *program) notThere(missing *explain.NotFoundError) error {
	var next []string
	for _, user := range missing.Users {
		next = append(next, user+" names it: "+p.command("why", user))
	}
	if len(missing.Names) > 0 {
		next = append(next, fmt.Sprintf("there is %s", strings.Join(missing.Names, ", ")))
	}
	return &problem{cause: missing, next: append(next, "name another namespace with -n; "+p.name+" ls -A shows all claims and sandboxes")}
}

func reportJSON(out io.Writer, report *explain.Report) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}

func reportYAML(out io.Writer, report *explain.Report) error {
	text, err := yaml.Marshal(report)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// verdicts are what becomes of an object, in words and colour.
var verdicts = map[explain.Verdict]struct {
	words string
	colour
}{
	explain.Well:     {"Nothing is wrong.", green},
	explain.Underway: {"It goes on by itself.", yellow},
	explain.Stuck:    {"It stays so until somebody does something.", red},
}

// writeReport writes a report for people.
func (p *program) writeReport(out io.Writer, report *explain.Report) error {
	var text strings.Builder
	verdict := verdicts[report.Verdict]
	fmt.Fprintf(&text, "%s %s\n%s\n", report.Ref(), report.Summary, p.paint(out, verdict.colour, verdict.words))
	for _, section := range []struct {
		title string
		lines []string
	}{
		{"What the controller sees", report.Sees},
		{"What it does next", report.Next},
		{"What is waited for", report.Waits},
		{"Latest warnings", report.Warnings},
		{"What could not be read", report.Unread},
		{"What you can do", report.Advice},
	} {
		if len(section.lines) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n%s\n", section.title)
		for _, line := range section.lines {
			fmt.Fprintf(&text, "  - %s\n", strings.ReplaceAll(line, "\n", "\n    "))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// completeWhy completes the names of a kind that was typed, else claims and the kinds.
func (p *program) completeWhy(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, slash := strings.Cut(typed, "/")
	if !slash {
		claims, directive := p.completeClaims(cmd, nil, typed)
		return append(claims, "claim/", "sandbox/", "pool/", "template/", "agentruntime/"), directive | cobra.ShellCompDirectiveNoSpace
	}
	list := map[explain.Kind]client.ObjectList{
		explain.Claim: &extensions.SandboxClaimList{}, explain.Sandbox: &agents.SandboxList{},
		explain.Pool: &extensions.SandboxWarmPoolList{}, explain.Template: &extensions.SandboxTemplateList{},
		explain.AgentRuntime: &agentruntime.AgentRuntimeList{},
	}[explain.Kind(kind)]
	if list == nil || !p.listForCompletion(cmd, list) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, kind+"/"+item.(client.Object).GetName())
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}
