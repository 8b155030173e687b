// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "testing"

func TestRunning(t *testing.T) {
	zero, one := int32(0), int32(1)
	for _, test := range []struct {
		name     string
		mode     OperatingMode
		replicas *int32
		want     bool
	}{
		{"nothing said is on", "", nil, true},
		{"running", OperatingModeRunning, nil, true},
		{"suspended", OperatingModeSuspended, nil, false},
		{"one replica", "", &one, true},
		{"no replica", "", &zero, false},
		{"running with one replica", OperatingModeRunning, &one, true},
		{"running with no replica is off", OperatingModeRunning, &zero, false},
		{"suspended with one replica is off", OperatingModeSuspended, &one, false},
		{"suspended with no replica", OperatingModeSuspended, &zero, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			sandbox := &Sandbox{Spec: SandboxSpec{OperatingMode: test.mode, Replicas: test.replicas}}
			if got := sandbox.Running(); got != test.want {
				t.Errorf("Running() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestSystemKeys(t *testing.T) {
	for key, want := range map[string]bool{
		LabelClaimUID:                       true,
		"agents.x-k8s.io/anything":          true,
		"extensions.agents.x-k8s.io/any":    true,
		"foo.agents.x-k8s.io/allowed":       false,
		"agents.x-k8s.io":                   false,
		"agents.x-k8s.io.example/allowed":   false,
		AnnotationSafeToEvict:               false,
		"app":                               false,
		"":                                  false,
		"AGENTS.x-k8s.io/case-is-different": false,
	} {
		if got := IsSystemKey(key); got != want {
			t.Errorf("IsSystemKey(%q) = %v, want %v", key, got, want)
		}
	}
}

func TestNormalizeCreatedBy(t *testing.T) {
	for value, want := range map[string]string{
		"":                    "",
		CreatedByGoClient:     CreatedByGoClient,
		CreatedByPythonClient: CreatedByPythonClient,
		CreatedByController:   CreatedByController,
		"my-own-tool":         CreatedByUnknown,
		"Go-Client":           CreatedByUnknown,
	} {
		if got := NormalizeCreatedBy(value); got != want {
			t.Errorf("NormalizeCreatedBy(%q) = %q, want %q", value, got, want)
		}
	}
}
