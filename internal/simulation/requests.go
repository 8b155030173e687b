// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Update replaces an object by the given one; subresource is "" or "status". A
// resource of a CustomResourceDefinition has to be replaced on a version; of others no
// version means any.
func (s *Server) Update(resource, subresource string, given client.Object) (client.Object, error) {
	t := s.tables[resource]
	old, ok := t.objects[client.ObjectKeyFromObject(given)]
	if !ok {
		return nil, apierrors.NewNotFound(t.resource, given.GetName())
	}
	if subresource != "" && !t.status {
		return nil, notServed(t.resource, subresource)
	}
	obj := clone(given)
	if obj.GetResourceVersion() == "" {
		if isCustom(t.resource) {
			return nil, invalid(t.resource, obj, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
		}
		obj.SetResourceVersion(old.GetResourceVersion())
	}
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	return s.replace(t, old, obj, subresource)
}

// isCustom reports whether a resource is one of a CustomResourceDefinition.
func isCustom(resource schema.GroupResource) bool {
	return resource.Group != "" && resource.Group != "networking.k8s.io"
}

// PatchJSON does the operations of a JSON patch (RFC 6902) to an object; subresource
// is "" or "status".
func (s *Server) PatchJSON(resource string, key types.NamespacedName, subresource string, body []byte) (client.Object, error) {
	t := s.tables[resource]
	old, ok := t.objects[key]
	if !ok {
		return nil, apierrors.NewNotFound(t.resource, key.Name)
	}
	if subresource != "" && !t.status {
		return nil, notServed(t.resource, subresource)
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	obj := t.create()
	if err := json.Unmarshal(after, obj); err != nil {
		return nil, unreadable(t.resource, old, err)
	}
	return s.replace(t, old, obj, subresource)
}

// notServed is the answer to a request to a path that there is not.
func notServed(resource schema.GroupResource, subresource string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", resource, subresource, "404 page not found", 0, true)
}

// unreadable is the answer to a patch that leaves an object of a wrong form.
func unreadable(resource schema.GroupResource, obj client.Object, err error) error {
	if isCustom(resource) {
		return invalid(resource, obj, field.ErrorList{field.Invalid(field.NewPath(""), nil, err.Error())})
	}
	return apierrors.NewBadRequest(err.Error())
}
