// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func newTemplate() *extensions.SandboxTemplate {
	return &extensions.SandboxTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "python", UID: "template-uid", Generation: 3},
		Spec: extensions.SandboxTemplateSpec{
			SandboxBlueprint: agents.SandboxBlueprint{
				PodTemplate: agents.PodTemplate{
					Metadata: agents.PodMetadata{
						Labels:      map[string]string{"team": "a", "agents.x-k8s.io/claim-uid": "forged"},
						Annotations: map[string]string{"note": "x"},
					},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: "main", Image: "busybox:1.36",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
					}}},
				},
				VolumeClaimTemplates: []agents.PersistentVolumeClaimTemplate{{Metadata: agents.EmbeddedObjectMetadata{Name: "work"}}},
			},
		},
	}
}

func newPool() *extensions.SandboxWarmPool {
	return &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fast", UID: "pool-uid"}}
}

// newMember is a member as the server hands it back.
func newMember(t *extensions.SandboxTemplate) *agents.Sandbox {
	s := Member(newPool(), t, "fast-abcde")
	s.UID, s.Generation = "sandbox-uid", 1
	s.Spec.OperatingMode, s.Spec.ShutdownPolicy, s.Spec.Replicas = agents.OperatingModeRunning, agents.ShutdownPolicyRetain, ptr.To[int32](1)
	return s
}

func TestMemberIsRenderedAsWritten(t *testing.T) {
	got, err := yaml.Marshal(Member(newPool(), newTemplate(), "fast-abcde"))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "member.yaml")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("member is rendered as\n%s\nwant\n%s", got, want)
	}
}

func TestSpecHasSecureDefaults(t *testing.T) {
	type facts struct {
		token       *bool
		dns         corev1.DNSPolicy
		nameservers []string
	}
	public := []string{"8.8.8.8", "1.1.1.1"}
	cases := map[string]struct {
		edit func(*extensions.SandboxTemplate)
		want facts
	}{
		"no token, and public DNS under the default policy": {
			edit: func(*extensions.SandboxTemplate) {},
			want: facts{ptr.To(false), corev1.DNSNone, public},
		},
		"a token that the template asks for is kept": {
			edit: func(t *extensions.SandboxTemplate) {
				t.Spec.PodTemplate.Spec.AutomountServiceAccountToken = ptr.To(true)
			},
			want: facts{ptr.To(true), corev1.DNSNone, public},
		},
		"a DNS policy that the template asks for is kept": {
			edit: func(t *extensions.SandboxTemplate) { t.Spec.PodTemplate.Spec.DNSPolicy = corev1.DNSDefault },
			want: facts{ptr.To(false), corev1.DNSDefault, nil},
		},
		"name servers that the template names are kept": {
			edit: func(t *extensions.SandboxTemplate) {
				t.Spec.PodTemplate.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"9.9.9.9"}}
			},
			want: facts{ptr.To(false), corev1.DNSNone, []string{"9.9.9.9"}},
		},
		"rules of the template's own leave DNS alone": {
			edit: func(t *extensions.SandboxTemplate) { t.Spec.NetworkPolicy = &extensions.NetworkPolicySpec{} },
			want: facts{ptr.To(false), "", nil},
		},
		"an unmanaged policy leaves DNS alone": {
			edit: func(t *extensions.SandboxTemplate) {
				t.Spec.NetworkPolicyManagement = extensions.NetworkPolicyUnmanaged
			},
			want: facts{ptr.To(false), "", nil},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			template := newTemplate()
			c.edit(template)
			before := template.DeepCopy()
			pod := Spec(template).PodTemplate.Spec
			got := facts{token: pod.AutomountServiceAccountToken, dns: pod.DNSPolicy}
			if pod.DNSConfig != nil {
				got.nameservers = pod.DNSConfig.Nameservers
			}
			if !equality.Semantic.DeepEqual(got.token, c.want.token) || got.dns != c.want.dns || !equality.Semantic.DeepEqual(got.nameservers, c.want.nameservers) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if !equality.Semantic.DeepEqual(before, template) {
				t.Error("the template was modified")
			}
		})
	}
}

func TestHashesAreOverTheJSONOfTheBlueprint(t *testing.T) {
	template := &extensions.SandboxTemplate{}
	template.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main"}}
	template.Spec.PodTemplate.Metadata.Labels = map[string]string{"b": "2", "a": "1"}
	const podTemplate = `{"spec":{"containers":[{"name":"main","resources":{}}]},"metadata":{"labels":{"a":"1","b":"2"}}}`
	check := func(blueprint string) {
		t.Helper()
		if got, want := Hash(template), agents.NameHash(blueprint); got != want {
			t.Errorf("template hash %s, want %s", got, want)
		}
		if got, want := PodTemplateHash(template), agents.NameHash(podTemplate); got != want {
			t.Errorf("pod template hash %s, want %s", got, want)
		}
	}
	check(`{"podTemplate":` + podTemplate + `}`)
	template.Spec.Service = ptr.To(true)
	check(`{"podTemplate":` + podTemplate + `,"service":true}`)
}

func TestMatches(t *testing.T) {
	edited := func(edit func(*agents.Sandbox)) func(*agents.Sandbox) {
		return func(s *agents.Sandbox) { s.Generation = 2; edit(s) }
	}
	none := func(*extensions.SandboxTemplate) {}
	cases := map[string]struct {
		sandbox  func(*agents.Sandbox)
		template func(*extensions.SandboxTemplate)
		want     bool
	}{
		"a member of today's template matches": {
			sandbox: func(*agents.Sandbox) {}, template: none, want: true,
		},
		"status and labels may change": {
			sandbox: func(s *agents.Sandbox) { s.Labels["x"] = "y"; s.Status.PodIPs = []string{"10.0.0.1"} }, template: none, want: true,
		},
		"what admission added at creation is no difference": {
			sandbox: func(s *agents.Sandbox) { s.Spec.PodTemplate.Spec.PriorityClassName = "injected" }, template: none, want: true,
		},
		"the hash says nothing of a spec that was edited": {
			sandbox: edited(func(s *agents.Sandbox) { s.Spec.PodTemplate.Spec.PriorityClassName = "edited" }), template: none, want: false,
		},
		"a spec that was edited back matches": {
			sandbox: edited(func(*agents.Sandbox) {}), template: none, want: true,
		},
		"a hash that differs proves nothing": {
			sandbox: func(s *agents.Sandbox) { s.Labels[agents.LabelTemplateHash] = "00000000" }, template: none, want: true,
		},
		"a new image does not match": {
			sandbox:  func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) { t.Spec.PodTemplate.Spec.Containers[0].Image = "busybox:2" }, want: false,
		},
		"the same quantity written otherwise matches": {
			sandbox: func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) {
				t.Spec.PodTemplate.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("0.1")
			},
			want: true,
		},
		"a new pod label does not match": {
			sandbox:  func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) { t.Spec.PodTemplate.Metadata.Labels["team"] = "b" }, want: false,
		},
		"a pod annotation taken away does not match": {
			sandbox:  func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) { t.Spec.PodTemplate.Metadata.Annotations = nil }, want: false,
		},
		"a new volume does not match": {
			sandbox: func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) {
				t.Spec.VolumeClaimTemplates[0].Metadata.Name = "other"
			},
			want: false,
		},
		"a Service asked for since does not match": {
			sandbox:  func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) { t.Spec.Service = ptr.To(false) }, want: false,
		},
		"a new update strategy does not match": {
			sandbox: func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) {
				t.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
			},
			want: false,
		},
		"the default update strategy written out matches": {
			sandbox: func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) {
				t.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateOnDelete}
			},
			want: true,
		},
		"a new answer to failed pods does not match": {
			sandbox:  func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) { t.Spec.PodFailureAction = agents.PodFailureReplace }, want: false,
		},
		"DNS that follows from the network policy counts, although no hash covers it": {
			sandbox: func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) {
				t.Spec.NetworkPolicyManagement = extensions.NetworkPolicyUnmanaged
			},
			want: false,
		},
		"another template of the same content does not match": {
			sandbox:  func(*agents.Sandbox) {},
			template: func(t *extensions.SandboxTemplate) { t.Name = "other" }, want: false,
		},
		"a suspended Sandbox does not match": {
			sandbox: func(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }, template: none, want: false,
		},
		"a Sandbox with no replicas does not match": {
			sandbox: func(s *agents.Sandbox) { s.Spec.Replicas = ptr.To[int32](0) }, template: none, want: false,
		},
		"a Sandbox that ends by itself does not match": {
			sandbox: func(s *agents.Sandbox) { s.Spec.ShutdownTime = ptr.To(metav1.NewTime(time.Unix(0, 0))) }, template: none, want: false,
		},
		"a Sandbox that would delete itself does not match": {
			sandbox: func(s *agents.Sandbox) { s.Spec.ShutdownPolicy = agents.ShutdownPolicyDelete }, template: none, want: false,
		},
		"keys that other controllers write into the podTemplate do not count": {
			sandbox: edited(func(s *agents.Sandbox) {
				s.Spec.PodTemplate.Metadata.Labels[agents.LabelWarmPool] = "12345678"
				s.Spec.PodTemplate.Metadata.Annotations[agents.AnnotationSafeToEvict] = "true"
			}),
			template: none, want: true,
		},
		"a foreign pod label counts": {
			sandbox:  edited(func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata.Labels["planted"] = "yes" }),
			template: none, want: false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			member := newMember(newTemplate())
			c.sandbox(member)
			template := newTemplate()
			c.template(template)
			before := member.DeepCopy()
			if got := Matches(member, template); got != c.want {
				t.Errorf("got %v", got)
			}
			if !equality.Semantic.DeepEqual(before, member) {
				t.Error("the Sandbox was modified")
			}
		})
	}
}

func BenchmarkMatches(b *testing.B) {
	blueprint, member := Of(newTemplate()), newMember(newTemplate())
	for generation, name := range map[int64]string{1: "by hash", 2: "by content"} {
		member := member.DeepCopy()
		member.Generation = generation
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !blueprint.Matches(member) {
					b.Fatal("does not match")
				}
			}
		})
	}
}
