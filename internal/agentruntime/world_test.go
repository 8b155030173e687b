// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

const (
	operatorNamespace = "rossoctl-system"
	team              = "team"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// errCrash ends a pass as the end of the process would.
var errCrash = errors.New("crash")

// world is a small cluster whose views never lag: what is tested here is what the
// controller does with what it sees. Field managers, versions and generations are as a
// server has them.
type world struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	version  int
	writes   []string
	crashAt  int // the number of the write after which the process ends; 0 is none
	runtimes *table[*api.AgentRuntime]
	boxes    *table[*agents.Sandbox]
	webs     *table[*appsv1.Deployment]
	sets     *table[*appsv1.ReplicaSet]
	pods     *table[*corev1.Pod]
	maps     *table[*corev1.ConfigMap]
	options  Options
	events   []string
	r        *Reconciler

	// onWrite, if set, looks at the world right after each write of the controller's.
	onWrite func(what string)
	// revisions says that the Sandboxes' controller computes revisions.
	revisions bool
	// unready says that new pods do not become Ready.
	unready bool
	// asleep says that the Sandboxes' controller does nothing.
	asleep bool
	// created counts the pods there ever were, by owner.
	created map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakeClock(start), created: map[string]int{}}
	w.runtimes = newTable(w, kinds.AgentRuntimes())
	w.boxes = newTable(w, kinds.Sandboxes())
	w.webs = newTable(w, kinds.Deployments())
	w.sets = newTable(w, kinds.ReplicaSets())
	w.pods = newTable(w, kinds.Pods())
	w.maps = newTable(w, kinds.ConfigMaps())
	w.options = Options{OperatorNamespace: operatorNamespace, Lister: lister{w}}
	w.restart()
	return w
}

// restart is another process: all that is kept in memory is gone.
func (w *world) restart() {
	w.crashAt = 0
	w.r = New(control.Environment{Clock: w.clock, NewLock: func() sync.Locker { return &sync.Mutex{} }, Events: recorder{w}}, kinds.Views{
		AgentRuntimes: w.runtimes, Sandboxes: w.boxes, Deployments: w.webs, ReplicaSets: w.sets, Pods: w.pods, ConfigMaps: w.maps,
	}, w.options)
}

type recorder struct{ w *world }

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.w.events = append(r.w.events, regarding.(client.Object).GetName()+" "+reason)
}

type lister struct{ w *world }

func (l lister) ListPods(_ context.Context, namespace, _ string) ([]*corev1.Pod, error) {
	return l.w.pods.all(namespace), nil
}

func (l lister) ListConfigMaps(_ context.Context, namespace, _ string) ([]*corev1.ConfigMap, error) {
	return l.w.maps.By(context.Background(), kinds.ByDefaults, namespace)
}

// wrote records a write of the controller's, and ends the process if it is time.
func (w *world) wrote(what string) error {
	w.writes = append(w.writes, what)
	if w.onWrite != nil {
		w.onWrite(what)
	}
	if w.crashAt > 0 && len(w.writes) == w.crashAt {
		return errCrash
	}
	return nil
}

// pass lets the controller look at one AgentRuntime.
func (w *world) pass(name string) error {
	_, err := w.r.Reconcile(w.t.Context(), control.Request(team, name))
	if errors.Is(err, errCrash) {
		w.restart()
		return nil
	}
	return err
}

// settle lets everybody act until nothing changes.
func (w *world) settle() {
	w.t.Helper()
	for range 60 {
		before := w.version
		for _, a := range w.runtimes.all(team) {
			if err := w.pass(a.Name); err != nil {
				w.t.Fatalf("%s: %v", a.Name, err)
			}
		}
		if !w.asleep {
			w.play()
		}
		if w.version == before {
			return
		}
	}
	w.t.Fatalf("this does not come to rest; the last writes: %v", w.writes[max(0, len(w.writes)-12):])
}

// play is a round of everybody else: old pods end, Sandboxes get theirs.
func (w *world) play() {
	for _, p := range w.pods.all(team) {
		if p.DeletionTimestamp != nil {
			w.version++
			delete(w.pods.objects, client.ObjectKeyFromObject(p))
		}
	}
	for _, s := range w.boxes.all(team) {
		w.playSandbox(s)
	}
}

// playSandbox is a Sandbox's controller: one pod while it runs, labels and annotations
// in place, and the generation it has seen.
func (w *world) playSandbox(s *agents.Sandbox) {
	owned := w.podsOf(s)
	template := s.Spec.PodTemplate.Metadata
	switch {
	case s.Running() && len(owned) == 0:
		w.created[s.Name]++
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: team, Name: s.Name, Labels: template.Labels, Annotations: map[string]string{},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: s.Name, UID: s.UID, Controller: ptr.To(true)}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
		if w.unready {
			p.Status.Conditions = nil
		}
		if w.revisions {
			p.Annotations[agents.AnnotationTemplateRevision] = revisionOf(s)
		}
		owned = []*corev1.Pod{w.pods.put(p)}
	case !s.Running() && len(owned) > 0 && owned[0].DeletionTimestamp == nil:
		w.pods.expire(owned[0].Name)
	}
	for _, p := range owned {
		if p.Annotations[api.AnnotationConfigHash] != template.Annotations[api.AnnotationConfigHash] && p.DeletionTimestamp == nil {
			w.pods.edit(p.Name, func(p *corev1.Pod) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, api.AnnotationConfigHash, template.Annotations[api.AnnotationConfigHash])
			})
		}
	}
	next := s.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: agents.ConditionReady, Status: metav1.ConditionTrue, Reason: "DependenciesReady", ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(start),
	})
	if w.revisions {
		next.Status.ObservedGeneration, next.Status.UpdateRevision = s.Generation, revisionOf(s)
	}
	was, _ := json.Marshal(s.Status)
	is, _ := json.Marshal(next.Status)
	if !bytes.Equal(was, is) {
		w.boxes.put(next)
	}
}

func revisionOf(s *agents.Sandbox) string {
	return "v1-" + agents.NameHash(specOf(&agents.Sandbox{Spec: agents.SandboxSpec{SandboxBlueprint: s.Spec.SandboxBlueprint}}))
}

func (w *world) podsOf(s *agents.Sandbox) []*corev1.Pod {
	return w.pods.Peek(kinds.ByController, string(s.UID))
}

// box adds a Sandbox that runs.
func (w *world) box(name string, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
	for _, edit := range edits {
		edit(s)
	}
	return w.boxes.put(s)
}

// runtime adds an AgentRuntime for a Sandbox of the same name.
func (w *world) runtime(name string, edits ...func(*api.AgentRuntime)) *api.AgentRuntime {
	a := &api.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name},
		Spec: api.AgentRuntimeSpec{
			Type: api.RuntimeTypeAgent, MTLSMode: api.MTLSPermissive,
			TargetRef: api.TargetReference{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: name},
		},
	}
	for _, edit := range edits {
		edit(a)
	}
	return w.runtimes.put(a)
}

// configure sets the namespace's defaults.
func (w *world) configure(value string) {
	w.maps.put(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "defaults", UID: "defaults", Labels: map[string]string{api.LabelDefaults: api.DefaultsTrue}},
		Data:       map[string]string{"value": value},
	})
}

func (w *world) status(name string) api.AgentRuntimeStatus {
	w.t.Helper()
	a := w.runtimes.get(name)
	if a == nil {
		w.t.Fatalf("AgentRuntime %s is gone", name)
	}
	return a.Status
}

// expectReady checks Ready, by its reason.
func (w *world) expectReady(name string, reason string) {
	w.t.Helper()
	s := w.status(name)
	ready := saidOf(s, api.ConditionReady)
	if ready.Reason != reason || (reason == api.ReasonConfigured) != (s.Phase == api.PhaseActive) {
		w.t.Errorf("%s is %s, Ready is %s %s: %s; want %s", name, s.Phase, ready.Status, ready.Reason, ready.Message, reason)
	}
}

// expectCreated checks how many pods a Sandbox ever had.
func (w *world) expectCreated(name string, n int) {
	w.t.Helper()
	if w.created[name] != n {
		w.t.Errorf("%s had %d pods, want %d; writes: %v", name, w.created[name], n, w.writes)
	}
}
