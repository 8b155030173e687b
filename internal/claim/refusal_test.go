// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestWhatTheServerBarsIsSaidAndNotRepeated(t *testing.T) {
	labelled := func(c *extensions.SandboxClaim) {
		c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/a": "b"}
	}
	no := errors.New("too long")
	for name, c := range map[string]struct {
		seen observed
		want string
	}{
		"metadata that the Sandbox does not take keeps the claim from it": {
			observed{Claim: newClaim(labelled), Mine: []*agents.Sandbox{newSandbox("a")}, answers: answers{Barred: no}},
			"writeStatus: Ready=False/InvalidMetadata Bound=False/InvalidMetadata",
		},
		"and a claim that is bound stays so": {
			observed{Claim: newClaim(labelled, boundAs("a", "a-uid", extensions.ReasonAdopted)), Named: newSandbox("a"), Mine: []*agents.Sandbox{newSandbox("a")}, answers: answers{Barred: no}},
			"writeStatus: Ready=False/InvalidMetadata Bound=True/Adopted a a-uid",
		},
		"an adoption that is refused is said, and the claim leaves the queue": {
			observed{Claim: newClaim(), Source: fromPool(), Candidate: newSandbox("member"), answers: answers{Barred: no}},
			"writeStatus: Ready=False/SandboxCreateRefused Bound=False/SandboxCreateRefused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.seen.LabelDomains = []string{DefaultLabelDomain}
			got := decide(c.seen, now)
			if !strings.HasPrefix(describe(got), c.want) {
				t.Fatalf("got  %s\nwant %s", describe(got), c.want)
			}
			if write := got.(writeStatus); !strings.HasSuffix(findReady(write.status.Conditions), "refused by Sandbox \"a\": too long") &&
				!strings.HasSuffix(findReady(write.status.Conditions), "The adoption of Sandbox \"member\" was refused: too long") {
				t.Errorf("the message is %q", findReady(write.status.Conditions))
			}
		})
	}
}

func findReady(conditions []metav1.Condition) string {
	for _, c := range conditions {
		if c.Type == agents.ConditionReady {
			return c.Message
		}
	}
	return ""
}
