// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/mergepatch"
)

// Event is one change of one object, as a watch reports it.
type Event struct {
	Object  client.Object
	Deleted bool
	Version uint64
}

// Server is the API server and its store: versions, UIDs, preconditions, the status
// subresource, graceful and foreground deletion. internal/simulation's conformance
// test holds it against the real one.
type Server struct {
	clock   *Clock
	version uint64
	made    int // how many objects were ever created
	tables  map[string]*table
	order   []string
	// uids are those of the objects that exist.
	uids   map[types.UID]bool
	merger mergepatch.Merger
	// managers are what has been applied to objects, by their UIDs and managers.
	managers map[types.UID]map[string]applied
	// exhausted are the resources whose quota allows no more objects.
	exhausted map[string]bool
	// Admit may refuse or change an object about to be stored. old is nil on create.
	Admit func(resource string, old, obj client.Object) error
	// Changed is called after each change.
	Changed func(resource string, before, after client.Object)
}

// table holds the objects of one resource and the events that made them.
type table struct {
	resource schema.GroupResource
	create   func() client.Object
	objects  map[types.NamespacedName]client.Object
	events   []Event
	// status is true if the resource has a status subresource.
	status bool
	// names are the keys of objects, sorted.
	names []types.NamespacedName
}

// NewServer returns an empty server.
func NewServer(clock *Clock) *Server {
	return &Server{clock: clock, tables: map[string]*table{}, uids: map[types.UID]bool{}, version: 1}
}

// Serve makes the server know a resource.
func (s *Server) Serve(resource schema.GroupResource, create func() client.Object, status bool) {
	s.tables[resource.Resource] = &table{resource: resource, create: create, status: status, objects: map[types.NamespacedName]client.Object{}}
	s.order = append(s.order, resource.Resource)
}

func (s *Server) next() string {
	s.version++
	return strconv.FormatUint(s.version, 10)
}

// Get returns an object, of which the caller may modify the fields but not what they
// refer to: everybody shares that, the server included.
func (s *Server) Get(resource string, key types.NamespacedName) (client.Object, error) {
	t := s.tables[resource]
	obj, ok := t.objects[key]
	if !ok {
		return nil, apierrors.NewNotFound(t.resource, key.Name)
	}
	return shallow(obj), nil
}

// List returns all objects of a resource, ordered by name, as Get does.
func (s *Server) List(resource string) []client.Object {
	all := s.peek(resource)
	for i, obj := range all {
		all[i] = shallow(obj)
	}
	return all
}

// peek returns the objects of a resource themselves, which must not be modified.
func (s *Server) peek(resource string) []client.Object {
	t := s.tables[resource]
	all := make([]client.Object, len(t.names))
	for i, key := range t.names {
		all[i] = t.objects[key]
	}
	return all
}

// Create stores a new object.
func (s *Server) Create(resource string, given client.Object) (client.Object, error) {
	t := s.tables[resource]
	obj := clone(given)
	key := client.ObjectKeyFromObject(obj)
	if obj.GetResourceVersion() != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	if _, ok := t.objects[key]; ok {
		return nil, apierrors.NewAlreadyExists(t.resource, key.Name)
	}
	if err := s.admit(t, nil, obj); err != nil {
		return nil, err
	}
	s.made++
	obj.SetUID(types.UID("uid-" + strconv.Itoa(s.made)))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(s.seconds(0))
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	if t.status {
		copyField(obj, t.create(), "Status")
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Status.Phase = corev1.PodPending
	}
	s.uids[obj.GetUID()] = true
	at, _ := slices.BinarySearchFunc(t.names, key, compareKeys)
	t.names = slices.Insert(t.names, at, key)
	return s.store(t, nil, obj), nil
}

// Patch merges a JSON merge patch into an object; subresource is "" or "status".
func (s *Server) Patch(resource string, key types.NamespacedName, subresource string, body []byte) (client.Object, error) {
	t := s.tables[resource]
	old, ok := t.objects[key]
	if !ok {
		return nil, apierrors.NewNotFound(t.resource, key.Name)
	}
	if subresource != "" && !t.status {
		return nil, notServed(t.resource, subresource)
	}
	patched, _, err := s.merger.Apply(old, body)
	if err != nil {
		return nil, unreadable(t.resource, old, err)
	}
	return s.replace(t, old, patched.(client.Object), subresource)
}

// replace puts obj in the place of old, as far as a request to a subresource may, if
// obj's preconditions hold.
func (s *Server) replace(t *table, old, obj client.Object, subresource string) (client.Object, error) {
	if obj.GetResourceVersion() != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(t.resource, old.GetName(), errModified)
	}
	// A write of the status of a custom resource keeps the metadata that there is.
	if obj.GetUID() != old.GetUID() && (subresource == "" || !isCustom(t.resource)) {
		return nil, invalid(t.resource, old, field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), obj.GetUID(), "field is immutable")})
	}
	if subresource == "status" {
		next := shallow(old)
		copyField(next, obj, "Status")
		return s.store(t, old, next), nil
	}
	return s.update(t, old, obj)
}

// errModified is why a write on an older version is refused.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// update stores a change of everything but the status.
func (s *Server) update(t *table, old, obj client.Object) (client.Object, error) {
	if old.GetDeletionTimestamp() == nil && obj.GetDeletionTimestamp() != nil {
		return nil, invalid(t.resource, old, field.ErrorList{field.Invalid(field.NewPath("metadata", "deletionTimestamp"), obj.GetDeletionTimestamp(), "field is immutable")})
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetGeneration(old.GetGeneration())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	if t.status {
		copyField(obj, old, "Status")
	}
	if err := s.admit(t, old, obj); err != nil {
		return nil, err
	}
	s.manage(obj)
	if !sameSpec(old, obj) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	return s.store(t, old, obj), nil
}

// admit refuses or changes an object about to be stored.
func (s *Server) admit(t *table, old, obj client.Object) error {
	if err := validMetadata(t, old, obj); err != nil {
		return err
	}
	if s.Admit != nil {
		return s.Admit(t.resource.Resource, old, obj)
	}
	return nil
}

// store puts obj in the place of old, unless nothing changed. An object in deletion
// whose last finalizer is gone is removed.
func (s *Server) store(t *table, old, obj client.Object) client.Object {
	key := client.ObjectKeyFromObject(obj)
	if old != nil && sameObject(old, obj) {
		return shallow(old)
	}
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && isImmediate(obj) {
		return s.remove(t, key, obj)
	}
	obj.SetResourceVersion(s.next())
	t.objects[key] = obj
	t.events = append(t.events, Event{Object: obj, Version: s.version})
	if s.Changed != nil {
		s.Changed(t.resource.Resource, old, obj)
	}
	return shallow(obj)
}

// isImmediate reports whether an object in deletion waits for nothing but finalizers.
func isImmediate(obj client.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

func (s *Server) remove(t *table, key types.NamespacedName, last client.Object) client.Object {
	old := t.objects[key]
	delete(t.objects, key)
	delete(s.uids, old.GetUID())
	if at, ok := slices.BinarySearchFunc(t.names, key, compareKeys); ok {
		t.names = slices.Delete(t.names, at, at+1)
	}
	last = shallow(last)
	last.SetResourceVersion(s.next())
	t.events = append(t.events, Event{Object: last, Deleted: true, Version: s.version})
	if s.Changed != nil {
		s.Changed(t.resource.Resource, old, nil)
	}
	return last
}

// seconds is the time so many seconds from now, as objects carry it.
func (s *Server) seconds(from int64) metav1.Time {
	return metav1.NewTime(s.clock.Now().Add(time.Duration(from) * time.Second).Truncate(time.Second))
}

// Finish removes an object whose grace has passed, as the kubelet does with a pod.
func (s *Server) Finish(resource string, key types.NamespacedName) {
	t := s.tables[resource]
	old, ok := t.objects[key]
	if !ok {
		return
	}
	obj := shallow(old)
	none := int64(0)
	obj.SetDeletionGracePeriodSeconds(&none)
	s.store(t, old, obj)
}

// Edit changes an object's metadata and spec, as somebody does who reads and writes
// without being interrupted.
func (s *Server) Edit(resource string, key types.NamespacedName, edit func(client.Object)) error {
	t := s.tables[resource]
	old, ok := t.objects[key]
	if !ok {
		return apierrors.NewNotFound(t.resource, key.Name)
	}
	obj := clone(old)
	edit(obj)
	_, err := s.update(t, old, obj)
	return err
}

// EditStatus changes all of an object at once, as the kubelet and the scheduler do.
func (s *Server) EditStatus(resource string, key types.NamespacedName, edit func(client.Object)) {
	t := s.tables[resource]
	old := t.objects[key]
	obj := clone(old)
	edit(obj)
	s.store(t, old, obj)
}

// shallow is a copy that shares what the fields of obj refer to.
func shallow[T client.Object](obj T) T {
	from := reflect.ValueOf(obj)
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(T)
}

func clone(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }
