// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func claimOf(pool, sandbox string, conditions ...metav1.Condition) *extensions.SandboxClaim {
	return &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "analysis", UID: "claim-uid"},
		Spec:       extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: pool}},
		Status:     extensions.SandboxClaimStatus{Conditions: conditions, Sandbox: extensions.ClaimedSandbox{Name: sandbox}},
	}
}

func TestJudge(t *testing.T) {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	for name, c := range map[string]struct {
		claim *extensions.SandboxClaim
		want  outcome // next is compared as a part
	}{
		"a claim nobody has looked at says nothing": {
			claimOf("python", ""), outcome{}},
		"Ready with a sandbox is ready": {
			claimOf("python", "s", condition(agents.ConditionReady, yes, "DependenciesReady", "Pod is Ready")),
			outcome{ready: true, reason: "DependenciesReady", message: "Pod is Ready"}},
		"Ready without the sandbox's name is not ready yet": {
			claimOf("python", "", condition(agents.ConditionReady, yes, "DependenciesReady", "Pod is Ready")), outcome{}},
		"what keeps it from being bound is told before what keeps it from being Ready": {
			claimOf("python", "", condition(agents.ConditionReady, no, "SandboxMissing", "Sandbox does not exist"),
				condition(extensions.ConditionBound, no, "WaitingForMember", "1 member is coming up")),
			outcome{reason: "WaitingForMember", message: "1 member is coming up"}},
		"a bound claim tells what its sandbox waits for": {
			claimOf("python", "s", condition(agents.ConditionReady, no, "DependenciesNotReady", "Pod is Running but not Ready"),
				condition(extensions.ConditionBound, yes, "Created", "")),
			outcome{reason: "DependenciesNotReady", message: "Pod is Running but not Ready"}},
		"a missing template fails": {
			claimOf("python", "", condition(agents.ConditionReady, no, "TemplateNotFound", `SandboxTemplate "t" not found`)),
			outcome{failed: true, reason: "TemplateNotFound", message: `SandboxTemplate "t" not found`, next: `pool "python" names`}},
		"a missing pool fails on any condition": {
			claimOf("python", "", condition(extensions.ConditionBound, no, "WarmPoolNotFound", `SandboxWarmPool "python" not found`)),
			outcome{failed: true, reason: "WarmPoolNotFound", message: `SandboxWarmPool "python" not found`, next: `create the SandboxWarmPool "python" in namespace "team"`}},
		"refused metadata fails": {
			claimOf("python", "", condition(agents.ConditionReady, no, "InvalidMetadata", "m")),
			outcome{failed: true, reason: "InvalidMetadata", message: "m", next: "additionalPodMetadata"}},
		"refused env fails": {
			claimOf("python", "", condition(agents.ConditionReady, no, "EnvVarsInjectionRejected", "m")),
			outcome{failed: true, reason: "EnvVarsInjectionRejected", message: "m", next: "envVarsInjectionPolicy"}},
		"refused volumes fail": {
			claimOf("python", "", condition(agents.ConditionReady, no, "VolumeClaimTemplatesError", "m")),
			outcome{failed: true, reason: "VolumeClaimTemplatesError", message: "m", next: "volumeClaimTemplatesPolicy"}},
		"an expired claim fails": {
			claimOf("python", "", condition(agents.ConditionReady, no, "ClaimExpired", "m")),
			outcome{failed: true, reason: "ClaimExpired", message: "m", next: "claim again"}},
		"an expired sandbox fails": {
			claimOf("python", "s", condition(agents.ConditionReady, no, "SandboxExpired", "m")),
			outcome{failed: true, reason: "SandboxExpired", message: "m", next: "claim again"}},
		"a missed bind deadline fails": {
			claimOf("python", "", condition(agents.ConditionReady, no, "BindDeadlineExceeded", "m")),
			outcome{failed: true, reason: "BindDeadlineExceeded", message: "m", next: `pool "python"`}},
		"a sandbox that ended before it was Ready fails": {
			claimOf("python", "s", condition(agents.ConditionReady, no, "PodFailed", "Pod failed"), condition(agents.ConditionFinished, yes, "PodFailed", "Pod failed")),
			outcome{failed: true, reason: "PodFailed", message: "Pod failed", next: "kubectl logs -n team s"}},
		"an error that the controller tries again is waited for": {
			claimOf("python", "", condition(agents.ConditionReady, no, "ReconcilerError", "Error seen: quota")),
			outcome{reason: "ReconcilerError", message: "Error seen: quota"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(c.claim)
			if !strings.Contains(got.next, c.want.next) || (c.want.next == "") != (got.next == "") {
				t.Errorf("next is %q, which does not say %q", got.next, c.want.next)
			}
			got.next = c.want.next
			if got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestACommandEndsWithTheClaimThatIsReleased(t *testing.T) {
	p := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard())
	left := &problem{cause: leftRunning{"sleep", "box"}, code: exitInterrupted}
	var known *problem
	if err := p.released(p.notRun(left), "task"); !errors.As(err, &known) || known.code != exitInterrupted ||
		err.Error() != "interrupted; sleep ends with pod box, which goes with claim task" {
		t.Errorf("it is %v", err)
	}
	other := errors.New("x")
	if err := p.released(other, "task"); !errors.Is(err, other) || err.Error() != "x" {
		t.Errorf("another error is %v", err)
	}
}

func TestAdviceNamesWhatWasNamed(t *testing.T) {
	p := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard())
	box := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "workers-x"}}
	box.Spec.OperatingMode = agents.OperatingModeSuspended
	for _, named := range []string{"task", "sandbox/workers-x"} {
		of, err := parseTarget(named)
		if err != nil {
			t.Fatal(err)
		}
		var known *problem
		if err := p.noPod(of, box, nil); !errors.As(err, &known) || !slices.Equal(known.next, []string{"berth resume " + named + " starts it again"}) {
			t.Errorf("%s: %+v", named, err)
		}
	}
}

func TestClaimName(t *testing.T) {
	for name, c := range map[string]struct{ pool, want string }{
		"a pool's name with an ending":              {"python", "python-x7k2m"},
		"dots make no label and become dashes":      {"py.v3", "py-v3-x7k2m"},
		"a long name is cut to 63 characters":       {strings.Repeat("a", 80), strings.Repeat("a", 57) + "-x7k2m"},
		"no two dashes where a long name is cut":    {strings.Repeat("a", 56) + "-bcd", strings.Repeat("a", 56) + "-x7k2m"},
		"57 characters leave just enough room":      {strings.Repeat("a", 57), strings.Repeat("a", 57) + "-x7k2m"},
		"a dot where it is cut goes like a dash":    {strings.Repeat("a", 56) + ".bcd", strings.Repeat("a", 56) + "-x7k2m"},
		"a name that ends in a dash is no DNS name": {"odd-", "odd-x7k2m"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := claimName(c.pool, "x7k2m"); got != c.want {
				t.Errorf("claimName(%q) = %q, want %q", c.pool, got, c.want)
			}
		})
	}
}
