// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestStatusSaysWhatThePoolDoes(t *testing.T) {
	cases := map[string]struct {
		seen *scene
		// replicas, ready, updated
		counts    [3]int32
		available metav1.ConditionStatus
		progress  metav1.ConditionStatus
		reason    string
		message   string
	}{
		"a full pool has nothing to do": {
			newScene(onReplenish, readyMembers(3, "new")...),
			[3]int32{3, 3, 3}, metav1.ConditionTrue, metav1.ConditionFalse, extensions.ReasonComplete, "all members are ready",
		},
		"a pool of none is available": {
			newScene(onReplenish).with(replicas(0)),
			[3]int32{0, 0, 0}, metav1.ConditionTrue, metav1.ConditionFalse, extensions.ReasonComplete, "all members are ready",
		},
		"members that come up": {
			newScene(onReplenish, append(readyMembers(1, "new"), member("x", "new", 0))...),
			[3]int32{2, 1, 2}, metav1.ConditionFalse, metav1.ConditionTrue, extensions.ReasonFilling, "2 members are coming up",
		},
		"members that leave": {
			newScene(onReplenish, append(readyMembers(3, "new"), member("x", "new", 0, dying))...),
			[3]int32{3, 3, 3}, metav1.ConditionTrue, metav1.ConditionTrue, extensions.ReasonScalingDown, "1 member is leaving",
		},
		"older members that wait for a claim": {
			newScene(onReplenish, readyMembers(3, "old")...),
			[3]int32{3, 3, 0}, metav1.ConditionTrue, metav1.ConditionFalse, extensions.ReasonComplete, "all members are ready",
		},
		"older members that are replaced": {
			newScene(rolling, append(readyMembers(2, "old"), member("x", "new", 0, ready))...),
			[3]int32{3, 3, 1}, metav1.ConditionTrue, metav1.ConditionTrue, extensions.ReasonUpdating, "2 members are of an older blueprint and being replaced",
		},
		"a member that no node takes": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).with(pods("x", unschedulable())),
			[3]int32{3, 2, 3}, metav1.ConditionFalse, metav1.ConditionFalse, extensions.ReasonMembersHeld,
			"1 member is not Ready in time, and replacing would not help; x: its pod has no node (Unschedulable): 0/1 nodes are available",
		},
		"members that fail again and again": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...).
				with(func(s *scene) { s.Memory.Failures, s.Memory.Replaced = 3, now }),
			[3]int32{3, 2, 3}, metav1.ConditionFalse, metav1.ConditionFalse, extensions.ReasonMembersFailing,
			"members failed or did not become Ready and were replaced 3 times in a row; 1 more wait to be replaced",
		},
		"a quota": {
			newScene(onReplenish).with(refusedCreates(1, 0)),
			[3]int32{0, 0, 0}, metav1.ConditionFalse, metav1.ConditionFalse, extensions.ReasonCreateRefused, "quota",
		},
		"a quota that another spec may not hit": {
			newScene(onReplenish).with(refusedCreates(1, 0), func(s *scene) { s.Pool.Generation++ }),
			[3]int32{0, 0, 0}, metav1.ConditionFalse, metav1.ConditionTrue, extensions.ReasonFilling, "3 members are coming up",
		},
		"somebody else's NetworkPolicy": {
			newScene(onReplenish).with(func(s *scene) {
				s.Policy = &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
			}),
			[3]int32{0, 0, 0}, metav1.ConditionFalse, metav1.ConditionFalse, extensions.ReasonPoolError,
			"no members can be made: NetworkPolicy theirs was not made for the template, so that members would not be isolated; rename or delete it",
		},
		"no template and members missing": {
			newScene(onReplenish, readyMembers(2, "new")...).with(func(s *scene) { s.Template, s.Blueprint = nil, nil }),
			[3]int32{2, 2, 0}, metav1.ConditionFalse, metav1.ConditionFalse, extensions.ReasonTemplateNotFound, `no members can be made: SandboxTemplate "python" not found`,
		},
		"no template and none missing": {
			newScene(onReplenish, readyMembers(3, "new")...).with(func(s *scene) { s.Template, s.Blueprint = nil, nil }),
			[3]int32{3, 3, 0}, metav1.ConditionTrue, metav1.ConditionFalse, extensions.ReasonComplete, "all members are ready",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status := statusOf(c.seen.observed, takeStock(c.seen.observed, now), now)
			if got := [3]int32{status.Replicas, status.ReadyReplicas, status.UpdatedReplicas}; got != c.counts {
				t.Errorf("counts %v, want %v", got, c.counts)
			}
			if got := (*poolStatus)(&status).condition(extensions.ConditionAvailable).Status; got != c.available {
				t.Errorf("Available is %s", got)
			}
			if got := (*poolStatus)(&status).progress(); got.Status != c.progress || got.Reason != c.reason || got.Message != c.message {
				t.Errorf("Progressing is %s, %s: %q", got.Status, got.Reason, got.Message)
			}
			if got := meta.IsStatusConditionTrue(status.Conditions, extensions.ConditionTemplateResolved); got != (c.seen.Template != nil) {
				t.Errorf("TemplateResolved is %v", got)
			}
			if status.ObservedGeneration != c.seen.Pool.Generation || status.Selector != "agents.x-k8s.io/warm-pool-sandbox=029402af" {
				t.Errorf("observed generation %d, selector %q", status.ObservedGeneration, status.Selector)
			}
		})
	}
}

func TestTransitionsAreToldOnce(t *testing.T) {
	status := func(reason string, resolved bool) *extensions.SandboxWarmPoolStatus {
		s := &extensions.SandboxWarmPoolStatus{Conditions: []metav1.Condition{{Type: extensions.ConditionProgressing, Reason: reason}}}
		if !resolved {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: extensions.ConditionTemplateResolved, Reason: extensions.ReasonTemplateNotFound})
		}
		return s
	}
	cases := map[string]struct {
		was, is *extensions.SandboxWarmPoolStatus
		want    []string
	}{
		"ordinary work is not told":     {status(extensions.ReasonFilling, true), status(extensions.ReasonComplete, true), nil},
		"members that are held":         {status(extensions.ReasonFilling, true), status(extensions.ReasonMembersHeld, true), []string{"Warning WarmPoolNotProgressing"}},
		"members that are still held":   {status(extensions.ReasonMembersHeld, true), status(extensions.ReasonMembersHeld, true), nil},
		"members that are held no more": {status(extensions.ReasonMembersHeld, true), status(extensions.ReasonComplete, true), []string{"Normal WarmPoolProgressing"}},
		"a refusal":                     {status(extensions.ReasonFilling, true), status(extensions.ReasonCreateRefused, true), []string{"Warning CreateRefused"}},
		"a template that is gone":       {status(extensions.ReasonComplete, true), status(extensions.ReasonComplete, false), []string{"Warning TemplateNotFound"}},
		"a template that is still gone": {status(extensions.ReasonComplete, false), status(extensions.ReasonComplete, false), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range transitions(c.was, c.is) {
				got = append(got, e.kind+" "+e.reason)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("told %v, want %v", got, c.want)
			}
		})
	}
}

func TestPausesGrowToTheirLongest(t *testing.T) {
	want := map[int]time.Duration{0: 0, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute}
	for n, pauses := range want {
		if got := pause(n); got != pauses {
			t.Errorf("after %d failures %s, want %s", n, got, pauses)
		}
	}
}

func TestMembersThatLeaveAreNoticed(t *testing.T) {
	later := now.Add(time.Minute)
	cases := map[string]struct {
		expected, live int
		want           time.Time
	}{
		"none were counted before":         {-1, 0, now},
		"as many as before":                {3, 3, now},
		"more than before":                 {3, 4, now},
		"one fewer":                        {3, 2, later},
		"one left while another was made":  {3 + 1, 3, later},
		"all left while others were added": {3 + 5, 5, later},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := memory{Live: c.expected, Dropped: now}.counted(c.live, later)
			if m.Dropped != c.want || m.Live != c.live {
				t.Errorf("remembers %d members, and that some left at %s", m.Live, m.Dropped)
			}
		})
	}
}

func TestABatchGrowsAgainAfterARefusal(t *testing.T) {
	of := versions{pool: "p"}
	r := refusal{}.failed("CreateRefused", "quota", of, now).failed("CreateRefused", "quota", of, now)
	if r.Count != 2 || r.until(of) != now.Add(2*time.Second) || r.batch(300) != 1 {
		t.Errorf("after two refusals %+v", r)
	}
	if other := r.failed("CreateRefused", "quota", versions{pool: "q"}, now); other.Count != 1 {
		t.Errorf("the refusals of another pool were counted: %+v", other)
	}
	var batches []int
	for range 4 {
		r = r.succeeded(8)
		batches = append(batches, r.batch(8))
	}
	if !slices.Equal(batches, []int{2, 4, 8, 8}) || r.applies(of) {
		t.Errorf("batches after successes are %v, and %+v is left", batches, r)
	}
}

func TestWhatWakesAPool(t *testing.T) {
	of := func(owner string, edits ...func(*agents.Sandbox)) *agents.Sandbox {
		s := member("x", "new", 0, edits...)
		s.OwnerReferences[0].Name = owner
		return s
	}
	version := func(v string) func(*agents.Sandbox) {
		return func(s *agents.Sandbox) { s.OwnerReferences[0].APIVersion = v }
	}
	claimed := func(s *agents.Sandbox) {
		s.OwnerReferences[0].Kind, s.OwnerReferences[0].UID = "SandboxClaim", "claim-uid"
	}
	cases := map[string]struct {
		before, after *agents.Sandbox
		want          []string
	}{
		"a new member":                     {nil, of("fast"), []string{"fast"}},
		"a member that is gone":            {of("fast"), nil, []string{"fast"}},
		"a member that becomes Ready":      {of("fast"), of("fast", ready), []string{"fast"}},
		"a member that finishes":           {of("fast"), of("fast", finished), []string{"fast"}},
		"a member that is deleted":         {of("fast"), of("fast", dying), []string{"fast"}},
		"a member that is edited":          {of("fast"), of("fast", func(s *agents.Sandbox) { s.Generation++ }), []string{"fast"}},
		"a member that is adopted":         {of("fast"), of("c", claimed), []string{"fast"}},
		"a member that changes its pool":   {of("fast"), of("slow", func(s *agents.Sandbox) { s.OwnerReferences[0].UID = "other" }), []string{"fast", "slow"}},
		"a member whose address is known":  {of("fast"), of("fast", func(s *agents.Sandbox) { s.Status.PodIPs = []string{"10.0.0.1"} }), nil},
		"a Sandbox of a claim":             {nil, of("c", claimed), nil},
		"a Sandbox of another kind's pool": {nil, of("fast", version("example.com/v1")), nil},
		"a pool's older version":           {nil, of("fast", version("extensions.agents.x-k8s.io/v1alpha1")), []string{"fast"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := woken(c.before, c.after); !slices.Equal(got, c.want) {
				t.Errorf("woke %v, want %v", got, c.want)
			}
		})
	}
}

// woken passes missing Sandboxes as missing objects.
func woken(before, after *agents.Sandbox) []string {
	var was, is client.Object
	if before != nil {
		was = before
	}
	if after != nil {
		is = after
	}
	var names []string
	for _, request := range forSandbox(was, is) {
		names = append(names, request.Name)
	}
	return names
}
