// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

// history is every change of a namespace's pods and AgentRuntimes. The server counts the
// writes of all kinds with one number, so what two watches say can be put in order.
type history struct {
	mu      sync.Mutex
	all     []change
	ended   []string      // watches that ended too early, so that something is missing
	changed chan struct{} // closed at the next change
}

// change is what an object was from one write on.
type change struct {
	version uint64
	gone    bool
	object  client.Object // *corev1.Pod or *api.AgentRuntime
}

// record begins with what is there and goes on until the test ends.
func record(ctx context.Context, t *testing.T, c client.WithWatch, namespace string) *history {
	t.Helper()
	h := &history{changed: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	var recorders sync.WaitGroup
	t.Cleanup(func() { stop(); recorders.Wait() })
	for _, list := range []client.ObjectList{&corev1.PodList{}, &api.AgentRuntimeList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		if meta.LenList(list) > 0 {
			t.Fatalf("what was there before cannot be told: %T has %d items", list, meta.LenList(list))
		}
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		events, err := c.Watch(ctx, list, client.InNamespace(namespace), from)
		if err != nil {
			t.Fatal(err)
		}
		recorders.Go(func() {
			defer events.Stop()
			for event := range events.ResultChan() {
				h.note(event)
			}
			if ctx.Err() == nil {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.ended = append(h.ended, fmt.Sprintf("%T", list))
			}
		})
	}
	return h
}

func (h *history) note(event watch.Event) {
	object, ok := event.Object.(client.Object)
	if !ok {
		return
	}
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, change{version, event.Type == watch.Deleted, object})
	close(h.changed)
	h.changed = make(chan struct{})
}

// inOrder are all changes until now, and what is closed at the next.
func (h *history) inOrder() ([]change, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.all)
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.version, b.version) })
	return all, h.changed
}

// until waits until what there is is as wanted.
func (h *history) until(ctx context.Context, t *testing.T, what string, wanted func(moment) bool) moment {
	t.Helper()
	for {
		all, changed := h.inOrder()
		now, _ := replay(all)
		if wanted(now) {
			return now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("it never came about that %s: %v\n%s", what, ctx.Err(), now)
		}
	}
}

// violations is what was so at any moment and may never be.
func (h *history) violations() []string {
	all, _ := h.inOrder()
	_, found := replay(all)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kind := range h.ended {
		found = append(found, "the watch of "+kind+" ended too early")
	}
	return found
}

// pod is a pod with what it was made from. Its annotations may be changed later; how it
// was created does not.
type pod struct {
	*corev1.Pod
	workload string // its controller, of the name that people gave it
	hash     string // when it was created
}

func (p pod) live() bool { return p.DeletionTimestamp == nil && !p.finished() }

func (p pod) finished() bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (p pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// moment is what there is between two writes.
type moment struct {
	pods     map[types.UID]pod
	runtimes map[string]*api.AgentRuntime
	// made counts all pods that were ever created, by workload and hash.
	made map[string]map[string]int
}

// replay goes through the changes and returns what there is in the end, and what was at
// some moment that may never be.
func replay(all []change) (moment, []string) {
	now := moment{pods: map[types.UID]pod{}, runtimes: map[string]*api.AgentRuntime{}, made: map[string]map[string]int{}}
	var violations []string
	for _, c := range all {
		now.apply(c)
		for name, a := range now.runtimes {
			problems := now.oldPods(a)
			if c.object == a && a.DeletionTimestamp == nil { // what it said before may be out of date by now
				problems = append(problems, now.miscounted(a)...)
			}
			for _, problem := range problems {
				violations = append(violations, fmt.Sprintf("at %d AgentRuntime %s %s", c.version, name, problem))
			}
		}
	}
	return now, violations
}

func (m moment) apply(c change) {
	switch object := c.object.(type) {
	case *corev1.Pod:
		before, known := m.pods[object.UID]
		switch {
		case c.gone:
			delete(m.pods, object.UID)
		case known:
			before.Pod = object
			m.pods[object.UID] = before
		default:
			p := pod{object, workloadOf(object), object.Annotations[api.AnnotationConfigHash]}
			m.pods[object.UID] = p
			if m.made[p.workload] == nil {
				m.made[p.workload] = map[string]int{}
			}
			m.made[p.workload][p.hash]++
		}
	case *api.AgentRuntime:
		m.runtimes[object.Name] = object
		if c.gone {
			delete(m.runtimes, object.Name)
		}
	}
}

// workloadOf is the name of the workload that owns a pod.
func workloadOf(p *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(p)
	switch {
	case owner == nil:
		return ""
	case owner.Kind == "ReplicaSet":
		return owner.Name[:max(strings.LastIndex(owner.Name, "-"), 0)]
	default:
		return owner.Name
	}
}

// of are a workload's pods.
func (m moment) of(workload string) []pod {
	return slices.Collect(func(yield func(pod) bool) {
		for _, p := range m.pods {
			if p.workload == workload && !yield(p) {
				return
			}
		}
	})
}

// oldPods says which pods run that were made with anything else, though the AgentRuntime is
// Ready. Pods on their way out run too.
func (m moment) oldPods(a *api.AgentRuntime) []string {
	var found []string
	if !meta.IsStatusConditionTrue(a.Status.Conditions, api.ConditionReady) {
		return nil
	}
	for _, p := range m.of(a.Spec.TargetRef.Name) {
		if !p.finished() && p.hash != a.Status.AppliedConfigHash {
			found = append(found, fmt.Sprintf("is Ready with %.12q while pod %s runs, which was made with %.12q", a.Status.AppliedConfigHash, p.Name, p.hash))
		}
	}
	return found
}

// miscounted says which pods the AgentRuntime counts that there are not.
func (m moment) miscounted(a *api.AgentRuntime) []string {
	configured, ready := int32(0), int32(0)
	for _, p := range m.of(a.Spec.TargetRef.Name) {
		if p.live() && p.hash == a.Status.AppliedConfigHash {
			configured++
			if p.ready() {
				ready++
			}
		}
	}
	var found []string
	if a.Status.ConfiguredPods > configured {
		found = append(found, fmt.Sprintf("counts %d pods made with %.12q, and there are %d", a.Status.ConfiguredPods, a.Status.AppliedConfigHash, configured))
	}
	if pods := a.Status.Pods; pods != nil && a.Status.DesiredConfigHash == a.Status.AppliedConfigHash && pods.Ready > ready {
		found = append(found, fmt.Sprintf("counts %d ready pods made with %.12q, and there are %d", pods.Ready, a.Status.AppliedConfigHash, ready))
	}
	return found
}

func (m moment) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.runtimes)) {
		fmt.Fprintf(&b, "agentruntime %s: %+v\n", name, m.runtimes[name].Status)
	}
	for _, p := range m.pods {
		fmt.Fprintf(&b, "pod %s of %s, made with %.12q, %s, ready %v, deleted %v\n", p.Name, p.workload, p.hash, p.Status.Phase, p.ready(), p.DeletionTimestamp)
	}
	return b.String()
}

// TestTheHistoryTellsALie looks at what the tests of AgentRuntimes rest on.
func TestTheHistoryTellsALie(t *testing.T) {
	version := uint64(0)
	next := func(object client.Object, gone bool) change {
		version++
		return change{version, gone, object}
	}
	box := func(uid, hash string, deleted, ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: types.UID(uid), Annotations: map[string]string{api.AnnotationConfigHash: hash}}}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Sandbox", Name: "box", Controller: ptr.To(true)}}
		if deleted {
			p.DeletionTimestamp = &metav1.Time{}
		}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	says := func(hash string, ready bool, configured int32) *api.AgentRuntime {
		a := &api.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: "box"}}
		a.Spec.TargetRef.Name = "box"
		a.Status = api.AgentRuntimeStatus{AppliedConfigHash: hash, ConfiguredPods: configured}
		if ready {
			a.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue}}
		}
		return a
	}
	for name, c := range map[string]struct {
		all  []change
		want string
	}{
		"none where the old pod is gone before": {[]change{
			next(box("1", "old", false, true), false), next(says("old", true, 1), false), next(says("old", false, 1), false),
			next(box("1", "old", true, true), false), next(box("1", "old", true, true), true),
			next(box("2", "new", false, false), false), next(says("new", false, 1), false), next(box("2", "new", false, true), false), next(says("new", true, 1), false),
		}, ""},
		"where the old pod is only told that it has the new hash": {[]change{
			next(box("1", "old", false, true), false), next(box("1", "new", false, true), false), next(says("new", true, 0), false),
		}, "which was made with \"old\""},
		"where the old pod takes its time to stop": {[]change{
			next(box("1", "old", true, true), false), next(box("2", "new", false, true), false), next(says("new", true, 1), false),
		}, "which was made with \"old\""},
		"where an old pod comes once more": {[]change{
			next(box("1", "new", false, true), false), next(says("new", true, 1), false), next(box("2", "old", false, true), false),
		}, "which was made with \"old\""},
		"where a pod is counted before there is one": {[]change{
			next(box("1", "old", false, true), false), next(says("new", false, 1), false), next(box("2", "new", false, true), false),
		}, "counts 1 pods"},
		"where a pod is counted that is on its way out": {[]change{
			next(box("1", "new", true, true), false), next(says("new", false, 1), false),
		}, "counts 1 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := replay(c.all)
			if told := strings.Join(found, "; "); !strings.Contains(told, c.want) || (c.want == "") != (told == "") {
				t.Errorf("found %q, want %q", told, c.want)
			}
		})
	}
}
