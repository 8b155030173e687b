// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestMembersAreHandedOutAgainWhenTheirTemplateIsBack(t *testing.T) {
	w := newWorld(t)
	template := w.template("python")
	w.pool("python", "python", 2, func(p *extensions.SandboxWarmPool) {
		p.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: extensions.WarmPoolRecreate}
	})
	w.must(w.Delete(w.Context(), template))
	w.claim("early", "python")
	w.condition("early", agents.ConditionReady, metav1.ConditionFalse, extensions.ReasonTemplateNotFound)
	w.template("python")
	w.ready("early")
	w.claim("late", "python")
	w.ready("late")
	for _, name := range []string{"early", "late"} {
		bound := w.condition(name, extensions.ConditionBound, metav1.ConditionTrue, "")
		if c := findCondition(bound.Status.Conditions, extensions.ConditionBound); c.Reason != extensions.ReasonAdopted {
			t.Errorf("claim %s: %s", name, c.Message)
		}
	}
}
