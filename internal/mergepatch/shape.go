// SPDX-License-Identifier: Apache-2.0

package mergepatch

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// shape is what there is to know of a type, found out when it is first needed: patches
// touch few of the types an object is made of.
type shape struct {
	of   reflect.Type
	look sync.Once

	kind reflect.Kind
	// decodes: the type has its own way to read JSON.
	decodes bool
	elem    *shape                // of pointers, maps and lists
	fields  map[string]fieldShape // by JSON name
}

type fieldShape struct {
	index []int
	shape *shape
}

func (s *shape) known() *shape {
	s.look.Do(func() {
		s.kind = s.of.Kind()
		s.decodes = reflect.PointerTo(s.of).Implements(reflect.TypeFor[json.Unmarshaler]())
		switch {
		case s.decodes:
		case s.kind == reflect.Pointer || s.kind == reflect.Map || s.kind == reflect.Slice:
			s.elem = &shape{of: s.of.Elem()}
		case s.kind == reflect.Struct:
			s.fields = map[string]fieldShape{}
			for _, field := range reflect.VisibleFields(s.of) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name != "" && name != "-" && field.IsExported() {
					s.fields[name] = fieldShape{index: field.Index, shape: &shape{of: field.Type}}
				}
			}
		}
	})
	return s
}
