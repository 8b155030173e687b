// SPDX-License-Identifier: Apache-2.0

package crashloop

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func at(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }

func ended(code int32, reason string, ran time.Duration) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: at(time.Hour), FinishedAt: at(time.Hour - ran)}
}

func TestWhatAContainersStatusSaysOfItsEnds(t *testing.T) {
	running := func(age time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(age)}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for name, c := range map[string]struct {
		restarts   int32
		now        corev1.ContainerState
		last       *corev1.ContainerStateTerminated
		says       string
		unproven   time.Duration
		unrecorded bool
	}{
		"one that runs since its first start":          {now: running(0), unrecorded: true},
		"one that was not started yet":                 {now: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}, unrecorded: true},
		"one that is done":                             {now: corev1.ContainerState{Terminated: ended(0, "Completed", 0)}, unrecorded: true},
		"one that is done, and ended before":           {restarts: 1, last: ended(1, "Error", 0), now: corev1.ContainerState{Terminated: ended(0, "Completed", 0)}, unrecorded: true},
		"one that has just ended":                      {now: corev1.ContainerState{Terminated: ended(3, "Error", 0)}, says: "container agent has ended once, with exit code 3"},
		"one that has just ended again":                {restarts: 1, last: ended(4, "Error", 0), now: corev1.ContainerState{Terminated: ended(3, "Error", 0)}, says: "container agent has ended 2 times, last with exit code 3"},
		"one in the pause after its end":               {restarts: 1, last: ended(137, "OOMKilled", 0), now: waiting, says: "container agent has ended 2 times, last with exit code 137 (OOMKilled)"},
		"one that does all it has to, again and again": {restarts: 2, last: ended(0, "Completed", 0), now: waiting, says: "container agent has ended 3 times, last with exit code 0 (Completed)"},
		"one that was started again":                   {restarts: 2, last: ended(3, "Error", 0), now: running(4 * time.Second), says: "container agent has ended 2 times, last with exit code 3", unproven: 6 * time.Second},
		"one that runs for as long as the pause":       {restarts: 2, last: ended(3, "Error", 0), now: running(10 * time.Second), says: "container agent has ended 2 times, last with exit code 3"},
		"one that has not outlived its last run":       {restarts: 1, last: ended(3, "Error", 20*time.Second), now: running(15 * time.Second), says: "container agent has ended once, with exit code 3", unproven: 5 * time.Second},
		"one whose last run was long":                  {restarts: 1, last: ended(3, "Error", 40*time.Minute), now: running(time.Minute), says: "container agent has ended once, with exit code 3"},
		"one whose clock is far ahead":                 {restarts: 1, last: ended(3, "Error", 0), now: running(-time.Hour), says: "container agent has ended once, with exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := Of(corev1.ContainerStatus{Name: "agent", RestartCount: c.restarts, State: c.now, LastTerminationState: corev1.ContainerState{Terminated: c.last}})
			if known == c.unrecorded {
				t.Fatalf("it is %+v, %v", got, known)
			}
			if !known {
				return
			}
			if got.String() != c.says {
				t.Errorf("it says %q", got)
			}
			if d := got.Unproven(now); d != c.unproven {
				t.Errorf("it has to run for %s more", d)
			}
		})
	}
}

func TestAnEndIsToldWithWhatTheContainerLeft(t *testing.T) {
	end := ended(1, "Error", 0)
	end.Message = "no model\n"
	if got := Ending(end); got != "with exit code 1: no model" {
		t.Errorf("it is %q", got)
	}
}
