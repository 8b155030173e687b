// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Selection is which objects of a resource a request is about.
type Selection struct {
	Labels labels.Selector // nil is any
	// Fields knows metadata.name and metadata.namespace; nil is any.
	Fields fields.Selector
}

// Includes reports whether an object is among those selected.
func (s Selection) Includes(obj client.Object) bool {
	return (s.Labels == nil || s.Labels.Matches(labels.Set(obj.GetLabels()))) &&
		(s.Fields == nil || s.Fields.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}))
}

// Select returns the objects of a resource that are selected, as List does.
func (s *Server) Select(resource string, which Selection) []client.Object {
	var found []client.Object
	for _, obj := range s.List(resource) {
		if which.Includes(obj) {
			found = append(found, obj)
		}
	}
	return found
}

// Watch returns the events of the selected objects of a resource after a version. An
// object that stops being selected is reported as deleted, one that begins to be as
// added.
func (s *Server) Watch(resource string, which Selection, after uint64) []watch.Event {
	var found []watch.Event
	was := map[types.NamespacedName]bool{}
	for _, event := range s.tables[resource].events {
		key := client.ObjectKeyFromObject(event.Object)
		before, now := was[key], !event.Deleted && which.Includes(event.Object)
		was[key] = now
		if event.Version <= after {
			continue
		}
		reported := watch.Event{Object: shallow(event.Object)}
		switch {
		case before && now:
			reported.Type = watch.Modified
		case now:
			reported.Type = watch.Added
		case before:
			reported.Type = watch.Deleted
		default:
			continue
		}
		found = append(found, reported)
	}
	return found
}

// Version is the version of the last change.
func (s *Server) Version() uint64 { return s.version }
