// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

func TestThatAWebhookIsDownIsToldAndEnds(t *testing.T) {
	s := newStage(t)
	core, err := kubernetes.NewForConfig(clustertest.RESTConfig(t, cluster, "test"))
	if err != nil {
		t.Fatal(err)
	}
	hooks := core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	down := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:                    "down.example.com",
			ClientConfig:            admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			FailurePolicy:           ptr.To(admissionv1.Fail),
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	if _, err := hooks.Create(t.Context(), down, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A webhook is called only some time after it was made: the first pods may be let in.
	box := s.box()
	for n := 0; ; n++ {
		box = s.box(func(b *agents.Sandbox) { b.Name = "box-" + strings.Repeat("x", n) + "y" })
		s.create(box)
		s.await(box, "has a pod or a problem", func() bool { return says(box, agents.ConditionReady) != "" })
		if says(box, agents.ConditionReady) == "False/ReconcilerError" {
			break
		}
		if n == 50 {
			t.Fatal("the webhook is never called")
		}
	}
	if got := message(box, agents.ConditionReady); !strings.Contains(got, `failed calling webhook "down.example.com"`) {
		t.Errorf("the message is %q", got)
	}
	if err := hooks.Delete(t.Context(), down.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.becomesReady(s.pod(box.Name, ""))
	s.await(box, "is Ready", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
}
