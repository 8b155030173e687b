// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// NewReader returns a reader of all that explanations rest on. The kinds are listed
// rather than discovered, which would cost two requests.
func NewReader(config *rest.Config) (client.Reader, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, networkingv1.AddToScheme, coordinationv1.AddToScheme, appsv1.AddToScheme,
		agents.AddToScheme, extensions.AddToScheme, agentruntime.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Pod"):                         "pods",
		corev1.SchemeGroupVersion.WithKind("Service"):                     "services",
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):       "persistentvolumeclaims",
		corev1.SchemeGroupVersion.WithKind("Event"):                       "events",
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):                   "configmaps",
		appsv1.SchemeGroupVersion.WithKind("Deployment"):                  "deployments",
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):                  "replicasets",
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"):                 "statefulsets",
		agentruntime.GroupVersion.WithKind(agentruntime.AgentRuntimeKind): "agentruntimes",
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):         "networkpolicies",
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):               "leases",
		agents.GroupVersion.WithKind(agents.SandboxKind):                  "sandboxes",
		extensions.GroupVersion.WithKind(extensions.SandboxClaimKind):     "sandboxclaims",
		extensions.GroupVersion.WithKind(extensions.SandboxWarmPoolKind):  "sandboxwarmpools",
		extensions.GroupVersion.WithKind(extensions.SandboxTemplateKind):  "sandboxtemplates",
	} {
		group := kind.GroupVersion()
		mapper.AddSpecific(kind, group.WithResource(resource), group.WithResource(strings.ToLower(kind.Kind)), meta.RESTScopeNamespace)
	}
	core := corev1.SchemeGroupVersion
	mapper.AddSpecific(core.WithKind("Node"), core.WithResource("nodes"), core.WithResource("node"), meta.RESTScopeRoot)
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}
