// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/sandbox"
)

// frozen is an informer's store that shows one object, or none, for ever.
type frozen struct {
	obj     client.Object
	version uint64
}

func (f frozen) Get(key types.NamespacedName) (any, bool) {
	if f.obj == nil || client.ObjectKeyFromObject(f.obj) != key {
		return nil, false
	}
	return f.obj, true
}
func (f frozen) ByIndex(string, string) []any { return nil }
func (f frozen) Version() uint64              { return f.version }

func frozenView[T client.Object](t *testing.T, config *rest.Config, kind kinds.Kind[T], store frozen) consistent.Kind[T] {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	api, err := consistent.NewAPI[T](consistent.Server{Config: config, HTTP: httpClient, Scheme: manager.Scheme()}, kind.GVK, kind.Resource)
	if err != nil {
		t.Fatal(err)
	}
	return consistent.New(consistent.Options[T]{Name: kind.Resource, API: api, Store: store, Clock: clock.RealClock{}, Indexes: kind.Indexes, Transform: kind.Slim})
}

// inTurn makes calls one after another.
type inTurn struct{}

func (inTurn) Each(ctx context.Context, n int, do func(context.Context, int) error) error {
	for i := range n {
		if err := do(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// TestACacheThatIsBehind is for a controller that has just taken over from another: its
// informer of pods does not show what the other made.
func TestACacheThatIsBehind(t *testing.T) {
	cases := map[string]struct {
		owner func(*agents.Sandbox) []metav1.OwnerReference
		edit  func(*agents.Sandbox)
		want  string // the status and reason of Ready
		gone  bool   // the pod is being deleted
	}{
		"a pod that is ours is no error": {owner: ours, want: "False/DependenciesNotReady"},
		"one that is another's is": {owner: func(*agents.Sandbox) []metav1.OwnerReference {
			return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web-uid", Controller: ptr.To(true)}}
		}, want: "False/ReconcilerError"},
		"a suspended Sandbox is not called suspended while it has one": {owner: ours, edit: suspendedMode, want: "False/SandboxSuspended", gone: true},
		"an expired Sandbox is not called clean":                       {owner: ours, edit: expired, want: "False/SandboxExpired", gone: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.manager.Stop(t)
			box := s.box()
			if c.edit != nil {
				c.edit(box)
			}
			s.create(box)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "box", OwnerReferences: c.owner(box)},
				Spec:       *box.Spec.PodTemplate.Spec.DeepCopy(),
			}
			s.create(pod)
			config := clustertest.RESTConfig(t, cluster, "behind")
			seen, err := strconv.ParseUint(box.ResourceVersion, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			controller := sandbox.New(
				control.Environment{Clock: clock.RealClock{}, Group: inTurn{}, Events: events.NewFakeRecorder(10)},
				kinds.Views{
					Sandboxes:    frozenView(t, config, kinds.Sandboxes(), frozen{box.DeepCopy(), seen}),
					Pods:         frozenView(t, config, kinds.Pods(), frozen{nil, seen}),
					Services:     frozenView(t, config, kinds.Services(), frozen{nil, seen}),
					VolumeClaims: frozenView(t, config, kinds.VolumeClaims(), frozen{nil, seen}),
				}, sandbox.Options{})
			result, err := controller.Reconcile(s.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(box)})
			if err != nil {
				t.Fatal(err)
			}
			// What is mere progress of a pod just made is told a moment later.
			if s.exists(box); result.RequeueAfter == 0 && says(box, agents.ConditionReady) != c.want {
				t.Errorf("Ready is %q, want %q", says(box, agents.ConditionReady), c.want)
			}
			if says(box, agents.ConditionSuspended) == "True/PodTerminated" {
				t.Error("it is called suspended")
			}
			uid := pod.UID
			if !s.exists(pod) || pod.UID != uid || (pod.DeletionTimestamp != nil) != c.gone {
				t.Errorf("the pod is %+v", pod.ObjectMeta)
			}
		})
	}
}

func ours(box *agents.Sandbox) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(box, agents.GroupVersion.WithKind(agents.SandboxKind))}
}

func suspendedMode(box *agents.Sandbox) { box.Spec.OperatingMode = agents.OperatingModeSuspended }

func expired(box *agents.Sandbox) {
	long := metav1.Unix(1_700_000_000, 0)
	box.Spec.ShutdownTime = &long
}
