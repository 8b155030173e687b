// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		seen *scene
		want string // how the step says itself, up to its end
	}{
		"an empty pool is filled": {
			newScene(onReplenish), "create 3 members",
		},
		"a member that left is replaced": {
			newScene(onReplenish, readyMembers(2, "new")...), "create 1 member",
		},
		"a terminating member counts until it is gone": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, dying))...).settled(), "rest",
		},
		"a creation that may still land counts, and is repeated first": {
			newScene(onReplenish, readyMembers(1, "new")...).with(func(s *scene) { s.InFlight = []string{"fast-x"} }),
			"repeat the creation of 1 member",
		},
		"a creation is not repeated while there are too many": {
			newScene(onReplenish, readyMembers(2, "new")...).with(replicas(2), func(s *scene) { s.InFlight = []string{"fast-x"} }).settled(), "rest",
		},
		"a full pool rests": {
			newScene(onReplenish, readyMembers(3, "new")...).settled(), "rest: all members are ready",
		},
		"a status that says something else is written": {
			newScene(onReplenish, readyMembers(3, "new")...), "write the pool's status",
		},
		"the not Ready go first, then the newest": {
			newScene(onReplenish, append([]*agents.Sandbox{member("x", "new", 2*time.Hour, notReady)}, readyMembers(3, "new")...)...).
				with(replicas(2), pods("x", unschedulable())),
			"delete 2 members (x, m2): the pool has more",
		},
		"nothing is deleted for a spec the server was not asked about": {
			newScene(onReplenish, readyMembers(3, "new")...).with(replicas(2), func(s *scene) { s.Pool.Generation++ }), "ask the server",
		},
		"older members wait for a claim under OnReplenish": {
			newScene(onReplenish, readyMembers(3, "old")...).settled(), "rest",
		},
		"older members are deleted under Recreate": {
			newScene(recreate, readyMembers(3, "old")...), "delete 3 members (m0, m1, m2): they are of an older blueprint",
		},
		"older members are not deleted for a template the server was not asked about": {
			newScene(recreate, readyMembers(3, "old")...).with(func(s *scene) { s.Template.Generation++ }), "ask the server",
		},
		"older members are replaced one by one under RollingUpdate": {
			newScene(rolling, readyMembers(3, "old")...), "delete 1 member (m0): they are of an older blueprint",
		},
		"members are not made beside those on their way out under Recreate": {
			newScene(recreate, member("a", "old", time.Hour, dying), member("b", "old", time.Hour, dying), member("c", "old", time.Hour, dying)).settled(), "rest",
		},
		"a failed member is replaced at once": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...), "delete 1 member (x): they will never be Ready",
		},
		"a suspended member is replaced at once": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, suspended))...), "delete 1 member (x): they will never be Ready",
		},
		"a member that fails again is replaced after a pause": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...).
				with(func(s *scene) { s.Memory.Failures, s.Memory.Replaced = 3, now.Add(-time.Second) }).settled(),
			"rest until 2026-09-01T12:00:03Z",
		},
		"a failure long ago is forgotten": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...).
				with(func(s *scene) { s.Memory.Failures, s.Memory.Replaced = 9, now.Add(-time.Hour) }),
			"delete 1 member (x): they will never be Ready",
		},
		"a young member has time to become Ready": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Minute, notReady))...).settled(), "rest until 2026-09-01T12:04:00Z",
		},
		"a member that was Ready has time to become Ready again": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour,
				condition(agents.ConditionReady, metav1.ConditionFalse, agents.ReasonDependenciesNotReady, 2*time.Minute)))...).settled(),
			"rest until 2026-09-01T12:03:00Z",
		},
		"a member that is not Ready in time for no reason is replaced": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).
				with(pods("x", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}})),
			"delete 1 member (x): they will never be Ready",
		},
		"a member that got its node late has its whole grace from then": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).
				with(pods("x", came(corev1.PodScheduled, time.Minute))).settled(),
			"rest until 2026-09-01T12:04:00Z",
		},
		"a member whose container was late to start has its whole grace from then": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).
				with(pods("x", started(0, 2*time.Minute))).settled(),
			"rest until 2026-09-01T12:03:00Z",
		},
		"a member whose container is started again and again is replaced": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).with(pods("x", started(7, time.Second))),
			"delete 1 member (x): they will never be Ready",
		},
		"a member that got its node long ago is replaced": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).with(pods("x", came(corev1.PodScheduled, 5*time.Minute))),
			"delete 1 member (x): they will never be Ready",
		},
		"a member that no node takes is held, and looked at again": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).
				with(pods("x", unschedulable())).settled(),
			"rest until 2026-09-01T12:01:00Z: 1 member is not Ready in time",
		},
		"nothing is made without a template": {
			newScene(onReplenish).with(func(s *scene) { s.Template, s.Blueprint = nil, nil }).settled(), "rest: no members can be made: SandboxTemplate \"python\" not found",
		},
		"members are not deleted as older without a template": {
			newScene(recreate, readyMembers(3, "old")...).with(func(s *scene) { s.Template, s.Blueprint = nil, nil }).settled(), "rest",
		},
		"the policy comes before the first member": {
			newScene(onReplenish).with(func(s *scene) { s.Policy = nil }), "write the template's NetworkPolicy",
		},
		"the policy is made current before any member": {
			newScene(onReplenish).with(func(s *scene) { s.Policy.Spec.Egress = nil }), "write the template's NetworkPolicy",
		},
		"a full pool leaves the policy to the template": {
			newScene(onReplenish, readyMembers(3, "new")...).with(func(s *scene) { s.Policy = nil }).settled(), "rest: all",
		},
		"nothing is made under somebody else's policy": {
			newScene(onReplenish).with(func(s *scene) { s.Policy = &networkingv1.NetworkPolicy{} }).settled(), "rest: no members can be made: NetworkPolicy",
		},
		"a refused creation is repeated after a pause": {
			newScene(onReplenish).with(refusedCreates(2, 500*time.Millisecond)).settled(), "rest until 2026-09-01T12:00:01Z: quota",
		},
		"after a refusal one member is tried": {
			newScene(onReplenish).with(refusedCreates(2, time.Minute)), "create 1 member",
		},
		"another spec is tried at once after a refusal": {
			newScene(onReplenish).with(refusedCreates(2, 0), func(s *scene) { s.Pool.Generation++ }), "create 1 member",
		},
		"lost members are replaced while creations are refused": {
			newScene(onReplenish, member("x", "new", 0, finished)).with(refusedCreates(2, 0)), "delete 1 member (x)",
		},
		"the pool is refilled at a walk while claims are bound to ready members": {
			newScene(onReplenish, readyMembers(3, "new")...).with(replicas(100), binding(3)), "create 8 members",
		},
		"the pool is refilled at full speed while claims wait for members": {
			newScene(onReplenish, readyMembers(3, "new")...).with(replicas(100), binding(4)), "create 97 members",
		},
		"a member that was suspended or given an end does not count as ready": {
			newScene(rolling, append(readyMembers(2, "old"), member("x", "old", time.Hour, ready, suspended))...).
				with(func(s *scene) { s.Memory.Failures, s.Memory.Replaced = 3, now.Add(-time.Second) }).settled(),
			"rest until 2026-09-01T12:00:03Z",
		},
		"members are created in batches": {
			newScene(onReplenish).with(replicas(1000)), "create 300 members",
		},
		"refilling waits for the delay after members left": {
			newScene(onReplenish, readyMembers(2, "new")...).with(func(s *scene) {
				s.Options.ReplenishDelay, s.Memory.Dropped = time.Minute, now.Add(-time.Second)
			}).settled(),
			"rest until 2026-09-01T12:00:59Z",
		},
		"refilling keeps to the rate": {
			newScene(onReplenish).with(replicas(100), func(s *scene) { s.Options.MaxRefillRate = 10 }), "create 10 members",
		},
		"refilling waits for the rate": {
			newScene(onReplenish).with(func(s *scene) {
				s.Options.MaxRefillRate, s.Memory.Tokens, s.Memory.TokensAt = 0.5, 0, now
			}).settled(),
			"rest until 2026-09-01T12:00:02Z",
		},
		"nothing is done for a pool that is being deleted": {
			newScene(onReplenish).with(func(s *scene) { s.Pool.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }), "rest: the pool is being deleted",
		},
		"counts are written once a second": {
			newScene(onReplenish, readyMembers(3, "new")...).settled().with(func(s *scene) {
				s.Members = append(s.Members[:2:2], member("x", "new", 0))
				s.Memory.StatusWritten = now.Add(-250 * time.Millisecond)
			}),
			"rest until 2026-09-01T12:00:00Z: the counts in the status",
		},
		"a template that is gone is written at once": {
			newScene(onReplenish, readyMembers(3, "new")...).settled().with(func(s *scene) {
				s.Template, s.Blueprint = nil, nil
				s.Memory.StatusWritten = now.Add(-250 * time.Millisecond)
			}),
			"write the pool's status",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := decide(c.seen.observed, now).String(); !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestNoStepEverMakesMoreMembersThanReplicas(t *testing.T) {
	// A walk through every mix of members of a pool of three.
	for live := range 5 {
		for terminating := range 4 {
			for inFlight := range 4 {
				for _, strategy := range []extensions.SandboxWarmPoolUpdateStrategyType{onReplenish, recreate, rolling} {
					for _, image := range []string{"new", "old"} {
						seen := newScene(strategy, readyMembers(live, image)...)
						for i := range terminating {
							seen.Members = append(seen.Members, member(fmt.Sprintf("t%d", i), "new", 0, dying))
						}
						for i := range inFlight {
							seen.InFlight = append(seen.InFlight, fmt.Sprintf("f%d", i))
						}
						create, ok := decide(seen.observed, now).(createMembers)
						// What is in flight may land in any case, so that fresh creates leave room for
						// all of it. What is sent again must fit beside what there is.
						total := live + terminating + len(create.again)
						if create.fresh > 0 {
							total = live + terminating + inFlight + create.fresh
						}
						if ok && total > 3 {
							t.Errorf("%s: %d live, %d terminating, %d in flight: %s", strategy, live, terminating, inFlight, create)
						}
					}
				}
			}
		}
	}
}
