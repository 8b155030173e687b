// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applied is what a field manager has applied to an object: the values of fields by
// their paths. Lists count as one value.
type applied map[string]appliedValue

type appliedValue struct {
	value any
	// shared: the field had the value before and no manager had applied it, so that
	// somebody who does not apply wants it too.
	shared bool
}

// Apply is a server-side apply of a configuration, which has to name its object. Fields
// are owned by the manager that applied them for as long as they have its value; what
// is not in the configuration any more is removed. A field that somebody else gave
// another value is a conflict, unless forced.
func (s *Server) Apply(resource string, key types.NamespacedName, manager string, force bool, configuration []byte) (client.Object, error) {
	t := s.tables[resource]
	var wanted map[string]any
	if err := json.Unmarshal(configuration, &wanted); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fields, err := managedFields(t, wanted)
	if err != nil {
		return nil, err
	}
	old, exists := t.objects[key]
	if metadata, _ := wanted["metadata"].(map[string]any); !exists && metadata["uid"] != nil {
		return nil, apierrors.NewConflict(t.resource, key.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %v, and no existing object was found", metadata["uid"]))
	}
	if !exists {
		return s.applyNew(t, key, manager, fields)
	}
	if err := preconditions(t, old, wanted); err != nil {
		return nil, err
	}
	now, document, err := leavesOf(old)
	if err != nil {
		return nil, err
	}
	before := s.managers[old.GetUID()][manager]
	mine, conflicts := s.claimed(old.GetUID(), manager, now, fields)
	if len(conflicts) > 0 && !force {
		return nil, fieldConflict(t, key.Name, conflicts)
	}
	for path, value := range fields {
		put(document, path, value)
	}
	for path, was := range before {
		_, still := fields[path]
		if !still && !was.shared && reflect.DeepEqual(now[path], was.value) && !s.appliedByOthers(old.GetUID(), manager, path, was.value) {
			put(document, path, nil)
		}
	}
	obj, err := typed(t, document)
	if err != nil {
		return nil, err
	}
	s.own(old.GetUID(), manager, mine)
	reply, err := s.update(t, old, obj)
	if err != nil {
		s.own(old.GetUID(), manager, before)
	}
	return reply, err
}

// fieldConflict is the answer to an apply that would change what others have set.
func fieldConflict(t *table, name string, paths []string) error {
	err := apierrors.NewConflict(t.resource, name, fmt.Errorf("apply conflicts with other managers in %v", paths))
	for _, path := range paths {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "another"`, Field: strings.ReplaceAll(path, "/", "."),
		})
	}
	return err
}

// managedFields are the fields of a configuration that a manager can own, with their
// values as the server writes them.
func managedFields(t *table, wanted map[string]any) (map[string]any, error) {
	obj, err := typed(t, wanted)
	if err != nil {
		return nil, err
	}
	written, _, err := leavesOf(obj)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for path := range leaves(wanted) {
		owned := slices.ContainsFunc([]string{"/metadata/labels/", "/metadata/annotations/", "/metadata/finalizers", "/metadata/ownerReferences", "/spec"},
			func(part string) bool { return strings.HasPrefix(path, part) })
		if value, known := written[path]; known && owned {
			fields[path] = value
		}
	}
	return fields, nil
}

// claimed is what a manager owns of an object once it has applied fields, and in which
// of them somebody else wants another value; now is what there is.
func (s *Server) claimed(uid types.UID, manager string, now, fields map[string]any) (mine applied, conflicts []string) {
	before := s.managers[uid][manager]
	mine = applied{}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		value := fields[path]
		is, set := now[path]
		owned, known := before[path]
		same := set && reflect.DeepEqual(is, value)
		others := s.appliedByOthers(uid, manager, path, is)
		if set && !same && (!known || owned.shared || others || !reflect.DeepEqual(owned.value, is)) {
			conflicts = append(conflicts, path)
		}
		mine[path] = appliedValue{value: value, shared: same && (owned.shared || !known && !others)}
	}
	return mine, conflicts
}

func (s *Server) applyNew(t *table, key types.NamespacedName, manager string, fields map[string]any) (client.Object, error) {
	document, mine := map[string]any{}, applied{}
	for path, value := range fields {
		put(document, path, value)
		mine[path] = appliedValue{value: value}
	}
	obj, err := typed(t, document)
	if err != nil {
		return nil, err
	}
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	made, err := s.Create(t.resource.Resource, obj)
	if err != nil {
		return nil, err
	}
	s.own(made.GetUID(), manager, mine)
	s.manage(t.objects[key])
	return s.Get(t.resource.Resource, key)
}

// preconditions are the UID and version that a configuration may carry.
func preconditions(t *table, old client.Object, wanted map[string]any) error {
	metadata, _ := wanted["metadata"].(map[string]any)
	if uid, ok := metadata["uid"].(string); ok && uid != string(old.GetUID()) {
		return apierrors.NewConflict(t.resource, old.GetName(), fmt.Errorf("UID in precondition: %s, UID in object meta: %s", uid, old.GetUID()))
	}
	if version, ok := metadata["resourceVersion"].(string); ok && version != old.GetResourceVersion() {
		return apierrors.NewConflict(t.resource, old.GetName(), errModified)
	}
	return nil
}

// appliedByOthers reports whether another manager has applied the value too.
func (s *Server) appliedByOthers(uid types.UID, manager, path string, value any) bool {
	for other, theirs := range s.managers[uid] {
		if was, ok := theirs[path]; other != manager && ok && reflect.DeepEqual(was.value, value) {
			return true
		}
	}
	return false
}

func (s *Server) own(uid types.UID, manager string, mine applied) {
	if s.managers == nil {
		s.managers = map[types.UID]map[string]applied{}
	}
	if s.managers[uid] == nil {
		s.managers[uid] = map[string]applied{}
	}
	s.managers[uid][manager] = mine
}

// manage takes from managers what has another value in obj, which is about to be
// stored, and writes down there who manages what.
func (s *Server) manage(obj client.Object) {
	managers := s.managers[obj.GetUID()]
	if managers == nil {
		return
	}
	now, _, err := leavesOf(obj)
	if err != nil {
		panic("an object has no JSON form: " + err.Error())
	}
	var entries []metav1.ManagedFieldsEntry
	for _, manager := range slices.Sorted(maps.Keys(managers)) {
		maps.DeleteFunc(managers[manager], func(path string, was appliedValue) bool { return !reflect.DeepEqual(now[path], was.value) })
		paths, err := json.Marshal(slices.Sorted(maps.Keys(managers[manager])))
		if err != nil {
			panic("paths have no JSON form: " + err.Error())
		}
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "Paths", FieldsV1: metav1.NewFieldsV1(string(paths)),
		})
	}
	obj.SetManagedFields(entries)
}

func leavesOf(obj client.Object) (fields, document map[string]any, err error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, nil, err
	}
	err = json.Unmarshal(text, &document)
	return leaves(document), document, err
}

func typed(t *table, document map[string]any) (client.Object, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	obj := t.create()
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

// leaves are the values in a document that are no objects, by their paths.
func leaves(document map[string]any) map[string]any {
	found := map[string]any{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		object, ok := value.(map[string]any)
		if !ok || len(object) == 0 && path != "" {
			found[path] = value
			return
		}
		for key, value := range object {
			walk(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value)
		}
	}
	walk("", document)
	return found
}

// put sets a value in a document, or removes it if it is nil.
func put(document map[string]any, path string, value any) {
	keys := strings.Split(path, "/")[1:]
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	}
	for _, key := range keys[:len(keys)-1] {
		next, ok := document[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			document[key] = next
		}
		document = next
	}
	last := keys[len(keys)-1]
	if value == nil {
		delete(document, last)
		return
	}
	document[last] = value
}
