// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// answers are what the server said in one pass that no view shows.
type answers struct {
	// Refused is the answer to the last create, and Barred the one to an adoption or to
	// metadata.
	Refused, Barred error

	// unanswered is the last step whose outcome the server left open.
	unanswered string
}

// take remembers how a step ended. The error it returns ends the pass.
func (a *answers) take(done step, err error) error {
	switch {
	case err == nil, isRace(err):
		return nil // what is there now is observed, and decided on anew
	case consistent.Again(err):
		// The view finds out what became of the write, once: a server that does not answer
		// is not asked over and over. That it fails, as it does while a webhook is down, is
		// worth a status.
		words := done.String()
		if a.unanswered != words {
			a.unanswered = words
			return nil
		}
		if !apierrors.IsInternalError(err) {
			return err
		}
	case !isRefusal(err):
		return err
	}
	switch {
	case isCreate(done):
		a.Refused = err
	case isGain(done):
		a.Barred = err
	default:
		return err
	}
	return nil
}

// retry is the error of a pass that ended with a refusal that nothing announces the end
// of: a quota has room again, a webhook works, or it is known what became of the write
// before. Others are asked for again by askAgain.
func (seen observed) retry() error {
	for _, answer := range []error{seen.Refused, seen.Barred} {
		if answer != nil && (apierrors.IsForbidden(answer) || apierrors.IsInternalError(answer) || len(seen.Undecided) > 0) {
			return errors.Join(errRefused, answer)
		}
	}
	return nil
}

// askAgain bounds a rest after a refusal. What is invalid mostly stays so until the
// template or the claim changes, which wakes the claim; the rule may have been lifted.
func (seen observed) askAgain(pause rest, now time.Time) rest {
	if seen.Refused == nil && seen.Barred == nil {
		return pause
	}
	if again := now.Add(control.RefusedAgain); pause.until.IsZero() || again.Before(pause.until) {
		pause.until = again
	}
	return pause
}

// errRefused makes a pass be repeated with backoff.
var errRefused = errors.New("the API server refused the Sandbox")

// isRace reports whether a write came after another one.
func isRace(err error) bool {
	return consistent.Again(err) && (errors.Is(err, consistent.ErrGone) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err))
}

// isRefusal reports whether the server said no for a reason a person or a quota can
// change. It is shown on the claim.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
