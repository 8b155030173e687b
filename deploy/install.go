// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// FieldManager owns the fields that Install applies.
const FieldManager = "berth-install"

// probeInterval is the time between two looks at whether the server has taken
// up what was installed.
const probeInterval = 50 * time.Millisecond

var resources = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition":       {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"MutatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"},
	"MutatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"},

	"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
}

// Install applies the custom resource definitions and the admission policies,
// and returns when the server serves the ones and obeys the others, or when
// the context ends. Installing again is harmless. On a server that has no
// admission policies of a kind (mutating ones before 1.36) it leaves those out.
//
// Whether the policies that refuse something are obeyed is not waited for: an
// administrator is refused nothing.
func Install(ctx context.Context, config *rest.Config) error {
	if err := InstallCRDs(ctx, config); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	policies, err := Policies()
	if err != nil {
		return err
	}
	mutating := true
	for _, policy := range policies {
		switch _, err := apply(ctx, client, policy); {
		case apierrors.IsNotFound(err): // the server does not have the kind
			mutating = mutating && policy.GetKind() != "MutatingAdmissionPolicy"
		case err != nil:
			return err
		}
	}
	if !mutating {
		return nil
	}
	if err := obeyed(ctx, client); err != nil {
		return fmt.Errorf("wait until the admission policies are obeyed: %w", err)
	}
	return nil
}

// InstallCRDs applies the custom resource definitions, and returns when the
// server says that it serves them, or when the context ends.
func InstallCRDs(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	crds, err := CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if _, err := apply(ctx, client, crd); err != nil {
			return err
		}
	}
	for _, crd := range crds {
		if err := established(ctx, client, crd); err != nil {
			return fmt.Errorf("wait until %s is served: %w", crd.GetName(), err)
		}
	}
	return nil
}

// apply returns the object as the server has it then.
func apply(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, ok := resources[object.GetKind()]
	if !ok {
		return nil, fmt.Errorf("no resource known for kind %s", object.GetKind())
	}
	applied, err := client.Resource(resource).Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

// established waits until a definition says that it is served. It applies it each time,
// because an earlier one that was just deleted stays until its objects are gone, and
// takes what was applied to it along.
func established(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	return wait.PollUntilContextCancel(ctx, probeInterval, true, func(ctx context.Context) (bool, error) {
		applied, err := apply(ctx, client, crd)
		return err == nil && isEstablished(applied), err
	})
}

// isEstablished reports whether a definition says that it is served, and will be. One
// that was just created has no conditions, or null ones.
func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedFieldNoCopy(crd.Object, "status", "conditions")
	list, _ := conditions.([]any)
	return err == nil && crd.GetDeletionTimestamp() == nil && slices.ContainsFunc(list, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

// obeyed waits until the server does what each mutating policy says, which it shows in
// creations that are dry runs. A server gives no other sign of it. Policies
// are taken up in the order they are applied in, and those asked here are the last.
func obeyed(ctx context.Context, client dynamic.Interface) error {
	pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "probe"}}}}
	sandbox := probe("agents.x-k8s.io/v1beta1", "Sandbox", map[string]any{"podTemplate": pod, "replicas": int64(0)})
	pool := probe("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", map[string]any{
		"sandboxTemplateRef": map[string]any{"name": "probe"}, "updateStrategy": "Recreate"})
	return wait.PollUntilContextCancel(ctx, probeInterval, true, func(ctx context.Context) (bool, error) {
		created, err := dryRun(ctx, client, "sandboxes", sandbox)
		if notYet(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if mode, _, _ := unstructured.NestedString(created.Object, "spec", "operatingMode"); mode != "Suspended" {
			return false, nil
		}
		_, err = dryRun(ctx, client, "sandboxwarmpools", pool)
		if notYet(err) || apierrors.IsInvalid(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// notYet says whether an error means that the server has not caught up: a kind
// can be established before it is served, and policies wait up to 5 seconds for
// the schema of a new kind.
func notYet(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err)
}

func probe(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"generateName": "berth-install-"},
		"spec":     spec,
	}}
}

func dryRun(ctx context.Context, client dynamic.Interface, resource string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	gvr := object.GroupVersionKind().GroupVersion().WithResource(resource)
	return client.Resource(gvr).Namespace(metav1.NamespaceDefault).
		Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
