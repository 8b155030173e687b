// SPDX-License-Identifier: Apache-2.0

// Package consistent gives reconcilers a view of the cluster that never lags
// behind their own writes: informer state joined with this process's newer
// writes, without waiting.
//
// # The rule
//
// A write's reply is kept in an overlay until the informer's store has caught
// up with it. A read prefers whichever of the two is newer. A write whose
// outcome is unknown (a lost reply, a conflict that may be our own first
// attempt) is kept as undecided and settled by a quorum read before anything is
// read that it could have changed.
//
// Evidence must be later than what it settles. Versions say so for writes to an
// existing object. A create has no version to compare with: only a request that
// began after the create became undecided settles it.
//
// # The order of reads
//
// Within one read the overlay's entry is taken before the store's version, and
// the version before the store's item. Entry before store: otherwise a sweep in
// between loses the write. Version before item: otherwise a create that the
// store has not seen yet looks like an object that was deleted.
package consistent

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is the typed view of one kind of object. Objects it hands out are shared
// and must never be modified. Reads take a context and return an error because
// an undecided write that matters to them is settled by a live read first.
type Kind[T client.Object] interface {
	// Get returns the object under key, or false if there is none.
	Get(ctx context.Context, key types.NamespacedName) (T, bool, error)
	// By returns the objects that have value in the named index, ordered by
	// creation time, then name. There is no unindexed list.
	By(ctx context.Context, index, value string) ([]T, error)
	// Peek is By without settling, for choosing whom to enqueue. Nothing may be
	// decided from it.
	Peek(index, value string) []T
	// Undecided returns the writes that could put an object under value in the
	// named index and whose outcome is still unknown. Call it after By, which
	// settles those that a live read can settle.
	Undecided(index, value string) []Attempt[T]
	// InDoubt reports whether the outcome of a write to the object under key is still
	// unknown. Call it after Get, which settles those that a live read can settle. Any
	// later write to the object settles the others: they fail from then on.
	InDoubt(key types.NamespacedName) bool
	// Live reads the object from the server (a quorum read) and feeds the view. It
	// returns the object found, or a later one if this process wrote to it meanwhile.
	Live(ctx context.Context, key types.NamespacedName) (T, bool, error)
	// Create creates obj, which must have a name and must not be modified afterwards.
	// If it returns an error for which Again holds, the object may exist: observe
	// again, and repeat the create under the same name.
	Create(ctx context.Context, obj T) (T, error)
	// Patch merges p into base, on the condition that the server still has base's
	// UID and resourceVersion.
	Patch(ctx context.Context, base T, p Patch) (T, error)
	// PatchStatus is Patch on the status subresource.
	PatchStatus(ctx context.Context, base T, p Patch) (T, error)
	// Apply makes configuration what the field manager wants of base, by server-side
	// apply: what the manager wanted before and is not in it is removed. The server must
	// still have base's UID and resourceVersion. If another manager has set one of the
	// fields to something else nothing is written, and IsFieldConflict holds for the error.
	// The view's API must be an Applier, and no index may be made of what is applied.
	Apply(ctx context.Context, base T, manager string, configuration Patch) (T, error)
	// Delete deletes obj under the given condition.
	Delete(ctx context.Context, obj T, when Precondition) error
}

// Patch is the body of a JSON merge patch (RFC 7386): nil removes a key. The view
// adds the UID and resourceVersion it is conditional on.
type Patch map[string]any

// Precondition says what must still be true of an object for it to be deleted,
// and how its dependents go.
type Precondition struct {
	// AnyVersion makes the delete conditional on the UID alone. It is for objects
	// whose owner never changes, such as a Sandbox's pods; every other delete
	// also carries the resourceVersion it was decided on.
	AnyVersion bool
	// Foreground keeps the object until its dependents are gone.
	Foreground bool
}

// Verb is the kind of a write.
type Verb string

// The writes a view makes.
const (
	VerbCreate Verb = "create"
	VerbPatch  Verb = "patch"
	VerbDelete Verb = "delete"
)

// Attempt is a write whose outcome is unknown.
type Attempt[T client.Object] struct {
	Verb Verb
	// Intended is the object as it is if the write lands. It is the zero T for a
	// delete.
	Intended T
	// Base is the object the write was decided on. It is the zero T for a create.
	Base T
}

// Index computes the values under which an object is found. Values are unique
// across namespaces only if they say so (a UID is; a name is not).
type Index[T client.Object] func(T) []string

// Store is the informer's store as the view reads it. It is the seam at which the
// simulator delivers events. Version must be read from the same lock as the items
// and is 0 when the store does not know it.
type Store interface {
	Get(key types.NamespacedName) (any, bool)
	ByIndex(index, value string) []any
	Version() uint64
}

// API is the server as the view writes to it. Reads are quorum reads.
type API[T client.Object] interface {
	Get(ctx context.Context, key types.NamespacedName) (T, error)
	Create(ctx context.Context, obj T) (T, error)
	// Patch sends a JSON merge patch; subresource is "" or "status".
	Patch(ctx context.Context, key types.NamespacedName, subresource string, body []byte) (T, error)
	// Delete returns the object if the server's reply carries one.
	Delete(ctx context.Context, key types.NamespacedName, condition DeleteCondition) (T, bool, error)
}

// DeleteCondition is what a delete request carries. An empty ResourceVersion is
// not sent.
type DeleteCondition struct {
	UID             types.UID
	ResourceVersion string
	Foreground      bool
}
