// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
)

func TestLsWatchPrintsWhatChanges(t *testing.T) {
	s := newSpace(t)
	claim := &extensions.SandboxClaim{ObjectMeta: s.meta("analysis"),
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}}
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "ls", "-w")
	s.must(s.Create(s.ctx, claim))
	command.out.await(s, "claim/analysis   Waiting")
	s.says(claim, extensions.ClaimedSandbox{Name: "box"}, ready())
	command.out.await(s, "claim/analysis   Ready     DependenciesReady   box")
	s.must(s.Delete(s.ctx, claim))
	command.out.await(s, "claim/analysis   Deleted")
	interrupt()
	if got := command.wait(); got.code != 130 || got.err != "" || !strings.HasPrefix(got.out, "NAME ") {
		t.Errorf("Ctrl-C ended it with %+v", got)
	}
}

func TestLsWatchOutlivesARestartOfTheAPIServer(t *testing.T) {
	s := newSpace(t)
	s.makeClaim("before")
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "ls", "-w")
	command.out.await(s, "claim/before")
	s.must(cluster.Part(localcluster.APIServer).Restart(s.ctx))
	// The tests find a server that serves everything again.
	config, err := cluster.RESTConfig()
	s.must(err)
	s.must(deploy.Install(s.ctx, config))
	s.makeClaim("after")
	command.out.await(s, "claim/after")
	interrupt()
	command.wait().expect(t, 130)
	if n := strings.Count(command.out.String(), "claim/before"); n != 1 {
		t.Errorf("what did not change is told %d times:\n%s", n, command.out.String())
	}
}

func TestPoolsShowWaitersAndRollout(t *testing.T) {
	s := newSpace(t)
	s.run("pools").expect(t, 0, "No warm pools in namespace "+s.name)
	replicas := int32(2)
	pool := &extensions.SandboxWarmPool{ObjectMeta: s.meta("python"), Spec: extensions.SandboxWarmPoolSpec{Replicas: &replicas}}
	pool.Spec.TemplateRef.Name = "python"
	s.must(s.Create(s.ctx, pool))
	template := &extensions.SandboxTemplate{ObjectMeta: s.meta("python")}
	template.Spec.SandboxBlueprint = podTemplate()
	s.must(s.Create(s.ctx, template))
	s.must(s.Create(s.ctx, &extensions.SandboxClaim{ObjectMeta: s.meta("waits"),
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}}))
	got := s.run("pools", "--no-headers")
	fields := strings.Fields(got.out)
	if len(fields) != 9 || strings.Join(fields[:5], " ") != "python 2 0 1 python" || len(fields[5]) != 8 || fields[6] != "0/0" {
		t.Errorf("the table is\n%s\n%s", got.out, got.err)
	}
	if got := s.run("pools", "-A", "-o", "name").out; !strings.Contains(got, "sandboxwarmpool.extensions.agents.x-k8s.io/python\n") || strings.Contains(got, "claim") {
		t.Errorf("the names are\n%s", got)
	}
	if got := s.run("pools", "-o", "jsonpath={.items[*].spec.replicas}").out; got != "2" {
		t.Errorf("jsonpath printed %q", got)
	}
}

// happened makes an event.
func (s *space) happened(kind, name string, uid types.UID, reason string) {
	s.t.Helper()
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, GenerateName: "event-"}, Type: corev1.EventTypeNormal,
		Reason: reason, Message: "about " + name, Count: 1, LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: s.name, Name: name, UID: uid}}
	s.must(s.Create(s.ctx, event))
}

func TestEventsOfAClaimFollowItToItsSandbox(t *testing.T) {
	s := newSpace(t)
	s.run("events", "analysis").expect(t, 0, "No events of analysis in namespace "+s.name, "there is no claim analysis there")
	claim := &extensions.SandboxClaim{ObjectMeta: s.meta("analysis"),
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}}
	s.must(s.Create(s.ctx, claim))
	s.happened("SandboxClaim", "analysis", claim.UID, "Waits")
	s.happened("Pod", "another", "", "Started")
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "events", "analysis", "-w")
	command.out.await(s, "Waits")
	// The sandbox comes later, and its pod's event is of before.
	s.happened("Pod", "analysis-box", "", "Scheduled")
	box := s.sandboxFor(claim)
	s.happened("Sandbox", box.Name, box.UID, "Made")
	command.out.await(s, "Made")
	command.out.await(s, "pod/analysis-box")
	interrupt()
	if got := command.wait(); got.code != 130 || strings.Contains(got.out, "another") {
		t.Errorf("Ctrl-C ended it with %+v", got)
	}
	table := s.run("events", "sandbox/"+box.Name)
	if lines := strings.Split(strings.TrimSpace(table.out), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "LAST SEEN ") {
		t.Errorf("the sandbox's events are\n%s", table.out)
	}
	if got := s.run("events", "analysis", "-o", "jsonpath={.items[*].reason}").out; got != "Waits Scheduled Made" {
		t.Errorf("the reasons are %q", got)
	}
	s.run("events", "pod/x").expect(t, 1, "Next: write CLAIM, sandbox/SANDBOX or pool/POOL")
}
