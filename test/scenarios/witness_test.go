// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// scene is what there is in a namespace at one moment, by name. It does not change.
type scene struct {
	pods      map[string]*corev1.Pod
	sandboxes map[string]*agents.Sandbox
	claims    map[string]*extensions.SandboxClaim
	pools     map[string]*extensions.SandboxWarmPool
	runtimes  map[string]*agentruntimes.AgentRuntime
}

// witness sees everything that happens in a namespace, straight from the server, and
// notes what may not happen in any scenario.
type witness struct {
	mu         sync.Mutex
	now        scene
	changed    chan struct{} // closed at the next change
	twoPods    bool          // the scenario itself makes a second pod
	violations []string
}

func watchNamespace(s *story) *witness {
	s.Helper()
	w := &witness{changed: make(chan struct{})}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &agents.SandboxList{}, &extensions.SandboxClaimList{}, &extensions.SandboxWarmPoolList{}, &agentruntimes.AgentRuntimeList{}} {
		s.must(s.client.List(s.ctx, list, client.InNamespace(s.namespace)))
		s.must(meta.EachListItem(list, func(object runtime.Object) error {
			w.note(watch.Event{Type: watch.Added, Object: object})
			return nil
		}))
		events, err := s.client.Watch(s.ctx, list, client.InNamespace(s.namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		s.must(err)
		s.Cleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				w.note(event)
			}
		}()
	}
	return w
}

func (w *witness) note(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := event.Type != watch.Deleted
	switch object := event.Object.(type) {
	case *corev1.Pod:
		w.now.pods = with(w.now.pods, object, there)
	case *agents.Sandbox:
		w.now.sandboxes = with(w.now.sandboxes, object, there)
	case *extensions.SandboxClaim:
		w.now.claims = with(w.now.claims, object, there)
	case *extensions.SandboxWarmPool:
		w.now.pools = with(w.now.pools, object, there)
	case *agentruntimes.AgentRuntime:
		w.now.runtimes = with(w.now.runtimes, object, there)
	}
	if there {
		w.judge(event.Object)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// with is a copy of what there is, with or without an object.
func with[T client.Object](all map[string]T, object T, there bool) map[string]T {
	next := map[string]T{}
	maps.Copy(next, all)
	if there {
		next[object.GetName()] = object
	} else {
		delete(next, object.GetName())
	}
	return next
}

// judge notes what a change may not have brought about.
func (w *witness) judge(changed runtime.Object) {
	switch object := changed.(type) {
	case *corev1.Pod:
		if n := countOwned(w.now.pods, owner(object)); n > 1 && !w.twoPods {
			w.violation("%d pods have the Sandbox of pod %s as their owner at the same time", n, object.Name)
		}
	case *agents.Sandbox:
		if c := meta.FindStatusCondition(object.Status.Conditions, agents.ConditionReady); c != nil && c.Reason == agents.ReasonReconcilerError {
			w.violation("Sandbox %s is in an error: %s", object.Name, c.Message)
		}
		for _, pool := range w.now.pools {
			if n := countOwned(w.now.sandboxes, string(pool.UID)); pool.Spec.Replicas != nil && n > int(*pool.Spec.Replicas) && pool.DeletionTimestamp == nil {
				w.violation("pool %s has %d members of %d", pool.Name, n, *pool.Spec.Replicas)
			}
		}
	case *extensions.SandboxClaim:
		for _, other := range w.now.claims {
			if uid := object.Status.Sandbox.UID; uid != "" && other.UID != object.UID && other.Status.Sandbox.UID == uid {
				w.violation("claims %s and %s are bound to the same Sandbox %s", object.Name, other.Name, object.Status.Sandbox.Name)
			}
		}
	}
}

func (w *witness) violation(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

func (w *witness) found() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

// allowTwoPods is for a scenario that makes a second pod itself.
func (w *witness) allowTwoPods() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.twoPods = true
}

// scene is what there is now, and what is closed when that changes.
func (w *witness) scene() (scene, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now, w.changed
}

func (w *witness) until(ctx context.Context, is func() bool) error {
	for {
		_, changed := w.scene()
		if is() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isTrue says whether a Sandbox has a condition that is True, in a status of its present
// generation.
func (w scene) isTrue(sandbox, condition string) bool {
	s := w.sandboxes[sandbox]
	return s != nil && s.Status.ObservedGeneration == s.Generation && meta.IsStatusConditionTrue(s.Status.Conditions, condition)
}

// reason is the reason of a condition in a status of the Sandbox's present generation.
func (w scene) reason(sandbox, condition string) string {
	s := w.sandboxes[sandbox]
	if s == nil || s.Status.ObservedGeneration != s.Generation {
		return ""
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}

// ready says whether a claim is Ready.
func (w scene) ready(claim string) bool {
	c := w.claims[claim]
	return c != nil && meta.IsStatusConditionTrue(c.Status.Conditions, agents.ConditionReady)
}

// configured says whether an AgentRuntime is Active, with pods that have the configuration
// as it is, and not as it was with another hash.
func (w scene) configured(runtime string, pods int32, not string) bool {
	a := w.runtimes[runtime]
	return a != nil && a.Status.Phase == agentruntimes.PhaseActive && a.Status.ConfiguredPods == pods &&
		a.Status.AppliedConfigHash == a.Status.DesiredConfigHash && a.Status.AppliedConfigHash != not
}

// String is what there is.
func (w scene) String() string {
	var b strings.Builder
	for _, pod := range w.pods {
		fmt.Fprintf(&b, "  pod %s (%s) %s deleted=%v ready=%v\n", pod.Name, pod.UID, pod.Status.Phase, pod.DeletionTimestamp, isReady(pod))
	}
	for _, s := range w.sandboxes {
		fmt.Fprintf(&b, "  sandbox %s of %s: %v\n", s.Name, owner(s), s.Status)
	}
	for _, c := range w.claims {
		fmt.Fprintf(&b, "  claim %s (%s): %v\n", c.Name, c.UID, c.Status)
	}
	for _, p := range w.pools {
		fmt.Fprintf(&b, "  pool %s (%s): %v\n", p.Name, p.UID, p.Status)
	}
	for _, a := range w.runtimes {
		fmt.Fprintf(&b, "  agentruntime %s (%s): %+v\n", a.Name, a.UID, a.Status)
	}
	return b.String()
}

// owner is the UID of an object's controller.
func owner(object client.Object) string {
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return string(ref.UID)
	}
	return ""
}

func countOwned[T client.Object](all map[string]T, uid string) int {
	n := 0
	for _, object := range all {
		if uid != "" && owner(object) == uid {
			n++
		}
	}
	return n
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
