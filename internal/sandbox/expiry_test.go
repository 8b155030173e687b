// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func expiresAt(at time.Time) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) { t := metav1.NewTime(at); s.Spec.ShutdownTime = &t }
}

func TestExpiry(t *testing.T) {
	service := func(o *observed) { o.service = renderService(o.sandbox, serviceSelector(o.sandbox, nil)) }
	gone := func(o *observed) { o.pass.podGone = true }
	expired := func(o *observed) { o.sandbox.Status = expiredStatus(o.sandbox, testStart) }
	deletes := func(s *agents.Sandbox) { s.Spec.ShutdownPolicy = agents.ShutdownPolicyDelete }
	cases := map[string]struct {
		edit func(*agents.Sandbox)
		pods []func(*corev1.Pod)
		more []func(*observed)
		want step
	}{
		"the pod goes":                          {pods: []func(*corev1.Pod){func(*corev1.Pod) {}}, want: deletePods{}},
		"every pod goes, however many":          {pods: []func(*corev1.Pod){func(*corev1.Pod) {}, named("other")}, want: deletePods{}},
		"the Service goes":                      {more: []func(*observed){service}, want: deleteService{}},
		"while the pod terminates that is told": {pods: []func(*corev1.Pod){terminating}, want: writeStatus{}},
		"another's Service stays":               {more: []func(*observed){service, func(o *observed) { o.service.OwnerReferences = nil }}, want: confirmPodGone{}},
		"that the pod is gone is proved":        {want: confirmPodGone{}},
		"the Sandbox stays under Retain":        {more: []func(*observed){gone}, want: writeStatus{}},
		"and is then at rest":                   {more: []func(*observed){expired}, want: rest{}},
		"the Sandbox goes under Delete":         {edit: deletes, more: []func(*observed){gone}, want: deleteSandbox{}},
		"not before that is proved":             {edit: deletes, want: confirmPodGone{}},
		"not while the pod terminates":          {edit: deletes, pods: []func(*corev1.Pod){terminating}, more: []func(*observed){gone}, want: writeStatus{}},
		"a pod that cannot be deleted is tried again": {
			edit: deletes, pods: []func(*corev1.Pod){func(*corev1.Pod) {}},
			more: []func(*observed){func(o *observed) {
				o.sandbox.Status = expiringStatus(o.sandbox, testStart)
				o.pass.refusals = []refusal{{subject: aboutPod, err: errors.New("forbidden")}}
			}},
			want: retry{},
		},
		"a suspended Sandbox expires too": {edit: suspendedMode, want: confirmPodGone{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(expiresAt(testStart))
			if c.edit != nil {
				c.edit(s)
			}
			seen := seenWith(s)
			for _, edit := range c.pods {
				seen.pods = append(seen.pods, newPod(s, edit))
			}
			for _, edit := range c.more {
				edit(&seen)
			}
			got := decide(seen, testStart)
			wantStep(t, got, c.want)
			if all, ok := got.(deletePods); ok && len(all.pods) != len(c.pods) {
				t.Errorf("deletes %d of %d pods", len(all.pods), len(c.pods))
			}
		})
	}
}

func TestTheTimerRingsAtTheShutdownTime(t *testing.T) {
	at := testStart.Add(90 * time.Second)
	s := newSandbox(expiresAt(at))
	seen := settled(seenWith(s, newPod(s)))
	got := decide(seen, testStart)
	wantStep(t, got, rest{})
	if !got.(rest).until.Equal(at) {
		t.Errorf("rests until %s, want %s", got.(rest).until, at)
	}
	wantStep(t, decide(seen, at.Add(-time.Nanosecond)), rest{})
	wantStep(t, decide(seen, at), deletePods{})
}

func TestAnExpiredSandboxKeepsItsConditionsOnly(t *testing.T) {
	s := newSandbox(expiresAt(testStart), withService(true))
	before := seenWith(s, newPod(s, phase(corev1.PodSucceeded)))
	before.service = renderService(s, serviceSelector(s, nil))
	s.Status = statusOf(before, verdictsOf(before, testStart), testStart)
	s.Status.PodFailures = &agents.PodFailures{Count: 2}

	expiring := expiringStatus(s, testStart)
	if expiring.PodIPs != nil || expiring.NodeName != "" || expiring.Service == "" || expiring.LabelSelector == "" {
		t.Errorf("while it is taken down the status is %+v", expiring)
	}
	got := expiredStatus(s, testStart)
	conditions := got.Conditions
	got.Conditions, got.ObservedGeneration = nil, 0
	if write := statusStep(&agents.Sandbox{}, got); write != nil {
		t.Errorf("the status still says %v", write.patch)
	}
	is := agents.SandboxStatus{Conditions: conditions}
	for kind, want := range map[string]string{
		agents.ConditionReady:        "False/SandboxExpired: Sandbox has expired",
		agents.ConditionFinished:     "True/PodSucceeded: Pod completed successfully",
		agents.ConditionSuspended:    notSuspended,
		agents.ConditionPodScheduled: "",
	} {
		if got := said(condition(is, kind)); got != want {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
}

func TestALaterShutdownTimeRevives(t *testing.T) {
	s := newSandbox(expiresAt(testStart))
	s.Status = expiredStatus(s, testStart)
	expiresAt(testStart.Add(time.Hour))(s)
	wantStep(t, decide(seenWith(s), testStart), createPod{})
}
