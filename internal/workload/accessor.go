// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// errNoSuchKind is a mistake in this package.
var errNoSuchKind = errors.New("no such kind of workload")

// PodLister lists pods as the server has them now, not as a cache does.
type PodLister interface {
	ListPods(ctx context.Context, namespace, labelSelector string) ([]*corev1.Pod, error)
}

// Accessor looks at workloads and writes to them.
type Accessor struct {
	views kinds.Views
	pods  PodLister
}

// New returns an accessor. It uses the views of workloads, ReplicaSets and pods.
func New(views kinds.Views, pods PodLister) *Accessor { return &Accessor{views: views, pods: pods} }

// Get returns the workload as the view shows it, nil if it shows none, which is no
// proof: see Live. Of a kind that is not served there is none, and NotServed holds for
// the error.
func (a *Accessor) Get(ctx context.Context, t Target) (*Workload, error) {
	switch t.Kind {
	case Deployment:
		return load(ctx, t, a.views.Deployments.Get, a.deployment)
	case StatefulSet:
		return load(ctx, t, a.views.StatefulSets.Get, a.statefulSet)
	case Sandbox:
		return load(ctx, t, a.views.Sandboxes.Get, a.sandbox)
	}
	return nil, fmt.Errorf("%s: no such kind of workload", t)
}

// Live returns the workload as the server has it, nil if there is none.
func (a *Accessor) Live(ctx context.Context, t Target) (*Workload, error) {
	switch t.Kind {
	case Deployment:
		return load(ctx, t, a.views.Deployments.Live, a.deployment)
	case StatefulSet:
		return load(ctx, t, a.views.StatefulSets.Live, a.statefulSet)
	case Sandbox:
		return load(ctx, t, a.views.Sandboxes.Live, a.sandbox)
	}
	return nil, fmt.Errorf("%s: no such kind of workload", t)
}

// InDoubt reports whether a write to a workload whose outcome is unknown may still land on
// what Get showed.
func (a *Accessor) InDoubt(t Target) bool {
	switch t.Kind {
	case Deployment:
		return a.views.Deployments.InDoubt(t.key())
	case StatefulSet:
		return a.views.StatefulSets.InDoubt(t.key())
	case Sandbox:
		return a.views.Sandboxes.InDoubt(t.key())
	}
	return false
}

func load[T client.Object](
	ctx context.Context, t Target,
	get func(context.Context, types.NamespacedName) (T, bool, error),
	with func(context.Context, Target, T) (*Workload, error),
) (*Workload, error) {
	obj, ok, err := get(ctx, t.key())
	if err != nil || !ok {
		return nil, err
	}
	return with(ctx, t, obj)
}

func (a *Accessor) deployment(ctx context.Context, t Target, d *appsv1.Deployment) (*Workload, error) {
	sets, err := a.views.ReplicaSets.By(ctx, kinds.ByController, string(d.UID))
	if err != nil {
		return nil, err
	}
	made := make([]madeBy, 0, len(sets))
	for _, set := range sets {
		pods, err := a.views.Pods.By(ctx, kinds.ByController, string(set.UID))
		if err != nil {
			return nil, err
		}
		made = append(made, madeBy{set, pods})
	}
	return fromDeployment(t, d, made), nil
}

func (a *Accessor) statefulSet(ctx context.Context, t Target, s *appsv1.StatefulSet) (*Workload, error) {
	pods, err := a.views.Pods.By(ctx, kinds.ByController, string(s.UID))
	if err != nil {
		return nil, err
	}
	return fromStatefulSet(t, s, pods), nil
}

func (a *Accessor) sandbox(ctx context.Context, t Target, s *agents.Sandbox) (*Workload, error) {
	pods, err := a.views.Pods.By(ctx, kinds.ByController, string(s.UID))
	if err != nil {
		return nil, err
	}
	return fromSandbox(t, s, pods), nil
}

// Stamp writes the stamps and the record, in one write that is conditional on the
// workload being as it was seen. It makes no request if the workload has both. A
// *ConflictError says that others have a say.
func (a *Accessor) Stamp(ctx context.Context, w *Workload, want Stamps, record *Record) error {
	if w.Stamped(want) && w.hasRecord(record) {
		return nil
	}
	if record != nil && record.Observed && w.sandbox != nil && w.sandbox.stopped {
		// That it has no pod is what two caches say, its controller's and this one's.
		there, err := a.livePods(ctx, w)
		if err != nil {
			return err
		}
		if len(there) > 0 {
			unsure := *record
			unsure.Observed = false
			record = &unsure
		}
	}
	return a.apply(ctx, w, want, record)
}

// livePods are the UIDs of a Sandbox's pods as the server has them.
func (a *Accessor) livePods(ctx context.Context, w *Workload) ([]types.UID, error) {
	there, err := a.pods.ListPods(ctx, w.Namespace, agents.LabelSandboxNameHash+"="+agents.NameHash(w.Name))
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", w.Target, err)
	}
	var found []types.UID
	for _, p := range there {
		if control.IsControlledBy(p, w.UID) {
			found = append(found, p.UID)
		}
	}
	return found, nil
}

// Release takes off what this controller put on the workload, all but the record, if
// one is given. It makes no request if there is nothing on it. What others have changed
// since stays.
func (a *Accessor) Release(ctx context.Context, w *Workload, keep *Record) error {
	if keep == nil && !w.Bears() {
		return nil
	}
	removal, err := w.removal(keep)
	if err != nil {
		return err
	}
	switch obj := w.object.(type) {
	case *appsv1.Deployment:
		_, err = a.views.Deployments.Patch(ctx, obj, removal)
	case *appsv1.StatefulSet:
		_, err = a.views.StatefulSets.Patch(ctx, obj, removal)
	case *agents.Sandbox:
		_, err = a.views.Sandboxes.Patch(ctx, obj, removal)
	default:
		err = errNoSuchKind
	}
	return err
}

// Mark writes down, with the record, that the Sandbox's controller has seen the stamps
// and which pods there are now. They are read from the server: one that no cache shows
// yet may have been made just before.
func (a *Accessor) Mark(ctx context.Context, w *Workload) error {
	if w.Record == nil || w.sandbox == nil {
		return nil
	}
	there, err := a.livePods(ctx, w)
	if err != nil {
		return err
	}
	next := *w.Record
	next.Observed, next.Pods = true, there
	for _, p := range w.Pods {
		if !slices.Contains(next.Pods, p.UID) {
			next.Pods = append(next.Pods, p.UID)
		}
	}
	slices.Sort(next.Pods)
	if next.released() {
		return a.Release(ctx, w, &next)
	}
	return a.apply(ctx, w, next.Stamps, &next)
}

// ConfirmPod asks the server for a pod. The view shows it from then on as that answered.
func (a *Accessor) ConfirmPod(ctx context.Context, p Pod) error {
	_, _, err := a.views.Pods.Live(ctx, types.NamespacedName{Namespace: p.object.Namespace, Name: p.Name})
	return err
}

// DeletePod deletes a pod, by its UID.
func (a *Accessor) DeletePod(ctx context.Context, p Pod) error {
	return a.views.Pods.Delete(ctx, p.object, consistent.Precondition{AnyVersion: true})
}

func (w *Workload) hasRecord(r *Record) bool {
	has := w.Record
	if has == nil || r == nil {
		return has == r
	}
	return has.Runtime == r.Runtime && has.Stamps == r.Stamps && has.Generation == r.Generation &&
		has.Observed == r.Observed && slices.Equal(has.Pods, r.Pods)
}

func (a *Accessor) apply(ctx context.Context, w *Workload, want Stamps, record *Record) error {
	configuration, err := w.configuration(want, record)
	if err != nil {
		return err
	}
	switch obj := w.object.(type) {
	case *appsv1.Deployment:
		_, err = a.views.Deployments.Apply(ctx, obj, api.FieldManager, configuration)
	case *appsv1.StatefulSet:
		_, err = a.views.StatefulSets.Apply(ctx, obj, api.FieldManager, configuration)
	case *agents.Sandbox:
		_, err = a.views.Sandboxes.Apply(ctx, obj, api.FieldManager, configuration)
	default:
		err = errNoSuchKind
	}
	if causes := consistent.FieldConflicts(err); len(causes) > 0 {
		return conflictError(w.Target, causes)
	}
	return err
}
