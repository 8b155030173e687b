// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster"
)

const expiredMessage = "Claim expired. Sandbox cleanup initiated."

// inSeconds is a time as the API server keeps it, in whole seconds.
func inSeconds(n int) *metav1.Time {
	return ptr.To(metav1.NewTime(time.Now().Add(time.Duration(n) * time.Second).Truncate(time.Second)))
}

func TestAnExpiredClaimIsKeptWithoutItsSandbox(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	w.claim("task", "python")
	sandbox := w.ready("task").Status.Sandbox.Name

	// Its program ends, and later the claim does.
	w.merge(&agents.Sandbox{ObjectMeta: w.named(sandbox)}, podAnnotations(map[string]any{localcluster.FakeOutcome: localcluster.OutcomeSucceeded}))
	finished := w.condition("task", agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodSucceeded)
	w.merge(finished, lifecycle(map[string]any{"shutdownTime": inSeconds(-1)}))

	w.condition("task", agents.ConditionReady, metav1.ConditionFalse, "ClaimExpired")
	kept := await(w, &extensions.SandboxClaimList{}, "the claim to name no Sandbox", func(c *extensions.SandboxClaim) bool {
		return c.Name == "task" && c.Status.Sandbox.Name == ""
	})
	w.gone(&agents.Sandbox{ObjectMeta: w.named(sandbox)})
	w.gone(&corev1.Pod{ObjectMeta: w.named(sandbox)})
	w.says(kept.Status.Conditions, "Ready", metav1.ConditionFalse, "ClaimExpired", expiredMessage)
	w.says(kept.Status.Conditions, "Finished", metav1.ConditionTrue, "PodSucceeded", "Pod completed successfully")
	w.says(kept.Status.Conditions, "Bound", metav1.ConditionFalse, "ClaimExpired", expiredMessage)
	if kept.Status.Sandbox.UID != "" || len(kept.Status.Sandbox.PodIPs) > 0 {
		t.Errorf("the claim still has %+v", kept.Status.Sandbox)
	}
	w.event("task", corev1.EventTypeNormal, "ClaimExpired", "Claim expired")
	w.full("python", 1) // and nothing is taken from the pool again

	// Somebody gives it more time, and it begins anew.
	w.merge(kept, lifecycle(map[string]any{"shutdownTime": nil}))
	again := w.ready("task")
	if again.Status.Sandbox.Name == "" || findCondition(again.Status.Conditions, agents.ConditionFinished) != nil {
		t.Errorf("a claim that was given more time is %+v", again.Status)
	}
}

func TestAnExpiredClaimGoesIfItsPolicySaysSo(t *testing.T) {
	for policy, stays := range map[extensions.ClaimShutdownPolicy]bool{
		extensions.ClaimShutdownDelete:           false,
		extensions.ClaimShutdownDeleteForeground: true,
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t)
			w.template("python", func(t *extensions.SandboxTemplate) { annotate(t, localcluster.FakeStopDelay, "1s") })
			w.pool("python", "python", 1)
			w.claim("task", "python")
			bound := w.ready("task")
			sandbox := bound.Status.Sandbox.Name
			seen := w.follow(&extensions.SandboxClaimList{}, &corev1.PodList{})
			ends := inSeconds(3)
			w.merge(bound, lifecycle(map[string]any{"shutdownTime": ends, "shutdownPolicy": policy}))
			said := seen.await(func(e watch.Event) bool {
				c, ok := e.Object.(*extensions.SandboxClaim)
				return ok && reasonOf(c) == extensions.ReasonClaimExpired
			}, "the claim to say that it expired").Object.(*extensions.SandboxClaim)
			w.says(said.Status.Conditions, "Ready", metav1.ConditionFalse, "ClaimExpired", expiredMessage)
			if time.Now().Before(ends.Time) {
				t.Error("the claim expired before its time")
			}
			claim := version(t, seen.await(deleted[*extensions.SandboxClaim]("task"), "the claim to go").Object)
			pod := version(t, seen.await(deleted[*corev1.Pod](sandbox), "the pod to go").Object)
			if stayed := claim > pod; stayed != stays {
				t.Errorf("the claim stayed until its pod was gone: %v, want %v", stayed, stays)
			}
			w.gone(&agents.Sandbox{ObjectMeta: w.named(sandbox)})
			w.event("task", corev1.EventTypeNormal, "ClaimExpired", "Claim expired")
			w.event("task", corev1.EventTypeNormal, "ClaimExpired", "Deleting Claim (ShutdownPolicy="+string(policy)+")")
		})
	}
}

func TestAClaimEndsSomeTimeAfterItsSandboxFinished(t *testing.T) {
	w := newWorld(t)
	w.template("job", func(t *extensions.SandboxTemplate) {
		annotate(t, localcluster.FakeOutcome, localcluster.OutcomeSucceeded)
	})
	w.unfilled("job", "job", 0)
	w.claim("kept", "job")
	w.claim("task", "job", func(c *extensions.SandboxClaim) {
		c.Spec.Lifecycle = &extensions.ClaimLifecycle{TTLSecondsAfterFinished: ptr.To(int32(2)), ShutdownPolicy: extensions.ClaimShutdownDelete}
	})
	seen := w.follow(&extensions.SandboxClaimList{})
	finished := w.condition("task", agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodSucceeded)
	seen.await(deleted[*extensions.SandboxClaim]("task"), "the claim to go")
	ends := findCondition(finished.Status.Conditions, agents.ConditionFinished).LastTransitionTime.Add(2 * time.Second)
	if time.Now().Before(ends) {
		t.Error("the claim went before its time")
	}
	w.gone(&corev1.Pod{ObjectMeta: w.named("task")})
	// Without a time to live a finished claim stays.
	kept := w.condition("kept", agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodSucceeded)
	if kept.Status.Sandbox.Name != "kept" {
		t.Errorf("the other claim is bound to %q", kept.Status.Sandbox.Name)
	}
	w.sandbox("kept")
}

func TestAClaimLivesLongerIfItsEndIsMovedInTime(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	w.claim("task", "python")
	bound := w.ready("task")
	ends := inSeconds(8)
	before := w.passes.of(w.key("task"))
	w.merge(bound, lifecycle(map[string]any{"shutdownTime": ends}))
	w.eventually("the claim to know its end", func() bool { return w.passes.of(w.key("task")) > before })
	w.merge(bound, lifecycle(map[string]any{"shutdownTime": inSeconds(3600)}))
	if !time.Now().Before(ends.Time) {
		t.Skip("this machine is too slow to move the end in time")
	}
	w.eventually("the first end to pass", func() bool { return time.Now().After(ends.Add(time.Second)) })
	w.pass("task", 1)
	after := w.ready("task")
	if after.Status.Sandbox.UID != bound.Status.Sandbox.UID {
		t.Errorf("the claim is bound to %+v, was to %+v", after.Status.Sandbox, bound.Status.Sandbox)
	}
	w.sandbox(bound.Status.Sandbox.Name)
}

func TestAClaimStopsWaitingAtItsDeadline(t *testing.T) {
	w := newWorld(t)
	w.template("slow", pending)
	w.unfilled("slow", "slow", 2)
	member := await(w, &agents.SandboxList{}, "a member", func(s *agents.Sandbox) bool { return s.Name != "" })
	w.claim("task", "slow", func(c *extensions.SandboxClaim) {
		c.Spec.Lifecycle = &extensions.ClaimLifecycle{BindDeadlineSeconds: ptr.To(int32(4))}
	})
	waiting := w.condition("task", extensions.ConditionBound, metav1.ConditionFalse, extensions.ReasonWaitingForMember)
	w.says(waiting.Status.Conditions, "Ready", metav1.ConditionFalse, "SandboxNotReady", `Waiting for a Sandbox of SandboxWarmPool "slow" that is coming up`)
	late := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, "BindDeadlineExceeded")
	if bound := findCondition(late.Status.Conditions, extensions.ConditionBound); bound.Reason != "BindDeadlineExceeded" || bound.Status != metav1.ConditionFalse {
		t.Errorf("Bound is %+v", bound)
	}

	// A member that gets ready now is not for it.
	start := podAnnotations(map[string]any{localcluster.FakeOutcome: nil})
	w.merge(member, start)
	await(w, &extensions.SandboxWarmPoolList{}, "a member to be ready", func(p *extensions.SandboxWarmPool) bool { return p.Status.ReadyReplicas == 1 })
	w.pass("task", 1)
	if own := w.sandboxesOf(late.UID); len(own) > 0 {
		t.Errorf("after its deadline the claim has %v", own)
	}
	// Until somebody gives it more time.
	w.merge(late, lifecycle(map[string]any{"bindDeadlineSeconds": 3600}))
	if bound := w.ready("task"); bound.Status.Sandbox.Name != member.Name {
		t.Errorf("the claim got %q, want the ready member %q", bound.Status.Sandbox.Name, member.Name)
	}
}

func TestASuspendedSandboxStaysItsClaims(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	w.claim("task", "python")
	bound := w.ready("task")
	sandbox := &agents.Sandbox{ObjectMeta: w.named(bound.Status.Sandbox.Name)}
	w.merge(sandbox, spec(map[string]any{"operatingMode": agents.OperatingModeSuspended}))
	suspended := await(w, &extensions.SandboxClaimList{}, "the claim to say that its Sandbox is suspended", func(c *extensions.SandboxClaim) bool {
		ready := findCondition(c.Status.Conditions, agents.ConditionReady)
		return ready != nil && ready.Reason == agents.ReasonSandboxSuspended && ready.Message == "Sandbox is suspended" && len(c.Status.Sandbox.PodIPs) == 0
	})
	w.says(suspended.Status.Conditions, "Bound", metav1.ConditionTrue, "Adopted", `Sandbox "`+sandbox.Name+`" was adopted from a pool`)
	w.merge(sandbox, spec(map[string]any{"operatingMode": agents.OperatingModeRunning}))
	resumed := w.ready("task")
	for _, c := range []*extensions.SandboxClaim{suspended, resumed} {
		if c.Status.Sandbox.Name != bound.Status.Sandbox.Name || c.Status.Sandbox.UID != bound.Status.Sandbox.UID {
			t.Errorf("the claim is bound to %+v, was to %+v", c.Status.Sandbox, bound.Status.Sandbox)
		}
	}
	if len(resumed.Status.Sandbox.PodIPs) == 0 {
		t.Error("the claim is Ready without an IP")
	}
	w.full("python", 1)
}

func TestALostSandboxIsReportedAndNotReplaced(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 2)
	w.claim("task", "python")
	bound := w.ready("task")
	w.full("python", 2)
	pool := &extensions.SandboxWarmPool{}
	w.must(w.Get(w.Context(), w.key("python"), pool))
	members := w.sandboxesOf(pool.UID)

	w.must(w.Delete(w.Context(), &agents.Sandbox{ObjectMeta: w.named(bound.Status.Sandbox.Name)}))
	lost := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, "SandboxMissing")
	w.says(lost.Status.Conditions, "Ready", metav1.ConditionFalse, "SandboxMissing", "Sandbox does not exist")
	if c := findCondition(lost.Status.Conditions, extensions.ConditionBound); c.Status != metav1.ConditionFalse || c.Reason != "SandboxMissing" {
		t.Errorf("Bound is %+v", c)
	}
	if s := lost.Status.Sandbox; s.Name != bound.Status.Sandbox.Name || s.UID != bound.Status.Sandbox.UID || len(s.PodIPs) > 0 {
		t.Errorf("the claim names %+v, was bound to %+v", s, bound.Status.Sandbox)
	}
	w.event("task", corev1.EventTypeWarning, "SandboxMissing", `Sandbox "`+bound.Status.Sandbox.Name+`" was deleted`)

	w.untouched(func() {
		for n := range 3 {
			w.pass("task", n)
		}
	}, append(members, pool.Name)...)
	if own := w.sandboxesOf(lost.UID); len(own) > 0 {
		t.Errorf("the claim has %v", own)
	}

	// The claim may change its mind.
	w.merge(lost, lifecycle(map[string]any{"sandboxLost": extensions.SandboxLostReplace}))
	if again := w.ready("task"); again.Status.Sandbox.UID == bound.Status.Sandbox.UID {
		t.Error("the claim is Ready with the Sandbox it lost")
	}
}

func TestALostSandboxIsReplacedIfTheClaimAsksForIt(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	w.claim("task", "python", func(c *extensions.SandboxClaim) {
		c.Spec.Lifecycle = &extensions.ClaimLifecycle{SandboxLost: extensions.SandboxLostReplace}
	})
	first := w.ready("task")
	w.full("python", 1)
	w.must(w.Delete(w.Context(), &agents.Sandbox{ObjectMeta: w.named(first.Status.Sandbox.Name)}))
	second := await(w, &extensions.SandboxClaimList{}, "another Sandbox", func(c *extensions.SandboxClaim) bool {
		return c.Status.Sandbox.Name != first.Status.Sandbox.Name && reasonOf(c) == agents.ReasonDependenciesReady
	})
	w.event("task", corev1.EventTypeWarning, "SandboxMissing", `Sandbox "`+first.Status.Sandbox.Name+`" is gone and is being replaced`)
	if own := w.sandboxesOf(second.UID); len(own) != 1 || own[0] != second.Status.Sandbox.Name {
		t.Errorf("the claim has %v and is bound to %s", own, second.Status.Sandbox.Name)
	}
	w.full("python", 1)
}

func TestASandboxLostBeforeItWasReadyIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.template("slow", pending)
	w.unfilled("slow", "slow", 0)
	w.claim("task", "slow")
	first := w.condition("task", extensions.ConditionBound, metav1.ConditionTrue, extensions.ReasonCreated)
	w.must(w.Delete(w.Context(), &agents.Sandbox{ObjectMeta: w.named("task")}))
	second := await(w, &extensions.SandboxClaimList{}, "another Sandbox", func(c *extensions.SandboxClaim) bool {
		return c.Status.Sandbox.Name == "task" && c.Status.Sandbox.UID != first.Status.Sandbox.UID
	})
	if s := w.sandbox("task"); s.UID != second.Status.Sandbox.UID {
		t.Errorf("the claim names %s, the Sandbox is %s", second.Status.Sandbox.UID, s.UID)
	}

	// Once it has been Ready, it is not.
	w.merge(&agents.Sandbox{ObjectMeta: w.named("task")}, podAnnotations(map[string]any{localcluster.FakeOutcome: nil}))
	w.condition("task", extensions.ConditionBound, metav1.ConditionTrue, extensions.ReasonStarted)
	w.must(w.Delete(w.Context(), &agents.Sandbox{ObjectMeta: w.named("task")}))
	w.condition("task", agents.ConditionReady, metav1.ConditionFalse, extensions.ReasonSandboxMissing)
}

func TestADeletedClaimTakesItsSandboxAlongWithoutAWriteOfOurs(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.unfilled("python", "python", 0)
	w.claim("cold", "python")
	claim := w.ready("cold")
	writes := w.writes(func() {
		w.must(w.Delete(w.Context(), claim))
		w.gone(&agents.Sandbox{ObjectMeta: w.named("cold")})
		w.gone(&corev1.Pod{ObjectMeta: w.named("cold")})
	})
	if len(writes) > 0 {
		t.Errorf("the controllers wrote %v", writes)
	}
}

// record follows the changes of several kinds.
type record struct {
	world *world
	all   []watch.Event
	next  chan watch.Event
}

// follow begins to record what changes in the namespace, from now on.
func (w *world) follow(lists ...client.ObjectList) *record {
	w.Helper()
	r := &record{world: w, next: make(chan watch.Event)}
	for _, list := range lists {
		watcher, err := w.Watch(w.Context(), list, client.InNamespace(w.namespace))
		w.must(err)
		w.Cleanup(watcher.Stop)
		go func() {
			for event := range watcher.ResultChan() {
				select {
				case r.next <- event:
				case <-w.Context().Done():
					return
				}
			}
		}()
	}
	return r
}

// await returns the first event, of those before the call too, that is as wanted.
func (r *record) await(wanted func(watch.Event) bool, what string) watch.Event {
	r.world.Helper()
	for _, event := range r.all {
		if wanted(event) {
			return event
		}
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case event := <-r.next:
			r.all = append(r.all, event)
			if wanted(event) {
				return event
			}
		case <-timeout.C:
			r.world.Fatalf("waited too long for %s", what)
		}
	}
}

// deleted matches the deletion of an object.
func deleted[T client.Object](name string) func(watch.Event) bool {
	return func(e watch.Event) bool {
		obj, ok := e.Object.(T)
		return ok && e.Type == watch.Deleted && obj.GetName() == name
	}
}

// version is an object's resourceVersion as a number: one etcd counts for all kinds.
func version(t *testing.T, obj any) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(obj.(client.Object).GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
