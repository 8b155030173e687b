// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	berthtemplate "github.com/berthdev/berth/internal/template"
)

// alreadyExists: a Sandbox was made, and the controller that made it does not know.
func alreadyExists(t *testing.T, stage *stage) {
	const template = "python-execution-template"
	s := newStory(t, stage, article, "A Sandbox that exists already")
	s.tell("A template, and no pool: a claim gets a Sandbox made for it, of its own name.")
	s.run("kubectl apply -f examples/warm-pool-article/setup.yaml")
	s.run("kubectl wait --for=create networkpolicy/" + berthtemplate.PolicyName(template) + " -n agent-sandboxes --timeout=5m")
	s.tell("From here on the controller hears nothing of claims and Sandboxes. A claim is created.")
	s.proxy.HoldWatches("sandboxclaims", "sandboxes")
	_, mark := s.requests(s.ctx, t, 0)
	claim := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: article, Name: articleClaim}}
	claim.Spec.TemplateRef = &extensions.SandboxTemplateRef{Name: template}
	s.must(s.client.Create(s.ctx, claim))
	s.tell("The replica that led before makes the claim's Sandbox, and dies of it. This one hears of the claim, and not yet of the Sandbox.")
	made := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: article, Name: articleClaim}}
	made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(claim, extensions.GroupVersion.WithKind(extensions.SandboxClaimKind))}
	made.Spec.PodTemplate = agents.PodTemplate{Spec: idle()}
	s.must(s.client.Create(s.ctx, made))
	s.proxy.ReleaseWatches("sandboxclaims")
	s.elsewhere("the server says AlreadyExists, the cache still shows no Sandbox, and the claim goes into a backoff or sits out a fixed pause.")
	s.until("the claim is bound, with the controller's watch of Sandboxes still held", func() bool {
		c := s.now().claims[articleClaim]
		return c != nil && c.Status.Sandbox.UID != ""
	})
	s.run("kubectl get sandboxclaim -n agent-sandboxes")
	bound := s.now().claims[articleClaim].Status.Sandbox.UID
	requests, _ := s.requests(s.ctx, t, mark)
	refused := 0
	s.tell("What the controller asked the server about Sandboxes:")
	for _, r := range requests {
		if r.Resource == "sandboxes" && r.Namespace == article && (r.Verb == "create" || r.Verb == "get") {
			s.show(r.String())
			if r.Verb == "create" && r.Code == http.StatusConflict {
				refused++
			}
		}
	}
	s.verdict(refused == 1 && bound == made.UID,
		"one attempt was answered with AlreadyExists; then the Sandbox was read, was the claim's own, and the claim is bound to it")

	s.tell("The watches catch up.")
	s.proxy.ReleaseWatches()
	s.until("the claim is Ready", func() bool { return s.now().ready(articleClaim) })
	s.run("kubectl get sandboxclaim,sandbox,pod -n agent-sandboxes")
	s.verdict(len(s.now().sandboxes) == 1 && len(s.now().pods) == 1, "there is one Sandbox with one pod")

	s.tell("A Sandbox of the wanted name that is somebody else's is another matter: it is left alone, and the claim says so.")
	s.sandbox("taken", nil)
	second := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: article, Name: "taken"}, Spec: claim.Spec}
	s.must(s.client.Create(s.ctx, second))
	s.until("the claim says that the name is taken", func() bool {
		c := s.now().claims["taken"]
		return c != nil && reasonOf(c.Status.Conditions, agents.ConditionReady) == extensions.ReasonSandboxNameTaken
	})
	s.run("kubectl get sandboxclaim taken -n agent-sandboxes \\\n  -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].message}'")
	s.verdict(owner(s.now().sandboxes["taken"]) == "", "the other Sandbox was left alone")
	s.run("kubectl delete sandbox taken -n agent-sandboxes --cascade=foreground")
	s.until("the claim is Ready", func() bool { return s.now().ready("taken") })
	s.verdict(owner(s.now().sandboxes["taken"]) == string(s.now().claims["taken"].UID), "when the name is free, the claim gets its Sandbox at once")
	s.quietly()
}

func reasonOf(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}
