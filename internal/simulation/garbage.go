// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Collect lets the garbage collector do one round of all that it has to do, and reports
// whether there was anything. The collector of a run works piece by piece instead.
func (s *Server) Collect() bool {
	found := append(s.orphans(), s.dependents()...)
	for _, j := range found {
		_ = s.dispose(j) // what somebody changed meanwhile is looked at again
	}
	_, _, released := s.release()
	return s.forget() || released || len(found) > 0
}

// lasting reports whether an owner exists and does not wait for its dependents to go.
func (s *Server) lasting(waiting map[types.UID]judgement) func(metav1.OwnerReference) bool {
	return func(owner metav1.OwnerReference) bool {
		_, waits := waiting[owner.UID]
		return s.uids[owner.UID] && !waits
	}
}

// forget takes the references to owners that are gone, or wait for their dependents to
// go, from what another owner keeps. It reports whether there was anything.
func (s *Server) forget() bool {
	lasts, changed := s.lasting(s.waiting(foregroundFinalizer)), false
	s.each(func(resource string, obj client.Object) {
		owners := obj.GetOwnerReferences()
		if slices.ContainsFunc(owners, lasts) && slices.ContainsFunc(owners, not(lasts)) {
			changed = true
			_ = s.Edit(resource, client.ObjectKeyFromObject(obj), func(obj client.Object) {
				obj.SetOwnerReferences(slices.DeleteFunc(obj.GetOwnerReferences(), not(lasts)))
			})
		}
	})
	return changed
}

// each calls do for every object.
func (s *Server) each(do func(resource string, obj client.Object)) {
	for _, resource := range s.order {
		for _, obj := range s.peek(resource) {
			do(resource, obj)
		}
	}
}

// orphans are the objects whose owners are all gone.
func (s *Server) orphans() []judgement {
	var found []judgement
	s.each(func(resource string, obj client.Object) {
		owners := obj.GetOwnerReferences()
		gone := func(owner metav1.OwnerReference) bool { return !s.uids[owner.UID] }
		if len(owners) > 0 && obj.GetDeletionTimestamp() == nil && !slices.ContainsFunc(owners, not(gone)) {
			found = append(found, judge(resource, obj))
		}
	})
	return found
}

func not[T any](holds func(T) bool) func(T) bool { return func(value T) bool { return !holds(value) } }

func judge(resource string, obj client.Object) judgement {
	return judgement{resource, client.ObjectKeyFromObject(obj), obj.GetUID(), obj.GetResourceVersion()}
}

// waiting are the objects in deletion that a finalizer of the garbage collector keeps.
func (s *Server) waiting(finalizer string) map[types.UID]judgement {
	var found map[types.UID]judgement
	s.each(func(resource string, obj client.Object) {
		if obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), finalizer) {
			if found == nil {
				found = map[types.UID]judgement{}
			}
			found[obj.GetUID()] = judge(resource, obj)
		}
	})
	return found
}

// dependents are the objects that must go before their owner does.
func (s *Server) dependents() []judgement {
	waiting := s.waiting(foregroundFinalizer)
	if waiting == nil {
		return nil
	}
	var found []judgement
	s.each(func(resource string, obj client.Object) {
		if obj.GetDeletionTimestamp() != nil || slices.ContainsFunc(obj.GetOwnerReferences(), s.lasting(waiting)) {
			return
		}
		for _, owner := range obj.GetOwnerReferences() {
			if _, ok := waiting[owner.UID]; ok {
				found = append(found, judge(resource, obj))
				return
			}
		}
	})
	return found
}

// dispose deletes what was judged, in the way its finalizers say, or in the foreground
// if its owner is and it has dependents of its own.
func (s *Server) dispose(j judgement) error {
	propagation := metav1.DeletePropagationBackground
	if obj := s.tables[j.resource].objects[j.key]; obj != nil {
		switch {
		case slices.Contains(obj.GetFinalizers(), orphanFinalizer):
			propagation = metav1.DeletePropagationOrphan
		case slices.Contains(obj.GetFinalizers(), foregroundFinalizer), s.ownerWaits(obj) && s.owns(j.uid):
			propagation = metav1.DeletePropagationForeground
		}
	}
	_, _, err := s.Remove(j.resource, j.key, Deletion{UID: j.uid, ResourceVersion: j.version, Propagation: propagation})
	return err
}

// ownerWaits reports whether an owner of obj waits for its dependents to go.
func (s *Server) ownerWaits(obj client.Object) bool {
	waiting := s.waiting(foregroundFinalizer)
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		_, ok := waiting[owner.UID]
		return ok
	})
}

// owns reports whether an object has dependents.
func (s *Server) owns(uid types.UID) bool {
	found := false
	s.each(func(_ string, obj client.Object) {
		found = found || slices.ContainsFunc(obj.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == uid })
	})
	return found
}

// release lets go of one object that waited for its dependents: for those that block
// its deletion to go, or for all to lose their reference to it.
func (s *Server) release() (resource string, key types.NamespacedName, ok bool) {
	waiting := s.waiting(foregroundFinalizer)
	if waiting != nil {
		s.each(func(_ string, obj client.Object) {
			for _, owner := range obj.GetOwnerReferences() {
				if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
					delete(waiting, owner.UID)
				}
			}
		})
	}
	if resource, key, ok = s.drop(waiting, foregroundFinalizer); ok {
		return resource, key, ok
	}
	abandoned := s.waiting(orphanFinalizer)
	for _, owner := range abandoned {
		s.orphan(owner.uid)
	}
	return s.drop(abandoned, orphanFinalizer)
}

// drop takes a finalizer from the first of the objects.
func (s *Server) drop(from map[types.UID]judgement, finalizer string) (resource string, key types.NamespacedName, ok bool) {
	if len(from) == 0 {
		return "", key, false
	}
	s.each(func(in string, obj client.Object) {
		if _, found := from[obj.GetUID()]; found && !ok {
			resource, key, ok = in, client.ObjectKeyFromObject(obj), true
		}
	})
	if ok {
		_ = s.Edit(resource, key, func(obj client.Object) {
			obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
		})
	}
	return resource, key, ok
}

// orphan takes the references to an owner from all its dependents.
func (s *Server) orphan(owner types.UID) {
	names := func(ref metav1.OwnerReference) bool { return ref.UID == owner }
	s.each(func(resource string, obj client.Object) {
		if slices.ContainsFunc(obj.GetOwnerReferences(), names) {
			_ = s.Edit(resource, client.ObjectKeyFromObject(obj), func(obj client.Object) {
				obj.SetOwnerReferences(slices.DeleteFunc(obj.GetOwnerReferences(), names))
			})
		}
	})
}
