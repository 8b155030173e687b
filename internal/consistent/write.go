// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create implements Kind.
func (v *View[T]) Create(ctx context.Context, obj T) (T, error) {
	key := client.ObjectKeyFromObject(obj)
	if err := v.admit(); err != nil {
		return obj, err
	}
	created, err := v.api.Create(ctx, obj)
	if err == nil {
		return v.keep(created), nil
	}
	return obj, v.failed(key, attempt[T]{Attempt: Attempt[T]{Verb: VerbCreate, Intended: obj}}, err)
}

// Patch implements Kind.
func (v *View[T]) Patch(ctx context.Context, base T, p Patch) (T, error) {
	return v.patch(ctx, base, p, "")
}

// PatchStatus implements Kind.
func (v *View[T]) PatchStatus(ctx context.Context, base T, p Patch) (T, error) {
	return v.patch(ctx, base, p, "status")
}

func (v *View[T]) patch(ctx context.Context, base T, p Patch, subresource string) (T, error) {
	key := client.ObjectKeyFromObject(base)
	body, err := conditional(base, p)
	if err != nil {
		return base, fmt.Errorf("patch %s %s: %w", v.name, key, err)
	}
	if err := v.admit(); err != nil {
		return base, err
	}
	patched, err := v.api.Patch(ctx, key, subresource, body)
	if err == nil {
		return v.keep(patched), nil
	}
	intended, mergeErr := merged(base, body)
	if mergeErr != nil {
		return base, fmt.Errorf("patch %s %s: %w", v.name, key, mergeErr)
	}
	return base, v.failed(key, attemptOn(base, Attempt[T]{Verb: VerbPatch, Base: base, Intended: intended}), err)
}

// Delete implements Kind.
func (v *View[T]) Delete(ctx context.Context, obj T, when Precondition) error {
	key := client.ObjectKeyFromObject(obj)
	if err := v.admit(); err != nil {
		return err
	}
	condition := DeleteCondition{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Foreground: when.Foreground}
	if when.AnyVersion {
		condition.ResourceVersion = ""
	}
	reply, hasReply, err := v.api.Delete(ctx, key, condition)
	if err != nil {
		return v.failed(key, attemptOn(obj, Attempt[T]{Verb: VerbDelete, Base: obj}), err)
	}
	if hasReply && reply.GetUID() == obj.GetUID() && reply.GetDeletionTimestamp() != nil {
		v.keep(reply)
	}
	v.keepDying(key, obj.GetUID(), version(obj.GetResourceVersion()))
	return nil
}

func attemptOn[T client.Object](base T, a Attempt[T]) attempt[T] {
	return attempt[T]{Attempt: a, uid: base.GetUID(), rv: version(base.GetResourceVersion())}
}

// failed records what a failed write may have done, and returns the error for the
// caller.
func (v *View[T]) failed(key types.NamespacedName, a attempt[T], err error) error {
	switch {
	case refused(err):
		return fmt.Errorf("%s %s %s: %w", a.Verb, v.name, key, err)
	case apierrors.IsNotFound(err) && a.Verb != VerbCreate:
		v.keepGone(key, a.uid, a.rv)
		return fmt.Errorf("%s %s %s: %w", a.Verb, v.name, key, ErrGone)
	case apierrors.IsNotFound(err): // the namespace does not exist
		return fmt.Errorf("%s %s %s: %w", a.Verb, v.name, key, err)
	}
	v.change(key, func(e *entry[T]) { e.addUnknown(a) })
	return &UndecidedError{Verb: a.Verb, Key: key, Err: err}
}

// addUnknown records an attempt. A repeat of the same write replaces the earlier
// one: both are settled by the same facts.
func (e *entry[T]) addUnknown(a attempt[T]) {
	for i, old := range e.unknown {
		if old.Verb == a.Verb && old.uid == a.uid && old.rv == a.rv && a.Verb != VerbPatch {
			e.unknown[i] = a
			return
		}
	}
	e.unknown = append(e.unknown, a)
}

// conditional adds the UID and resourceVersion of base to a merge patch.
func conditional[T client.Object](base T, p Patch) ([]byte, error) {
	body := make(map[string]any, len(p)+1)
	for k, value := range p {
		body[k] = value
	}
	metadata := map[string]any{}
	if given, ok := p["metadata"].(map[string]any); ok {
		for k, value := range given {
			metadata[k] = value
		}
	}
	metadata["uid"] = string(base.GetUID())
	metadata["resourceVersion"] = base.GetResourceVersion()
	body["metadata"] = metadata
	return json.Marshal(body)
}

// merged is base as it is after the merge patch.
func merged[T client.Object](base T, body []byte) (T, error) {
	next := newLike(base)
	before, err := json.Marshal(base)
	if err != nil {
		return next, err
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		return next, err
	}
	return next, json.Unmarshal(after, next)
}

// newLike returns an empty object of obj's type.
func newLike[T client.Object](obj T) T {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(T)
}

// Diff returns the merge patch that turns from into to, and whether they differ.
// It is for the parts of an object that a controller owns whole, such as a status.
func Diff(from, to any) (Patch, bool, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, false, err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, false, err
	}
	body, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, false, err
	}
	var p Patch
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, false, err
	}
	return p, len(p) > 0, nil
}
