// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// canonical is the value of an API type as maps, lists and plain values under their
// JSON names, whose JSON depends on what the value means and on nothing else: the order
// of keys is that of encoding/json, and fields that are not set are left out whether or
// not their type says so. A pointer that is set stays, even to an empty value: "no
// selector" and "select all" differ. Revisions rest on it, so its result for a given
// value never changes; see testdata/revisions.
func canonical(value any) any { return canonicalOf(reflect.ValueOf(value)) }

func canonicalOf(v reflect.Value) any {
	if marshaler, ok := v.Interface().(json.Marshaler); ok && v.Kind() != reflect.Pointer {
		return marshalled(marshaler)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return canonicalOf(v.Elem())
	case reflect.Struct:
		fields := map[string]any{}
		addFields(fields, v)
		return fields
	case reflect.Map:
		values := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			values[key.String()] = canonicalOf(v.MapIndex(key))
		}
		return values
	case reflect.Slice:
		values := make([]any, v.Len())
		for i := range values {
			values[i] = canonicalOf(v.Index(i))
		}
		return values
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int()
	default:
		panic(fmt.Sprintf("podTemplates have no %s", v.Type()))
	}
}

func addFields(fields map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			addFields(fields, value)
			continue
		}
		if value.IsZero() {
			continue
		}
		made := canonicalOf(value)
		if value.Kind() != reflect.Pointer && isEmpty(made) {
			continue
		}
		fields[name] = made
	}
}

// marshalled is what a type that has its own JSON form says there.
func marshalled(m json.Marshaler) any {
	text, err := m.MarshalJSON()
	if err != nil {
		panic(fmt.Sprintf("%T has no JSON form: %v", m, err))
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		panic(fmt.Sprintf("%T has a broken JSON form: %v", m, err))
	}
	return value
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	default:
		return value == nil
	}
}
