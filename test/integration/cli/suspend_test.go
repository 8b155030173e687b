// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// awaitMode returns the Sandbox once it should run, or should not.
func (s *space) awaitMode(name string, running bool) *agents.Sandbox {
	s.t.Helper()
	events, err := s.Watch(s.ctx, &agents.SandboxList{}, client.InNamespace(s.name), client.MatchingFields{"metadata.name": name})
	s.must(err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if sandbox, ok := event.Object.(*agents.Sandbox); ok && sandbox.Running() == running {
			return sandbox
		}
	}
	s.t.Fatalf("sandbox %s is as it was", name)
	return nil
}

// observe writes a Sandbox's conditions, as the controller does.
func (s *space) observe(sandbox *agents.Sandbox, conditions ...metav1.Condition) {
	s.t.Helper()
	before := sandbox.DeepCopy()
	for i := range conditions {
		conditions[i].ObservedGeneration = sandbox.Generation
	}
	sandbox.Status.Conditions = conditions
	s.must(s.Status().Patch(s.ctx, sandbox, client.MergeFrom(before)))
}

func suspended(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return condition(agents.ConditionSuspended, status, reason, message)
}

func TestSuspendAndResumeWaitForThePod(t *testing.T) {
	s := newSpace(t)
	_, box := s.makeClaim("analysis")
	s.observe(box, ready(), suspended(metav1.ConditionFalse, agents.ReasonNotSuspended, agents.MessageNotSuspended))

	command := s.start(s.ctx, nil, "suspend", "analysis")
	box = s.awaitMode(box.Name, false)
	s.observe(box, suspended(metav1.ConditionFalse, agents.ReasonPodTerminating, agents.MessagePodTerminating))
	command.err.await(s, "Waiting: PodTerminating: "+agents.MessagePodTerminating)
	s.observe(box, suspended(metav1.ConditionTrue, agents.ReasonPodTerminated, agents.MessagePodTerminated))
	if got := command.wait(); got.code != 0 || got.out != "sandbox analysis-box is suspended\n" {
		t.Errorf("suspend ended with %+v", got)
	}
	if got := s.run("suspend", "analysis"); got.code != 0 || got.out != "sandbox analysis-box is suspended already\n" {
		t.Errorf("suspending it again ended with %+v", got)
	}

	command = s.start(s.ctx, nil, "resume", "sandbox/analysis-box")
	box = s.awaitMode(box.Name, true)
	s.observe(box, notReady(agents.ReasonDependenciesNotReady, "Pod exists with phase: Pending"))
	command.err.await(s, "Waiting: DependenciesNotReady: Pod exists with phase: Pending")
	s.observe(box, ready())
	if got := command.wait(); got.code != 0 || got.out != "sandbox analysis-box is Ready\n" {
		t.Errorf("resume ended with %+v", got)
	}
}

func TestInterruptedSuspendAndResumeNameWhatGoesOn(t *testing.T) {
	s := newSpace(t)
	_, box := s.makeClaim("analysis")
	for command, running := range map[string]bool{"suspend": false, "resume": true} {
		if running == box.Running() {
			before := box.DeepCopy()
			box.Spec.OperatingMode = agents.OperatingModeSuspended
			s.must(s.Patch(s.ctx, box, client.MergeFrom(before)))
		}
		ctx, interrupt := context.WithCancel(s.ctx)
		doing := s.start(ctx, nil, command, "analysis")
		box = s.awaitMode(box.Name, running)
		doing.err.await(s, "Sandbox analysis-box is ")
		interrupt()
		doing.wait().expect(t, 130, "interrupted; sandbox analysis-box goes on", "Next: berth ls")
	}
}

func TestSuspendAndResumeSayWhyNot(t *testing.T) {
	s := newSpace(t)
	_, box := s.makeClaim("analysis")
	s.run("suspend", "analysis", "--timeout", "50ms").expect(t, 1, "is not suspended after 50ms, and goes on suspending", "berth events")
	box = s.awaitMode(box.Name, false)

	resume := s.start(s.ctx, nil, "resume", "analysis")
	box = s.awaitMode(box.Name, true)
	s.observe(box, notReady(agents.ReasonSandboxExpired, agents.MessageSandboxExpired))
	resume.wait().expect(t, 1, "sandbox analysis-box is not Ready: SandboxExpired", "Next: claim again")

	suspend := s.start(s.ctx, nil, "suspend", "analysis")
	box = s.awaitMode(box.Name, false)
	before := box.DeepCopy()
	box.Spec.OperatingMode = agents.OperatingModeRunning
	s.must(s.Patch(s.ctx, box, client.MergeFrom(before)))
	suspend.wait().expect(t, 1, "somebody else changed sandbox analysis-box back while it was suspending")

	suspend = s.start(s.ctx, nil, "suspend", "analysis")
	box = s.awaitMode(box.Name, false)
	s.must(s.Delete(s.ctx, box))
	suspend.wait().expect(t, 1, "sandbox analysis-box was deleted while it was suspending")

	pool := &extensions.SandboxWarmPool{ObjectMeta: s.meta("python")}
	pool.Spec.TemplateRef.Name = "python"
	s.must(s.Create(s.ctx, pool))
	member := &agents.Sandbox{ObjectMeta: s.meta("member"), Spec: agents.SandboxSpec{SandboxBlueprint: podTemplate()}}
	member.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pool, extensions.GroupVersion.WithKind(extensions.SandboxWarmPoolKind))}
	s.must(s.Create(s.ctx, member))
	s.run("suspend", "sandbox/member").expect(t, 1, "sandbox member waits in pool python", "Next: berth claim", "python takes one")
	s.run("resume", "nothing").expect(t, 1, `there is no claim "nothing"`)
}
