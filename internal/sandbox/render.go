// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// controllerRef makes a Sandbox the controller of what it owns.
func controllerRef(s *agents.Sandbox) metav1.OwnerReference {
	return *metav1.NewControllerRef(s, agents.GroupVersion.WithKind(agents.SandboxKind))
}

// ownersWith are obj's owners after the Sandbox became its controller.
func ownersWith(s *agents.Sandbox, obj metav1.Object) []metav1.OwnerReference {
	return append(slices.Clone(obj.GetOwnerReferences()), controllerRef(s))
}

// renderPod is the pod of a Sandbox as it is created.
func renderPod(s *agents.Sandbox, set settings) *corev1.Pod {
	metadata := metadataFor(s, set)
	metadata.annotations[agents.AnnotationTemplateRevision] = revision(s)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.Namespace,
			Name:            s.Name,
			Labels:          metadata.labels,
			Annotations:     metadata.annotations,
			OwnerReferences: []metav1.OwnerReference{controllerRef(s)},
		},
		Spec: podSpec(s),
	}
}

// podSpec is the template's spec with a volume for every volumeClaimTemplate. As in a
// StatefulSet, it takes the place of a volume of the same name.
func podSpec(s *agents.Sandbox) corev1.PodSpec {
	spec := *s.Spec.PodTemplate.Spec.DeepCopy()
	for _, template := range s.Spec.VolumeClaimTemplates {
		name := template.Metadata.Name
		volume := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: agents.PersistentVolumeClaimName(name, s.Name)},
		}}
		if i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }); i >= 0 {
			spec.Volumes[i] = volume
		} else {
			spec.Volumes = append(spec.Volumes, volume)
		}
	}
	return spec
}

// renderVolumeClaim is the claim made for a Sandbox from one of its templates.
func renderVolumeClaim(s *agents.Sandbox, template agents.PersistentVolumeClaimTemplate) *corev1.PersistentVolumeClaim {
	labels := propagated(template.Metadata.Labels)
	labels[agents.LabelSandboxNameHash] = agents.NameHash(s.Name)
	return &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.Namespace,
			Name:            agents.PersistentVolumeClaimName(template.Metadata.Name, s.Name),
			Labels:          labels,
			Annotations:     propagated(template.Metadata.Annotations),
			OwnerReferences: []metav1.OwnerReference{controllerRef(s)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// renderService is the headless Service of a Sandbox as it is created.
func renderService(s *agents.Sandbox, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.Namespace,
			Name:            s.Name,
			Labels:          map[string]string{agents.LabelSandboxNameHash: agents.NameHash(s.Name)},
			OwnerReferences: []metav1.OwnerReference{controllerRef(s)},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  selector,
			Ports:     servicePorts(&s.Spec.PodTemplate.Spec),
		},
	}
}

// servicePorts are the ports of a pod's containers and restartable init containers:
// each once, by number and protocol, under the first name that is given and free.
func servicePorts(pod *corev1.PodSpec) []corev1.ServicePort {
	type key struct {
		port     int32
		protocol corev1.Protocol
	}
	asked := map[key][]string{}
	collect := func(containers []corev1.Container) {
		for _, c := range containers {
			for _, p := range c.Ports {
				k := key{p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP)}
				if _, known := asked[k]; !known {
					asked[k] = nil
				}
				if p.Name != "" {
					asked[k] = append(asked[k], p.Name)
				}
			}
		}
	}
	collect(pod.Containers)
	for _, c := range pod.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			collect([]corev1.Container{c})
		}
	}
	keys := make([]key, 0, len(asked))
	for k := range asked {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol))
	})
	var ports []corev1.ServicePort
	taken := map[string]bool{}
	for _, k := range keys {
		name := freeName(asked[k], fmt.Sprintf("p-%d-%s", k.port, strings.ToLower(string(k.protocol))), taken)
		taken[name] = true
		ports = append(ports, corev1.ServicePort{Name: name, Protocol: k.protocol, Port: k.port, TargetPort: intstr.FromInt32(k.port)})
	}
	return ports
}

// freeName is the first of the names that is not taken, else the fallback, numbered if
// it is taken too.
func freeName(names []string, fallback string, taken map[string]bool) string {
	for _, name := range names {
		if !taken[name] {
			return name
		}
	}
	name := fallback
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", fallback, n)
	}
	return name
}
