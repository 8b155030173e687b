// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/template"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func newTemplate(image string) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "python", UID: "template-uid", Generation: 1}}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return t
}

// scene is a pool of three whose template, policy and confirmation are in order.
type scene struct{ observed }

func newScene(strategy extensions.SandboxWarmPoolUpdateStrategyType, members ...*agents.Sandbox) *scene {
	t := newTemplate("new")
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fast", UID: "pool-uid", Generation: 4}}
	pool.Spec.Replicas = ptr.To[int32](3)
	pool.Spec.TemplateRef.Name = t.Name
	pool.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: strategy}
	s := &scene{observed{
		Pool: pool, Template: t, Blueprint: blueprint.Of(t), Policy: template.Policy(t), Members: members,
		Pods: map[types.UID][]*corev1.Pod{}, Options: Options{}.withDefaults(),
	}}
	s.Memory = memory{Pool: pool.UID, Live: -1, Confirmed: s.versions()}
	return s
}

func (s *scene) with(edits ...func(*scene)) *scene {
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// settled gives the pool the status it would write.
func (s *scene) settled() *scene {
	s.Pool.Status = statusOf(s.observed, takeStock(s.observed, now), now)
	return s
}

// member returns a member that was created age ago from a template with that image.
func member(name, image string, age time.Duration, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fast", UID: "pool-uid"}}
	s := blueprint.Member(pool, newTemplate(image), name)
	s.UID, s.Generation, s.CreationTimestamp = types.UID(name), 1, metav1.NewTime(now.Add(-age))
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func condition(name string, status metav1.ConditionStatus, reason string, age time.Duration) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: "said " + reason, LastTransitionTime: metav1.NewTime(now.Add(-age)),
		})
	}
}

var (
	ready    = condition(agents.ConditionReady, metav1.ConditionTrue, agents.ReasonDependenciesReady, time.Hour)
	notReady = notReadyFor(agents.ReasonDependenciesNotReady)
	finished = condition(agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodFailed, 0)
)

func notReadyFor(reason string) func(*agents.Sandbox) {
	return condition(agents.ConditionReady, metav1.ConditionFalse, reason, time.Hour)
}

func dying(s *agents.Sandbox)     { s.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
func suspended(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }

func replicas(n int32) func(*scene) {
	return func(s *scene) { s.Pool.Spec.Replicas = &n }
}

func readyMembers(n int, image string) []*agents.Sandbox {
	var list []*agents.Sandbox
	for i := range n {
		list = append(list, member(fmt.Sprintf("m%d", i), image, time.Hour-time.Duration(i)*time.Minute, ready))
	}
	return list
}

const (
	onReplenish = extensions.WarmPoolOnReplenish
	recreate    = extensions.WarmPoolRecreate
	rolling     = extensions.WarmPoolRollingUpdate
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
			newScene(onReplenish, readyMembers(2, "new")...), "create 1 members",
		},
		"a terminating member counts until it is gone": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, dying))...).settled(), "rest",
		},
		"a creation that may still land counts, and is repeated first": {
			newScene(onReplenish, readyMembers(1, "new")...).with(func(s *scene) { s.InFlight = []string{"fast-x"} }),
			"repeat the creation of 1 members",
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
			newScene(rolling, readyMembers(3, "old")...), "delete 1 members (m0): they are of an older blueprint",
		},
		"members are not made beside those on their way out under Recreate": {
			newScene(recreate, member("a", "old", time.Hour, dying), member("b", "old", time.Hour, dying), member("c", "old", time.Hour, dying)).settled(), "rest",
		},
		"a failed member is replaced at once": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...), "delete 1 members (x): they will never be Ready",
		},
		"a suspended member is replaced at once": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, suspended))...), "delete 1 members (x): they will never be Ready",
		},
		"a member that fails again is replaced after a pause": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...).
				with(func(s *scene) { s.Memory.Failures, s.Memory.Replaced = 3, now.Add(-time.Second) }).settled(),
			"rest until 2026-09-01T12:00:03Z",
		},
		"a failure long ago is forgotten": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...).
				with(func(s *scene) { s.Memory.Failures, s.Memory.Replaced = 9, now.Add(-time.Hour) }),
			"delete 1 members (x): they will never be Ready",
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
			"delete 1 members (x): they will never be Ready",
		},
		"a member that no node takes is held, and looked at again": {
			newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", time.Hour, notReady))...).
				with(pods("x", unschedulable())).settled(),
			"rest until 2026-09-01T12:01:00Z: 1 members are not Ready in time",
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
			newScene(onReplenish).with(refusedCreates(2, time.Minute)), "create 1 members",
		},
		"another spec is tried at once after a refusal": {
			newScene(onReplenish).with(refusedCreates(2, 0), func(s *scene) { s.Pool.Generation++ }), "create 1 members",
		},
		"lost members are replaced while creations are refused": {
			newScene(onReplenish, member("x", "new", 0, finished)).with(refusedCreates(2, 0)), "delete 1 members (x)",
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

func pods(of string, list ...corev1.Pod) func(*scene) {
	return func(s *scene) {
		for _, pod := range list {
			s.Pods[types.UID(of)] = append(s.Pods[types.UID(of)], &pod)
		}
	}
}

func unschedulable() corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"},
	}}}
}

func refusedCreates(count int, ago time.Duration) func(*scene) {
	return func(s *scene) {
		s.Memory.Creates = refusal{Reason: extensions.ReasonCreateRefused, Message: "quota", Count: count, At: now.Add(-ago), Of: s.versions(), Limit: 1}
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
						if total := live + terminating + inFlight + create.fresh; ok && total > 3 {
							t.Errorf("%s: %d live, %d terminating, %d in flight: %s", strategy, live, terminating, inFlight, create)
						}
					}
				}
			}
		}
	}
}

func TestRollout(t *testing.T) {
	bound := func(unavailable, surge *intstr.IntOrString) func(*scene) {
		return func(s *scene) {
			s.Pool.Spec.UpdateStrategy.RollingUpdate = &extensions.SandboxWarmPoolRollingUpdate{MaxUnavailable: unavailable, MaxSurge: surge}
		}
	}
	number := func(n int) *intstr.IntOrString { return ptr.To(intstr.FromInt(n)) }
	percent := func(p string) *intstr.IntOrString { return ptr.To(intstr.FromString(p)) }
	old := func(n int) []*agents.Sandbox { return readyMembers(n, "old") }
	cases := map[string]struct {
		seen   *scene
		delete []string
		create int
	}{
		"one at a time by default":            {newScene(rolling, old(3)...), []string{"m0"}, 0},
		"two at a time":                       {newScene(rolling, old(3)...).with(bound(number(2), nil)), []string{"m0", "m1"}, 0},
		"a percentage is rounded down":        {newScene(rolling, old(3)...).with(bound(percent("70%"), nil)), []string{"m0", "m1"}, 0},
		"but to one at least without a surge": {newScene(rolling, old(3)...).with(bound(percent("1%"), nil)), []string{"m0"}, 0},
		"a surge makes new ones first":        {newScene(rolling, old(3)...).with(bound(number(0), number(1))), nil, 1},
		"a surge is rounded up":               {newScene(rolling, old(3)...).with(bound(number(0), percent("34%"))), nil, 2},
		"old ones that are not Ready go at once": {
			newScene(rolling, member("x", "old", time.Minute, notReady), member("y", "old", time.Minute, notReady), member("z", "old", time.Hour, ready)), []string{"x", "y"}, 0,
		},
		"none that is Ready goes while others are missing": {
			newScene(rolling, append(old(2), member("x", "new", time.Minute, notReady))...), nil, 0,
		},
		"claims make room for new ones": {newScene(rolling, old(1)...), nil, 2},
		"when the new one of a surge is Ready an old one goes": {
			newScene(rolling, append(old(3), member("x", "new", time.Minute, ready))...).with(bound(number(0), number(1))), []string{"m0"}, 0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := takeStock(c.seen.observed, now)
			var deleted []string
			for _, m := range outdated(c.seen.Pool, s) {
				deleted = append(deleted, m.Name)
			}
			if !slices.Equal(deleted, c.delete) || s.room() != c.create {
				t.Errorf("delete %v and create %d, want %v and %d", deleted, s.room(), c.delete, c.create)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	waiting := func(reason string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}}}
	}
	gated := unschedulable()
	gated.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	initialising := waiting("PodInitializing")
	initialising.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	cases := map[string]struct {
		member func(*agents.Sandbox)
		pods   []corev1.Pod
		want   string // part of it; "" is unexplained
	}{
		"no node":                    {notReady, []corev1.Pod{unschedulable()}, "0/1 nodes are available"},
		"a scheduling gate":          {notReady, []corev1.Pod{gated}, "SchedulingGated"},
		"an image being pulled":      {notReady, []corev1.Pod{waiting("ContainerCreating")}, "ContainerCreating"},
		"an image that is not there": {notReady, []corev1.Pod{waiting("ImagePullBackOff")}, "ImagePullBackOff"},
		"an init container at work":  {notReady, []corev1.Pod{initialising}, "init container init is running"},
		"a kubelet that is busy":     {notReady, []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}}, "node n1"},
		"a crash loop is no reason":  {notReady, []corev1.Pod{waiting("CrashLoopBackOff")}, ""},
		"running and not Ready":      {notReady, []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}, ""},
		"a pod on its way out":       {notReady, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.NewTime(now))}}}, "terminating"},
		"a pod that is refused":      {notReadyFor(agents.ReasonReconcilerError), nil, "said ReconcilerError"},
		"two pods":                   {notReadyFor(agents.ReasonMultiplePods), []corev1.Pod{{}, {}}, "said MultiplePods"},
		"a Sandbox nobody looked at": {func(*agents.Sandbox) {}, nil, "not been looked at"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var list []*corev1.Pod
			for i := range c.pods {
				list = append(list, &c.pods[i])
			}
			got := explain(member("x", "new", time.Hour, c.member), list)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
