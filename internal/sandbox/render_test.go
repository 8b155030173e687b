// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func withVolumes(s *agents.Sandbox) {
	s.Spec.PodTemplate.Spec.Volumes = []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	s.Spec.PodTemplate.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	for _, name := range []string{"work", "data"} {
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, agents.PersistentVolumeClaimTemplate{
			Metadata: agents.EmbeddedObjectMetadata{Name: name, Labels: map[string]string{"tier": "x"}, Annotations: map[string]string{"note": "y"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		})
	}
}

func TestRenderedObjects(t *testing.T) {
	bare := newSandbox(withVolumes)
	before := bare.DeepCopy()
	golden(t, "pod", renderPod(bare, testSettings))
	golden(t, "volumeclaim", renderVolumeClaim(bare, bare.Spec.VolumeClaimTemplates[0]))
	golden(t, "service", renderService(bare, serviceSelector(bare, nil)))
	golden(t, "pod-of-pool", renderPod(newSandbox(inPool, func(s *agents.Sandbox) {
		s.Labels = map[string]string{agents.LabelCreatedBy: "controller"}
	}), testSettings))
	golden(t, "pod-of-claim", renderPod(newSandbox(inClaim, func(s *agents.Sandbox) {
		s.Labels = map[string]string{agents.LabelCreatedBy: "my-tool"}
	}), testSettings))
	if statusStep(before, bare.Status) != nil || revision(before) != revision(bare) || len(before.Spec.PodTemplate.Spec.Volumes) != len(bare.Spec.PodTemplate.Spec.Volumes) {
		t.Error("rendering modifies the Sandbox")
	}
}
