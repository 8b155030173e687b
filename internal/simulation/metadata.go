// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// validMetadata refuses metadata that no server stores; old is nil on create.
func validMetadata(t *table, old, obj client.Object) error {
	var found field.ErrorList
	at := field.NewPath("metadata")
	if old == nil {
		for _, problem := range validation.NameIsDNSSubdomain(obj.GetName(), false) {
			found = append(found, field.Invalid(at.Child("name"), obj.GetName(), problem))
		}
	} else if old.GetDeletionTimestamp() != nil {
		for _, finalizer := range obj.GetFinalizers() {
			if !slices.Contains(old.GetFinalizers(), finalizer) {
				found = append(found, field.Forbidden(at.Child("finalizers"), "no new finalizers can be added if the object is being deleted"))
			}
		}
	}
	controllers := 0
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			controllers++
		}
		if owner.APIVersion == "" || owner.Kind == "" || owner.Name == "" || owner.UID == "" {
			found = append(found, field.Invalid(at.Child("ownerReferences"), owner, "apiVersion, kind, name and uid must be set"))
		}
	}
	if controllers > 1 {
		found = append(found, field.Invalid(at.Child("ownerReferences"), obj.GetOwnerReferences(), "only one reference can have controller set to true"))
	}
	return invalid(t.resource, obj, found)
}

// invalid is the error for what was found, or nil.
func invalid(resource schema.GroupResource, obj metav1.Object, found field.ErrorList) error {
	if len(found) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, obj.GetName(), found)
}
