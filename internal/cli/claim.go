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
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

const (
	answerLimit  = 30 * time.Second
	nameSuffix   = 5 // random characters, as the API server's generateName has
	nameAttempts = 5 // at finding a name that is not taken
)

func (p *program) claimCommand() *cobra.Command {
	var o claimOptions
	cmd := &cobra.Command{
		Use:   "claim POOL [flags] [--rm -- COMMAND [ARG...]]",
		Short: "Claim a sandbox from a warm pool and wait until it is Ready",
		Long: "Claims a sandbox from a warm pool and waits until it is Ready. The claim's name is printed\n" +
			"on standard output, everything else on standard error.\n\n" +
			"While it waits, it says once each thing that the claim waits for. The wait ends early when\n" +
			"waiting does not help: the claim's reason is TemplateNotFound, WarmPoolNotFound,\n" +
			"InvalidMetadata, EnvVarsInjectionRejected, VolumeClaimTemplatesError, ClaimExpired,\n" +
			"SandboxExpired or BindDeadlineExceeded, or the sandbox's pod has ended. Then, and after the\n" +
			"timeout, the claim is kept, and the error says how to give it up. Ctrl-C gives it up. A\n" +
			"connection that breaks is made again.\n\n" +
			"With --rm it runs a command in the sandbox, as exec does, and releases the claim whatever\n" +
			"happens: also when the command fails, the sandbox does not become Ready in time, or on Ctrl-C.\n" +
			"The exit code and standard output are the command's; the exit codes of berth's own errors are\n" +
			"those of exec.\n\n" +
			"A claim with --env cannot take a sandbox that is there already: one is made for it, which\n" +
			"takes as long as starting a pod, and the template must allow it.",
		Example: p.examples(`
			# a sandbox from the pool "python"
			berth claim python

			# under a name of your own, waiting a minute at most, for eight hours
			berth claim python --name analysis --timeout 1m --ttl 8h

			# run one command and leave nothing behind
			berth claim python --rm -- python3 -c 'print(6 * 7)'`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: p.completePools,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := p.readClaim(cmd, args, &o)
			switch {
			case o.remove && err != nil:
				return p.notRun(err)
			case err != nil:
				return err
			case o.remove:
				p.attach(cmd, &o.exec)
				return p.notRun(p.claimAndRun(cmd.Context(), o))
			}
			return p.claim(cmd.Context(), o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (p *program) claim(ctx context.Context, o claimOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	claim, err := p.createClaim(ctx, c, o)
	switch {
	case err != nil:
		return err
	case o.detach:
		fmt.Fprintf(p.streams.ErrOut, "Created claim %s, which may still wait for a sandbox.\n", claim.Name)
		fmt.Fprintln(p.streams.Out, claim.Name)
		return nil
	}
	claim, err = p.claimedInTime(ctx, c, claim, o)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(p.streams.ErrOut, "Interrupted; giving up claim %s.\n", claim.Name)
		if err := p.giveUp(ctx, c, claim); err != nil {
			return err
		}
		return exitCode(exitInterrupted)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(p.streams.Out, claim.Name)
	return nil
}

// claimedInTime waits until the claim is Ready. It returns the claim as last seen, also with an error.
func (p *program) claimedInTime(ctx context.Context, c *cluster, claim *extensions.SandboxClaim, o claimOptions) (*extensions.SandboxClaim, error) {
	began := time.Now()
	waiting := ctx
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		waiting = limited
	}
	claim, err := p.awaitClaim(waiting, c, claim)
	if err == nil {
		fmt.Fprintf(p.streams.ErrOut, "Claimed sandbox %s (pod IP %s) in %s.\n",
			claim.Status.Sandbox.Name, addresses(claim.Status.Sandbox.PodIPs), within(time.Since(began)))
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = p.notInTime(claim, o.timeout)
	}
	return claim, err
}

// createClaim makes the claim. It awaits the answer even if a person gives up meanwhile, because the
// answer says whether there is something to give back; for the same reason the name is chosen here.
func (p *program) createClaim(ctx context.Context, c *cluster, o claimOptions) (*extensions.SandboxClaim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	for attempt := 1; ; attempt++ {
		claim := newClaim(c.namespace, o, time.Now())
		err := c.Create(ctx, claim)
		switch {
		case err == nil:
			return claim, nil
		case apierrors.IsAlreadyExists(err) && o.name == "" && attempt < nameAttempts:
		case apierrors.IsAlreadyExists(err):
			return nil, &problem{cause: fmt.Errorf("there is a claim %q in namespace %q already", claim.Name, claim.Namespace),
				next: []string{p.command("exec", claim.Name, "-- COMMAND") + " uses it", p.command("release", claim.Name) + " gives it up", "choose another --name"}}
		case apierrors.IsInvalid(err):
			return nil, &problem{cause: err, next: []string{"change what the message names; " + p.name + " claim --help lists the flags"}}
		case refused(err):
			return nil, err
		default:
			return nil, &problem{cause: fmt.Errorf("create claim %s: %w; whether it was made is not known", claim.Name, err),
				next: []string{p.command("ls") + " shows whether it is there", p.command("release", claim.Name) + " gives it up"}}
		}
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
	return &problem{cause: fmt.Errorf("wait for claim %s: %w", claim.Name, err),
		ifKept: []string{p.command("ls") + " shows how it is: the claim is kept", p.command("release", claim.Name) + " gives it up"}}
}

func (p *program) neverReady(claim *extensions.SandboxClaim, seen outcome) error {
	return &problem{cause: fmt.Errorf("claim %s gets no sandbox: %s", claim.Name, seen),
		next: []string{seen.next}, ifKept: []string{p.command("release", claim.Name) + " gives the claim up; until then it is kept"}}
}

func (p *program) notInTime(claim *extensions.SandboxClaim, timeout time.Duration) error {
	seen := judge(claim)
	var next []string
	if seen.reason == "" {
		next = []string{"see that the controller runs: " + p.command("version")}
	}
	return &problem{cause: fmt.Errorf("claim %s is not Ready after %s: %s", claim.Name, timeout, seen), next: next,
		ifKept: []string{p.command("ls") + " shows how it goes on: the claim is kept and may still become Ready",
			p.command("release", claim.Name) + " gives it up"}}
}

// giveUp deletes the claim that this command made, also after an interrupt.
func (p *program) giveUp(ctx context.Context, c *cluster, claim *extensions.SandboxClaim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	err := c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return &problem{cause: fmt.Errorf("claim %s is kept: %w", claim.Name, err), code: exitInterrupted,
			next: []string{p.command("release", claim.Name) + " gives it up"}}
	}
	return nil
}

// addresses joins a pod's addresses for a person.
func addresses(ips []string) string {
	if len(ips) == 0 {
		return "not known"
	}
	return strings.Join(ips, ", ")
}
