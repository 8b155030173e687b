// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/consistent"
)

// The garbage collector's finalizers: the object stays until its dependents are gone,
// or have lost their reference to it.
const (
	foregroundFinalizer = metav1.FinalizerDeleteDependents
	orphanFinalizer     = metav1.FinalizerOrphanDependents
)

// Deletion is what a request to delete an object asks for. What is not set is not sent.
type Deletion struct {
	UID             types.UID
	ResourceVersion string
	// Propagation says what becomes of the object's dependents. Unset, the finalizers
	// of the object say so.
	Propagation metav1.DeletionPropagation
	// Grace is how many seconds a pod may take to end, instead of its own.
	Grace *int64
}

// Delete is Remove as a view asks for it.
func (s *Server) Delete(resource string, key types.NamespacedName, condition consistent.DeleteCondition) (client.Object, bool, error) {
	asked := Deletion{UID: condition.UID, ResourceVersion: condition.ResourceVersion, Propagation: metav1.DeletePropagationBackground}
	if condition.Foreground {
		asked.Propagation = metav1.DeletePropagationForeground
	}
	return s.Remove(resource, key, asked)
}

// Remove deletes an object. It returns the object if it lives on for a while.
func (s *Server) Remove(resource string, key types.NamespacedName, asked Deletion) (client.Object, bool, error) {
	t := s.tables[resource]
	old, ok := t.objects[key]
	if !ok {
		return nil, false, apierrors.NewNotFound(t.resource, key.Name)
	}
	if asked.UID != "" && asked.UID != old.GetUID() {
		return nil, false, apierrors.NewConflict(t.resource, key.Name, fmt.Errorf("UID in precondition: %s, UID in object meta: %s", asked.UID, old.GetUID()))
	}
	if asked.ResourceVersion != "" && asked.ResourceVersion != old.GetResourceVersion() {
		return nil, false, apierrors.NewConflict(t.resource, key.Name,
			fmt.Errorf("ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", asked.ResourceVersion, old.GetResourceVersion()))
	}
	obj := shallow(old)
	propagate(obj, asked.Propagation)
	grace := graceOf(old, asked.Grace)
	switch was := old.GetDeletionGracePeriodSeconds(); {
	case old.GetDeletionTimestamp() == nil:
		s.terminate(obj, grace)
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
	case was != nil && grace < *was: // a grace period is shortened, never prolonged
		s.terminate(obj, grace)
	}
	if len(obj.GetFinalizers()) == 0 && isImmediate(obj) {
		s.remove(t, key, obj)
		return nil, false, nil
	}
	return s.store(t, old, obj), true, nil
}

// terminate marks an object that is about to be deleted.
func (s *Server) terminate(obj client.Object, grace int64) {
	at := s.seconds(grace)
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&grace)
}

// propagate sets the finalizers of the garbage collector to what was asked for.
func propagate(obj client.Object, propagation metav1.DeletionPropagation) {
	wanted := map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: foregroundFinalizer, metav1.DeletePropagationOrphan: orphanFinalizer,
	}[propagation]
	if propagation == "" {
		return
	}
	finalizers := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
		return f != wanted && (f == foregroundFinalizer || f == orphanFinalizer)
	})
	if wanted != "" && !slices.Contains(finalizers, wanted) {
		finalizers = append(finalizers, wanted)
	}
	obj.SetFinalizers(finalizers)
}

// graceOf is how many seconds an object may take to end. Only a pod on a node that
// has not ended yet takes any.
func graceOf(obj client.Object, asked *int64) int64 {
	pod, ok := obj.(*corev1.Pod)
	switch {
	case !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return 0
	case asked != nil:
		return *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	default:
		return corev1.DefaultTerminationGracePeriodSeconds
	}
}
