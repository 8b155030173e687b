// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// failing makes a webhook of Sandboxes that does not answer, in the world's namespace.
func (w *world) failing(operation admissionv1.OperationType) (end func()) {
	w.Helper()
	core, err := kubernetes.NewForConfig(clustertest.RESTConfig(w.T, cluster, "test"))
	w.must(err)
	hooks := core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	down := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:                    "down.example.com",
			ClientConfig:            admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			FailurePolicy:           ptr.To(admissionv1.Fail),
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{operation},
				Rule:       admissionv1.Rule{APIGroups: []string{"agents.x-k8s.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"sandboxes"}},
			}},
		}},
	}
	_, err = hooks.Create(w.Context(), down, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() { _ = hooks.Delete(context.Background(), down.Name, metav1.DeleteOptions{}) })
	return func() { w.must(hooks.Delete(w.Context(), down.Name, metav1.DeleteOptions{})) }
}

// refusedOne makes claims until one is refused: a webhook is called only some time after
// it was made.
func (w *world) refusedOne(pool string) *extensions.SandboxClaim {
	w.Helper()
	for n := range 100 {
		name := fmt.Sprintf("task-%d", n)
		w.claim(name, pool)
		told := await(w, &extensions.SandboxClaimList{}, "claim "+name+" to say something", func(c *extensions.SandboxClaim) bool {
			return c.Name == name && (c.Status.Sandbox.Name != "" || reasonOf(c) == extensions.ReasonSandboxCreateRefused)
		})
		if told.Status.Sandbox.Name == "" {
			return told
		}
	}
	w.Fatal("the webhook is never called")
	return nil
}

func TestAWebhookThatFailsIsToldByTheClaim(t *testing.T) {
	for _, c := range []struct {
		operation admissionv1.OperationType
		replicas  int32
		says      string
	}{
		{admissionv1.Create, 0, "was refused: "},
		{admissionv1.Update, 3, "The adoption of Sandbox "},
	} {
		t.Run(string(c.operation), func(t *testing.T) {
			w := newWorld(t)
			w.template("python")
			w.pool("python", "python", c.replicas)
			end := w.failing(c.operation)
			var told *extensions.SandboxClaim
			requests := w.requests(func() {
				told = w.refusedOne("python")
				if message := readyMessage(told.Status.Conditions); !strings.Contains(message, c.says) || !strings.Contains(message, `failed calling webhook "down.example.com"`) {
					t.Errorf("the claim says %q", message)
				}
			})
			tries := 0
			for _, r := range requests {
				if r.Resource == "sandboxes" && r.Subresource == "" && r.Writes() && r.Code >= 500 {
					tries++
				}
			}
			// Two a pass, and the passes have growing pauses.
			if tries > 40 {
				t.Errorf("Sandboxes were tried %d times", tries)
			}
			end()
			w.ready(told.Name)
		})
	}
}
