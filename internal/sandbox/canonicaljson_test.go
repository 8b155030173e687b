// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestCanonicalJSONIsThatOfTheCanonicalForm(t *testing.T) {
	specs := map[string]*corev1.PodSpec{
		"nothing":                  {},
		"strings that are escaped": {Hostname: "<a>&\"\\\n\u2028é\x7f", NodeSelector: map[string]string{"b": "", "a<": "1", "": "x"}},
		"empty things that are set": {
			Containers: []corev1.Container{{}}, SecurityContext: &corev1.PodSecurityContext{}, Tolerations: []corev1.Toleration{},
			Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: &metav1.LabelSelector{}}, {},
			}}},
			HostNetwork: false, EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)),
		},
		"types with a form of their own": {
			Overhead: corev1.ResourceList{"memory": resource.MustParse("1Gi"), "cpu": resource.MustParse("1500m"), "none": {}},
			Containers: []corev1.Container{{
				Name: "a", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}},
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
			}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1M"))}}}},
		},
	}
	files, err := filepath.Glob(filepath.Join("testdata", "revisions", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		specs[filepath.Base(file)] = &readSandbox(t, file).Spec.PodTemplate.Spec
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			want, err := json.Marshal(canonical(*spec))
			if err != nil {
				t.Fatal(err)
			}
			if got := canonicalJSON(spec); !bytes.Equal(got, want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func BenchmarkRevision(b *testing.B) {
	s := newSandbox()
	b.ReportAllocs()
	for b.Loop() {
		revision(s)
	}
}
