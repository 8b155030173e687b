// SPDX-License-Identifier: Apache-2.0

// Package launch makes the objects of an agent: the AgentRuntime that configures it, the
// workload that runs it, and what those need.
//
// The workload is made stopped: a Sandbox is Suspended, a Deployment or a StatefulSet
// has no replicas. So no pod can be without its configuration, however late the
// controller of AgentRuntimes puts it on, and whatever becomes of the configuration
// meanwhile. Nothing here computes the configuration's hash or sets a label that is the
// controller's to set: clusters may refuse those to anybody else, and only the
// controller knows where its configuration is.
//
// The AgentRuntime comes first and owns the others, so that whoever deletes it leaves
// nothing behind, at whatever point the making of them ended. A volume is not owned by
// it: data outlives what made it.
package launch

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/workload"
)

// Keys of the objects.
const (
	// LabelAgent holds the agent's name, on each of its objects and on its pods.
	LabelAgent = "berth.dev/agent"
	// LabelName, LabelComponent and LabelManagedBy are those that Kubernetes recommends.
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "berth"
	// AnnotationReplicas holds, on a Deployment or a StatefulSet that is suspended, how
	// many replicas it has otherwise.
	AnnotationReplicas = "berth.dev/replicas"
	// AnnotationRun tells the objects of one call from those of another.
	AnnotationRun = "berth.dev/run"
)

// MaxNameLength is the longest name of an agent: controllers add to it, and what they
// make of it is a label's value.
const MaxNameLength = 52

// Spec says what an agent is.
type Spec struct {
	Namespace, Name string
	// Kind is one of the workload package's.
	Kind string
	Type api.RuntimeType
	MTLS api.MTLSMode

	Image string
	// Command replaces the image's, if there is one.
	Command []string
	Env     []corev1.EnvVar
	// Port is the container's, and ServicePort the Service's.
	Port, ServicePort int32
	// CPU and Memory are limits.
	CPU, Memory resource.Quantity
	// ImagePullSecret may be empty.
	ImagePullSecret string
	// ServiceAccount is one that exists; if it is empty one is made.
	ServiceAccount string
	// RunAsUser is who the container runs as, nil is who its image says. 0 is root, which
	// nothing else permits.
	RunAsUser *int64
	// Storage is the size of a volume at Mount; zero is none.
	Storage resource.Quantity
	Mount   string
	// Labels are for all objects.
	Labels map[string]string
	// Run is the value of AnnotationRun.
	Run string
}

// Objects returns what is made, in this order. Owner references are not set: see Own.
func (s Spec) Objects() []client.Object {
	list := []client.Object{s.runtime()}
	if s.ServiceAccount == "" {
		list = append(list, s.account())
	}
	if s.separateVolume() {
		list = append(list, s.volume())
	}
	return append(list, s.service(), s.workload())
}

// Own makes an object go when the AgentRuntime does. Volumes stay.
func Own(obj client.Object, owner *api.AgentRuntime) {
	if _, volume := obj.(*corev1.PersistentVolumeClaim); volume {
		return
	}
	// It is no controller reference, which is the workload's own business, and does not
	// block the owner's deletion, which not everybody may ask for.
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: api.GroupVersion.String(), Kind: api.AgentRuntimeKind, Name: owner.Name, UID: owner.UID,
	}})
}

// Made reports whether an object was made for the named agent. What else has its name, or
// what its AgentRuntime configures, is somebody else's.
func Made(obj client.Object, name string) bool { return obj.GetLabels()[LabelAgent] == name }

// Selector are the labels that an agent's pods have, and no others.
func Selector(name string) map[string]string { return map[string]string{LabelAgent: name} }

func (s Spec) labels() map[string]string {
	all := maps.Clone(s.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, map[string]string{
		LabelAgent: s.Name, LabelName: s.Name, LabelComponent: string(s.Type), LabelManagedBy: ManagedBy,
	})
	return all
}

func (s Spec) meta() metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.labels()}
	if s.Run != "" {
		m.Annotations = map[string]string{AnnotationRun: s.Run}
	}
	return m
}

func (s Spec) runtime() *api.AgentRuntime {
	ref := api.TargetReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: s.Kind, Name: s.Name}
	if s.Kind == workload.Sandbox {
		ref.APIVersion = agents.GroupVersion.String()
	}
	return &api.AgentRuntime{
		TypeMeta:   typeMeta(api.GroupVersion.String(), api.AgentRuntimeKind),
		ObjectMeta: s.meta(),
		Spec:       api.AgentRuntimeSpec{Type: s.Type, TargetRef: ref, MTLSMode: s.MTLS},
	}
}

func (s Spec) account() *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: s.meta(), AutomountServiceAccountToken: &no}
}

// service has a virtual address: one without could not translate the port.
func (s Spec) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   typeMeta("v1", "Service"),
		ObjectMeta: s.meta(),
		Spec: corev1.ServiceSpec{
			Selector: Selector(s.Name),
			Ports:    []corev1.ServicePort{{Name: portName, Port: s.ServicePort, TargetPort: intstr.FromInt32(s.Port), Protocol: corev1.ProtocolTCP}},
		},
	}
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}
