// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create implements Kind.
func (v *View[T]) Create(ctx context.Context, obj T) (T, error) {
	key := client.ObjectKeyFromObject(obj)
	if key.Name == "" {
		return obj, fmt.Errorf("create %s in %s: %w", v.name, key.Namespace, errNoName)
	}
	if err := v.admit(); err != nil {
		return obj, err
	}
	began := v.began()
	created, err := v.api.Create(ctx, obj)
	if err == nil {
		return v.keep(created, began), nil
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
	a, err := attemptOn(VerbPatch, base)
	if err != nil {
		return base, fmt.Errorf("patch %s %s: %w", v.name, key, err)
	}
	body, err := conditional(base, p)
	if err != nil {
		return base, fmt.Errorf("patch %s %s: %w", v.name, key, err)
	}
	if err := v.admit(); err != nil {
		return base, err
	}
	began := v.began()
	patched, err := v.api.Patch(ctx, key, subresource, body)
	if err == nil {
		return v.keep(patched, began), nil
	}
	a.status = subresource != ""
	if !refused(err) {
		a.Intended = v.merged(base, body)
	}
	return base, v.failed(key, a, err)
}

// Delete implements Kind.
func (v *View[T]) Delete(ctx context.Context, obj T, when Precondition) error {
	key := client.ObjectKeyFromObject(obj)
	a, err := attemptOn(VerbDelete, obj)
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", v.name, key, err)
	}
	if err := v.admit(); err != nil {
		return err
	}
	condition := DeleteCondition{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Foreground: when.Foreground}
	if when.AnyVersion {
		condition.ResourceVersion, a.anyVersion = "", true
	}
	reply, hasReply, err := v.api.Delete(ctx, key, condition)
	if err != nil {
		return v.failed(key, a, err)
	}
	if hasReply && reply.GetUID() == obj.GetUID() && reply.GetDeletionTimestamp() != nil {
		obj = v.transform(reply)
	}
	v.keepDying(obj)
	return nil
}

// Writes that the server could not check against what they were decided on.
var (
	errNoName      = errors.New("a create needs a name of its own, or its repeat could not be told from another")
	errNoCondition = errors.New("the object has no UID or no resourceVersion to be conditional on")
)

// attemptOn is a write to base, which must be conditional.
func attemptOn[T client.Object](verb Verb, base T) (attempt[T], error) {
	if base.GetUID() == "" || base.GetResourceVersion() == "" {
		return attempt[T]{}, errNoCondition
	}
	return attempt[T]{Attempt: Attempt[T]{Verb: verb, Base: base}, uid: base.GetUID(), rv: version(base.GetResourceVersion())}, nil
}

// failed records what a failed write may have done, and returns the error for the
// caller.
func (v *View[T]) failed(key types.NamespacedName, a attempt[T], err error) error {
	switch {
	case absent(err) && a.Verb != VerbCreate:
		v.keepGone(key, a)
		return fmt.Errorf("%s %s %s: %w", a.Verb, v.name, key, ErrGone)
	case refused(err):
		return fmt.Errorf("%s %s %s: %w", a.Verb, v.name, key, err)
	}
	v.keepUndecided(key, a)
	return &UndecidedError{Verb: a.Verb, Key: key, Err: err}
}

// conditional adds the UID and resourceVersion of base to a merge patch.
func conditional[T client.Object](base T, p Patch) ([]byte, error) {
	body, err := conditions(base, p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(body)
}

// conditions is conditional before it is text.
func conditions[T client.Object](base T, p Patch) (Patch, error) {
	body := make(Patch, len(p)+1)
	maps.Copy(body, p)
	metadata := map[string]any{}
	switch given := p["metadata"].(type) {
	case nil:
	case Patch:
		maps.Copy(metadata, given)
	case map[string]any:
		maps.Copy(metadata, given)
	default:
		return nil, fmt.Errorf("metadata of a patch must be a map of keys, not %T", given)
	}
	metadata["uid"] = base.GetUID()
	metadata["resourceVersion"] = base.GetResourceVersion()
	body["metadata"] = metadata
	return body, nil
}

// merged is base as it is after the merge patch; base itself if the patch does not
// fit its type, which no server would accept either.
func (v *View[T]) merged(base T, body []byte) T {
	next, _, err := v.merger.Apply(base, body)
	if err != nil {
		return base
	}
	return next.(T)
}
