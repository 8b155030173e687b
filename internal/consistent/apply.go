// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Applier is an API that has server-side apply.
type Applier[T client.Object] interface {
	// Apply makes configuration what the field manager wants of the object, never taking
	// a field away from another manager. The API adds what the object is.
	Apply(ctx context.Context, key types.NamespacedName, manager string, configuration Patch) (T, error)
}

// errNoApply is a fault of the program: views of what is applied to need an Applier.
var errNoApply = errors.New("this API has no server-side apply")

// Apply implements Kind.
func (v *View[T]) Apply(ctx context.Context, base T, manager string, configuration Patch) (T, error) {
	key := client.ObjectKeyFromObject(base)
	api, ok := v.api.(Applier[T])
	if !ok {
		return base, fmt.Errorf("apply to %s %s: %w", v.name, key, errNoApply)
	}
	a, err := attemptOn(VerbPatch, base)
	if err != nil {
		return base, fmt.Errorf("apply to %s %s: %w", v.name, key, err)
	}
	body, err := conditions(base, configuration)
	if err != nil {
		return base, fmt.Errorf("apply to %s %s: %w", v.name, key, err)
	}
	if err := v.admit(); err != nil {
		return base, err
	}
	began := v.began()
	applied, err := api.Apply(ctx, key, manager, body)
	if err == nil {
		return v.keep(applied, began), nil
	}
	if !refused(err) {
		// What the manager does not want any more is not in the configuration, so this
		// shows less than the write does. No index is made of what is applied.
		a.Intended = base
	}
	return base, v.failed(key, a, err)
}

// IsFieldConflict reports whether err says that other managers have set fields to
// something else than what was applied.
func IsFieldConflict(err error) bool { return len(FieldConflicts(err)) > 0 }

// FieldConflicts returns which fields those are, and which managers.
func FieldConflicts(err error) []metav1.StatusCause {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Reason != metav1.StatusReasonConflict || answer.Status().Details == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(answer.Status().Details.Causes), func(c metav1.StatusCause) bool {
		return c.Type != metav1.CauseTypeFieldManagerConflict
	})
}
