// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/launch"
)

func (p *program) agentsRunCommand() *cobra.Command {
	var o agentsRunOptions
	cmd := &cobra.Command{
		Use:   "run NAME --image IMAGE [flags] [-- COMMAND [ARG...]]",
		Short: "Run an agent whose first pod has its namespace's configuration",
		Long: "Makes an AgentRuntime, a ServiceAccount, a Service and what runs the agent: a Sandbox, a Deployment or\n" +
			"a StatefulSet. A line tells of each, and the command waits until the agent is Ready.\n\n" +
			"What runs the agent is made stopped. It is started when the controller of AgentRuntimes has put the\n" +
			"configuration on it, so that there is no pod without, whoever changes the configuration meanwhile. If\n" +
			"the command is killed before, the agent stays suspended; \"agents resume\" goes on.\n\n" +
			"All but a volume belongs to the AgentRuntime, and goes with it: \"agents rm\", or deleting the\n" +
			"AgentRuntime, leaves nothing behind. If something cannot be made, what this call has made is removed\n" +
			"again, and so it is on Ctrl-C until the agent is started; after that, the agent is kept.\n\n" +
			"The container has no rights it does not need: it does not run as root and cannot become it, drops all\n" +
			"capabilities, has the runtime's seccomp profile and no token. An image that runs as root, or names its\n" +
			"user by a word, is not started without --run-as-user.",
		Example: p.examples(`
			# a Sandbox, with a volume that outlives it
			berth agents run researcher --image registry.example/researcher:1.4 --env MODEL=small --storage 1Gi

			# a tool that agents call, in a Deployment
			berth agents run search --type tool --kind deployment --image registry.example/search:2 --port 9000

			# an image that would run as root; only show what would be made
			berth agents run shell --image busybox:1.37 --run-as-user 1000 --dry-run -- sleep 3600`),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explainAgents(p.agentsRun(cmd, args, &o))
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (p *program) agentsRun(cmd *cobra.Command, args []string, o *agentsRunOptions) error {
	ctx, began := cmd.Context(), time.Now()
	if err := o.read(p, cmd, args, ""); err != nil {
		return err
	}
	if o.dryRun && *o.output.print.OutputFormat == "" {
		*o.output.print.OutputFormat = "yaml"
	}
	printer, err := o.output.printer(p, "agents run "+o.spec.Name)
	if err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	o.spec.Namespace = c.namespace
	if o.dryRun {
		return p.printObjects(c, printer, *o.output.print.OutputFormat == outputName, o.spec.Objects())
	}
	told := p.streams.Out
	if printer != nil {
		told = p.streams.ErrOut
	}
	made, err := p.createAgent(ctx, c, o.spec, told)
	if err != nil {
		return err
	}
	if err := p.startAgent(ctx, c, o, told); err != nil {
		return err
	}
	if printer != nil {
		if err := p.printObjects(c, printer, *o.output.print.OutputFormat == outputName, made); err != nil {
			return err
		}
	}
	if o.detach {
		return nil
	}
	return p.awaitReady(ctx, c, o.spec.Name, began, o.timeout)
}

// createAgent makes the objects, or none.
func (p *program) createAgent(ctx context.Context, c *cluster, s launch.Spec, told io.Writer) ([]client.Object, error) {
	objects := s.Objects()
	var owner *api.AgentRuntime
	for i, obj := range objects {
		if owner != nil {
			launch.Own(obj, owner)
		}
		word := objectWord(obj)
		did, err := p.createObject(ctx, c, obj)
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, p.rollBack(ctx, c, s, p.notMade(err, word, obj, s), told)
		}
		fmt.Fprintf(told, "%s %s\n", word, did)
		if i == 0 {
			owner = obj.(*api.AgentRuntime)
		}
	}
	return objects, nil
}

// createObject makes an object. A volume that an agent of the name has left is used again. The answer is
// awaited even if a person gives up meanwhile: it says whether there is something to remove.
func (p *program) createObject(ctx context.Context, c *cluster, obj client.Object) (did string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	err = c.Create(ctx, obj)
	if _, volume := obj.(*corev1.PersistentVolumeClaim); volume && apierrors.IsAlreadyExists(err) {
		had := &corev1.PersistentVolumeClaim{}
		if c.get(ctx, obj.GetName(), had) == nil && launch.Made(had, obj.GetLabels()[launch.LabelAgent]) && had.DeletionTimestamp == nil {
			return "used again, with what is on it", nil
		}
	}
	return "created", err
}

// notMade says why an object could not be made.
func (p *program) notMade(err error, word string, obj client.Object, s launch.Spec) *problem {
	switch {
	case errors.Is(err, context.Canceled):
		return &problem{cause: errors.New("interrupted"), code: exitInterrupted}
	case !apierrors.IsAlreadyExists(err):
		var known *problem
		if explained := p.explainAgents(err); errors.As(explained, &known) {
			return &problem{cause: fmt.Errorf("create %s: %w", word, known.cause), next: known.next}
		}
		next := []string{"change what the message names; " + p.name + " agents run --help lists the flags"}
		if !apierrors.IsInvalid(err) {
			next = []string{"mend what the message says, and run it again"}
		}
		return &problem{cause: fmt.Errorf("create %s: %w", word, err), next: next}
	}
	cause := fmt.Errorf("there is a %s in namespace %q already", word, s.Namespace)
	switch obj.(type) {
	case *api.AgentRuntime:
		return &problem{cause: fmt.Errorf("there is an agent %q in namespace %q already", s.Name, s.Namespace), next: []string{
			p.command("agents get", s.Name) + " shows it", p.command("agents resume", s.Name) + " starts it, if it is suspended",
			p.command("agents rm", s.Name) + " removes it", "choose another name"}}
	case *corev1.ServiceAccount:
		return &problem{cause: cause, next: []string{"use it: --service-account " + s.Name,
			p.command("agents rm", s.Name) + " removes what an earlier agent has left", "choose another name"}}
	default:
		return &problem{cause: cause, next: []string{"choose another name", p.command("agents rm", s.Name) + " removes what an earlier agent has left, and nothing of others"}}
	}
}

// rollBack removes what this call has made, and tells what became of each object. What that is, is read
// from the server: a request may have been done whose answer was lost.
func (p *program) rollBack(ctx context.Context, c *cluster, s launch.Spec, why *problem, told io.Writer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	made, unread := c.madeFor(ctx, s.Name)
	kept := 0
	for _, obj := range made {
		if obj.GetAnnotations()[launch.AnnotationRun] != s.Run {
			continue
		}
		word := objectWord(obj)
		switch gone, err := c.deleteObject(ctx, obj); {
		case err != nil:
			kept++
			fmt.Fprintf(told, "%s kept: %v\n", word, err)
		case gone:
			fmt.Fprintf(told, "%s removed again\n", word)
		}
	}
	if kept > 0 || len(unread) > 0 {
		next := append([]string{p.command("agents rm", s.Name) + " removes what is left"}, why.next...)
		return &problem{cause: fmt.Errorf("%w; some of what was made may still be there%s", why.cause, reasons(unread)), next: next, code: why.code}
	}
	return &problem{cause: fmt.Errorf("%w; nothing that this call made is left", why.cause), next: why.next, code: why.code}
}

// reasons lists errors, to follow a sentence.
func reasons(errs []error) string {
	if len(errs) == 0 {
		return ""
	}
	return ": " + errors.Join(errs...).Error()
}

// startAgent starts the agent once it is configured. Until then, Ctrl-C removes it.
func (p *program) startAgent(ctx context.Context, c *cluster, o *agentsRunOptions, told io.Writer) error {
	name := o.spec.Name
	err := p.awaitAgent(ctx, c, name, "configured", o.timeout, judgeConfigured)
	if ctx.Err() != nil {
		return p.rollBack(ctx, c, o.spec, &problem{cause: errors.New("interrupted"), code: exitInterrupted}, told)
	}
	var known *problem
	if errors.As(err, &known) {
		known.ifKept = []string{p.command("agents resume", name) + " starts it when that is mended: the agent is kept, and suspended",
			p.command("agents rm", name) + " removes it"}
	}
	if err != nil {
		return err
	}
	a, err := p.needWorkload(ctx, c, name)
	if err != nil {
		return err
	}
	if err := p.start(ctx, c, a); err != nil {
		return err
	}
	fmt.Fprintf(told, "%s started\n", objectWord(a.workload))
	return nil
}

// start ends the suspension of an agent's workload.
func (p *program) start(ctx context.Context, c *cluster, a agent) error {
	patch := launch.Start(a.workload)
	if patch == nil {
		return nil
	}
	return p.patchObject(ctx, c, a.workload, patch)
}

// judgeConfigured says whether the configuration is on a workload, and its controller knows.
func judgeConfigured(a agent) outcome {
	seen := judgeRuntime(a)
	if seen.ready && (a.Status.Target == nil || *a.Status.Target != a.target.Reference() || a.Status.AppliedConfigHash == "") {
		return outcome{}
	}
	return seen
}
