// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

func TestDecide(t *testing.T) {
	pending := newSandbox("task", func(s *agents.Sandbox) { s.Status = agents.SandboxStatus{} })
	for name, c := range map[string]struct {
		seen observed
		want string // the step's type, and what its words begin with
	}{
		"a claim that is being deleted is left to the garbage collector": {
			observed{Claim: newClaim(func(c *extensions.SandboxClaim) { c.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }), Mine: []*agents.Sandbox{newSandbox("a")}},
			"rest: wait for a change",
		},
		"an adoptable member is adopted": {
			observed{Claim: newClaim(), Source: fromPool(), Candidate: newSandbox("member")},
			`adopt: adopt Sandbox "member"`,
		},
		"a Sandbox of the claim's is bound before anything else is looked for": {
			observed{Claim: newClaim(), Mine: []*agents.Sandbox{newSandbox("a")}, Source: fromPool(), Candidate: newSandbox("member")},
			"writeStatus: Ready=True/DependenciesReady Bound=True/Adopted a a-uid",
		},
		"of several Sandboxes the oldest is bound": {
			observed{Claim: newClaim(), Mine: []*agents.Sandbox{newSandbox("older"), newSandbox("newer")}},
			"writeStatus: Ready=True/DependenciesReady Bound=True/Adopted older older-uid",
		},
		"a Sandbox that is being deleted is not bound": {
			observed{Claim: newClaim(), Mine: []*agents.Sandbox{newSandbox("dying", terminating), newSandbox("alive")}},
			"writeStatus: Ready=True/DependenciesReady Bound=True/Adopted alive alive-uid",
		},
		"the surplus is deleted once the status names the winner": {
			observed{
				Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted)), Named: newSandbox("a"),
				Mine: []*agents.Sandbox{newSandbox("a"), newSandbox("surplus")},
			},
			`deleteSandbox: delete Sandbox "surplus"`,
		},
		"an undecided adoption is repeated, with the same candidate": {
			observed{
				Claim:     newClaim(),
				Undecided: []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbPatch, Base: newSandbox("first"), Intended: newSandbox("first")}},
				Candidate: newSandbox("second"), Source: fromPool(),
			},
			`adopt: adopt Sandbox "first"`,
		},
		"an undecided creation is repeated under the same name": {
			observed{Claim: newClaim(), Undecided: []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbCreate, Intended: newSandbox("task")}}},
			`create: create Sandbox "task"`,
		},
		"a claim for which a member is coming up waits in the queue": {
			observed{Claim: newClaim(), Source: fromPool(), Wait: true},
			"writeStatus: waits Ready=False/SandboxNotReady Bound=False/WaitingForMember",
		},
		"a claim starts cold when nothing is coming up for it": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy()},
			`create: create Sandbox "task"`,
		},
		"the network policy is there before the Sandbox": {
			observed{Claim: newClaim(), Source: fromPool()},
			`createPolicy: create NetworkPolicy "python-network-policy"`,
		},
		"somebody else's network policy of that name stands in the way": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "python-network-policy"}}},
			"writeStatus: waits Ready=False/SandboxNotReady Bound=False/Creating",
		},
		"a missing pool is reported": {
			observed{Claim: newClaim(), Source: source{PoolName: "python"}},
			"writeStatus: Ready=False/WarmPoolNotFound Bound=False/WarmPoolNotFound",
		},
		"a missing template is reported": {
			observed{Claim: newClaim(), Source: source{PoolName: "python", Pool: fromPool().Pool, TemplateName: "python"}},
			"writeStatus: waits Ready=False/TemplateNotFound Bound=False/TemplateNotFound",
		},
		"somebody else's Sandbox of the claim's name is not taken, and a member of the pool is waited for": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), Occupant: newSandbox("task", ownedBy("SandboxWarmPool", "other"))},
			"writeStatus: waits Ready=False/SandboxNameTaken Bound=False/SandboxNameTaken",
		},
		"a Sandbox of the claim's name that is going away is waited for": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), Occupant: newSandbox("task", terminating)},
			"writeStatus: waits Ready=False/SandboxNotReady Bound=False/Creating",
		},
		"a refused Sandbox is reported": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), answers: answers{Refused: errors.New("exceeded quota")}},
			"writeStatus: waits Ready=False/SandboxCreateRefused Bound=False/SandboxCreateRefused",
		},
		"a Sandbox made for the claim is bound before it is ready": {
			observed{Claim: newClaim(), Mine: []*agents.Sandbox{pending}},
			"writeStatus: Ready=False/SandboxNotReady Bound=True/Created task task-uid",
		},
		"that it was ready is remembered": {
			observed{Claim: newClaim(boundAs("task", "task-uid", extensions.ReasonCreated)), Named: newSandbox("task"), Mine: []*agents.Sandbox{newSandbox("task")}},
			"writeStatus: Ready=True/DependenciesReady Bound=True/Started task task-uid",
		},
		"and not forgotten when it is not ready any more": {
			observed{Claim: newClaim(boundAs("task", "task-uid", extensions.ReasonStarted)), Named: pending, Mine: []*agents.Sandbox{pending}},
			"writeStatus: Ready=False/SandboxNotReady Bound=True/Started task task-uid",
		},
		"a lost Sandbox is reported and not replaced": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted))},
			"writeStatus: Ready=False/SandboxMissing Bound=False/SandboxMissing a a-uid",
		},
		"another Sandbox of the same name is not the one that was bound": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted)), Named: newSandbox("a", func(s *agents.Sandbox) { s.UID = "impostor" })},
			"writeStatus: Ready=False/SandboxMissing Bound=False/SandboxMissing a a-uid",
		},
		"a lost Sandbox is replaced if the claim says so": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), func(c *extensions.SandboxClaim) {
				c.Spec.Lifecycle = &extensions.ClaimLifecycle{SandboxLost: extensions.SandboxLostReplace}
			})},
			"writeStatus: Ready=False/SandboxMissing Bound=False/Creating",
		},
		"a lost Sandbox that was never ready is replaced": {
			observed{Claim: newClaim(boundAs("task", "task-uid", extensions.ReasonCreated))},
			"writeStatus: Ready=False/SandboxMissing Bound=False/Creating",
		},
		"a bound Sandbox that was taken out of the claim's control is reported": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted)), Named: newSandbox("a", ownedBy("SandboxClaim", "other"))},
			"writeStatus: Ready=False/ReconcilerError Bound=True/Adopted a a-uid",
		},
		"the deadline to bind ends the wait": {
			observed{Claim: newClaim(func(c *extensions.SandboxClaim) {
				c.Spec.Lifecycle = &extensions.ClaimLifecycle{BindDeadlineSeconds: ptr.To[int32](60)}
			}), Source: fromPool(), Wait: true},
			"writeStatus: Ready=False/BindDeadlineExceeded Bound=False/BindDeadlineExceeded",
		},
		"a network policy that a former version made goes when the template's covers the Sandbox": {
			observed{
				Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted)), OwnPolicy: &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "task-network-policy"}},
				Named: newSandbox("a", func(s *agents.Sandbox) { s.Labels = map[string]string{agents.LabelTemplateRefHash: "x"} }),
			},
			`deletePolicy: delete NetworkPolicy "task-network-policy"`,
		},
		"and stays when it does not": {
			observed{
				Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted)), OwnPolicy: &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "task-network-policy"}},
				Named: newSandbox("a"),
			},
			"writeStatus: Ready=True/DependenciesReady Bound=True/Adopted a a-uid",
		},
		"metadata that is not allowed is reported": {
			observed{Claim: newClaim(func(c *extensions.SandboxClaim) {
				c.Spec.AdditionalPodMetadata.Labels = map[string]string{"team": "a"}
			}), Source: fromPool(), Candidate: newSandbox("member")},
			"writeStatus: Ready=False/InvalidMetadata Bound=False/InvalidMetadata",
		},
		"the claim's metadata is put into its Sandbox before it is bound": {
			observed{Claim: newClaim(func(c *extensions.SandboxClaim) {
				c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/team": "a"}
			}), Mine: []*agents.Sandbox{newSandbox("a")}},
			`patchSandbox: put the claim's additionalPodMetadata into Sandbox "a"`,
		},
		"env that the template does not allow is reported": {
			observed{Claim: newClaim(func(c *extensions.SandboxClaim) { c.Spec.Env = []extensions.EnvVar{{Name: "A"}} }), Source: fromPool(), Policy: currentPolicy()},
			"writeStatus: Ready=False/EnvVarsInjectionRejected Bound=False/EnvVarsInjectionRejected",
		},
		"volume claims that the template does not allow are reported": {
			observed{Claim: newClaim(func(c *extensions.SandboxClaim) {
				c.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{Metadata: agents.EmbeddedObjectMetadata{Name: "data"}}}
			}), Source: fromPool(), Policy: currentPolicy()},
			"writeStatus: Ready=False/VolumeClaimTemplatesError Bound=False/VolumeClaimTemplatesError",
		},
		"an expired claim says so first": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), expiredSince(extensions.ClaimShutdownDelete, false)), Named: newSandbox("a"), Mine: []*agents.Sandbox{newSandbox("a")}},
			"writeStatus: Ready=False/ClaimExpired Bound=True/Adopted a a-uid",
		},
		"then it is deleted, if the policy is Delete": {
			observed{Claim: newClaim(expiredSince(extensions.ClaimShutdownDelete, true))},
			"deleteClaim: delete the claim, which has expired (shutdownPolicy Delete)",
		},
		"or in the foreground, if the policy is DeleteForeground": {
			observed{Claim: newClaim(expiredSince(extensions.ClaimShutdownDeleteForeground, true))},
			"deleteClaim: delete the claim, which has expired (shutdownPolicy DeleteForeground)",
		},
		"or its Sandbox is, if the policy is Retain": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), expiredSince(extensions.ClaimShutdownRetain, true)), Named: newSandbox("a"), Mine: []*agents.Sandbox{newSandbox("a")}},
			`deleteSandbox: delete Sandbox "a": the claim has expired`,
		},
		"and when that is gone the status names it no more": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), expiredSince(extensions.ClaimShutdownRetain, true))},
			"writeStatus: Ready=False/ClaimExpired Bound=False/ClaimExpired",
		},
		"an expired claim does not delete a Sandbox that is not its own": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), expiredSince(extensions.ClaimShutdownRetain, true)), Named: newSandbox("a", ownedBy("SandboxClaim", "other"))},
			"writeStatus: Ready=False/ClaimExpired Bound=True/Adopted a a-uid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.seen.LabelDomains = []string{DefaultLabelDomain}
			if got := describe(decide(c.seen, now)); !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// describe puts a step into words a test can compare.
func describe(s step) string {
	kind := reflect.TypeOf(s).Name() + ": "
	write, ok := s.(writeStatus)
	if !ok {
		return kind + s.String()
	}
	if write.waits {
		kind += "waits "
	}
	words := []string{}
	for _, kind := range []string{agents.ConditionReady, extensions.ConditionBound} {
		if c := apimeta.FindStatusCondition(write.status.Conditions, kind); c != nil {
			words = append(words, c.Type+"="+string(c.Status)+"/"+c.Reason)
		}
	}
	if bound := write.status.Sandbox; bound.Name != "" {
		words = append(words, bound.Name, string(bound.UID))
	}
	return kind + strings.Join(words, " ")
}

func TestAClaimThatSaysEverythingRests(t *testing.T) {
	seen := observed{Claim: newClaim(), Mine: []*agents.Sandbox{newSandbox("a")}}
	write, ok := decide(seen, now).(writeStatus)
	if !ok {
		t.Fatal("want a status write first")
	}
	bound := seen.Claim.DeepCopy()
	bound.Status = write.status
	seen = observed{Claim: bound, Named: newSandbox("a"), Mine: []*agents.Sandbox{newSandbox("a")}}
	if got, ok := decide(seen, now.Add(time.Hour)).(rest); !ok || !got.until.IsZero() {
		t.Errorf("got %v, want rest", describe(decide(seen, now.Add(time.Hour))))
	}
}

func TestNameIPsAndReadyAreOneWrite(t *testing.T) {
	s := newSandbox("a")
	write := decide(observed{Claim: newClaim(), Mine: []*agents.Sandbox{s}}, now).(writeStatus)
	ready := apimeta.FindStatusCondition(write.status.Conditions, agents.ConditionReady)
	if write.status.Sandbox.Name != "a" || write.status.Sandbox.PodIPs[0] != "10.0.0.1" || ready.Status != metav1.ConditionTrue {
		t.Errorf("got %+v", write.status)
	}
	if ready.ObservedGeneration != 3 || !ready.LastTransitionTime.Equal(&s.Status.Conditions[0].LastTransitionTime) {
		t.Errorf("Ready is not the Sandbox's, at the claim's generation: %+v", ready)
	}
	if len(write.events) != 1 || write.events[0].note != `Adopted warm pool Sandbox "a"` {
		t.Errorf("events: %+v", write.events)
	}
}
