// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

// madeBy are the pods of one ReplicaSet, whose template does not change.
type madeBy struct {
	replicaSet *appsv1.ReplicaSet
	pods       []*corev1.Pod
}

func fromDeployment(t Target, d *appsv1.Deployment, sets []madeBy) *Workload {
	template := d.Spec.Template
	w := &Workload{
		Target: t, UID: d.UID, Generation: d.Generation, Deleting: d.DeletionTimestamp != nil,
		Has:     stampsOf(template.Labels, template.Annotations),
		Desired: ptr.Deref(d.Spec.Replicas, 1),
		settled: d.Status.ObservedGeneration >= d.Generation,
		Volumes: volumesOf(template.Spec),
		object:  d,
	}
	w.describe(d)
	if d.Spec.Paused {
		w.Held = "the Deployment is paused"
	}
	for _, set := range sets {
		of := set.replicaSet.Spec.Template
		for _, p := range set.pods {
			pod := podOf(p)
			pod.made = stampsOf(of.Labels, of.Annotations)
			w.Pods = append(w.Pods, pod)
		}
	}
	return w
}

func fromStatefulSet(t Target, s *appsv1.StatefulSet, pods []*corev1.Pod) *Workload {
	template := s.Spec.Template
	w := &Workload{
		Target: t, UID: s.UID, Generation: s.Generation, Deleting: s.DeletionTimestamp != nil,
		Has:     stampsOf(template.Labels, template.Annotations),
		Desired: ptr.Deref(s.Spec.Replicas, 1),
		settled: s.Status.ObservedGeneration >= s.Generation,
		Volumes: volumesOf(template.Spec),
		object:  s,
	}
	w.describe(s)
	switch strategy := s.Spec.UpdateStrategy; {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		w.Held = "the StatefulSet's updateStrategy is OnDelete"
	case strategy.RollingUpdate != nil && ptr.Deref(strategy.RollingUpdate.Partition, 0) > 0:
		w.Held = fmt.Sprintf("the StatefulSet's partition is %d", *strategy.RollingUpdate.Partition)
	}
	for _, p := range pods {
		pod := podOf(p)
		pod.made = stampsOf(p.Labels, p.Annotations) // a StatefulSet changes neither on a pod
		w.Pods = append(w.Pods, pod)
	}
	return w
}

// describe reads the labels and annotations of the workload itself.
func (w *Workload) describe(obj client.Object) {
	w.labelType, w.managedBy = obj.GetLabels()[api.LabelType], obj.GetLabels()[api.LabelManagedBy]
	w.Record = recordOf(obj.GetAnnotations())
}

func volumesOf(spec corev1.PodSpec) []string {
	var names []string
	for i := range spec.Volumes {
		names = append(names, spec.Volumes[i].Name)
	}
	return names
}

func (w *Workload) nextMoveOfOthers(want Stamps) (Move, []Pod, string) {
	old := w.Outdated(want)
	switch {
	case !w.settled:
		return Await, nil, fmt.Sprintf("the %s's controller has to see generation %d", w.Kind, w.Generation)
	case len(old) == 0:
		return Nothing, nil, ""
	case w.Held != "":
		return Await, nil, fmt.Sprintf("%d pods are outdated, and %s", len(old), w.Held)
	default:
		return Await, nil, fmt.Sprintf("%d outdated pods are left", len(old))
	}
}
