// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestProgressOfAYoungPodIsHeldBack(t *testing.T) {
	with := func(list ...*metav1.Condition) agents.SandboxStatus {
		var s agents.SandboxStatus
		for _, c := range list {
			s.Conditions = append(s.Conditions, *c)
		}
		return s
	}
	no, yes := metav1.ConditionFalse, metav1.ConditionTrue
	waiting := newCondition(agents.ConditionReady, no, agents.ReasonDependenciesNotReady, "Pod exists with phase: Pending")
	running := newCondition(agents.ConditionReady, no, agents.ReasonDependenciesNotReady, "Pod is Running but not Ready")
	ready := newCondition(agents.ConditionReady, yes, agents.ReasonDependenciesReady, "Pod is Ready")
	failing := newCondition(agents.ConditionReady, no, agents.ReasonReconcilerError, "no")
	off := newCondition(agents.ConditionReady, no, agents.ReasonSandboxSuspended, "off")
	notSuspended := newCondition(agents.ConditionSuspended, no, agents.ReasonNotSuspended, "")
	suspended := newCondition(agents.ConditionSuspended, yes, agents.ReasonPodTerminated, "")
	finished := newCondition(agents.ConditionFinished, yes, agents.ReasonPodFailed, "")
	outdated := newCondition(agents.ConditionPodOutdated, yes, agents.ReasonSpecChanged, "")
	appliedInPlace := newCondition(agents.ConditionPodOutdated, yes, agents.ReasonMetadataAppliedInPlace, "")

	second := time.Second
	cases := map[string]struct {
		age       time.Duration
		old, next agents.SandboxStatus
		held      bool
	}{
		"the first status":                 {age: second, next: with(waiting, notSuspended), held: true},
		"a step towards Ready":             {age: second, old: with(waiting), next: with(running), held: true},
		"of a pod just made":               {age: 0, next: with(waiting), held: true},
		"until the pod is two seconds old": {age: 2*second - 1, next: with(waiting), held: true},
		"not then":                         {age: 2 * second, next: with(waiting)},
		"not by a clock that is behind":    {age: -1, next: with(waiting)},
		"Ready is written at once":         {age: second, old: with(waiting), next: with(ready)},
		"Ready lost is written at once":    {age: second, old: with(ready), next: with(running)},
		"an error is written at once":      {age: second, next: with(failing)},
		"an error that is over is written": {age: second, old: with(failing), next: with(waiting)},
		"a resume is written at once":      {age: second, old: with(off, suspended), next: with(waiting, notSuspended)},
		"so it is if only Suspended says":  {age: second, old: with(waiting, suspended), next: with(waiting, notSuspended)},
		"an end is written at once":        {age: second, old: with(waiting), next: with(waiting, finished)},
		"drift is written at once":         {age: second, old: with(waiting), next: with(waiting, outdated)},
		"so is drift of another kind":      {age: second, old: with(waiting, appliedInPlace), next: with(waiting, outdated)},
		"drift that is known is no news":   {age: second, old: with(waiting, outdated), next: with(running, outdated), held: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := newPod(newSandbox())
			pod.CreationTimestamp = metav1.NewTime(testStart)
			until := settles(c.old, c.next, pod, testStart.Add(c.age))
			if held := !until.IsZero(); held != c.held {
				t.Errorf("held is %t", held)
			}
			if want := testStart.Add(2 * second); c.held && !until.Equal(want) {
				t.Errorf("held until %s, want %s", until, want)
			}
		})
	}
	if !settles(agents.SandboxStatus{}, with(waiting), nil, testStart).IsZero() {
		t.Error("without a pod nothing settles")
	}
}

func TestWhatWasHeldBackIsWrittenInTheEnd(t *testing.T) {
	s := newSandbox()
	pod := newPod(s, phase("Pending"))
	pod.CreationTimestamp = metav1.NewTime(testStart)
	seen := seenWith(s, pod)
	got := decide(seen, testStart.Add(500*time.Millisecond))
	wantStep(t, got, rest{})
	end := testStart.Add(2 * time.Second)
	if !got.(rest).until.Equal(end) {
		t.Errorf("rests until %s, want %s", got.(rest).until, end)
	}
	wantStep(t, decide(seen, end), writeStatus{})
}
