// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func TestDifferences(t *testing.T) {
	const pod = `
restartPolicy: Always
serviceAccountName: default
containers:
- name: sidecar
  image: proxy:1
- name: main
  image: busybox:1.36
  imagePullPolicy: IfNotPresent
  command: [sleep, "100"]
  env: [{name: A, value: "1"}, {name: B, value: "2"}]
  resources: {requests: {cpu: 100m}}
  volumeMounts: [{name: token, mountPath: /token}]
tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]
`
	const template = "containers:\n- name: main\n  image: busybox:1.36\n  command: [sleep, \"100\"]\n"
	cases := map[string]struct {
		template string
		want     []string
	}{
		"what the server added is no difference": {template, nil},
		"an image":                               {"containers: [{name: main, image: 'busybox:1.37'}]", []string{"spec.containers[main].image"}},
		"a container that is not there":          {"containers: [{name: other, image: x}]", []string{"spec.containers[other]"}},
		"an item of a list":                      {"containers: [{name: main, command: [sleep, '200']}]", []string{"spec.containers[main].command[1]"}},
		"a further item":                         {"containers: [{name: main, command: [sleep, '100', x]}]", []string{"spec.containers[main].command[2]"}},
		"a variable": {
			"containers: [{name: main, env: [{name: B, value: '3'}, {name: A, value: '1'}]}]", []string{"spec.containers[main].env[B].value"},
		},
		"a quantity": {
			"containers: [{name: main, resources: {requests: {cpu: 200m}}}]", []string{"spec.containers[main].resources.requests.cpu"},
		},
		"the order of fields is sorted": {"restartPolicy: Never\nhostname: x\ncontainers: []", []string{"spec.hostname", "spec.restartPolicy"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var want, have corev1.PodSpec
			for text, into := range map[string]*corev1.PodSpec{c.template: &want, pod: &have} {
				if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			if got := differences(&want, &have); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestALongListOfDifferencesIsCut(t *testing.T) {
	if got := listed([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}); got != "1, 2, 3, 4, 5, 6, 7, 8 and 2 more" {
		t.Errorf("got %q", got)
	}
}

func TestCanonicalFormDependsOnMeaningOnly(t *testing.T) {
	same := map[string][2]corev1.PodSpec{
		"an empty list is no list": {{Volumes: []corev1.Volume{}}, {}},
		"an empty map is no map":   {{NodeSelector: map[string]string{}}, {}},
		"an empty part is no part": {
			{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}}},
			{Containers: []corev1.Container{{Name: "a"}}},
		},
		"false is the default": {{HostNetwork: false}, {}},
	}
	for name, pair := range same {
		if digest(canonicalJSON(&pair[0])) != digest(canonicalJSON(&pair[1])) {
			t.Errorf("%s: the digests differ", name)
		}
	}
	different := map[string][2]corev1.PodSpec{
		"false where the default is not": {{AutomountServiceAccountToken: ptr.To(false)}, {}},
		"zero where the default is not":  {{TerminationGracePeriodSeconds: ptr.To[int64](0)}, {}},
		"an empty value of a map":        {{NodeSelector: map[string]string{"gpu": ""}}, {}},
		"an empty item of a list":        {{Containers: []corev1.Container{{Args: []string{"", "a"}}}}, {Containers: []corev1.Container{{Args: []string{"a"}}}}},
		"the order of a list":            {{Containers: []corev1.Container{{Args: []string{"a", "b"}}}}, {Containers: []corev1.Container{{Args: []string{"b", "a"}}}}},
		"a part of a kind that is inline": {
			{Volumes: []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}},
			{Volumes: []corev1.Volume{{Name: "a"}}},
		},
	}
	for name, pair := range different {
		if digest(canonicalJSON(&pair[0])) == digest(canonicalJSON(&pair[1])) {
			t.Errorf("%s: the digests are the same", name)
		}
	}
}
