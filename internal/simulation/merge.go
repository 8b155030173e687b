// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// merger applies JSON merge patches (RFC 7386) to typed values. What a patch does not
// touch is shared by the values before and after, and a patch that changes nothing
// leaves everything shared: nobody may modify either.
type merger struct {
	fields map[reflect.Type]map[string][]int
}

// merge applies a patch to what v holds. Keys that v's type does not know are dropped,
// as the server prunes them.
func (m *merger) merge(v reflect.Value, patch json.RawMessage) error {
	if string(patch) == "null" {
		v.SetZero()
		return nil
	}
	switch isObject := patch[0] == '{'; {
	case !isObject || v.CanAddr() && v.Addr().Type().Implements(reflect.TypeFor[json.Unmarshaler]()):
		return m.set(v, patch)
	case v.Kind() == reflect.Struct:
		return m.mergeStruct(v, patch)
	case v.Kind() == reflect.Map:
		return m.mergeMap(v, patch)
	case v.Kind() == reflect.Pointer:
		next := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			next.Elem().Set(v.Elem())
		}
		if err := m.merge(next.Elem(), patch); err != nil {
			return err
		}
		if v.IsNil() || !equality.Semantic.DeepEqual(v.Interface(), next.Interface()) {
			v.Set(next)
		}
		return nil
	default:
		return fmt.Errorf("%s is no %s", patch, v.Type())
	}
}

// set sets v to what the patch says, which is no object.
func (m *merger) set(v reflect.Value, patch json.RawMessage) error {
	next := reflect.New(v.Type())
	if err := json.Unmarshal(patch, next.Interface()); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(v.Interface(), next.Elem().Interface()) {
		v.Set(next.Elem())
	}
	return nil
}

func (m *merger) mergeStruct(v reflect.Value, patch json.RawMessage) error {
	keys, err := keysOf(patch)
	if err != nil {
		return err
	}
	fields := m.fieldsOf(v.Type())
	for key, value := range keys {
		if index, ok := fields[key]; ok {
			if err := m.merge(v.FieldByIndex(index), value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

func (m *merger) mergeMap(v reflect.Value, patch json.RawMessage) error {
	keys, err := keysOf(patch)
	if err != nil {
		return err
	}
	next := reflect.MakeMapWithSize(v.Type(), v.Len()+len(keys))
	for values := v.MapRange(); values.Next(); {
		next.SetMapIndex(values.Key(), values.Value())
	}
	for text, value := range keys {
		key := reflect.ValueOf(text).Convert(v.Type().Key())
		if string(value) == "null" {
			next.SetMapIndex(key, reflect.Value{})
			continue
		}
		merged := reflect.New(v.Type().Elem()).Elem()
		if old := next.MapIndex(key); old.IsValid() {
			merged.Set(old)
		}
		if err := m.merge(merged, value); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		next.SetMapIndex(key, merged)
	}
	if v.IsNil() || !equality.Semantic.DeepEqual(v.Interface(), next.Interface()) {
		v.Set(next)
	}
	return nil
}

func keysOf(object json.RawMessage) (map[string]json.RawMessage, error) {
	var keys map[string]json.RawMessage
	err := json.Unmarshal(object, &keys)
	return keys, err
}

// fieldsOf are the fields of a struct by their JSON names.
func (m *merger) fieldsOf(t reflect.Type) map[string][]int {
	if known, ok := m.fields[t]; ok {
		return known
	}
	fields := map[string][]int{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && field.IsExported() {
			fields[name] = field.Index
		}
	}
	m.fields[t] = fields
	return fields
}

// trimmedJSON is a document without the space around it.
func trimmedJSON(text []byte) json.RawMessage { return bytes.TrimSpace(text) }
