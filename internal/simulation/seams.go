// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// withoutOverlay reads what the informer shows.
type withoutOverlay[T client.Object] struct {
	consistent.Kind[T]
	store   *informer
	indexes map[string]consistent.Index[T]
}

func (w *withoutOverlay[T]) Get(_ context.Context, key types.NamespacedName) (T, bool, error) {
	obj, ok := w.store.items[key].(T)
	return obj, ok, nil
}

func (w *withoutOverlay[T]) By(_ context.Context, index, value string) ([]T, error) {
	var found []T
	for _, item := range w.store.sorted() {
		if obj := item.(T); slices.Contains(w.indexes[index](obj), value) {
			found = append(found, obj)
		}
	}
	return found, nil
}

func (w *withoutOverlay[T]) Undecided(string, string) []consistent.Attempt[T] { return nil }

// storeFirst reads the store before the overlay: what is written or swept in between
// is missed.
type storeFirst[T client.Object] struct {
	consistent.Kind[T]
	store *informer
}

func (s *storeFirst[T]) Get(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	s.store.freeze(s.store.version)
	defer s.store.thaw()
	s.store.replica.maybeStop()
	return s.Kind.Get(ctx, key)
}

func (s *storeFirst[T]) By(ctx context.Context, index, value string) ([]T, error) {
	s.store.freeze(s.store.version)
	defer s.store.thaw()
	s.store.replica.maybeStop()
	return s.Kind.By(ctx, index, value)
}

// fickle takes another candidate when it does not know whether it has one.
type fickle struct {
	consistent.Kind[*agents.Sandbox]
	given map[types.NamespacedName]bool
}

func (f *fickle) Patch(ctx context.Context, s *agents.Sandbox, p consistent.Patch) (*agents.Sandbox, error) {
	patched, err := f.Kind.Patch(ctx, s, p)
	if consistent.Again(err) {
		f.given[client.ObjectKeyFromObject(s)] = true
	}
	return patched, err
}

func (f *fickle) Get(ctx context.Context, key types.NamespacedName) (*agents.Sandbox, bool, error) {
	if f.given[key] {
		delete(f.given, key)
		return nil, false, nil
	}
	return f.Kind.Get(ctx, key)
}

func (f *fickle) By(_ context.Context, index, value string) ([]*agents.Sandbox, error) {
	return f.Peek(index, value), nil
}

func (f *fickle) Undecided(string, string) []consistent.Attempt[*agents.Sandbox] { return nil }

// hasty deletes an unbound claim's surplus as soon as it sees it.
type hasty struct {
	consistent.Kind[*agents.Sandbox]
	replica *replica
}

func (h *hasty) By(ctx context.Context, index, value string) ([]*agents.Sandbox, error) {
	found, err := h.Kind.By(ctx, index, value)
	if index != kinds.ByController || err != nil {
		return found, err
	}
	for _, obj := range h.replica.informerOf("sandboxclaims").sorted() {
		claim, bound := obj.(*extensions.SandboxClaim), false
		if shown, ok, _ := h.replica.views.Claims.Get(ctx, client.ObjectKeyFromObject(claim)); ok {
			bound = shown.Status.Sandbox.Name != ""
		}
		if string(claim.UID) != value || bound {
			continue
		}
		for len(found) > 1 {
			if last := found[len(found)-1]; last.DeletionTimestamp == nil {
				_ = h.Delete(ctx, last, consistent.Precondition{})
			}
			found = found[:len(found)-1]
		}
	}
	return found, nil
}

// careless deletes by UID alone.
type careless struct {
	consistent.Kind[*agents.Sandbox]
}

func (c *careless) Delete(ctx context.Context, s *agents.Sandbox, when consistent.Precondition) error {
	when.AnyVersion = true
	return c.Kind.Delete(ctx, s, when)
}

// forgetful does not see what is terminating.
type forgetful struct {
	consistent.Kind[*agents.Sandbox]
}

func (f *forgetful) By(ctx context.Context, index, value string) ([]*agents.Sandbox, error) {
	found, err := f.Kind.By(ctx, index, value)
	return slices.DeleteFunc(found, func(s *agents.Sandbox) bool { return s.DeletionTimestamp != nil }), err
}

// unaware does not see what may still land.
type unaware struct {
	consistent.Kind[*agents.Sandbox]
}

func (u *unaware) By(_ context.Context, index, value string) ([]*agents.Sandbox, error) {
	return u.Peek(index, value), nil
}

func (u *unaware) Undecided(string, string) []consistent.Attempt[*agents.Sandbox] { return nil }

// lenient lets every pool hand out old members.
type lenient struct {
	consistent.Kind[*extensions.SandboxWarmPool]
}

func (l *lenient) Get(ctx context.Context, key types.NamespacedName) (*extensions.SandboxWarmPool, bool, error) {
	pool, ok, err := l.Kind.Get(ctx, key)
	if ok {
		pool = pool.DeepCopy()
		pool.Spec.UpdateStrategy = nil
	}
	return pool, ok, err
}

// cached takes the cache's word for the server's.
type cached[T client.Object] struct{ consistent.Kind[T] }

func (c *cached[T]) Live(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	return c.Get(ctx, key)
}

// misled is wrong about which pods are a Sandbox's.
type misled struct {
	consistent.Kind[*corev1.Pod]
	replica  *replica
	mutation Mutation
}

func (m *misled) By(ctx context.Context, index, value string) ([]*corev1.Pod, error) {
	found, err := m.Kind.By(ctx, index, value)
	if err != nil || len(found) > 0 {
		return found, err
	}
	for _, obj := range m.replica.informerOf("sandboxes").sorted() {
		s, ok := obj.(*agents.Sandbox)
		if !ok || string(s.UID) != value {
			continue
		}
		name := s.Name
		if m.mutation == TrustPodName {
			name = s.Annotations[agents.AnnotationPodName]
		}
		pod, ok, err := m.Get(ctx, key(name))
		if err != nil || !ok {
			return nil, err
		}
		owner := metav1.GetControllerOf(pod)
		if m.mutation == OwnerByName && (owner == nil || owner.Name != s.Name) {
			return nil, nil
		}
		return []*corev1.Pod{pod}, nil
	}
	return nil, nil
}

// undying does not see that pods are terminating.
type undying struct {
	consistent.Kind[*corev1.Pod]
}

func (u *undying) By(ctx context.Context, index, value string) ([]*corev1.Pod, error) {
	found, err := u.Kind.By(ctx, index, value)
	for n, pod := range found {
		if pod.DeletionTimestamp != nil {
			found[n] = pod.DeepCopy()
			found[n].DeletionTimestamp = nil
		}
	}
	return found, err
}

// literal finds only what has an owner of the version of today.
type literal[T client.Object] struct{ consistent.Kind[T] }

func (l *literal[T]) By(ctx context.Context, index, value string) ([]T, error) {
	found, err := l.Kind.By(ctx, index, value)
	if index != kinds.ByController {
		return found, err
	}
	return slices.DeleteFunc(found, func(obj T) bool {
		owner := metav1.GetControllerOf(obj)
		return owner.APIVersion != agents.GroupVersion.String() && owner.APIVersion != extensions.GroupVersion.String()
	}), err
}
