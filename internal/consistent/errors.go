// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// ErrGone says that the object a write was decided on no longer exists.
var ErrGone = errors.New("object is gone")

// ErrLagging says that the informer is too far behind for the view to keep more
// writes. It passes when the informer catches up; retry with backoff.
var ErrLagging = errors.New("the informer is too far behind this process's writes")

// UndecidedError says that the outcome of a write is unknown: it may have landed.
type UndecidedError struct {
	Verb Verb
	Key  types.NamespacedName
	Err  error
}

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("%s %s: outcome unknown: %v", e.Verb, e.Key, e.Err)
}

func (e *UndecidedError) Unwrap() error { return e.Err }

// Again reports whether the answer to err is to observe again and decide anew,
// because the view, not the caller, knows what became of the write.
func Again(err error) bool {
	var undecided *UndecidedError
	return errors.As(err, &undecided) || errors.Is(err, ErrGone)
}

// refused reports whether err proves that a write did not and will not land.
//
// Everything else leaves the outcome open. client-go sends a request again after
// a 429 or a 5xx with Retry-After, so a Conflict or AlreadyExists may be the
// answer to our own first attempt.
func refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case "Invalid", "Forbidden", "BadRequest", "Unauthorized", "MethodNotAllowed", "NotAcceptable", "RequestEntityTooLarge", "UnsupportedMediaType":
		return true
	default:
		return false
	}
}
