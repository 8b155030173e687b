// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
)

// claimAndRun claims a sandbox, runs a command in it, and releases the claim, however it ends. The error
// is the command's exit code, or what kept it from running.
func (p *program) claimAndRun(ctx context.Context, o claimOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	claim, err := p.createClaim(ctx, c, o)
	if err != nil {
		return err
	}
	claim, err = p.claimedInTime(ctx, c, claim, o)
	ran := err == nil
	if ran {
		o.exec.target = target{name: claim.Name}
		err = p.exec(ctx, o.exec)
	}
	if ctx.Err() != nil {
		if !ran {
			err = exitCode(exitInterrupted)
		}
		fmt.Fprintf(p.streams.ErrOut, "Interrupted; releasing claim %s.\n", claim.Name)
	}
	if kept := p.giveUp(ctx, c, claim); kept != nil {
		if err == nil {
			return kept
		}
		p.report(kept) // and the command's exit code is the one that counts
		return err
	}
	return p.released(err, claim.Name)
}

// released is an error of a claim that is not kept after all.
func (p *program) released(err error, claim string) error {
	var known *problem
	var left leftRunning
	if errors.As(err, &left) {
		return &problem{cause: fmt.Errorf("interrupted; %s ends with pod %s, which goes with claim %s", left.command, left.pod, claim), code: exitInterrupted}
	}
	if !errors.As(err, &known) || len(known.ifKept) == 0 {
		return err
	}
	corrected := *known
	corrected.cause, corrected.ifKept = fmt.Errorf("%w; the claim is released", known.cause), nil
	return &corrected
}
