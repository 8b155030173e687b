// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
			observed{Claim: newClaim(labelled), Mine: []*agents.Sandbox{newSandbox("a")}, Barred: no},
			"writeStatus: Ready=False/InvalidMetadata Bound=False/InvalidMetadata",
		},
		"and a claim that is bound stays so": {
			observed{Claim: newClaim(labelled, boundAs("a", "a-uid", extensions.ReasonAdopted)), Named: newSandbox("a"), Mine: []*agents.Sandbox{newSandbox("a")}, Barred: no},
			"writeStatus: Ready=False/InvalidMetadata Bound=True/Adopted a a-uid",
		},
		"an adoption that is refused is said, and the claim leaves the queue": {
			observed{Claim: newClaim(), Source: fromPool(), Candidate: newSandbox("member"), Barred: no},
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

func TestAReplacementHasTheWholeBindDeadline(t *testing.T) {
	const allowed = 30 // seconds; the claim is a minute old
	for name, c := range map[string]struct {
		bound *metav1.Condition
		want  time.Duration // from now
	}{
		"a claim that never looked for a Sandbox": {nil, -30 * time.Second},
		"a claim that was never bound": {
			&metav1.Condition{Status: metav1.ConditionFalse, Reason: extensions.ReasonCreating, LastTransitionTime: metav1.NewTime(now.Add(-59 * time.Second))}, -30 * time.Second},
		"a claim that has given up": {
			&metav1.Condition{Status: metav1.ConditionFalse, Reason: extensions.ReasonBindDeadlineExceeded, LastTransitionTime: metav1.NewTime(now)}, -30 * time.Second},
		"a claim that lost its Sandbox just now": {
			&metav1.Condition{Status: metav1.ConditionFalse, Reason: extensions.ReasonCreating, LastTransitionTime: metav1.NewTime(now)}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim()
			claim.Spec.Lifecycle = &extensions.ClaimLifecycle{BindDeadlineSeconds: ptr.To[int32](allowed)}
			if c.bound != nil {
				c.bound.Type = extensions.ConditionBound
				claim.Status.Conditions = []metav1.Condition{*c.bound}
			}
			if got := bindDeadline(claim).Sub(now); got != c.want {
				t.Errorf("the deadline is %s from now, want %s", got, c.want)
			}
		})
	}
}
