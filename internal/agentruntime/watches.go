// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/workload"
)

// wakeMore is how many more AgentRuntimes that wait are woken than there is room for:
// they make up for those that cannot begin.
const wakeMore = 2

// Watches implements control.Controller.
func (r *Reconciler) Watches() []control.Watch {
	return []control.Watch{
		{Object: &api.AgentRuntime{}, Enqueue: r.onRuntime},
		{Object: &appsv1.Deployment{}, Enqueue: r.onWorkload(appsv1.GroupName, "Deployment")},
		{Object: &appsv1.StatefulSet{}, Enqueue: r.onWorkload(appsv1.GroupName, "StatefulSet")},
		{Object: &agents.Sandbox{}, Enqueue: r.onWorkload(agents.GroupName, agents.SandboxKind)},
		{Object: &appsv1.ReplicaSet{}, Enqueue: r.onReplicaSet},
		{Object: &corev1.Pod{}, Enqueue: r.onPod},
		{Object: &corev1.ConfigMap{}, Enqueue: r.onConfigMap},
	}
}

// onRuntime wakes the AgentRuntime unless all that changed is its status, which the
// controller itself writes; those with the same target, of which another may be the
// oldest now; and those that wait until its pods are replaced, or could take its turn.
func (r *Reconciler) onRuntime(before, after client.Object) []reconcile.Request {
	var wake requests
	was, is := runtimeOf(before), runtimeOf(after)
	echo := was != nil && is != nil && was.ResourceVersion != is.ResourceVersion && sameButStatus(was, is)
	if is != nil && (!echo || waits(is) && !waits(was)) {
		// One that has just begun to wait looks once more: the last to be waited for may
		// have been done in between.
		wake.add(is.Namespace, is.Name)
	}
	if is == nil && was != nil {
		wake.add(was.Namespace, was.Name)
	}
	if !echo {
		for _, a := range []*api.AgentRuntime{was, is} {
			if a != nil {
				wake.addAll(r.views.AgentRuntimes.Peek(kinds.ByTarget, targetValue(a)))
			}
		}
	}
	if passesTurn(was, is) {
		wake.addAll(r.next(was.Namespace))
	}
	return wake
}

// passesTurn reports whether one is done, or waits no more without having begun: it may
// have been woken to begin, and another can instead. Of one that is told of as new nobody
// knows whether it was rolling. All are told of so when the process starts, and to look at
// all that wait for each of them would take long: who waits looks again after waitLimit.
func passesTurn(was, is *api.AgentRuntime) bool {
	return !isRollingNow(is) && (isRollingNow(was) || isWaitingNow(was) && !isWaitingNow(is))
}

// next are those that may begin now that one of the namespace is done: as many as there is
// room for, since of several that are done at once each wakes the first that wait. Those
// of other namespaces may have waited for the cluster's limit.
func (r *Reconciler) next(namespace string) []*api.AgentRuntime {
	now := r.env.Clock.Now()
	most := map[string]int{}
	var woken []*api.AgentRuntime
	for _, a := range r.views.AgentRuntimes.Peek(kinds.ByWaiting, kinds.Cluster) {
		if _, known := most[a.Namespace]; !known {
			most[a.Namespace] = r.room(a.Namespace)
			if a.Namespace == namespace {
				most[a.Namespace] += wakeMore
			}
		}
		if most[a.Namespace] == 0 || now.Before(dueAt(a, r.options.RestartJitter, a.Status.DesiredConfigHash)) {
			continue
		}
		most[a.Namespace]--
		woken = append(woken, a)
	}
	return woken
}

// room is how many more of a namespace the limits let begin, and at least one: what is
// counted may be late, and who cannot begin goes on waiting.
func (r *Reconciler) room(namespace string) int {
	room := math.MaxInt
	if most := r.options.MaxConcurrentRestarts; most > 0 {
		room = most - len(r.views.AgentRuntimes.Peek(kinds.ByRolling, namespace))
	}
	if most := r.options.MaxConcurrentRestartsInCluster; most > 0 {
		room = min(room, most-len(r.views.AgentRuntimes.Peek(kinds.ByRolling, kinds.Cluster)))
	}
	if room == math.MaxInt { // who waits does not wait for others
		return 1
	}
	return max(1, room)
}

func runtimeOf(obj client.Object) *api.AgentRuntime {
	a, _ := obj.(*api.AgentRuntime)
	return a
}

func isRollingNow(a *api.AgentRuntime) bool {
	return a != nil && kinds.IsRolling(a)
}

func isWaitingNow(a *api.AgentRuntime) bool { return a != nil && waits(a) }

func sameButStatus(before, after *api.AgentRuntime) bool {
	return before.UID == after.UID && before.Generation == after.Generation &&
		(before.DeletionTimestamp == nil) == (after.DeletionTimestamp == nil) &&
		maps.Equal(before.Annotations, after.Annotations) && slices.Equal(before.Finalizers, after.Finalizers)
}

func targetValue(a *api.AgentRuntime) string {
	gv, err := schema.ParseGroupVersion(a.Spec.TargetRef.APIVersion)
	if err != nil {
		return ""
	}
	return kinds.TargetValue(a.Namespace, gv.Group, a.Spec.TargetRef.Kind, a.Spec.TargetRef.Name)
}

// onWorkload wakes the AgentRuntimes that name a workload, in whatever version.
func (r *Reconciler) onWorkload(group, kind string) func(before, after client.Object) []reconcile.Request {
	return func(before, after client.Object) []reconcile.Request {
		obj := after
		if obj == nil {
			obj = before
		}
		return r.named(obj.GetNamespace(), group, kind, obj.GetName())
	}
}

// onReplicaSet wakes on ReplicaSets that come, go or change hands: pods are seen through
// them.
func (r *Reconciler) onReplicaSet(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before.GetResourceVersion() != after.GetResourceVersion() &&
		before.GetUID() == after.GetUID() && control.ControllerUID(before) == control.ControllerUID(after) {
		return nil
	}
	var wake requests
	for _, set := range []client.Object{before, after} {
		if set == nil {
			continue
		}
		if owner := control.ControllerOf(set, appsv1.GroupName, "Deployment"); owner != nil {
			wake.join(r.named(set.GetNamespace(), appsv1.GroupName, "Deployment", owner.Name))
		}
	}
	return wake
}

// onPod wakes those whose workload owns the pod, if what counts of it changed.
func (r *Reconciler) onPod(before, after client.Object) []reconcile.Request {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && was.ResourceVersion != is.ResourceVersion && samePod(was, is) {
		return nil
	}
	var wake requests
	for _, p := range []*corev1.Pod{was, is} {
		if p == nil {
			continue
		}
		if owner := control.ControllerOf(p, agents.GroupName, agents.SandboxKind); owner != nil {
			wake.join(r.named(p.Namespace, agents.GroupName, agents.SandboxKind, owner.Name))
		}
		if owner := control.ControllerOf(p, appsv1.GroupName, "StatefulSet"); owner != nil {
			wake.join(r.named(p.Namespace, appsv1.GroupName, "StatefulSet", owner.Name))
		}
		if owner := control.ControllerOf(p, appsv1.GroupName, "ReplicaSet"); owner != nil {
			for _, set := range r.views.ReplicaSets.Peek(kinds.ByUID, string(owner.UID)) {
				wake.join(r.onReplicaSet(nil, set))
			}
		}
	}
	return wake
}

func samePod(a, b *corev1.Pod) bool {
	x, y := podState(a), podState(b)
	return x == y && a.UID == b.UID && control.ControllerUID(a) == control.ControllerUID(b) &&
		a.Annotations[agents.AnnotationTemplateRevision] == b.Annotations[agents.AnnotationTemplateRevision]
}

type stateOfPod struct {
	phase       corev1.PodPhase
	ready       corev1.ConditionStatus
	terminating bool
	// made are the stamps of a StatefulSet's pod, which say what it was made from.
	made workload.Stamps
}

func podState(p *corev1.Pod) stateOfPod {
	s := stateOfPod{phase: p.Status.Phase, terminating: p.DeletionTimestamp != nil}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			s.ready = c.Status
		}
	}
	if control.ControllerOf(p, appsv1.GroupName, "StatefulSet") != nil {
		s.made = workload.Stamps{
			Type: p.Labels[api.LabelType], ConfigHash: p.Annotations[api.AnnotationConfigHash], MTLSMode: p.Annotations[api.AnnotationMTLSMode],
		}
	}
	return s
}

// onConfigMap wakes those whose configuration a ConfigMap is part of: everyone, or those
// of its namespace. Most ConfigMaps are part of none.
func (r *Reconciler) onConfigMap(before, after client.Object) []reconcile.Request {
	was, _ := before.(*corev1.ConfigMap)
	is, _ := after.(*corev1.ConfigMap)
	if was != nil && is != nil && was.UID == is.UID && maps.Equal(was.Data, is.Data) &&
		was.Labels[api.LabelDefaults] == is.Labels[api.LabelDefaults] && was.ResourceVersion != is.ResourceVersion {
		return nil
	}
	var wake requests
	for _, m := range []*corev1.ConfigMap{was, is} {
		if m == nil {
			continue
		}
		if m.Namespace == r.options.OperatorNamespace && confighash.IsCluster(m.Name) {
			wake.addAll(r.views.AgentRuntimes.Peek(kinds.ByScope, kinds.Cluster))
		}
		if confighash.IsNamespaced(m.Name, m.Labels) || r.listed.has(m.UID) {
			wake.addAll(r.views.AgentRuntimes.Peek(kinds.ByScope, m.Namespace))
		}
	}
	if is == nil && was != nil {
		r.listed.forget(was.UID)
	}
	return wake
}

func (r *Reconciler) named(namespace, group, kind, name string) []reconcile.Request {
	var wake requests
	wake.addAll(r.views.AgentRuntimes.Peek(kinds.ByTarget, kinds.TargetValue(namespace, group, kind, name)))
	return wake
}

// requests are requests without repetition, in the order they were added.
type requests []reconcile.Request

func (r *requests) add(namespace, name string) {
	r.join([]reconcile.Request{control.Request(namespace, name)})
}

func (r *requests) addAll(all []*api.AgentRuntime) {
	known := make(map[reconcile.Request]bool, len(*r)+len(all))
	for _, request := range *r {
		known[request] = true
	}
	for _, a := range all {
		if request := control.Request(a.Namespace, a.Name); !known[request] {
			known[request] = true
			*r = append(*r, request)
		}
	}
}

func (r *requests) join(more []reconcile.Request) {
	for _, request := range more {
		if !slices.Contains(*r, request) {
			*r = append(*r, request)
		}
	}
}
