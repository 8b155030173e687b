// SPDX-License-Identifier: Apache-2.0

// Package kinds declares the objects the controllers work on: how each is served,
// indexed and kept in memory. Informers, views and the simulator all take it from
// here.
package kinds

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// Index names.
const (
	// ByController finds objects by the UID of their controller. Sandboxes are found by
	// that of a pool or claim alone: another kind of object that carries the same UID is
	// not it.
	ByController = "controller"
	// ByTemplate finds warm pools, unbound claims and Sandboxes by InNamespace of the
	// SandboxTemplate they name.
	ByTemplate = "template"
	// ByPool finds unbound claims by InNamespace of the SandboxWarmPool they name.
	ByPool = "pool"
	// BySandbox finds bound claims by InNamespace of the Sandbox their status names.
	BySandbox = "sandbox"
)

// InNamespace is the index value of a name, unique across namespaces.
func InNamespace(namespace, name string) string { return namespace + "/" + name }

// Kind is one kind of object.
type Kind[T client.Object] struct {
	GVK      schema.GroupVersionKind
	Resource string
	// New returns an empty object.
	New     func() T
	Indexes map[string]consistent.Index[T]
	// Slim drops what no controller reads from an object that is about to be cached.
	// It modifies and returns its argument.
	Slim func(T) T
}

// Views are the consistent views of all kinds.
type Views struct {
	Sandboxes       consistent.Kind[*agents.Sandbox]
	Templates       consistent.Kind[*extensions.SandboxTemplate]
	WarmPools       consistent.Kind[*extensions.SandboxWarmPool]
	Claims          consistent.Kind[*extensions.SandboxClaim]
	Pods            consistent.Kind[*corev1.Pod]
	Services        consistent.Kind[*corev1.Service]
	VolumeClaims    consistent.Kind[*corev1.PersistentVolumeClaim]
	NetworkPolicies consistent.Kind[*networkingv1.NetworkPolicy]

	AgentRuntimes consistent.Kind[*agentruntime.AgentRuntime]
	Deployments   consistent.Kind[*appsv1.Deployment]
	StatefulSets  consistent.Kind[*appsv1.StatefulSet]
	ReplicaSets   consistent.Kind[*appsv1.ReplicaSet]
	ConfigMaps    consistent.Kind[*corev1.ConfigMap]
}

// Sandboxes are found by controller and by template.
func Sandboxes() Kind[*agents.Sandbox] {
	return Kind[*agents.Sandbox]{
		GVK:      agents.GroupVersion.WithKind("Sandbox"),
		Resource: "sandboxes",
		New:      func() *agents.Sandbox { return &agents.Sandbox{} },
		Indexes: map[string]consistent.Index[*agents.Sandbox]{
			ByController: controllerOfExtensions,
			ByTemplate: func(s *agents.Sandbox) []string {
				return named(s.Namespace, s.Annotations[agents.AnnotationTemplateRef])
			},
		},
		Slim: withoutManagedFields[*agents.Sandbox],
	}
}

// Templates have no index.
func Templates() Kind[*extensions.SandboxTemplate] {
	return Kind[*extensions.SandboxTemplate]{
		GVK:      extensions.GroupVersion.WithKind("SandboxTemplate"),
		Resource: "sandboxtemplates",
		New:      func() *extensions.SandboxTemplate { return &extensions.SandboxTemplate{} },
		Slim:     withoutManagedFields[*extensions.SandboxTemplate],
	}
}

// WarmPools are found by template.
func WarmPools() Kind[*extensions.SandboxWarmPool] {
	return Kind[*extensions.SandboxWarmPool]{
		GVK:      extensions.GroupVersion.WithKind("SandboxWarmPool"),
		Resource: "sandboxwarmpools",
		New:      func() *extensions.SandboxWarmPool { return &extensions.SandboxWarmPool{} },
		Indexes: map[string]consistent.Index[*extensions.SandboxWarmPool]{
			ByTemplate: func(p *extensions.SandboxWarmPool) []string { return named(p.Namespace, p.Spec.TemplateRef.Name) },
		},
		Slim: withoutManagedFields[*extensions.SandboxWarmPool],
	}
}

// Claims are found, while unbound, by the pool or template they name, and then by their
// Sandbox.
func Claims() Kind[*extensions.SandboxClaim] {
	unbound := func(name func(*extensions.SandboxClaim) string) consistent.Index[*extensions.SandboxClaim] {
		return func(c *extensions.SandboxClaim) []string {
			if c.Status.Sandbox.Name != "" || c.DeletionTimestamp != nil {
				return nil
			}
			return named(c.Namespace, name(c))
		}
	}
	return Kind[*extensions.SandboxClaim]{
		GVK:      extensions.GroupVersion.WithKind("SandboxClaim"),
		Resource: "sandboxclaims",
		New:      func() *extensions.SandboxClaim { return &extensions.SandboxClaim{} },
		Indexes: map[string]consistent.Index[*extensions.SandboxClaim]{
			ByPool:     unbound((*extensions.SandboxClaim).PoolName),
			ByTemplate: unbound((*extensions.SandboxClaim).TemplateName),
			BySandbox: func(c *extensions.SandboxClaim) []string {
				return named(c.Namespace, c.Status.Sandbox.Name)
			},
		},
		Slim: withoutManagedFields[*extensions.SandboxClaim],
	}
}

// Pods are found by controller. Of their spec only the node is kept: thousands of
// pods of every other workload pass through this cache too.
func Pods() Kind[*corev1.Pod] {
	return Kind[*corev1.Pod]{
		GVK:      corev1.SchemeGroupVersion.WithKind("Pod"),
		Resource: "pods",
		New:      func() *corev1.Pod { return &corev1.Pod{} },
		Indexes:  map[string]consistent.Index[*corev1.Pod]{ByController: controller[*corev1.Pod]},
		Slim: func(p *corev1.Pod) *corev1.Pod {
			p.ManagedFields = nil
			p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
			return p
		},
	}
}

// Services are found by name.
func Services() Kind[*corev1.Service] {
	return Kind[*corev1.Service]{
		GVK:      corev1.SchemeGroupVersion.WithKind("Service"),
		Resource: "services",
		New:      func() *corev1.Service { return &corev1.Service{} },
		Slim:     withoutManagedFields[*corev1.Service],
	}
}

// VolumeClaims are PersistentVolumeClaims, found by name.
func VolumeClaims() Kind[*corev1.PersistentVolumeClaim] {
	return Kind[*corev1.PersistentVolumeClaim]{
		GVK:      corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		Resource: "persistentvolumeclaims",
		New:      func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
		Slim:     withoutManagedFields[*corev1.PersistentVolumeClaim],
	}
}

// NetworkPolicies are found by name.
func NetworkPolicies() Kind[*networkingv1.NetworkPolicy] {
	return Kind[*networkingv1.NetworkPolicy]{
		GVK:      networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		Resource: "networkpolicies",
		New:      func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
		Slim:     withoutManagedFields[*networkingv1.NetworkPolicy],
	}
}

func controllerOfExtensions(s *agents.Sandbox) []string {
	if ref := metav1.GetControllerOfNoCopy(s); ref != nil && strings.HasPrefix(ref.APIVersion, extensions.GroupVersion.Group+"/") {
		return []string{string(ref.UID)}
	}
	return nil
}

func controller[T client.Object](obj T) []string {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

func named(namespace, name string) []string {
	if name == "" {
		return nil
	}
	return []string{InNamespace(namespace, name)}
}

func withoutManagedFields[T client.Object](obj T) T {
	obj.SetManagedFields(nil)
	return obj
}
