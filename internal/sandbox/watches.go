// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// Watches implements control.Controller.
//
// A pod, Service or PersistentVolumeClaim wakes the Sandbox that controls it, and also
// the Sandbox that would have its name: that one may be waiting for the name. Objects
// that have nothing to do with Sandboxes wake nobody but when they come, go, or get
// another controller.
func (r *Reconciler) Watches() []control.Watch {
	return []control.Watch{
		{Object: &agents.Sandbox{}, Enqueue: onSandbox},
		{Object: &corev1.Pod{}, Enqueue: onNamesake},
		{Object: &corev1.Service{}, Enqueue: onNamesake},
		{Object: &corev1.PersistentVolumeClaim{}, Enqueue: onVolumeClaim},
	}
}

// onSandbox enqueues the Sandbox unless all that changed is its status, which the
// controller itself writes.
func onSandbox(before, after client.Object) []reconcile.Request {
	switch {
	case after == nil:
		return []reconcile.Request{control.Request(before.GetNamespace(), before.GetName())}
	case before == nil,
		before.GetResourceVersion() == after.GetResourceVersion(), // a resync
		before.GetUID() != after.GetUID(),
		before.GetGeneration() != after.GetGeneration(),
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil),
		!maps.Equal(before.GetLabels(), after.GetLabels()),
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()),
		!reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()):
		return []reconcile.Request{control.Request(after.GetNamespace(), after.GetName())}
	default:
		return nil
	}
}

// onNamesake is for objects that are named like their Sandbox.
func onNamesake(before, after client.Object) []reconcile.Request {
	var wake requests
	others := before == nil || after == nil || changesHands(before, after)
	for _, obj := range []client.Object{before, after} {
		if obj == nil {
			continue
		}
		if wake.controllerOf(obj) || others || concerns(obj, agents.NameHash(obj.GetName())) {
			wake.add(obj.GetNamespace(), obj.GetName())
		}
	}
	return wake
}

// onVolumeClaim is for volume claims, whose names end in a dash and the Sandbox's name.
// What happens to a claim while it stays the Sandbox's shows on the pod.
func onVolumeClaim(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before.GetResourceVersion() != after.GetResourceVersion() && sameRelations(before, after) {
		return nil
	}
	var wake requests
	others := after == nil || before != nil && changesHands(before, after)
	for _, obj := range []client.Object{before, after} {
		if obj == nil {
			continue
		}
		owned := wake.controllerOf(obj)
		if owned && !others {
			continue
		}
		for rest := obj.GetName(); ; {
			_, name, found := strings.Cut(rest, "-")
			if !found {
				break
			}
			if name != "" && (others || concerns(obj, agents.NameHash(name))) {
				wake.add(obj.GetNamespace(), name)
			}
			rest = name
		}
	}
	return wake
}

func sameRelations(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() &&
		maps.Equal(before.GetLabels(), after.GetLabels()) &&
		reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// changesHands reports whether an object got another controller, or is another object of
// the name. That is what is said to the Sandbox that would have the name.
func changesHands(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() || control.ControllerUID(before) != control.ControllerUID(after)
}

// concerns reports whether an object's labels let the Sandbox with the given name hash
// take it over.
func concerns(obj client.Object, hash string) bool {
	labels := obj.GetLabels()
	return labels[agents.LabelAdoptable] == agents.AdoptableTrue || labels[agents.LabelSandboxNameHash] == hash
}

// requests is a short list without duplicates.
type requests []reconcile.Request

func (r *requests) add(namespace, name string) {
	if request := control.Request(namespace, name); !slices.Contains(*r, request) {
		*r = append(*r, request)
	}
}

// controllerOf adds the Sandbox that controls obj, and reports whether one does.
func (r *requests) controllerOf(obj client.Object) bool {
	owner := control.ControllerOf(obj, agents.GroupName, agents.SandboxKind)
	if owner == nil {
		return false
	}
	r.add(obj.GetNamespace(), owner.Name)
	return true
}
