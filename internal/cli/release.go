// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

type releaseOptions struct {
	names   []string
	all     bool
	yes     bool
	wait    bool
	timeout time.Duration
}

func (p *program) releaseCommand() *cobra.Command {
	var o releaseOptions
	cmd := &cobra.Command{
		Use:   "release CLAIM...",
		Short: "Give claims up, with their sandboxes and all that is in them",
		Long: "Deletes claims. Their sandboxes go with them, and so do pods and volumes.\n\n" +
			"With --wait it returns when all of it is gone; on Ctrl-C, the deletion goes on. Without --wait the\n" +
			"deletion goes on when the command has ended, too. Without --yes, --all only says what it would\n" +
			"release.",
		Example: p.examples(`
			berth release analysis

			# all claims of the namespace
			berth release --all --yes`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: p.completeClaims,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			o.names, err = p.claimNames(cmd, args, o.all)
			if err != nil {
				return err
			}
			return p.release(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "release all claims of the namespace; needs --yes")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm --all")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until sandbox, pod and claim are gone")
	waitFlag(cmd.Flags(), &o.timeout, "how long --wait waits for each claim")
	return cmd
}

// claimNames are the names that the arguments give.
func (p *program) claimNames(cmd *cobra.Command, args []string, all bool) ([]string, error) {
	if all && len(args) > 0 {
		return nil, usage(cmd, errors.New("release takes names or --all, not both"))
	}
	if !all && len(args) == 0 {
		return nil, usage(cmd, errors.New("release needs the name of a claim"))
	}
	var names []string
	for _, arg := range args {
		t, err := parseTarget(arg)
		if err != nil {
			return nil, err
		}
		if t.sandbox {
			return nil, &problem{cause: fmt.Errorf("release gives claims up, and %s is a sandbox", arg),
				next: []string{p.command("ls", "-o wide") + " shows whose it is: a claimed sandbox goes with its claim",
					"kubectl delete sandbox " + t.name + " deletes one that nobody owns"}}
		}
		names = append(names, t.name)
	}
	return names, nil
}

func (p *program) release(ctx context.Context, o releaseOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	if o.all {
		if o.names, err = p.allClaims(ctx, c, o.yes); err != nil {
			return err
		}
	}
	return p.each(ctx, o.names, "not released", func(name string) error {
		return p.explain(p.releaseOne(ctx, c, name, o))
	})
}

func (p *program) allClaims(ctx context.Context, c *cluster, confirmed bool) ([]string, error) {
	var claims extensions.SandboxClaimList
	if err := c.List(ctx, &claims, client.InNamespace(c.namespace)); err != nil {
		return nil, err
	}
	var names []string
	for _, claim := range claims.Items {
		names = append(names, claim.Name)
	}
	if len(names) == 0 {
		fmt.Fprintf(p.streams.ErrOut, "No claims in namespace %s.\n", c.namespace)
		return nil, nil
	}
	if !confirmed {
		return nil, &problem{cause: fmt.Errorf("this would release %d claims in namespace %s: %s", len(names), c.namespace, strings.Join(names, ", ")),
			next: []string{p.command("release", "--all --yes") + " does it"}}
	}
	return names, nil
}

func (p *program) releaseOne(ctx context.Context, c *cluster, name string, o releaseOptions) error {
	claim := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	var options []client.DeleteOption
	if o.wait {
		// The API server keeps the claim until everything that belongs to it is gone. The UID tells this
		// claim from a later one of the same name.
		if err := c.get(ctx, name, claim); err != nil {
			return p.releaseError(name, c.namespace, err)
		}
		options = []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &claim.UID}}
	}
	// The answer is awaited even if a person gives up meanwhile: it says what was done.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	if err := c.Delete(asking, claim, options...); err != nil {
		return p.releaseError(name, c.namespace, err)
	}
	if !o.wait {
		fmt.Fprintf(p.streams.Out, "claim %s released\n", name)
		return nil
	}
	if err := p.awaitGone(ctx, c, claim, o.timeout); err != nil {
		return err
	}
	had := "it had no sandbox"
	if claim.Status.Sandbox.Name != "" {
		had = "its sandbox is gone"
	}
	fmt.Fprintf(p.streams.Out, "claim %s released, %s\n", name, had)
	return nil
}

func (p *program) releaseError(name, namespace string, err error) error {
	if apierrors.IsNotFound(err) && !notServed(err) {
		return p.missing("claim", name, namespace)
	}
	if errors.Is(err, context.Canceled) {
		return &problem{cause: fmt.Errorf("interrupted; claim %s is not released", name), code: exitInterrupted}
	}
	return fmt.Errorf("release claim %s: %w", name, err)
}

// awaitGone waits until a claim that is being deleted is gone.
func (p *program) awaitGone(ctx context.Context, c *cluster, claim *extensions.SandboxClaim, timeout time.Duration) error {
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	progress := newProgress(p.streams.ErrOut, "Waiting until claim "+claim.Name+" is gone")
	defer progress.Close()
	err := follower[*extensions.SandboxClaim]{
		cluster: c,
		list:    &extensions.SandboxClaimList{},
		empty:   func() *extensions.SandboxClaim { return &extensions.SandboxClaim{} },
		see: func(seen *extensions.SandboxClaim, gone bool) (bool, error) {
			claim.Status = seen.Status // it may have got a sandbox meanwhile
			return gone, nil
		},
		lost: func(err error) { progress.Say("The connection to the API server broke: %v; trying again.", err) },
	}.follow(ctx, claim)
	next := []string{p.command("ls") + " shows what is left"}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{cause: fmt.Errorf("claim %s is being deleted, and not gone after %s", claim.Name, timeout), next: next}
	case errors.Is(err, context.Canceled):
		return &problem{cause: fmt.Errorf("interrupted; claim %s goes on being deleted", claim.Name), next: next, code: exitInterrupted}
	}
	return err
}
