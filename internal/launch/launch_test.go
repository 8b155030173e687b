// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/workload"
)

var update = flag.Bool("update", false, "write the golden files")

func newSpec(edits ...func(*Spec)) Spec {
	s := Spec{
		Namespace: "team", Name: "researcher", Kind: workload.Sandbox, Type: api.RuntimeTypeAgent, MTLS: api.MTLSPermissive,
		Image: "registry.example/researcher:1.4", Port: 8000, ServicePort: 8080, Mount: "/data",
		CPU: resource.MustParse("500m"), Memory: resource.MustParse("1Gi"), Run: "abc",
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func withVolume(s *Spec) { s.Storage = resource.MustParse("1Gi") }

func of(kind string) func(*Spec) { return func(s *Spec) { s.Kind = kind } }

func TestObjects(t *testing.T) {
	for name, s := range map[string]Spec{
		"sandbox": newSpec(withVolume),
		"deployment": newSpec(of(workload.Deployment), func(s *Spec) {
			s.Type, s.MTLS, s.Labels = api.RuntimeTypeTool, api.MTLSStrict, map[string]string{"team": "blue"}
			s.ServiceAccount, s.ImagePullSecret, s.Command = "mine", "registry", []string{"serve", "--all"}
			s.CPU, s.Memory = resource.MustParse("50m"), resource.MustParse("2Gi")
			s.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "PORT", Value: "9"}, {Name: "A", Value: "2"}}
		}),
		"statefulset": newSpec(of(workload.StatefulSet), withVolume, func(s *Spec) { s.RunAsUser = ptr.To[int64](1234) }),
	} {
		t.Run(name, func(t *testing.T) {
			var text []string
			owner := &api.AgentRuntime{}
			owner.Name, owner.UID = "researcher", "owner"
			for i, obj := range s.Objects() {
				if i > 0 {
					Own(obj, owner)
				}
				one, err := yaml.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, string(one))
			}
			path, got := filepath.Join("testdata", name+".yaml"), strings.Join(text, "---\n")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("it is not what %s says, but\n%s", path, got)
			}
		})
	}
}

func podOf(obj client.Object) corev1.PodSpec {
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return w.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return w.Spec.Template.Spec
	case *agents.Sandbox:
		return w.Spec.PodTemplate.Spec
	}
	return corev1.PodSpec{}
}

func TestWhateverRunsAnAgentIsMadeStoppedAndCanBeStarted(t *testing.T) {
	for _, kind := range []string{workload.Sandbox, workload.Deployment, workload.StatefulSet} {
		t.Run(kind, func(t *testing.T) {
			s := newSpec(of(kind))
			list := s.Objects()
			w := list[len(list)-1]
			if !Suspended(w) || Stop(w) != nil || Start(w) == nil {
				t.Errorf("it is not stopped: %v", w)
			}
			if _, ok := list[0].(*api.AgentRuntime); !ok {
				t.Errorf("%T comes first", list[0])
			}
			for key := range w.GetLabels() {
				if strings.HasPrefix(key, api.Domain) {
					t.Errorf("the label %s is the controller's to set", key)
				}
			}
		})
	}
}

func TestOnlyANumberPermitsRoot(t *testing.T) {
	for name, c := range map[string]struct {
		user    *int64
		nonRoot bool
	}{
		"the image's user must not be root": {nil, true},
		"another user is that":              {ptr.To[int64](1000), true},
		"0 permits root":                    {ptr.To[int64](0), false},
	} {
		t.Run(name, func(t *testing.T) {
			list := newSpec(func(s *Spec) { s.RunAsUser = c.user }).Objects()
			security := podOf(list[len(list)-1]).SecurityContext
			if *security.RunAsNonRoot != c.nonRoot || !ptr.Equal(security.RunAsUser, c.user) {
				t.Errorf("it is %+v", security)
			}
		})
	}
}

func TestStoppingAndStartingKeepsTheNumberOfReplicas(t *testing.T) {
	sandbox := func(edits ...func(*agents.Sandbox)) *agents.Sandbox {
		s := &agents.Sandbox{}
		for _, edit := range edits {
			edit(s)
		}
		return s
	}
	deployment := func(replicas *int32, kept string) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		if d.Spec.Replicas = replicas; kept != "" {
			d.Annotations = map[string]string{AnnotationReplicas: kept}
		}
		return d
	}
	for name, c := range map[string]struct {
		obj         client.Object
		stop, start string
	}{
		"a Sandbox that runs":                     {sandbox(), `{"spec":{"operatingMode":"Suspended"}}`, `null`},
		"a Sandbox that is suspended":             {sandbox(func(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }), `null`, `{"spec":{"operatingMode":"Running"}}`},
		"a Sandbox with the older field":          {sandbox(func(s *agents.Sandbox) { s.Spec.Replicas = ptr.To[int32](1) }), `{"spec":{"operatingMode":"Suspended","replicas":0}}`, `null`},
		"a Deployment that says nothing has one":  {deployment(nil, ""), `{"metadata":{"annotations":{"berth.dev/replicas":"1"}},"spec":{"replicas":0}}`, `null`},
		"a Deployment of 3":                       {deployment(ptr.To[int32](3), ""), `{"metadata":{"annotations":{"berth.dev/replicas":"3"}},"spec":{"replicas":0}}`, `null`},
		"a Deployment that had 3":                 {deployment(ptr.To[int32](0), "3"), `null`, `{"metadata":{"annotations":{"berth.dev/replicas":null}},"spec":{"replicas":3}}`},
		"a Deployment of which that is not known": {deployment(ptr.To[int32](0), "many"), `null`, `{"metadata":{"annotations":{"berth.dev/replicas":null}},"spec":{"replicas":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for want, patch := range map[string]map[string]any{c.stop: Stop(c.obj), c.start: Start(c.obj)} {
				text, err := yaml.Marshal(patch)
				if err != nil {
					t.Fatal(err)
				}
				got, err := yaml.YAMLToJSON(text)
				if err != nil {
					t.Fatal(err)
				}
				if patch == nil {
					got = []byte("null")
				}
				if string(got) != want {
					t.Errorf("the patch is %s, want %s", got, want)
				}
			}
		})
	}
}

func TestAVolumeStaysAndTheRestGoesWithTheAgentRuntime(t *testing.T) {
	owner := &api.AgentRuntime{}
	owner.UID = types.UID("owner")
	for _, obj := range newSpec(withVolume).Objects()[1:] {
		Own(obj, owner)
		_, volume := obj.(*corev1.PersistentVolumeClaim)
		if owned := len(obj.GetOwnerReferences()) == 1; owned == volume {
			t.Errorf("%T: owned is %t", obj, owned)
		}
		if !Made(obj, "researcher") || Made(obj, "other") {
			t.Errorf("%T does not say whose it is", obj)
		}
	}
}
