// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// podSpecForm is how the JSON of a pod's spec is written.
var podSpecForm = sync.OnceValue(func() *form { return forms{}.of(reflect.TypeFor[corev1.PodSpec]()) })

// canonicalJSON is the JSON of canonical(spec), without the maps in between: every pass
// over every Sandbox asks for a revision.
func canonicalJSON(spec *corev1.PodSpec) []byte {
	return podSpecForm().appendTo(nil, reflect.ValueOf(spec).Elem())
}

// form is how the values of one type are written.
type form struct {
	kind      reflect.Kind
	marshaler bool
	elem      *form       // of pointers, lists and maps
	fields    []fieldForm // by name
}

type fieldForm struct {
	name  string // in quotes, with its colon
	index []int
	form  *form
}

// forms are those that are known, for types that contain themselves.
type forms map[reflect.Type]*form

func (known forms) of(t reflect.Type) *form {
	if f := known[t]; f != nil {
		return f
	}
	f := &form{kind: t.Kind(), marshaler: t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[json.Marshaler]())}
	known[t] = f
	switch {
	case f.marshaler:
	case f.kind == reflect.Pointer || f.kind == reflect.Slice || f.kind == reflect.Map:
		f.elem = known.of(t.Elem())
	case f.kind == reflect.Struct:
		known.addFields(f, t, nil)
		slices.SortFunc(f.fields, func(a, b fieldForm) int { return strings.Compare(a.name, b.name) })
	}
	return f
}

// addFields adds the fields of t, which is f's type or one embedded in it.
func (known forms) addFields(f *form, t reflect.Type, path []int) {
	for i := range t.NumField() {
		field, index := t.Field(i), append(slices.Clone(path), i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			known.addFields(f, field.Type, index)
			continue
		}
		f.fields = append(f.fields, fieldForm{name: strconv.Quote(name) + ":", index: index, form: known.of(field.Type)})
	}
}

func (f *form) appendTo(text []byte, v reflect.Value) []byte {
	if f.marshaler {
		return appendPlain(text, marshalled(v.Interface().(json.Marshaler)))
	}
	switch f.kind {
	case reflect.Pointer:
		if v.IsNil() {
			return append(text, "null"...)
		}
		return f.elem.appendTo(text, v.Elem())
	case reflect.Struct:
		return f.appendFields(text, v)
	case reflect.Map:
		return f.appendMap(text, v)
	case reflect.Slice:
		text = append(text, '[')
		for i := range v.Len() {
			if i > 0 {
				text = append(text, ',')
			}
			text = f.elem.appendTo(text, v.Index(i))
		}
		return append(text, ']')
	case reflect.String:
		return appendString(text, v.String())
	case reflect.Bool:
		return strconv.AppendBool(text, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(text, v.Int(), 10)
	default:
		panic(fmt.Sprintf("podTemplates have no %s", v.Type()))
	}
}

func (f *form) appendFields(text []byte, v reflect.Value) []byte {
	text = append(text, '{')
	first := len(text)
	for i := range f.fields {
		field := &f.fields[i]
		value := v.Field(field.index[0])
		for _, i := range field.index[1:] {
			value = value.Field(i)
		}
		if value.IsZero() {
			continue
		}
		start := len(text)
		if start > first {
			text = append(text, ',')
		}
		text = append(text, field.name...)
		begin := len(text)
		text = field.form.appendTo(text, value)
		if field.form.kind != reflect.Pointer {
			switch string(text[begin:]) {
			case "{}", "[]", "null":
				text = text[:start]
			}
		}
	}
	return append(text, '}')
}

func (f *form) appendMap(text []byte, v reflect.Value) []byte {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	text = append(text, '{')
	for i, key := range keys {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(appendString(text, key.String()), ':')
		text = f.elem.appendTo(text, v.MapIndex(key))
	}
	return append(text, '}')
}

// appendString writes a string as encoding/json does.
func appendString(text []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendPlain(text, s)
		}
	}
	text = append(text, '"')
	text = append(text, s...)
	return append(text, '"')
}

func appendPlain(text []byte, value any) []byte {
	made, err := json.Marshal(value)
	if err != nil {
		panic("a podTemplate has no JSON form: " + err.Error())
	}
	return append(text, made...)
}
