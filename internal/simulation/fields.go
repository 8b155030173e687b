// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sameSpec reports whether two objects have the same of what a change of counts as a
// new generation.
func sameSpec(a, b client.Object) bool {
	was, is := reflect.ValueOf(a).Elem().FieldByName("Spec"), reflect.ValueOf(b).Elem().FieldByName("Spec")
	return !was.IsValid() || same(was, is)
}

// sameObject reports whether a client would find no difference.
func sameObject(a, b client.Object) bool {
	return same(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

// same is equality.Semantic.DeepEqual for values that share most of what they refer to:
// what is one and the same is not looked into.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || !a.IsNil() && !b.IsNil() && same(a.Elem(), b.Elem())
	case reflect.Slice:
		return a.Len() == b.Len() && (a.UnsafePointer() == b.UnsafePointer() || sameItems(a, b))
	case reflect.Map:
		return a.UnsafePointer() == b.UnsafePointer() || a.Len() == b.Len() && (a.Len() == 0 || equality.Semantic.DeepEqual(a.Interface(), b.Interface()))
	case reflect.Struct:
		return sameFields(a, b)
	default:
		return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
	}
}

func sameItems(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

func sameFields(a, b reflect.Value) bool {
	switch a.Type() {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity]():
		return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
	}
	for i := range a.NumField() {
		if !same(a.Field(i), b.Field(i)) {
			return false
		}
	}
	return true
}

// copyField sets a field of one object to that of another of its type.
func copyField(to, from client.Object, field string) {
	reflect.ValueOf(to).Elem().FieldByName(field).Set(reflect.ValueOf(from).Elem().FieldByName(field))
}
