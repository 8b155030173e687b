// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Diff returns the merge patch that turns from into to, and whether they differ. It is
// for the parts of an object that a controller owns whole, such as a status; T is a
// struct. Values are the same if their JSON is.
func Diff[T any](from, to T) (Patch, bool, error) {
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	if a.Kind() != reflect.Struct {
		return nil, false, fmt.Errorf("a merge patch is between structs, not %T", from)
	}
	p := Patch{}
	if err := addDifferences(p, a, b); err != nil {
		return nil, false, err
	}
	return p, len(p) > 0, nil
}

// addDifferences adds to p what differs between two structs of one type.
func addDifferences(p map[string]any, a, b reflect.Value) error {
	for i := range a.NumField() {
		before, after := a.Field(i), b.Field(i)
		if reflect.DeepEqual(before.Interface(), after.Interface()) {
			continue
		}
		field := a.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case name == "" && field.Anonymous:
			if err := addDifferences(p, before, after); err != nil {
				return err
			}
			continue
		case name == "":
			name = field.Name
		}
		if err := addDifference(p, name, options, before, after); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// addDifference adds what differs between two values of one field.
func addDifference(p map[string]any, name, options string, before, after reflect.Value) error {
	if isAbsent(after, options) {
		if !isAbsent(before, options) {
			p[name] = nil
		}
		return nil
	}
	switch after.Type() {
	case reflect.TypeFor[string]():
		p[name] = after.String()
		return nil
	case reflect.TypeFor[bool]():
		p[name] = after.Bool()
		return nil
	}
	was, err := json.Marshal(before.Interface())
	if err != nil {
		return err
	}
	is, err := json.Marshal(after.Interface())
	if err != nil {
		return err
	}
	absent := isAbsent(before, options)
	if !absent && bytes.Equal(was, is) {
		return nil
	}
	if is[0] == '[' {
		p[name] = json.RawMessage(is)
		return nil
	}
	var plain any
	if err := json.Unmarshal(is, &plain); err != nil {
		return err
	}
	object, isObject := plain.(map[string]any)
	if absent || !isObject {
		p[name] = plain
		return nil
	}
	var old map[string]any
	if err := json.Unmarshal(was, &old); err != nil {
		return err
	}
	p[name] = objectPatch(old, object)
	return nil
}

// objectPatch is the merge patch between two JSON objects.
func objectPatch(from, to map[string]any) map[string]any {
	p := map[string]any{}
	for key := range from {
		if _, kept := to[key]; !kept {
			p[key] = nil
		}
	}
	for key, after := range to {
		before, had := from[key]
		old, wasObject := before.(map[string]any)
		next, isObject := after.(map[string]any)
		switch {
		case had && reflect.DeepEqual(before, after):
		case wasObject && isObject:
			p[key] = objectPatch(old, next)
		default:
			p[key] = after
		}
	}
	return p
}

// isAbsent reports whether a field has no value in JSON, or null, which in a merge
// patch means the same.
func isAbsent(v reflect.Value, options string) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.Map, reflect.Slice:
		return v.IsNil() || v.Len() == 0 && strings.Contains(options, "omitempty")
	case reflect.Struct:
		return strings.Contains(options, "omitzero") && v.IsZero()
	}
	return (strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")) && v.IsZero()
}
