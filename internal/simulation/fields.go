// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// specOf returns what a change of counts as a new generation.
func specOf(obj client.Object) any {
	spec := reflect.ValueOf(obj).Elem().FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	return spec.Interface()
}

// copyField sets a field of one object to that of another of its type.
func copyField(to, from client.Object, field string) {
	reflect.ValueOf(to).Elem().FieldByName(field).Set(reflect.ValueOf(from).Elem().FieldByName(field))
}
