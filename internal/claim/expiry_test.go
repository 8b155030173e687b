// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestExpiryWakesTheClaim(t *testing.T) {
	finished := metav1.NewTime(now.Add(-10 * time.Second))
	for name, c := range map[string]struct {
		lifecycle *extensions.ClaimLifecycle
		finished  *metav1.Time
		want      time.Time
	}{
		"never without a lifecycle":                  {nil, &finished, time.Time{}},
		"at the shutdown time":                       {&extensions.ClaimLifecycle{ShutdownTime: ptr.To(metav1.NewTime(now.Add(time.Hour)))}, nil, now.Add(time.Hour)},
		"the TTL counts from the end of the work":    {&extensions.ClaimLifecycle{TTLSecondsAfterFinished: ptr.To[int32](30)}, &finished, now.Add(20 * time.Second)},
		"the TTL does not count before":              {&extensions.ClaimLifecycle{TTLSecondsAfterFinished: ptr.To[int32](30)}, nil, time.Time{}},
		"at once with a TTL of zero":                 {&extensions.ClaimLifecycle{TTLSecondsAfterFinished: ptr.To[int32](0)}, &finished, now.Add(-10 * time.Second)},
		"at the earlier of shutdown time and TTL":    {&extensions.ClaimLifecycle{ShutdownTime: ptr.To(metav1.NewTime(now.Add(time.Hour))), TTLSecondsAfterFinished: ptr.To[int32](30)}, &finished, now.Add(20 * time.Second)},
		"a shutdown time before the TTL comes first": {&extensions.ClaimLifecycle{ShutdownTime: ptr.To(metav1.NewTime(now)), TTLSecondsAfterFinished: ptr.To[int32](30)}, &finished, now},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim(func(claim *extensions.SandboxClaim) {
				claim.Spec.Lifecycle = c.lifecycle
				if c.finished != nil {
					claim.Status.Conditions = []metav1.Condition{{Type: agents.ConditionFinished, Status: metav1.ConditionTrue, LastTransitionTime: *c.finished}}
				}
			})
			if got := expiry(claim); !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if isExpired(claim, now) != (!c.want.IsZero() && !c.want.After(now)) {
				t.Errorf("isExpired is %v at %v, expiry %v", isExpired(claim, now), now, c.want)
			}
		})
	}
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

// A claim whose Sandbox was taken away and that made another has nothing left to be used
// by once it has expired.
func TestAnExpiredClaimDeletesWhatItControlsThoughItsSandboxIsNotItsOwn(t *testing.T) {
	foreign, own := newSandbox("a", ownedBy("SandboxClaim", "other")), newSandbox("task")
	seen := boundTo(foreign, expiredSince(extensions.ClaimShutdownRetain, true))
	seen.Mine = []*agents.Sandbox{own}
	if next, ok := decide(seen, now).(deleteSandbox); !ok || next.sandbox != own {
		t.Errorf("got %v", describe(decide(seen, now)))
	}
}
