// SPDX-License-Identifier: Apache-2.0

// Package mergepatch applies JSON merge patches (RFC 7386) to typed objects, without
// taking what a patch leaves alone through JSON.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Merger applies patches. It remembers what it learns of types, and is safe for
// concurrent use. The zero value is ready.
type Merger struct {
	shapes sync.Map // from reflect.Type to *shape
}

var errNoObject = errors.New("a merge patch of an object is an object")

// Apply returns what the object becomes, and whether that differs. base is a pointer to
// a struct and is not modified; the result shares all that the patch does not change.
// Keys that the type does not know are dropped, as an API server prunes them. Values of
// a wrong type are an error.
func (m *Merger) Apply(base any, patch []byte) (patched any, changed bool, err error) {
	from := reflect.ValueOf(base)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct {
		return nil, false, fmt.Errorf("a merge patch applies to a pointer to a struct, not to %T", base)
	}
	if !json.Valid(patch) {
		return nil, false, errors.New("the merge patch is no JSON")
	}
	document := trim(patch)
	if document[0] != '{' {
		return nil, false, errNoObject
	}
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	known, ok := m.shapes.Load(from.Type())
	if !ok {
		known, _ = m.shapes.LoadOrStore(from.Type(), &shape{of: from.Type().Elem()})
	}
	changed, err = known.(*shape).known().mergeStruct(to.Elem(), document)
	return to.Interface(), changed, err
}

// merge merges text, which is valid JSON without space around it, into v, and reports
// whether v has another value now.
func (s *shape) merge(v reflect.Value, text []byte) (bool, error) {
	if text[0] == 'n' {
		was := v.IsZero()
		v.SetZero()
		return !was, nil
	}
	if s.decodes {
		next := reflect.New(v.Type())
		if err := next.Interface().(json.Unmarshaler).UnmarshalJSON(text); err != nil {
			return false, err
		}
		return replace(v, next.Elem()), nil
	}
	switch s.kind {
	case reflect.String:
		if text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
			return decode(v, text)
		}
		next := string(text[1 : len(text)-1])
		was := v.String()
		v.SetString(next)
		return was != next, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		next, err := strconv.ParseInt(string(text), 10, v.Type().Bits())
		if err != nil {
			return false, fmt.Errorf("%s is no whole number", text)
		}
		was := v.Int()
		v.SetInt(next)
		return was != next, nil
	case reflect.Struct:
		return s.mergeStruct(v, text)
	case reflect.Map:
		return s.mergeMap(v, text)
	case reflect.Pointer:
		return s.mergePointer(v, text)
	case reflect.Slice:
		return s.replaceList(v, text)
	default:
		return decode(v, text)
	}
}

// decode replaces v by what encoding/json makes of text.
func decode(v reflect.Value, text []byte) (bool, error) {
	next := reflect.New(v.Type())
	if err := json.Unmarshal(text, next.Interface()); err != nil {
		return false, err
	}
	return replace(v, next.Elem()), nil
}

// replace sets v to next unless the two are the same, so that what is the same stays
// shared.
func replace(v, next reflect.Value) bool {
	if equality.Semantic.DeepEqual(v.Interface(), next.Interface()) {
		return false
	}
	v.Set(next)
	return true
}

func (s *shape) mergePointer(v reflect.Value, text []byte) (bool, error) {
	next := reflect.New(v.Type().Elem())
	if !v.IsNil() {
		next.Elem().Set(v.Elem())
	}
	changed, err := s.elem.known().merge(next.Elem(), text)
	if changed = changed || v.IsNil(); changed {
		v.Set(next)
	}
	return changed, err
}

func (s *shape) mergeStruct(v reflect.Value, text []byte) (bool, error) {
	changed := false
	err := members(text, func(key, value []byte) error {
		known, ok := s.fields[string(key)]
		if !ok {
			return nil
		}
		field := v.Field(known.index[0])
		for _, i := range known.index[1:] {
			field = field.Field(i)
		}
		differs, err := known.shape.known().merge(field, value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		changed = changed || differs
		return nil
	})
	return changed, err
}

func (s *shape) mergeMap(v reflect.Value, text []byte) (bool, error) {
	old, changed := v, false
	err := members(text, func(name, value []byte) error {
		key := reflect.ValueOf(string(name)).Convert(v.Type().Key())
		was := v.MapIndex(key)
		next := reflect.New(v.Type().Elem()).Elem()
		if was.IsValid() {
			next.Set(was)
		}
		gone := value[0] == 'n'
		if !gone {
			differs, err := s.elem.known().merge(next, value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if was.IsValid() && !differs {
				return nil
			}
		} else if !was.IsValid() {
			return nil
		}
		if !changed {
			old, changed = reflect.New(v.Type()).Elem(), true
			old.Set(v)
			v.Set(copied(old))
		}
		if gone {
			next = reflect.Value{} // which deletes the key
		}
		v.SetMapIndex(key, next)
		return nil
	})
	return changed, err
}

// copied is a copy of a map, nil or not, with room for more.
func copied(from reflect.Value) reflect.Value {
	to := reflect.MakeMapWithSize(from.Type(), from.Len()+1)
	for values := from.MapRange(); values.Next(); {
		to.SetMapIndex(values.Key(), values.Value())
	}
	return to
}

func (s *shape) replaceList(v reflect.Value, text []byte) (bool, error) {
	if text[0] != '[' || v.Type().Elem().Kind() == reflect.Uint8 {
		return decode(v, text)
	}
	next := reflect.MakeSlice(v.Type(), 0, v.Len())
	err := items(text, func(value []byte) error {
		next = reflect.Append(next, reflect.Zero(v.Type().Elem()))
		_, err := s.elem.known().merge(next.Index(next.Len()-1), value)
		return err
	})
	return err == nil && replace(v, next), err
}
