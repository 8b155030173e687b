// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// saying is a Sandbox of the claim's that says of itself what the condition says.
func saying(status metav1.ConditionStatus, reason, message string) *agents.Sandbox {
	return newSandbox("a", func(s *agents.Sandbox) {
		s.Status.Conditions[0].Status, s.Status.Conditions[0].Reason, s.Status.Conditions[0].Message = status, reason, message
	})
}

// boundTo is what is observed of a claim that is bound to s.
func boundTo(s *agents.Sandbox, edits ...func(*extensions.SandboxClaim)) observed {
	edits = append([]func(*extensions.SandboxClaim){boundAs(s.Name, s.UID, extensions.ReasonAdopted)}, edits...)
	seen := observed{Claim: newClaim(edits...), Named: s}
	if control.IsControlledBy(s, seen.Claim.UID) {
		seen.Mine = []*agents.Sandbox{s}
	}
	return seen
}

// What a claim may say, word by word: clients compare reasons and messages, and delete
// claims on some. Two reasons of the API are never written. AdoptionConflict: whoever
// loses a member to another writer looks at the next one in the same pass.
// SandboxCreatePending: the view shows what this process created, and a Sandbox that is
// there already is read from the server.
func TestConditionsOfAClaim(t *testing.T) {
	const (
		never  = "nothing brings it back but an event"
		soon   = "it is tried again, with backoff"
		notOwn = `sandbox "a" is not controlled by claim "task". Please use a different claim name or delete the sandbox manually`
	)
	pool := fromPool().Pool
	spec := func(edit func(*extensions.SandboxClaimSpec)) *extensions.SandboxClaim {
		return newClaim(func(c *extensions.SandboxClaim) { edit(&c.Spec) })
	}
	foreign := newSandbox("a", ownedBy("SandboxClaim", "other"))
	undecided := []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbCreate, Intended: newSandbox("task")}}
	webhookDown := apierrors.NewInternalError(errors.New("failed calling webhook"))
	for name, c := range map[string]struct {
		seen           observed
		ready          string // status, reason and message
		bound          string // status and reason
		sandbox, retry string
	}{
		"the template is not there": {
			observed{Claim: newClaim(), Source: source{PoolName: "python", Pool: pool, TemplateName: "py"}},
			`False TemplateNotFound SandboxTemplate "py" not found`, "False TemplateNotFound", "", never,
		},
		"the template that the claim names is not there": {
			observed{Claim: newClaim(), Source: source{TemplateName: "py"}},
			`False TemplateNotFound SandboxTemplate "py" not found`, "False TemplateNotFound", "", never,
		},
		"the pool is not there": {
			observed{Claim: newClaim(), Source: source{PoolName: "python"}},
			`False WarmPoolNotFound SandboxWarmPool "python" not found`, "False WarmPoolNotFound", "", never,
		},
		"the metadata is not allowed": {
			observed{Claim: spec(func(s *extensions.SandboxClaimSpec) {
				s.AdditionalPodMetadata.Annotations = map[string]string{"k8s.io/x": "1"}
			}), Source: fromPool(), Candidate: newSandbox("member")},
			"False InvalidMetadata spec.additionalPodMetadata.annotations[k8s.io/x]: keys under k8s.io are reserved; use another domain", "False InvalidMetadata", "", never,
		},
		"the variables are not allowed": {
			observed{Claim: spec(func(s *extensions.SandboxClaimSpec) { s.Env = []extensions.EnvVar{{Name: "A"}} }), Source: fromPool(), Policy: currentPolicy()},
			`False EnvVarsInjectionRejected spec.env: SandboxTemplate "python" does not allow it; ` +
				"set its spec.envVarsInjectionPolicy to Allowed or Overrides, or remove env from the claim", "False EnvVarsInjectionRejected", "", never,
		},
		"the volumes are not allowed": {
			observed{Claim: spec(func(s *extensions.SandboxClaimSpec) {
				s.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{Metadata: agents.EmbeddedObjectMetadata{Name: "data"}}}
			}), Source: fromPool(), Policy: currentPolicy()},
			`False VolumeClaimTemplatesError spec.volumeClaimTemplates: SandboxTemplate "python" does not allow them; ` +
				"set its spec.volumeClaimTemplatesPolicy to Allowed or Overrides, or remove them from the claim", "False VolumeClaimTemplatesError", "", never,
		},
		"the claim has expired": {
			boundTo(newSandbox("a"), expiredSince(extensions.ClaimShutdownRetain, false)),
			"False ClaimExpired Claim expired. Sandbox cleanup initiated.", "True Adopted", "a", "",
		},
		"the claim has expired, and its Sandbox is gone": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), expiredSince(extensions.ClaimShutdownRetain, true))},
			"False ClaimExpired Claim expired. Sandbox cleanup initiated.", "False ClaimExpired", "", never,
		},
		"the claim has expired, and its Sandbox is not its own": {
			boundTo(foreign, expiredSince(extensions.ClaimShutdownRetain, true)),
			"False ClaimExpired Claim expired. " + notOwn + "; deletion skipped.", "True Adopted", "a", never,
		},
		"the Sandbox was taken out of the claim's control": {
			boundTo(foreign),
			"False ReconcilerError Error seen: " + notOwn, "True Adopted", "a", never,
		},
		"the Sandbox does not exist": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted))},
			"False SandboxMissing Sandbox does not exist", "False SandboxMissing", "a", never,
		},
		"the Sandbox has expired by itself": {
			boundTo(saying(metav1.ConditionFalse, agents.ReasonSandboxExpired, agents.MessageSandboxExpired)),
			"False SandboxExpired Underlying Sandbox resource has expired independently of the Claim.", "True Adopted", "a", never,
		},
		"the Sandbox has not said anything yet": {
			boundTo(newSandbox("a", func(s *agents.Sandbox) { s.Status.Conditions = nil })),
			"False SandboxNotReady Sandbox is not ready", "True Adopted", "a", never,
		},
		"the Sandbox is ready": {
			boundTo(newSandbox("a")),
			"True DependenciesReady Pod is Ready", "True Adopted", "a", never,
		},
		"the Sandbox waits for its pod": {
			boundTo(saying(metav1.ConditionFalse, agents.ReasonDependenciesNotReady, "Pod exists with phase: Pending")),
			"False DependenciesNotReady Pod exists with phase: Pending", "True Adopted", "a", never,
		},
		"the Sandbox has an error": {
			boundTo(saying(metav1.ConditionFalse, agents.ReasonReconcilerError, "Error seen: exceeded quota")),
			"False ReconcilerError Error seen: exceeded quota", "True Adopted", "a", never,
		},
		"the Sandbox has several pods": {
			boundTo(saying(metav1.ConditionFalse, agents.ReasonMultiplePods, "multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod")),
			"False MultiplePods multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod", "True Adopted", "a", never,
		},
		"the Sandbox is suspended": {
			boundTo(saying(metav1.ConditionFalse, agents.ReasonSandboxSuspended, "Sandbox is suspended")),
			"False SandboxSuspended Sandbox is suspended", "True Adopted", "a", never,
		},
		"the Sandbox's pod has failed": {
			boundTo(saying(metav1.ConditionFalse, agents.ReasonPodFailed, "Pod failed")),
			"False PodFailed Pod failed", "True Adopted", "a", never,
		},

		// What follows is Berth's own.
		"a member is coming up": {
			observed{Claim: newClaim(), Source: fromPool(), Wait: true},
			`False SandboxNotReady Waiting for a Sandbox of SandboxWarmPool "python" that is coming up`, "False WaitingForMember", "", never,
		},
		"a member is coming up, and one could not be had": {
			observed{Claim: newClaim(), Source: fromPool(), Wait: true, Rejected: []string{"python-x has a pod that is not ready"}},
			`False SandboxNotReady Waiting for a Sandbox of SandboxWarmPool "python" that is coming up; passed over: python-x has a pod that is not ready`, "False WaitingForMember", "", never,
		},
		"the name is taken": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), Occupant: newSandbox("a", ownedBy("SandboxWarmPool", "other"))},
			"False SandboxNameTaken " + notOwn, "False SandboxNameTaken", "", never,
		},
		"another Sandbox of the name is going away": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), Occupant: newSandbox("task", terminating)},
			`False SandboxNotReady Creating Sandbox "task": waiting for another Sandbox of this name to be gone`, "False Creating", "", never,
		},
		"the former Sandbox of the claim is going away": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), Mine: []*agents.Sandbox{newSandbox("task", terminating)}},
			`False SandboxNotReady Creating Sandbox "task": waiting for the former Sandbox of this name to be gone`, "False Creating", "", never,
		},
		"the server refuses the Sandbox for now": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), answers: answers{Refused: apierrors.NewForbidden(schema.GroupResource{Group: agents.GroupVersion.Group, Resource: "sandboxes"}, "task", errors.New("exceeded quota"))}},
			`False SandboxCreateRefused Sandbox "task" was refused: sandboxes.agents.x-k8s.io "task" is forbidden: exceeded quota`, "False SandboxCreateRefused", "", soon,
		},
		"the server refuses the Sandbox for good": {
			observed{Claim: newClaim(), Source: fromPool(), Policy: currentPolicy(), answers: answers{Refused: apierrors.NewBadRequest("no")}},
			`False SandboxCreateRefused Sandbox "task" was refused: no`, "False SandboxCreateRefused", "", never,
		},
		"a webhook fails, and whether the Sandbox came into being is open": {
			observed{Claim: newClaim(), Undecided: undecided, answers: answers{Refused: webhookDown}},
			`False SandboxCreateRefused Sandbox "task" was refused: Internal error occurred: failed calling webhook`, "False SandboxCreateRefused", "", soon,
		},
		"a webhook fails, and whether the member was adopted is open": {
			observed{
				Claim:     newClaim(),
				Undecided: []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbPatch, Base: newSandbox("member"), Intended: newSandbox("member")}},
				answers:   answers{Barred: webhookDown},
			},
			`False SandboxCreateRefused The adoption of Sandbox "member" was refused: Internal error occurred: failed calling webhook`, "False SandboxCreateRefused", "", soon,
		},
		"a webhook fails when the claim's metadata is put into its Sandbox": {
			observed{Claim: spec(func(s *extensions.SandboxClaimSpec) {
				s.AdditionalPodMetadata.Annotations = map[string]string{"note": "1"}
			}), Mine: []*agents.Sandbox{newSandbox("a")}, answers: answers{Barred: webhookDown}},
			`False ReconcilerError Error seen: spec.additionalPodMetadata was refused by Sandbox "a": Internal error occurred: failed calling webhook`, "False ReconcilerError", "", soon,
		},
		"the claim has waited long enough": {
			observed{Claim: spec(func(s *extensions.SandboxClaimSpec) {
				s.Lifecycle = &extensions.ClaimLifecycle{BindDeadlineSeconds: ptr.To[int32](60)}
			}), Source: fromPool(), Wait: true},
			"False BindDeadlineExceeded No Sandbox within bindDeadlineSeconds (60); the claim waits no more. " +
				"Delete it, or raise spec.lifecycle.bindDeadlineSeconds", "False BindDeadlineExceeded", "", never,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.seen.LabelDomains = []string{DefaultLabelDomain}
			write, ok := decide(c.seen, now).(writeStatus)
			if !ok {
				t.Fatalf("got %s, want a status write", describe(decide(c.seen, now)))
			}
			ready, bound := findCondition(write.status, agents.ConditionReady), findCondition(write.status, extensions.ConditionBound)
			if got := fmt.Sprintf("%s %s %s", ready.Status, ready.Reason, ready.Message); got != c.ready {
				t.Errorf("Ready is %s\nwant     %s", got, c.ready)
			}
			if got := fmt.Sprintf("%s %s", bound.Status, bound.Reason); got != c.bound {
				t.Errorf("Bound is %s, want %s", got, c.bound)
			}
			if got := write.status.Sandbox.Name; got != c.sandbox {
				t.Errorf("the claim names %q, want %q", got, c.sandbox)
			}
			if ready.ObservedGeneration != c.seen.Claim.Generation || bound.Status == metav1.ConditionFalse && bound.ObservedGeneration != c.seen.Claim.Generation {
				t.Errorf("generations %d and %d, want the claim's", ready.ObservedGeneration, bound.ObservedGeneration)
			}
			if c.retry == "" {
				return // there is more to do
			}
			told := c.seen
			told.Claim = c.seen.Claim.DeepCopy()
			told.Claim.Status = write.status
			if end, ok := decide(told, now).(rest); !ok || !end.until.IsZero() {
				t.Errorf("when that is said: %s", describe(decide(told, now)))
			}
			if again := told.retry() != nil; again != (c.retry == soon) {
				t.Errorf("the pass is repeated: %v, but %s", again, c.retry)
			}
		})
	}
}

func findCondition(status extensions.SandboxClaimStatus, kind string) metav1.Condition {
	if c := apimeta.FindStatusCondition(status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestAClaimIsFinishedAsItsSandboxIs(t *testing.T) {
	finished := metav1.Condition{
		Type: agents.ConditionFinished, Status: metav1.ConditionTrue, Reason: agents.ReasonPodSucceeded,
		Message: agents.MessagePodSucceeded, ObservedGeneration: 9, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
	}
	says := func(c *extensions.SandboxClaim) { c.Status.Conditions = append(c.Status.Conditions, finished) }
	done := newSandbox("a", func(s *agents.Sandbox) { s.Status.Conditions = append(s.Status.Conditions, finished) })
	for name, c := range map[string]struct {
		seen observed
		want metav1.Condition
	}{
		"word by word, with the Sandbox's generation": {boundTo(done), finished},
		"no more when the Sandbox is not any more":    {boundTo(newSandbox("a"), says), metav1.Condition{}},
		"and for ever when the claim has expired": {
			observed{Claim: newClaim(boundAs("a", "a-uid", extensions.ReasonAdopted), says, expiredSince(extensions.ClaimShutdownRetain, true))}, finished,
		},
	} {
		t.Run(name, func(t *testing.T) {
			write, ok := decide(c.seen, now).(writeStatus)
			if !ok {
				t.Fatalf("got %s", describe(decide(c.seen, now)))
			}
			if got := findCondition(write.status, agents.ConditionFinished); got != c.want {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestWhyNoMemberFitsStandsInBound(t *testing.T) {
	rejected := []string{"python-c is gone", "python-a has no pod IP", "python-d is gone", "python-b is of an older blueprint"}
	const suffix = "; passed over: python-a has no pod IP, python-b is of an older blueprint, python-c is gone, and 1 more"
	for name, seen := range map[string]observed{
		"while one is coming up":           {Wait: true},
		"while another Sandbox is going":   {Policy: currentPolicy(), Occupant: newSandbox("task", terminating)},
		"while the name is taken":          {Policy: currentPolicy(), Occupant: newSandbox("task", ownedBy("SandboxWarmPool", "other"))},
		"while the Sandbox is refused":     {Policy: currentPolicy(), answers: answers{Refused: errors.New("no")}},
		"while the policy is not in force": {Policy: &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "python-network-policy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			seen.Claim, seen.Source, seen.Rejected = newClaim(), fromPool(), rejected
			write := decide(seen, now).(writeStatus)
			if got := findCondition(write.status, extensions.ConditionBound).Message; !strings.HasSuffix(got, suffix) || strings.Count(got, "passed over") != 1 {
				t.Errorf("Bound says %q", got)
			}
		})
	}
}
