// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/mergepatch"
)

// table is the view of one kind.
type table[T client.Object] struct {
	w       *world
	kind    kinds.Kind[T]
	objects map[types.NamespacedName]T
	applied map[types.UID]map[string]any
	// readErr and writeErr are what reads from the server and writes end with.
	readErr, writeErr error
	unserved          bool
	// delays says that writes are given up, and the last may land later: see land.
	delays    bool
	late      *lateWrite[T]
	undecided []consistent.Attempt[T]
	merger    mergepatch.Merger
}

func newTable[T client.Object](w *world, kind kinds.Kind[T]) *table[T] {
	return &table[T]{w: w, kind: kind, objects: map[types.NamespacedName]T{}, applied: map[types.UID]map[string]any{}}
}

func (t *table[T]) all(namespace string) []T {
	var found []T
	for _, obj := range t.objects {
		if obj.GetNamespace() == namespace {
			found = append(found, obj)
		}
	}
	slices.SortFunc(found, func(a, b T) int {
		if byTime := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return found
}

// put stores an object as somebody else's write.
func (t *table[T]) put(obj T) T {
	t.w.version++
	obj.SetResourceVersion(fmt.Sprint(t.w.version))
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("%s-%s-%d", t.kind.Resource, obj.GetName(), t.w.version)))
		obj.SetCreationTimestamp(metav1.NewTime(t.w.clock.Now()))
		obj.SetGeneration(1)
	}
	t.objects[client.ObjectKeyFromObject(obj)] = obj
	return obj
}

// edit changes an object's spec or metadata as somebody else.
func (t *table[T]) edit(name string, change func(T)) {
	key := types.NamespacedName{Namespace: team, Name: name}
	next := t.objects[key].DeepCopyObject().(T)
	before := specOf(next)
	change(next)
	if specOf(next) != before {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	t.put(next)
}

func (t *table[T]) get(name string) T {
	return t.objects[types.NamespacedName{Namespace: team, Name: name}]
}

func specOf(obj any) string {
	text, _ := json.Marshal(obj)
	var whole struct{ Spec json.RawMessage }
	_ = json.Unmarshal(text, &whole)
	return string(whole.Spec)
}

func (t *table[T]) Get(_ context.Context, key types.NamespacedName) (T, bool, error) {
	obj, ok := t.objects[key]
	if t.unserved {
		return obj, false, consistent.ErrNotServed
	}
	return obj, ok, nil
}

func (t *table[T]) Live(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	if t.readErr != nil {
		var none T
		return none, false, t.readErr
	}
	return t.Get(ctx, key)
}

func (t *table[T]) By(_ context.Context, index, value string) ([]T, error) {
	return t.Peek(index, value), nil
}

func (t *table[T]) Peek(index, value string) []T {
	var found []T
	for _, namespace := range []string{team, "other", operatorNamespace} {
		for _, obj := range t.all(namespace) {
			if slices.Contains(t.kind.Indexes[index](obj), value) {
				found = append(found, obj)
			}
		}
	}
	return found
}

func (t *table[T]) Undecided(string, string) []consistent.Attempt[T] { return t.undecided }

func (t *table[T]) InDoubt(key types.NamespacedName) bool {
	return t.late != nil && t.objects[key].GetResourceVersion() == t.late.base.GetResourceVersion()
}

// lateWrite is a write that was given up.
type lateWrite[T client.Object] struct {
	base T
	do   func() (T, error)
}

// land lets the write that was given up arrive, if it still can.
func (t *table[T]) land() {
	if late := t.late; late != nil && t.InDoubt(client.ObjectKeyFromObject(late.base)) {
		t.late = nil
		_, _ = late.do()
	}
}

func (t *table[T]) Create(_ context.Context, obj T) (T, error) { return t.put(obj), nil }

func (t *table[T]) Patch(_ context.Context, base T, p consistent.Patch) (T, error) {
	return t.write("patch", base, func(now T) (T, error) { return t.merge(now, p) })
}

func (t *table[T]) PatchStatus(_ context.Context, base T, p consistent.Patch) (T, error) {
	return t.write("status", base, func(now T) (T, error) { return t.merge(now, p) })
}

func (t *table[T]) Apply(_ context.Context, base T, _ string, configuration consistent.Patch) (T, error) {
	return t.write("apply", base, func(now T) (T, error) {
		text, _ := json.Marshal(configuration)
		var next map[string]any
		_ = json.Unmarshal(text, &next)
		patch := without(t.applied[now.GetUID()], next)
		t.applied[now.GetUID()] = next
		return t.merge(now, patch)
	})
}

// without is the merge patch from what was applied before to what is applied now.
func without(before, after map[string]any) consistent.Patch {
	p := consistent.Patch{}
	for key := range before {
		if _, kept := after[key]; !kept {
			if inner, ok := before[key].(map[string]any); ok {
				p[key] = map[string]any(without(inner, nil))
			} else {
				p[key] = nil
			}
		}
	}
	for key, value := range after {
		inner, ok := value.(map[string]any)
		if !ok {
			p[key] = value
			continue
		}
		was, _ := before[key].(map[string]any)
		p[key] = map[string]any(without(was, inner))
	}
	return p
}

func (t *table[T]) merge(now T, p consistent.Patch) (T, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return now, err
	}
	next, _, err := t.merger.Apply(now, body)
	if err != nil {
		return now, err
	}
	return next.(T), nil
}

func (t *table[T]) write(verb string, base T, change func(T) (T, error)) (T, error) {
	if t.writeErr != nil {
		return base, t.writeErr
	}
	key := client.ObjectKeyFromObject(base)
	if t.delays {
		t.late = &lateWrite[T]{base, func() (T, error) { return t.write(verb, base, change) }}
		return base, &consistent.UndecidedError{Verb: consistent.VerbPatch, Key: key, Err: context.DeadlineExceeded}
	}
	now, ok := t.objects[key]
	if !ok || now.GetUID() != base.GetUID() || now.GetResourceVersion() != base.GetResourceVersion() {
		t.w.t.Fatalf("%s %s was decided on an old version", verb, key)
	}
	next, err := change(now)
	if err != nil {
		return base, err
	}
	next = next.DeepCopyObject().(T)
	if specOf(next) != specOf(now) {
		next.SetGeneration(now.GetGeneration() + 1)
	}
	next = t.put(next)
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		delete(t.objects, key)
	}
	return next, t.w.wrote(fmt.Sprintf("%s %s %s", verb, t.kind.Resource, key.Name))
}

func (t *table[T]) Delete(_ context.Context, obj T, _ consistent.Precondition) error {
	if t.writeErr != nil {
		return t.writeErr
	}
	now, ok := t.objects[client.ObjectKeyFromObject(obj)]
	if !ok || now.GetUID() != obj.GetUID() {
		return consistent.ErrGone
	}
	t.expire(obj.GetName())
	return t.w.wrote("delete " + t.kind.Resource + " " + obj.GetName())
}

// expire gives an object its deletion timestamp; a pod ends when the world reaps it.
func (t *table[T]) expire(name string) {
	next := t.get(name).DeepCopyObject().(T)
	next.SetDeletionTimestamp(ptr.To(metav1.NewTime(t.w.clock.Now())))
	t.put(next)
}

// hash is the hash of a namespace's configuration.
func (r *Reconciler) hash(ctx context.Context, namespace string) (string, error) {
	result, err := confighash.Of(ctx, r.live, operatorNamespace, namespace)
	return result.Hash, err
}

// hiding is a view whose cache shows nothing.
type hiding struct{ *table[*corev1.ConfigMap] }

func (h *hiding) Get(context.Context, types.NamespacedName) (*corev1.ConfigMap, bool, error) {
	return nil, false, nil
}

func (h *hiding) By(context.Context, string, string) ([]*corev1.ConfigMap, error) { return nil, nil }
