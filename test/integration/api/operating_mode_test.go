// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// pair is how a Sandbox says whether it runs: its operating mode and replicas.
func pair(sandbox *unstructured.Unstructured) string {
	return at(sandbox, "spec.operatingMode") + " " + at(sandbox, "spec.replicas")
}

const (
	on  = "Running 1"
	off = "Suspended 0"
)

func TestASandboxIsCreatedOffIfEitherFieldSaysSo(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct{ name, version, fields, want string }{
		{"nothing said", "v1beta1", ``, on},
		{"running", "v1beta1", `operatingMode: Running,`, on},
		{"suspended", "v1beta1", `operatingMode: Suspended,`, off},
		{"one replica", "v1beta1", `replicas: 1,`, on},
		{"no replica", "v1beta1", `replicas: 0,`, off},
		{"running with no replica", "v1beta1", `operatingMode: Running, replicas: 0,`, off},
		{"suspended with one replica", "v1beta1", `operatingMode: Suspended, replicas: 1,`, off},
		{"old with nothing said", "v1alpha1", ``, on},
		{"old with one replica", "v1alpha1", `replicas: 1,`, on},
		{"old with no replica", "v1alpha1", `replicas: 0,`, off},
		{"old and suspended", "v1alpha1", `operatingMode: Suspended,`, off},
	} {
		t.Run(test.name, func(t *testing.T) {
			created := s.create("Sandbox", test.version, dns(test.name), `{`+test.fields+` podTemplate: `+pod+`}`)
			if got := pair(created); got != test.want {
				t.Errorf("created %q, want %q", got, test.want)
			}
			if got := running(t, created); got != (test.want == on) {
				t.Errorf("Running() = %v", got)
			}
		})
	}
}

func TestTheFieldThatAWriteChangesWins(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct{ name, from, version, patch, want string }{
		{"suspend", on, "v1beta1", `operatingMode: Suspended`, off},
		{"resume", off, "v1beta1", `operatingMode: Running`, on},
		{"scale down", on, "v1beta1", `replicas: 0`, off},
		{"scale up", off, "v1beta1", `replicas: 1`, on},
		{"scale down at the old version", on, "v1alpha1", `replicas: 0`, off},
		{"scale up at the old version", off, "v1alpha1", `replicas: 1`, on},
		{"suspend at the old version", on, "v1alpha1", `operatingMode: Suspended`, off},
		{"suspend and leave the replicas", on, "v1beta1", `operatingMode: Suspended, replicas: 1`, off},
		{"resume and leave the replicas", off, "v1beta1", `operatingMode: Running, replicas: 0`, on},
		{"scale down and leave the mode", on, "v1beta1", `replicas: 0, operatingMode: Running`, off},
		{"scale up and leave the mode", off, "v1beta1", `replicas: 1, operatingMode: Suspended`, on},
		{"both off", on, "v1beta1", `replicas: 0, operatingMode: Suspended`, off},
		{"both on", off, "v1beta1", `replicas: 1, operatingMode: Running`, on},
		{"neither, while on", on, "v1beta1", `shutdownPolicy: Delete`, on},
		{"neither, while off", off, "v1beta1", `shutdownPolicy: Delete`, off},
		{"neither at the old version, while on", on, "v1alpha1", `shutdownPolicy: Delete`, on},
		{"neither at the old version, while off", off, "v1alpha1", `shutdownPolicy: Delete`, off},
		{"drop the replicas while on", on, "v1beta1", `replicas: null`, on},
		{"drop the replicas while off", off, "v1beta1", `replicas: null`, off},
		{"drop the replicas and suspend", on, "v1beta1", `replicas: null, operatingMode: Suspended`, off},
		{"drop the replicas and resume", off, "v1beta1", `replicas: null, operatingMode: Running`, on},
		{"drop the mode at the old version while on", on, "v1alpha1", `operatingMode: null`, on},
		{"drop the mode at the old version while off", off, "v1alpha1", `operatingMode: null`, off},
		{"drop the mode at the old version and scale up", off, "v1alpha1", `operatingMode: null, replicas: 1`, on},
		{"drop the mode at the old version and scale down", on, "v1alpha1", `operatingMode: null, replicas: 0`, off},
	} {
		t.Run(test.name, func(t *testing.T) {
			mode := map[string]string{on: "Running", off: "Suspended"}[test.from]
			created := s.create("Sandbox", "v1beta1", dns(test.name), `{operatingMode: `+mode+`, podTemplate: `+pod+`}`)
			if pair(created) != test.from {
				t.Fatalf("created %q", pair(created))
			}
			if got := pair(s.patch("Sandbox", test.version, dns(test.name), `{spec: {`+test.patch+`}}`)); got != test.want {
				t.Errorf("became %q, want %q", got, test.want)
			}
		})
	}
}

func TestARefusalNamesTheValueThatIsWrong(t *testing.T) {
	s := newSpace(t)
	for fields, want := range map[string]string{
		`operatingMode: Suspended, replicas: 7`: `spec.replicas`,
		`operatingMode: Halted, replicas: 0`:    `spec.operatingMode: Unsupported value: "Halted"`,
		`operatingMode: 5`:                      `spec.operatingMode`,
		`replicas: "0"`:                         `spec.replicas: Invalid value: "string"`,
	} {
		_, err := s.tryCreate("Sandbox", "v1beta1", "refused", `{`+fields+`, podTemplate: `+pod+`}`)
		refused(t, err, want)
	}
	made := object("Sandbox", "v1beta1", "refused", `nothing`)
	_, err := s.resource("Sandbox", "v1beta1").Create(t.Context(), made, metav1.CreateOptions{})
	refused(t, err, `spec: Invalid value: "string"`)
}

// A typed client sends back what it knows of an object, and drops the rest.
func TestAPutByAClientThatKnowsOneFieldChangesNothing(t *testing.T) {
	s := newSpace(t)
	for _, from := range []struct{ name, fields, want string }{
		{"on", `operatingMode: Running,`, on},
		{"off", `operatingMode: Suspended,`, off},
	} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			t.Run(from.name+" at "+version, func(t *testing.T) {
				name := from.name + "-" + version
				s.create("Sandbox", version, name, `{`+from.fields+` podTemplate: `+pod+`}`)
				for range 2 {
					seen := s.get("Sandbox", version, name)
					sent := knows(t, seen, version)
					sent.SetLabels(map[string]string{"edited": "yes"})
					saved, err := s.resource("Sandbox", version).Update(t.Context(), sent, metav1.UpdateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if got := pair(saved); got != from.want {
						t.Errorf("became %q, want %q", got, from.want)
					}
				}
			})
		}
	}
}

func TestAPutByAClientThatKnowsOneFieldSwitches(t *testing.T) {
	s := newSpace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		s.create("Sandbox", "v1beta1", version, aSandbox)
		for _, want := range []string{off, on, off} {
			sent := knows(t, s.get("Sandbox", version, version), version)
			field, value := "operatingMode", any(map[string]string{on: "Running", off: "Suspended"}[want])
			if version == "v1alpha1" {
				field, value = "replicas", map[string]int64{on: 1, off: 0}[want]
			}
			if err := unstructured.SetNestedField(sent.Object, value, "spec", field); err != nil {
				t.Fatal(err)
			}
			saved, err := s.resource("Sandbox", version).Update(t.Context(), sent, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := pair(saved); got != want {
				t.Errorf("at %s: became %q, want %q", version, got, want)
			}
		}
	}
}

func TestServerSideApplyOfOneFieldSwitches(t *testing.T) {
	s := newSpace(t)
	apply := func(field string, value any) string {
		made := object("Sandbox", "v1beta1", "applied", aSandbox)
		if err := unstructured.SetNestedField(made.Object, value, "spec", field); err != nil {
			t.Fatal(err)
		}
		saved, err := s.resource("Sandbox", "v1beta1").Apply(t.Context(), "applied", made, metav1.ApplyOptions{FieldManager: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return pair(saved)
	}
	for _, step := range []struct {
		field string
		value any
		want  string
	}{
		{"operatingMode", "Suspended", off}, {"operatingMode", "Running", on}, {"replicas", int64(0), off}, {"replicas", int64(1), on},
	} {
		if got := apply(step.field, step.value); got != step.want {
			t.Errorf("applying %s: %v made it %q, want %q", step.field, step.value, got, step.want)
		}
	}
}

// knows gives what a typed client of a version would send back: without the
// field that only the other version had, and without every field of Berth's own.
func knows(t *testing.T, sandbox *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	type spec struct {
		PodTemplate          agents.PodTemplate                     `json:"podTemplate"`
		VolumeClaimTemplates []agents.PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
		Service              *bool                                  `json:"service,omitempty"`
		ShutdownTime         *metav1.Time                           `json:"shutdownTime,omitempty"`
		ShutdownPolicy       *string                                `json:"shutdownPolicy,omitempty"`
		Replicas             *int32                                 `json:"replicas,omitempty"`
		OperatingMode        string                                 `json:"operatingMode,omitempty"`
	}
	type client struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Spec              spec `json:"spec"`
	}
	raw, err := json.Marshal(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	known := &client{}
	if err := json.Unmarshal(raw, known); err != nil {
		t.Fatal(err)
	}
	if version == "v1alpha1" {
		known.Spec.OperatingMode = ""
	} else {
		known.Spec.Replicas = nil
	}
	sent, err := runtime.DefaultUnstructuredConverter.ToUnstructured(known)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: sent}
}

// running is what the controller makes of a Sandbox.
func running(t *testing.T, sandbox *unstructured.Unstructured) bool {
	t.Helper()
	typed := &agents.Sandbox{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sandbox.Object, typed); err != nil {
		t.Fatal(err)
	}
	return typed.Running()
}
