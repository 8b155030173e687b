// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// errReadOnly is the answer to every write. Explanations make none.
var errReadOnly = errors.New("an explanation writes nothing")

// view is one kind's objects of one namespace, as a list of the server showed them.
// Nothing is undecided in it, and it is its own live read.
type view[T client.Object] struct {
	items   []T
	indexes map[string]consistent.Index[T]
	// err is why the server gave no list.
	err error
}

var _ consistent.Kind[client.Object] = (*view[client.Object])(nil)

// newView returns the view of a list's items, in the order in which views list.
func newView[T client.Object](kind kinds.Kind[T], items []T, err error) *view[T] {
	slices.SortFunc(items, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return &view[T]{items: items, indexes: kind.Indexes, err: err}
}

// Get implements consistent.Kind.
func (v *view[T]) Get(_ context.Context, key types.NamespacedName) (obj T, found bool, err error) {
	if v.err != nil {
		return obj, false, v.err
	}
	for _, item := range v.items {
		if client.ObjectKeyFromObject(item) == key {
			return item, true, nil
		}
	}
	return obj, false, nil
}

// Live implements consistent.Kind.
func (v *view[T]) Live(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	return v.Get(ctx, key)
}

// By implements consistent.Kind.
func (v *view[T]) By(_ context.Context, index, value string) ([]T, error) {
	return v.Peek(index, value), v.err
}

// Peek implements consistent.Kind.
func (v *view[T]) Peek(index, value string) []T {
	var found []T
	for _, item := range v.items {
		if slices.Contains(v.indexes[index](item), value) {
			found = append(found, item)
		}
	}
	return found
}

// Undecided implements consistent.Kind.
func (*view[T]) Undecided(string, string) []consistent.Attempt[T] { return nil }

// InDoubt implements consistent.Kind.
func (*view[T]) InDoubt(types.NamespacedName) bool { return false }

// Create implements consistent.Kind.
func (*view[T]) Create(context.Context, T) (none T, err error) { return none, errReadOnly }

// Patch implements consistent.Kind.
func (*view[T]) Patch(context.Context, T, consistent.Patch) (none T, err error) {
	return none, errReadOnly
}

// Apply implements consistent.Kind.
func (*view[T]) Apply(context.Context, T, string, consistent.Patch) (none T, err error) {
	return none, errReadOnly
}

// PatchStatus implements consistent.Kind.
func (*view[T]) PatchStatus(context.Context, T, consistent.Patch) (none T, err error) {
	return none, errReadOnly
}

// Delete implements consistent.Kind.
func (*view[T]) Delete(context.Context, T, consistent.Precondition) error { return errReadOnly }
