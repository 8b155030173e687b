// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

const (
	// article is the namespace of the manifests in examples/warm-pool-article, and
	// articlePool and articleClaim are the names in them.
	article      = "agent-sandboxes"
	articlePool  = "dynamic-python-pool"
	articleClaim = "claim-user-exec-8921"
	// members is how many members the pool gets in scenarios.
	members = 4
)

// pool makes the pool of the article, with fewer members than it says, and waits until it is full.
func (s *story) pool() {
	s.Helper()
	s.tell("A template and a pool of it, smaller than in the manifest to be quick.")
	s.run("kubectl apply -f examples/warm-pool-article/setup.yaml")
	s.run(fmt.Sprintf("sed 's/replicas: 10/replicas: %d/' examples/warm-pool-article/pool.yaml | kubectl apply -f -", members))
	s.fullPool(articlePool)
	s.run("kubectl get sandboxwarmpool -n agent-sandboxes")
}

// threeAM: many claims at once, while what the controller sees of Sandboxes and pods is old.
func threeAM(t *testing.T, stage *stage) {
	const burst = 7
	s := newStory(t, stage, article, "Three in the morning: one run, two pods")
	s.pool()
	s.tell("From here on the controller hears nothing of Sandboxes and pods. Every member looks free to it, whatever happens.")
	s.proxy.HoldWatches("sandboxes", "pods")
	s.tell("%d agents claim at once; %d members are there.", burst, members)
	s.run(fmt.Sprintf("for i in $(seq %d); do sed \"s/exec-8921/exec-$i/\" examples/warm-pool-article/claim.yaml; echo ---; done | kubectl create -f -", burst))
	s.elsewhere("two workers find the same member free in their cache, and both take it; or one claim gets two.")
	s.until("as many claims are Ready as there were members", func() bool { return s.countReady() == members })
	s.run("kubectl get sandboxclaims -n agent-sandboxes")
	s.verdict(s.sharedSandbox() == "", "the claims that are Ready have a Sandbox each, though no watch has said which are taken")

	s.tell("The watches catch up. The other claims get Sandboxes made for them, and the pool fills again.")
	s.proxy.ReleaseWatches()
	s.until("all claims are Ready, and their pods say whose they are", func() bool {
		return s.countReady() == burst && len(s.podsByClaim()) == burst
	})
	s.fullPool(articlePool)
	s.run("kubectl get sandboxclaims -n agent-sandboxes")
	s.run("kubectl get pods -n agent-sandboxes -L agents.x-k8s.io/claim-uid")
	s.verdict(s.sharedSandbox() == "", "every claim has a Sandbox of its own%s", s.sharedSandbox())
	most := 0
	for _, n := range s.podsByClaim() {
		most = max(most, n)
	}
	s.verdict(most == 1, "every claim has one pod")
	s.verdict(len(s.now().sandboxes) == burst+members, "there are %d Sandboxes: %d claimed, %d in the pool, and none too many", len(s.now().sandboxes), burst, members)
	s.quietly()
}

func (s *story) countReady() int {
	n := 0
	for name := range s.now().claims {
		if s.now().ready(name) {
			n++
		}
	}
	return n
}

// sharedSandbox names two claims that are bound to the same Sandbox, if there are any.
func (s *story) sharedSandbox() string {
	holders := map[string]string{}
	for name, claim := range s.now().claims {
		bound := claim.Status.Sandbox.Name
		if bound == "" {
			continue
		}
		if other := holders[bound]; other != "" {
			return fmt.Sprintf(": %s and %s share %s", name, other, bound)
		}
		holders[bound] = name
	}
	return ""
}

// podsByClaim counts the pods that say which claim they are of, by its UID.
func (s *story) podsByClaim() map[string]int {
	counts := map[string]int{}
	for _, pod := range s.now().pods {
		if uid := pod.Labels[agents.LabelClaimUID]; uid != "" {
			counts[uid]++
		}
	}
	return counts
}
