// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// Mutation is a known bug of the field, put back for the proof that the invariants
// notice. The zero value is none. Each stands between the controllers and their views
// or the server: the controllers themselves are those of production.
type Mutation string

// The mutations.
const (
	NoOverlay              Mutation = "reads do not show one's own writes"
	ItemBeforeVersion      Mutation = "the item is read before the store's version"
	StoreBeforeEntry       Mutation = "the store is read before the overlay's entry"
	AdoptUnconditionally   Mutation = "a member is adopted whatever it has become"
	BindUnconditionally    Mutation = "a claim is bound whatever it has become"
	SecondCandidate        Mutation = "after an unknown outcome another member is adopted"
	SurplusBeforeBinding   Mutation = "surplus is deleted before the status names the winner"
	DeleteMembersByUID     Mutation = "a pool deletes whatever its member has become"
	TerminatingIsCurrent   Mutation = "a terminating pod counts as live"
	TrustPodName           Mutation = "the pod that an annotation names is the Sandbox's"
	OwnerByName            Mutation = "owners are compared by name"
	ForgetTerminating      Mutation = "a pool forgets its terminating members"
	ForgetInFlight         Mutation = "a pool forgets creates with an unknown outcome"
	NoBlueprintCheck       Mutation = "a member is adopted whatever its blueprint"
	ReplacePodTemplate     Mutation = "a claim replaces the whole podTemplate"
	AlreadyExistsIsFailure Mutation = "AlreadyExists counts as a refusal"
	AbsenceFromCache       Mutation = "absence is taken from the cache"
)

// Mutations are all of them.
func Mutations() []Mutation {
	return []Mutation{
		NoOverlay, ItemBeforeVersion, StoreBeforeEntry, AdoptUnconditionally, BindUnconditionally, SecondCandidate,
		SurplusBeforeBinding, DeleteMembersByUID, TerminatingIsCurrent, TrustPodName, OwnerByName, ForgetTerminating,
		ForgetInFlight, NoBlueprintCheck, ReplacePodTemplate, AlreadyExistsIsFailure, AbsenceFromCache,
	}
}

// mutated returns the views as the named controller of a replica gets them.
func (r *replica) mutated(controller string, views kinds.Views) kinds.Views {
	switch m := r.run.settings.Mutation; {
	case m == SecondCandidate && controller == "claim":
		views.Sandboxes = &fickle{Kind: views.Sandboxes, given: map[types.NamespacedName]bool{}}
	case m == SurplusBeforeBinding && controller == "claim":
		views.Sandboxes = &hasty{views.Sandboxes}
	case m == DeleteMembersByUID && controller == "warmpool":
		views.Sandboxes = &careless{views.Sandboxes}
	case m == ForgetTerminating && controller == "warmpool":
		views.Sandboxes = &forgetful{views.Sandboxes}
	case m == ForgetInFlight && controller == "warmpool":
		views.Sandboxes = &unaware{views.Sandboxes}
	case m == NoBlueprintCheck && controller == "claim":
		views.WarmPools = &lenient{views.WarmPools}
	case m == AbsenceFromCache:
		views.WarmPools = &cached[*extensions.SandboxWarmPool]{views.WarmPools}
		views.Templates = &cached[*extensions.SandboxTemplate]{views.Templates}
		views.Sandboxes = &cached[*agents.Sandbox]{views.Sandboxes}
	case controller == "sandbox" && (m == TerminatingIsCurrent || m == TrustPodName || m == OwnerByName):
		views.Pods = &misled{views.Pods, r, m}
	}
	return views
}

func (run *Run) mutatedError(err error) error {
	if run.settings.Mutation == AlreadyExistsIsFailure && apierrors.IsAlreadyExists(err) {
		return apierrors.NewForbidden(run.server.tables["sandboxes"].resource, "", err)
	}
	return err
}

func (run *Run) mutatedPatch(resource, subresource string, body []byte) []byte {
	m := run.settings.Mutation
	if m != AdoptUnconditionally && m != BindUnconditionally && m != ReplacePodTemplate {
		return body
	}
	var patch map[string]any
	if json.Unmarshal(body, &patch) != nil {
		return body
	}
	metadata, _ := patch["metadata"].(map[string]any)
	_, adopts := metadata["ownerReferences"]
	switch {
	case m == AdoptUnconditionally && resource == "sandboxes" && adopts, m == BindUnconditionally && resource == "sandboxclaims" && subresource == "status":
		delete(metadata, "resourceVersion")
	case m == ReplacePodTemplate && resource == "sandboxes" && adopts:
		patch["spec"] = map[string]any{"podTemplate": map[string]any{"metadata": nil}}
	}
	changed, err := json.Marshal(patch)
	if err != nil {
		return body
	}
	return changed
}

// snapshot is a store as it was.
type snapshot struct {
	items   map[types.NamespacedName]client.Object
	version uint64
}

// freeze shows the current task the items of now, and the version if it is not 0,
// until the next freeze.
func (i *informer) freeze(version uint64) {
	if i.replica.current == nil {
		return
	}
	if i.frozen == nil {
		i.frozen = map[*task]snapshot{}
	}
	i.frozen[i.replica.current] = snapshot{maps.Clone(i.items), version}
}

func (i *informer) thaw() { delete(i.frozen, i.replica.current) }

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

// hasty deletes a claim's surplus as soon as it sees it, and keeps the newest.
type hasty struct {
	consistent.Kind[*agents.Sandbox]
}

func (h *hasty) By(ctx context.Context, index, value string) ([]*agents.Sandbox, error) {
	found, err := h.Kind.By(ctx, index, value)
	if index != kinds.ByController || err != nil {
		return found, err
	}
	for len(found) > 1 {
		if found[0].DeletionTimestamp == nil {
			_ = h.Delete(ctx, found[0], consistent.Precondition{})
		}
		found = found[1:]
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
	if err != nil {
		return nil, err
	}
	if m.mutation == TerminatingIsCurrent {
		for n, pod := range found {
			found[n] = pod.DeepCopy()
			found[n].DeletionTimestamp = nil
		}
		return found, nil
	}
	if len(found) > 0 {
		return found, nil
	}
	for _, obj := range m.replica.informers[0].sorted() {
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
