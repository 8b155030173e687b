// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPoolsUpdateStrategyMayBeAString(t *testing.T) {
	s := newSpace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for _, strategy := range []string{"Recreate", "OnReplenish", "RollingUpdate"} {
			name := dns(strategy + " " + version)
			created := s.create("SandboxWarmPool", version, name, `{sandboxTemplateRef: {name: t}, replicas: 1, updateStrategy: `+strategy+`}`)
			if got := at(created, "spec.updateStrategy.type"); got != strategy {
				t.Errorf("%s at %s became %s", strategy, version, at(created, "spec.updateStrategy"))
			}
		}
		patched := s.patch("SandboxWarmPool", version, "recreate-"+version, `{spec: {updateStrategy: OnReplenish}}`)
		if got := at(patched, "spec.updateStrategy.type"); got != "OnReplenish" {
			t.Errorf("patched it became %s", at(patched, "spec.updateStrategy"))
		}
	}
	_, err := s.tryCreate("SandboxWarmPool", "v1beta1", "refused", `{sandboxTemplateRef: {name: t}, updateStrategy: Sometimes}`)
	refused(t, err, `spec.updateStrategy.type: Unsupported value: "Sometimes"`)
	_, err = s.tryCreate("SandboxWarmPool", "v1beta1", "refused", `{sandboxTemplateRef: {name: t}, updateStrategy: 5}`)
	refused(t, err, `spec.updateStrategy`)
}

// Server-side apply compares with the schema before admission policies run.
func TestServerSideApplyRefusesAnUpdateStrategyThatIsAString(t *testing.T) {
	s := newSpace(t)
	made := object("SandboxWarmPool", "v1beta1", "applied", `{sandboxTemplateRef: {name: t}, updateStrategy: Recreate}`)
	_, err := s.resource("SandboxWarmPool", "v1beta1").Apply(t.Context(), "applied", made, metav1.ApplyOptions{FieldManager: "test"})
	refused(t, err, "updateStrategy")
}
