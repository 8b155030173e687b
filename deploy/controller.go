// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"cmp"
	"context"
	"embed"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// What the controller is called in a cluster. Clients look for it under these names.
const (
	Namespace      = "agent-sandbox-system"
	ControllerName = "agent-sandbox-controller" // Deployment, container, ServiceAccount and Service
	// ControllerImage is the image that the manifests name.
	ControllerImage = "ghcr.io/berthdev/berth-controller:dev"
)

//go:embed controller/*.yaml
var controllerFiles embed.FS

// Controller gives the objects that the controller runs as, in the order to apply
// them.
func Controller() ([]*unstructured.Unstructured, error) {
	return files("namespace.yaml", "rbac.yaml", "priority.yaml", "controller.yaml")
}

// Rights gives the part of Controller that its ServiceAccount gets its rights from.
func Rights() ([]*unstructured.Unstructured, error) {
	return files("namespace.yaml", "rbac.yaml")
}

func files(names ...string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, name := range names {
		raw, err := controllerFiles.ReadFile("controller/" + name)
		if err != nil {
			return nil, err
		}
		in, err := Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, in...)
	}
	return objects, nil
}

// Apply applies objects of any kind that the server has, one after another. Applying
// again changes nothing. Objects without a namespace that need one go to the namespace
// given.
func Apply(ctx context.Context, config *rest.Config, namespace string, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = client.Resource(mapping.Resource).Namespace(cmp.Or(object.GetNamespace(), namespace))
		}
		if _, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: FieldManager, Force: true}); err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}
