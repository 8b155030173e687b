// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrGone says that the object a write was decided on no longer exists.
var ErrGone = errors.New("object is gone")

// ErrLagging says that the informer is too far behind for the view to keep more
// writes. It passes when the informer catches up; retry with backoff.
var ErrLagging = errors.New("the informer is too far behind this process's writes")

// ErrNotServed says that the server does not serve the kind now: its definition is not
// installed, not established yet, or going. A view of such a kind can do nothing.
var ErrNotServed = errors.New("the server does not serve the kind")

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

// refused reports whether err, the answer to a request that was sent once, proves
// that the write did not and will not land.
//
// Everything else leaves the outcome open. A Conflict or AlreadyExists may be the
// answer to an attempt of ours that landed: an earlier one under the same name, or
// this one, sent twice by something between us and the server.
func refused(err error) bool {
	if IsFieldConflict(err) {
		return true // an attempt of our own would be no conflict with us
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType:
		return true
	case metav1.StatusReasonNotFound: // no object, which absent tells; or no such resource
		return true
	default:
		return false
	}
}

// absent reports whether err proves that there is no object under the name. A 404
// for the path (the resource is not served, or not yet) proves nothing.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}
