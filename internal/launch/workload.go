// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/workload"
)

const (
	// Container is the name of an agent's container.
	Container  = "agent"
	portName   = "http"
	volumeName = "data"
	// volumeGroup owns the files of a volume where no user is named.
	volumeGroup = 1000
)

// What an agent asks for, where its limits are not less.
var (
	requestCPU    = resource.MustParse("100m")
	requestMemory = resource.MustParse("256Mi")
)

// separateVolume reports whether the volume is an object of its own. A StatefulSet makes
// its own, and leaves it behind; a Sandbox would take its own along when it goes.
func (s Spec) separateVolume() bool { return !s.Storage.IsZero() && s.Kind != workload.StatefulSet }

// VolumeName is the name of the volume of an agent of a kind.
func VolumeName(kind, name string) string {
	if kind == workload.StatefulSet {
		return volumeName + "-" + name + "-0"
	}
	return name + "-" + volumeName
}

func (s Spec) volume() *corev1.PersistentVolumeClaim {
	v := &corev1.PersistentVolumeClaim{TypeMeta: typeMeta("v1", "PersistentVolumeClaim"), ObjectMeta: s.meta(), Spec: s.volumeSpec()}
	v.Name = VolumeName(s.Kind, s.Name)
	return v
}

func (s Spec) volumeSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: s.Storage}},
	}
}

// workload returns what runs the agent, stopped.
func (s Spec) workload() client.Object {
	meta, template := s.meta(), corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: s.labels()}, Spec: s.pod()}
	if s.Kind == workload.Sandbox {
		b := &agents.Sandbox{TypeMeta: typeMeta(agents.GroupVersion.String(), agents.SandboxKind), ObjectMeta: meta}
		b.Spec.OperatingMode = agents.OperatingModeSuspended
		b.Spec.PodTemplate.Metadata.Labels = template.Labels
		b.Spec.PodTemplate.Spec = template.Spec
		return b
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[AnnotationReplicas] = strconv.Itoa(1)
	selector := &metav1.LabelSelector{MatchLabels: Selector(s.Name)}
	if s.Kind == workload.Deployment {
		d := &appsv1.Deployment{
			TypeMeta: typeMeta(appsv1.SchemeGroupVersion.String(), workload.Deployment), ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: template},
		}
		if !s.Storage.IsZero() {
			// The next pod may be on another node, where the volume cannot be before the
			// one that has it is gone.
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}
		return d
	}
	set := &appsv1.StatefulSet{
		TypeMeta: typeMeta(appsv1.SchemeGroupVersion.String(), workload.StatefulSet), ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: template, ServiceName: s.Name},
	}
	if !s.Storage.IsZero() {
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: volumeName, Labels: s.labels()}, Spec: s.volumeSpec()}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	}
	return set
}

// pod is what runs, with no more rights than it needs.
func (s Spec) pod() corev1.PodSpec {
	root := s.RunAsUser != nil && *s.RunAsUser == 0
	limits := corev1.ResourceList{corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory}
	c := corev1.Container{
		Name: Container, Image: s.Image, Command: s.Command, Env: s.env(),
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: s.Port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{Limits: limits, Requests: corev1.ResourceList{
			corev1.ResourceCPU: least(requestCPU, s.CPU), corev1.ResourceMemory: least(requestMemory, s.Memory),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	p := corev1.PodSpec{
		ServiceAccountName:           s.ServiceAccount,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(!root),
			RunAsUser:      s.RunAsUser,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if p.ServiceAccountName == "" {
		p.ServiceAccountName = s.Name
	}
	if s.ImagePullSecret != "" {
		p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: s.ImagePullSecret}}
	}
	if !s.Storage.IsZero() {
		c.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: s.Mount}}
		p.SecurityContext.FSGroup = ptr.To(ptr.Deref(s.RunAsUser, volumeGroup))
		p.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
	if s.separateVolume() {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: VolumeName(s.Kind, s.Name)}}
		p.Volumes = []corev1.Volume{{Name: volumeName, VolumeSource: source}}
	}
	p.Containers = []corev1.Container{c}
	return p
}

// env tells the agent where to listen, unless its variables do. Of two with one name the
// later counts.
func (s Spec) env() []corev1.EnvVar {
	all := []corev1.EnvVar{{Name: "HOST", Value: "0.0.0.0"}, {Name: "PORT", Value: strconv.Itoa(int(s.Port))}}
	for _, v := range s.Env {
		all = slices.DeleteFunc(all, func(had corev1.EnvVar) bool { return had.Name == v.Name })
		all = append(all, v)
	}
	return all
}

func least(a, b resource.Quantity) resource.Quantity {
	if b.Cmp(a) < 0 {
		return b
	}
	return a
}
