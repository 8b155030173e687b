// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Server is an API server that typed APIs are made for.
type Server struct {
	Config *rest.Config
	HTTP   *http.Client
	Scheme *runtime.Scheme
}

// restAPI is the API of one namespaced kind over HTTP.
//
// Writes are sent once. client-go would send them again after a 429 or a 5xx with
// Retry-After, and the last answer would hide that an earlier attempt landed: a
// quota, for one, refuses the repeat of the create that used it up.
type restAPI[T client.Object] struct {
	client   rest.Interface
	gvk      schema.GroupVersionKind
	resource string
}

var _ Applier[client.Object] = (*restAPI[client.Object])(nil)

// NewAPI returns the API of the namespaced kind gvk, served as the plural resource.
func NewAPI[T client.Object](server Server, gvk schema.GroupVersionKind, resource string) (API[T], error) {
	c, err := apiutil.RESTClientForGVK(gvk, false, false, server.Config, serializer.NewCodecFactory(server.Scheme), server.HTTP)
	if err != nil {
		return nil, err
	}
	return &restAPI[T]{client: c, gvk: gvk, resource: resource}, nil
}

func (a *restAPI[T]) Get(ctx context.Context, key types.NamespacedName) (T, error) {
	// No resourceVersion in the options makes this a quorum read.
	return into[T](a.client.Get().Namespace(key.Namespace).Resource(a.resource).Name(key.Name).Do(ctx))
}

func (a *restAPI[T]) Create(ctx context.Context, obj T) (T, error) {
	return into[T](a.client.Post().MaxRetries(0).Namespace(obj.GetNamespace()).Resource(a.resource).Body(obj).Do(ctx))
}

func (a *restAPI[T]) Patch(ctx context.Context, key types.NamespacedName, subresource string, body []byte) (T, error) {
	request := a.client.Patch(types.MergePatchType).MaxRetries(0).Namespace(key.Namespace).Resource(a.resource).Name(key.Name)
	if subresource != "" {
		request = request.SubResource(subresource)
	}
	return into[T](request.Body(body).Do(ctx))
}

// Apply implements Applier.
func (a *restAPI[T]) Apply(ctx context.Context, key types.NamespacedName, manager string, configuration Patch) (T, error) {
	var none T
	object := maps.Clone(configuration)
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["name"], metadata["namespace"] = key.Name, key.Namespace
	object["metadata"] = metadata
	object["apiVersion"], object["kind"] = a.gvk.GroupVersion().String(), a.gvk.Kind
	body, err := json.Marshal(object)
	if err != nil {
		return none, err
	}
	return into[T](a.client.Patch(types.ApplyYAMLPatchType).MaxRetries(0).Namespace(key.Namespace).Resource(a.resource).Name(key.Name).
		Param("fieldManager", manager).Param("force", "false").Body(body).Do(ctx))
}

func (a *restAPI[T]) Delete(ctx context.Context, key types.NamespacedName, condition DeleteCondition) (T, bool, error) {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &condition.UID}}
	if condition.ResourceVersion != "" {
		options.Preconditions.ResourceVersion = &condition.ResourceVersion
	}
	propagation := metav1.DeletePropagationBackground
	if condition.Foreground {
		propagation = metav1.DeletePropagationForeground
	}
	options.PropagationPolicy = &propagation
	var none T
	reply, err := a.client.Delete().MaxRetries(0).Namespace(key.Namespace).Resource(a.resource).Name(key.Name).Body(&options).Do(ctx).Get()
	if err != nil {
		return none, false, err
	}
	// The server answers with the object while it lives on (grace, finalizers), else
	// with a Status.
	obj, ok := reply.(T)
	return obj, ok, nil
}

func into[T client.Object](result rest.Result) (T, error) {
	var none T
	reply, err := result.Get()
	if err != nil {
		return none, err
	}
	obj, ok := reply.(T)
	if !ok {
		return none, &unexpectedReplyError{reply}
	}
	return obj, nil
}

// unexpectedReplyError is a successful reply of another kind than asked for, such as
// a proxy's.
type unexpectedReplyError struct{ reply runtime.Object }

func (e *unexpectedReplyError) Error() string {
	return "the server replied with an unexpected " + e.reply.GetObjectKind().GroupVersionKind().String()
}
