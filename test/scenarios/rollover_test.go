// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// newVersion is the command that edits the article's template: its container gets a variable.
const newVersion = `sed 's/- name: worker/&\n        env: [{name: VERSION, value: "2"}]/' examples/warm-pool-article/setup.yaml | kubectl apply -f -`

// rollover: the template is edited, and a claim comes before the controller has heard of it.
func rollover(t *testing.T, stage *stage) {
	s := newStory(t, stage, article, "A claim in the middle of a template's rollover")
	s.pool()
	s.tell("From here on the controller hears nothing of templates, pools and Sandboxes: its cache shows the old template, and members that match it.")
	s.proxy.HoldWatches("sandboxtemplates", "sandboxwarmpools", "sandboxes")
	s.tell("The template is edited, and at once somebody claims.")
	s.run(newVersion)
	s.run("kubectl apply -f examples/warm-pool-article/claim.yaml")
	s.elsewhere("the claim is given a warm pod of the old template: it runs outdated code and nothing says so.")
	s.until("the claim says what becomes of it", func() bool {
		claim := s.now().claims[articleClaim]
		return claim != nil && meta.FindStatusCondition(claim.Status.Conditions, extensions.ConditionBound) != nil
	})
	s.run("kubectl get sandboxclaim -n agent-sandboxes")
	s.tell("The watches catch up.")
	s.proxy.ReleaseWatches()
	s.until("the claim is Ready", func() bool { return s.now().ready(articleClaim) })
	version := s.run("kubectl exec -n agent-sandboxes \\\n  $(kubectl get sandboxclaim " + articleClaim + " -n agent-sandboxes -o jsonpath='{.status.sandbox.name}') -- sh -c 'echo $VERSION'")
	s.verdict(version == "2", "the claim's pod is of the new template: that was read from the server after the claim was seen")

	s.tell("The pool replaces its old members, and the next claim is served warm.")
	s.fullPool(articlePool)
	before := map[string]bool{}
	for name := range s.now().sandboxes {
		before[name] = true
	}
	s.run("sed s/8921/8922/ examples/warm-pool-article/claim.yaml | kubectl apply -f -")
	s.until("the second claim is Ready", func() bool { return s.now().ready("claim-user-exec-8922") })
	warm := s.now().claims["claim-user-exec-8922"].Status.Sandbox.Name
	version = s.run("kubectl exec -n agent-sandboxes " + warm + " -- sh -c 'echo $VERSION'")
	s.verdict(before[warm] && version == "2", "it got a member that had waited in the pool, of the new template")
	s.quietly()
}
