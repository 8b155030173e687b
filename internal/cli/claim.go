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
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

const (
	claimTimeout = 3 * time.Minute // what client libraries wait by default
	answerLimit  = 30 * time.Second
	nameSuffix   = 5 // random characters, as the API server's generateName has
	nameAttempts = 5 // at finding a name that is not taken
)

type claimOptions struct {
	pool    string
	name    string
	timeout time.Duration
}

func (p *program) claimCommand() *cobra.Command {
	var o claimOptions
	cmd := &cobra.Command{
		Use:   "claim POOL",
		Short: "Claim a sandbox from a warm pool and wait until it is Ready",
		Long: "Claims a sandbox from a warm pool and waits until it is Ready. The claim's name is printed\n" +
			"on standard output, everything else on standard error.\n\n" +
			"If the wait ends without a sandbox, the claim is kept, and the error says how to give it up.\n" +
			"Ctrl-C gives it up.",
		Example: p.examples(`
			# a sandbox from the pool "python"
			berth claim python

			# under a name of your own, waiting a minute at most
			berth claim python --name analysis --timeout 1m`),
		Args:              one("the name of a warm pool"),
		ValidArgsFunction: p.completePools,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.pool = args[0]
			return p.claim(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.name, "name", "", "the claim's name; by default the pool's with a random ending")
	cmd.Flags().DurationVar(&o.timeout, "timeout", claimTimeout, "how long to wait until the sandbox is Ready; 0 waits forever")
	return cmd
}

func (p *program) claim(ctx context.Context, o claimOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	began := time.Now()
	claim, err := p.createClaim(ctx, c, o)
	if err != nil {
		return err
	}
	waiting := ctx
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		waiting = limited
	}
	claim, err = p.awaitClaim(waiting, c, claim)
	took := time.Since(began)
	switch {
	case err == nil:
		fmt.Fprintf(p.streams.ErrOut, "Claimed sandbox %s (pod IP %s) in %s.\n",
			claim.Status.Sandbox.Name, addresses(claim.Status.Sandbox.PodIPs), within(took))
		fmt.Fprintln(p.streams.Out, claim.Name)
		return nil
	case ctx.Err() != nil:
		return p.giveUp(ctx, c, claim)
	case errors.Is(err, context.DeadlineExceeded):
		return p.notInTime(claim, o.timeout)
	default:
		return err
	}
}

// createClaim makes the claim. It awaits the answer even if a person gives up meanwhile, because the
// answer says whether there is something to give back; for the same reason the name is chosen here.
func (p *program) createClaim(ctx context.Context, c *cluster, o claimOptions) (*extensions.SandboxClaim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	for attempt := 1; ; attempt++ {
		claim := newClaim(c.namespace, o)
		err := c.Create(ctx, claim)
		switch {
		case err == nil:
			return claim, nil
		case apierrors.IsAlreadyExists(err) && o.name == "" && attempt < nameAttempts:
		case apierrors.IsAlreadyExists(err):
			return nil, &problem{cause: fmt.Errorf("there is a claim %q in namespace %q already", claim.Name, claim.Namespace),
				next: []string{p.command("exec", claim.Name, "-- COMMAND") + " uses it", p.command("release", claim.Name) + " gives it up", "choose another --name"}}
		case refused(err):
			return nil, err
		default:
			return nil, &problem{cause: fmt.Errorf("create claim %s: %w; whether it was made is not known", claim.Name, err),
				next: []string{p.command("ls") + " shows whether it is there", p.command("release", claim.Name) + " gives it up"}}
		}
	}
}

// newClaim is the claim to make. Its marks are those the Go client library sets, so that a claim counts
// the same however a person made it.
func newClaim(namespace string, o claimOptions) *extensions.SandboxClaim {
	name := o.name
	if name == "" {
		name = claimName(o.pool, rand.String(nameSuffix))
	}
	return &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        name,
			Labels:      map[string]string{agents.LabelCreatedBy: agents.CreatedByGoClient},
			Annotations: map[string]string{agents.AnnotationClientFirstRequestedAt: time.Now().UTC().Format(time.RFC3339)},
		},
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: o.pool}},
	}
}

// claimName is a DNS label made of the pool's name, shortened if need be, and a suffix.
func claimName(pool, suffix string) string {
	base := strings.ReplaceAll(pool, ".", "-")
	if room := agents.MaxNameLength - len(suffix) - 1; len(base) > room {
		base = base[:room]
	}
	return strings.TrimRight(base, "-") + "-" + suffix
}

// awaitClaim waits until the claim is Ready, and tells what it waits for. It returns the claim as last
// seen, also with an error.
func (p *program) awaitClaim(ctx context.Context, c *cluster, claim *extensions.SandboxClaim) (*extensions.SandboxClaim, error) {
	progress := newProgress(p.streams.ErrOut, "Waiting for claim "+claim.Name)
	defer progress.Close()
	progress.Say("Created claim %s.", claim.Name)
	last := claim
	follower := follower[*extensions.SandboxClaim]{
		cluster: c,
		list:    &extensions.SandboxClaimList{},
		empty:   func() *extensions.SandboxClaim { return &extensions.SandboxClaim{} },
		see: func(claim *extensions.SandboxClaim, gone bool) (bool, error) {
			last = claim
			if gone {
				return true, &problem{cause: fmt.Errorf("claim %s was deleted while it waited for a sandbox", claim.Name),
					next: []string{"claim again, unless somebody deleted it on purpose"}}
			}
			seen := judge(claim)
			switch {
			case seen.ready:
				return true, nil
			case seen.failed:
				return true, p.neverReady(claim, seen)
			case seen.reason != "":
				progress.Say("Waiting: %s", seen)
			}
			return false, nil
		},
		lost: func(err error) { progress.Say("The connection to the API server broke: %v; trying again.", err) },
	}
	err := follower.follow(ctx, claim)
	return last, p.kept(err, last)
}

// kept adds to errors that do not name the claim that it is still there.
func (p *program) kept(err error, claim *extensions.SandboxClaim) error {
	var known *problem
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &problem{cause: fmt.Errorf("wait for claim %s, which is kept: %w", claim.Name, err),
		next: []string{p.command("ls") + " shows how it is", p.command("release", claim.Name) + " gives it up"}}
}

func (p *program) neverReady(claim *extensions.SandboxClaim, seen outcome) error {
	return &problem{cause: fmt.Errorf("claim %s gets no sandbox: %s", claim.Name, seen),
		next: []string{seen.next, p.command("release", claim.Name) + " gives the claim up; until then it is kept"}}
}

func (p *program) notInTime(claim *extensions.SandboxClaim, timeout time.Duration) error {
	seen := judge(claim)
	next := []string{p.command("ls") + " shows how it goes on: the claim is kept and may still become Ready",
		p.command("release", claim.Name) + " gives it up"}
	if seen.reason == "" {
		next = append([]string{"see that the controller runs: " + p.command("version")}, next...)
	}
	return &problem{cause: fmt.Errorf("claim %s is not Ready after %s: %s", claim.Name, timeout, seen), next: next}
}

// giveUp deletes the claim that this command made.
func (p *program) giveUp(ctx context.Context, c *cluster, claim *extensions.SandboxClaim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	fmt.Fprintf(p.streams.ErrOut, "Interrupted; giving up claim %s.\n", claim.Name)
	err := c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return &problem{cause: fmt.Errorf("claim %s is kept: %w", claim.Name, err), code: exitInterrupted,
			next: []string{p.command("release", claim.Name) + " gives it up"}}
	}
	return exitCode(exitInterrupted)
}

// addresses joins a pod's addresses for a person.
func addresses(ips []string) string {
	if len(ips) == 0 {
		return "not known"
	}
	return strings.Join(ips, ", ")
}
