// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func podTemplate() agents.SandboxBlueprint {
	return agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "image"}}}}}
}

// makeClaim makes a claim that has a Sandbox of its own.
func (s *space) makeClaim(name string) (*extensions.SandboxClaim, *agents.Sandbox) {
	s.t.Helper()
	claim := &extensions.SandboxClaim{ObjectMeta: s.meta(name),
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}}
	s.must(s.Create(s.ctx, claim))
	sandbox := s.sandboxFor(claim)
	s.says(claim, extensions.ClaimedSandbox{Name: sandbox.Name, UID: sandbox.UID}, ready())
	return claim, sandbox
}

// sandboxFor makes a Sandbox that a claim controls.
func (s *space) sandboxFor(claim *extensions.SandboxClaim) *agents.Sandbox {
	s.t.Helper()
	sandbox := &agents.Sandbox{ObjectMeta: s.meta(claim.Name + "-box"), Spec: agents.SandboxSpec{SandboxBlueprint: podTemplate()}}
	sandbox.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(claim, extensions.GroupVersion.WithKind("SandboxClaim"))}
	s.must(s.Create(s.ctx, sandbox))
	return sandbox
}

func TestLsPrintsWhatIsAskedFor(t *testing.T) {
	s := newSpace(t)
	s.run("ls").expect(t, 0, "No claims or sandboxes in namespace "+s.name)
	s.makeClaim("analysis")

	table := s.run("ls")
	table.expect(t, 0)
	if lines := strings.Split(strings.TrimSpace(table.out), "\n"); len(lines) != 3 ||
		!strings.HasPrefix(lines[0], "NAME ") || !strings.HasPrefix(lines[1], "claim/analysis ") || !strings.HasPrefix(lines[2], "sandbox/analysis-box ") {
		t.Errorf("the table is\n%s", table.out)
	}
	if names := s.run("ls", "-o", "name").out; names != "sandboxclaim.extensions.agents.x-k8s.io/analysis\nsandbox.agents.x-k8s.io/analysis-box\n" {
		t.Errorf("the names are\n%s", names)
	}
	if everywhere := s.run("ls", "-A", "-o", "wide").out; !strings.HasPrefix(everywhere, "NAMESPACE ") || !strings.Contains(everywhere, "claim/analysis") {
		t.Errorf("the table of all namespaces is\n%s", everywhere)
	}
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, into any) error { return yaml.Unmarshal(data, into) },
	} {
		var list struct {
			Kind  string
			Items []struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
		}
		got := s.run("ls", "-o", format)
		if err := read([]byte(got.out), &list); err != nil {
			t.Fatalf("%s: %v\n%s", format, err, got.out)
		}
		if list.Kind != "List" || len(list.Items) != 2 || list.Items[0].Kind != "SandboxClaim" ||
			list.Items[1].APIVersion != "agents.x-k8s.io/v1beta1" || list.Items[1].Metadata.Name != "analysis-box" {
			t.Errorf("%s is\n%s", format, got.out)
		}
	}
	if got := s.run("ls", "-o", "jsonpath={.items[*].metadata.name}").out; got != "analysis analysis-box" {
		t.Errorf("jsonpath printed %q", got)
	}
	s.run("ls", "-o", "xml").expect(t, 1, `there is no output format "xml"`, "yaml")
}

func TestReleaseDeletesClaimsAndNamesThoseThatAreNotThere(t *testing.T) {
	s := newSpace(t)
	s.makeClaim("one")
	s.makeClaim("two")
	got := s.run("release", "one", "missing", "claim/two")
	got.expect(t, 1, `there is no claim "missing" in namespace "`+s.name+`"`, "berth ls -A")
	if got.out != "claim one released\nclaim two released\n" {
		t.Errorf("standard output is %q", got.out)
	}
	s.run("release", "sandbox/one-box").expect(t, 1, "sandbox/one-box is a sandbox", "goes with its claim")
	s.run("release").expect(t, 1, "needs the name of a claim")
}

func TestReleaseOfAllNeedsAConfirmation(t *testing.T) {
	s := newSpace(t)
	s.run("release", "--all").expect(t, 0, "No claims in namespace")
	s.makeClaim("one")
	s.makeClaim("two")
	s.run("release", "--all").expect(t, 1, "this would release 2 claims in namespace "+s.name+": one, two", "--all --yes")
	s.run("release", "--all", "one").expect(t, 1, "not both")
	if got := s.run("release", "--all", "--yes"); got.out != "claim one released\nclaim two released\n" {
		t.Errorf("standard output is %q, standard error %q", got.out, got.err)
	}
}

func TestReleaseWaitsUntilTheGarbageCollectorIsDone(t *testing.T) {
	s := newSpace(t)
	claim, _ := s.makeClaim("one")
	command := s.start(s.ctx, nil, "release", "one", "--wait")
	s.awaitDeletion(claim)
	select {
	case code := <-command.ended:
		t.Fatalf("the command ended with %d while the claim was there", code)
	default:
	}
	s.must(s.Patch(s.ctx, claim, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	got := command.wait()
	got.expect(t, 0)
	if got.out != "claim one released, its sandbox is gone\n" {
		t.Errorf("standard output is %q", got.out)
	}
}

func TestReleaseOfAClaimThatNeverHadASandboxSaysSo(t *testing.T) {
	s := newSpace(t)
	s.must(s.Create(s.ctx, &extensions.SandboxClaim{ObjectMeta: s.meta("one"),
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}}))
	command := s.start(s.ctx, nil, "release", "one", "--wait")
	s.awaitDeletion(&extensions.SandboxClaim{ObjectMeta: s.meta("one")})
	s.must(s.Patch(s.ctx, &extensions.SandboxClaim{ObjectMeta: s.meta("one")}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	if got := command.wait(); got.code != 0 || got.out != "claim one released, it had no sandbox\n" {
		t.Errorf("got %+v", got)
	}
}

func TestInterruptedReleaseNamesWhatGoesOn(t *testing.T) {
	s := newSpace(t)
	claim, _ := s.makeClaim("one")
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "release", "one", "--wait")
	s.awaitDeletion(claim)
	interrupt()
	command.wait().expect(t, 130, "claim one goes on being deleted")
}

// awaitDeletion returns when the claim is being deleted, and waits for what belongs to it.
func (s *space) awaitDeletion(claim *extensions.SandboxClaim) {
	s.t.Helper()
	events, err := s.Watch(s.ctx, &extensions.SandboxClaimList{}, client.InNamespace(s.name))
	s.must(err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if seen, ok := event.Object.(*extensions.SandboxClaim); ok && seen.Name == claim.Name && seen.DeletionTimestamp != nil {
			return
		}
	}
	s.t.Fatal("the claim was not deleted")
}

func TestVersionTellsTheControllersImage(t *testing.T) {
	s := newSpace(t)
	before := s.run("version")
	before.expect(t, 0)
	if !strings.Contains(before.out, "Controller:  not installed") || !strings.Contains(before.out, "Kubernetes:  v1.") {
		t.Errorf("version is\n%s", before.out)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agent-sandbox-system"}}
	if err := s.Create(s.ctx, system); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "agent-sandbox-controller"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system.Name, Name: "agent-sandbox-controller"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent-sandbox-controller", Image: "berth:v1"}}}}}}
	s.must(s.Create(s.ctx, deployment))
	if got := s.run("version").out; !strings.Contains(got, "Controller:  berth:v1 (0 of 0 ready)") {
		t.Errorf("version is\n%s", got)
	}
	if got := s.run("version", "--client").out; strings.Contains(got, "Controller") {
		t.Errorf("version --client is\n%s", got)
	}
}
