// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func named(namespace, name, uid string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(now.Add(-age))}
}

func ownedBy(m metav1.ObjectMeta, kind, name, uid string) metav1.ObjectMeta {
	yes := true
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: extensions.GroupVersion.String(), Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}}
	return m
}

func leaving(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.DeletionTimestamp = &metav1.Time{Time: now}
	return m
}

// everyState is a listing with each state once.
func everyState() listing {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	ready := condition(agents.ConditionReady, yes, "DependenciesReady", "Pod is Ready")
	claim := func(m metav1.ObjectMeta, sandbox string, conditions ...metav1.Condition) extensions.SandboxClaim {
		c := *claimOf("python", sandbox, conditions...)
		c.ObjectMeta = m
		return c
	}
	sandbox := func(m metav1.ObjectMeta, status agents.SandboxStatus) agents.Sandbox {
		return agents.Sandbox{ObjectMeta: m, Status: status}
	}
	conditions := func(all ...metav1.Condition) agents.SandboxStatus { return agents.SandboxStatus{Conditions: all} }

	bound := claim(named("team", "analysis", "c1", 5*time.Minute), "python-a", ready)
	bound.Status.Sandbox.PodIPs = []string{"10.0.0.5", "fd00::5"}
	off := sandbox(named("team", "off", "s4", 3*time.Hour), conditions(condition(agents.ConditionReady, no, "SandboxSuspended", "Sandbox is suspended")))
	off.Spec.OperatingMode = agents.OperatingModeSuspended

	return listing{
		claims: []extensions.SandboxClaim{
			bound,
			claim(named("team", "waiting", "c2", 3*time.Second), "", condition(extensions.ConditionBound, no, "WaitingForMember", "1 member is coming up")),
			claim(named("team", "unseen", "c3", 0), ""),
			claim(named("team", "hopeless", "c4", time.Hour), "", condition(agents.ConditionReady, no, "WarmPoolNotFound", `SandboxWarmPool "python" not found`)),
			claim(named("team", "lost", "c5", 49*time.Hour), "gone", condition(agents.ConditionReady, no, "SandboxMissing", "Sandbox does not exist")),
			claim(named("team", "starting", "c6", time.Minute), "python-b", condition(agents.ConditionReady, no, "DependenciesNotReady", "Pod is Running but not Ready")),
			claim(named("team", "paused", "c7", time.Minute), "off", condition(agents.ConditionReady, no, "SandboxSuspended", "Sandbox is suspended")),
			claim(named("team", "over", "c8", time.Minute), "done", condition(agents.ConditionReady, no, "PodSucceeded", "Pod completed successfully"), condition(agents.ConditionFinished, yes, "PodSucceeded", "Pod completed successfully")),
			claim(named("team", "late", "c9", time.Minute), "", condition(agents.ConditionReady, no, "ClaimExpired", "Claim expired. Sandbox cleanup initiated.")),
			claim(leaving(named("team", "leaving", "c10", time.Minute)), "python-c", ready),
			claim(named("another", "analysis", "c11", time.Minute), "python-a", condition(agents.ConditionReady, no, "DependenciesNotReady", "Pod does not exist")),
		},
		sandboxes: []agents.Sandbox{
			sandbox(ownedBy(named("team", "python-a", "s1", time.Hour), "SandboxClaim", "analysis", "c1"),
				agents.SandboxStatus{NodeName: "node-1", PodIPs: []string{"10.0.0.5", "fd00::5"}, Conditions: []metav1.Condition{ready}}),
			sandbox(ownedBy(named("team", "python-b", "s2", time.Hour), "SandboxClaim", "starting", "c6"), conditions(condition(agents.ConditionReady, no, "DependenciesNotReady", "Pod is Running but not Ready"))),
			sandbox(ownedBy(named("team", "python-d", "s3", time.Hour), "SandboxWarmPool", "python", "p1"), agents.SandboxStatus{NodeName: "node-2", Conditions: []metav1.Condition{ready}}),
			off,
			sandbox(named("team", "twins", "s5", time.Hour), conditions(condition(agents.ConditionReady, no, "MultiplePods", "multiple Pods (2)"))),
			sandbox(named("team", "done", "s6", time.Hour), conditions(condition(agents.ConditionFinished, yes, "PodFailed", "Pod failed"), condition(agents.ConditionReady, no, "PodFailed", "Pod failed"))),
			sandbox(ownedBy(named("team", "expired", "s7", time.Hour), "Workspace", "w", "w1"), conditions(condition(agents.ConditionReady, no, "SandboxExpired", "Sandbox has expired"))),
			sandbox(leaving(ownedBy(named("team", "python-c", "s8", time.Hour), "SandboxClaim", "leaving", "c10")), conditions(ready)),
			sandbox(named("team", "unseen", "s9", time.Hour), conditions()),
			// The claim of this name is in another namespace, and its sandbox is not this one.
			sandbox(named("another", "python-a", "s10", time.Hour), agents.SandboxStatus{NodeName: "node-3"}),
		},
	}
}

func TestTableShowsEveryState(t *testing.T) {
	for _, c := range []struct {
		file          string
		withNamespace bool
		options       printers.PrintOptions
	}{
		{file: "ls.txt"},
		{file: "ls-wide.txt", withNamespace: true, options: printers.PrintOptions{Wide: true}},
		{file: "ls-no-headers.txt", options: printers.PrintOptions{NoHeaders: true}},
	} {
		t.Run(c.file, func(t *testing.T) {
			var out bytes.Buffer
			if err := printers.NewTablePrinter(c.options).PrintObj(tableOf(rowsOf(everyState()), c.withNamespace, now), &out); err != nil {
				t.Fatal(err)
			}
			golden(t, c.file, out.Bytes())
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nand now comes out as\n%s", path, want, got)
	}
}
