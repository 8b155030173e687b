// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// pools are three, with their claims and templates.
func somePools() found {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	pool := func(name, template string, replicas int32, status extensions.SandboxWarmPoolStatus) client.Object {
		p := &extensions.SandboxWarmPool{ObjectMeta: named("team", name, "p-"+name, time.Hour), Status: status}
		p.Spec.Replicas, p.Spec.TemplateRef.Name = &replicas, template
		return p
	}
	waiting := func(name, pool string) *extensions.SandboxClaim {
		c := claimOf(pool, "", condition(extensions.ConditionBound, no, "WaitingForMember", "m"))
		c.Name = name
		return c
	}
	anyPool := waiting("any", "")
	anyPool.Spec = extensions.SandboxClaimSpec{TemplateRef: &extensions.SandboxTemplateRef{Name: "node"}}
	own := waiting("own", "python")
	own.Spec.Env = []extensions.EnvVar{{Name: "A", Value: "a"}}
	elsewhere := waiting("elsewhere", "python")
	elsewhere.Namespace = "another"
	return found{
		{
			pool("python", "python", 3, extensions.SandboxWarmPoolStatus{Replicas: 3, ReadyReplicas: 1, UpdatedReplicas: 2, Conditions: []metav1.Condition{
				condition(extensions.ConditionTemplateResolved, yes, "TemplateFound", ""), condition(extensions.ConditionProgressing, yes, "Updating", "1 member is of an older blueprint")}}),
			pool("node", "node", 0, extensions.SandboxWarmPoolStatus{Conditions: []metav1.Condition{condition(extensions.ConditionProgressing, no, "Complete", "")}}),
			pool("lost", "gone", 1, extensions.SandboxWarmPoolStatus{Conditions: []metav1.Condition{
				condition(extensions.ConditionTemplateResolved, no, "TemplateNotFound", `SandboxTemplate "gone" not found`), condition(extensions.ConditionProgressing, no, "PoolError", "x")}}),
			pool("unseen", "python", 1, extensions.SandboxWarmPoolStatus{}),
		},
		{
			waiting("one", "python"), waiting("two", "python"), anyPool, own, elsewhere,
			claimOf("python", "bound"), claimOf("python", "", condition(agents.ConditionReady, no, "InvalidMetadata", "m")),
		},
		{
			&extensions.SandboxTemplate{ObjectMeta: named("team", "python", "t1", time.Hour)},
			&extensions.SandboxTemplate{ObjectMeta: named("team", "node", "t2", time.Hour)},
		},
	}
}

func TestPoolsShowWhoWaitsAndHowFarARolloutIs(t *testing.T) {
	var out bytes.Buffer
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: true}).PrintObj(poolTable(poolRows(somePools()), false, now), &out); err != nil {
		t.Fatal(err)
	}
	golden(t, "pools-wide.txt", out.Bytes())
	hidden := somePools()
	hidden[2] = nil
	if rows := poolRows(hidden); rows[0].blueprint != "<unknown>" {
		t.Errorf("where templates may not be read, the blueprint is %q", rows[0].blueprint)
	}
}

func TestChangesAreLinesOfTheirOwn(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o := &listOptions{print: genericclioptions.NewPrintFlags("")}
	lines := &ticker{program: &program{streams: streams}, options: o, seen: map[string]string{},
		view: view{key: []string{"Namespace", "Name"}, ages: "Age", state: "State"}}
	claim := claimOf("python", "", condition(extensions.ConditionBound, metav1.ConditionFalse, "WaitingForMember", "m"))
	claim.CreationTimestamp = metav1.NewTime(now)
	show := func(after time.Duration, claims ...extensions.SandboxClaim) {
		if err := lines.show(tableOf(rowsOf(listing{claims: claims}), false, now.Add(after))); err != nil {
			t.Fatal(err)
		}
	}
	show(0)
	show(time.Second, *claim)
	show(2*time.Second, *claim) // older, and otherwise the same
	claim.Status = claimOf("python", "python-a", condition(agents.ConditionReady, metav1.ConditionTrue, "DependenciesReady", "")).Status
	show(3*time.Second, *claim)
	show(4 * time.Second)
	show(5 * time.Second)
	golden(t, "ls-changes.txt", out.Bytes())
}

func TestATableFitsItsTerminal(t *testing.T) {
	lines := fit([]string{"NAME", "one", "two", "three", "four"}, 4, 5)
	if want := []string{"NAME", "one", "two", "... "}; !slices.Equal(lines, want) {
		t.Errorf("the lines are %q, want %q", lines, want)
	}
	if lines := fit([]string{"NAME", "one"}, 80, 24); !slices.Equal(lines, []string{"NAME", "one"}) {
		t.Errorf("the lines are %q", lines)
	}
}

func TestOnlyOneColumnIsColoured(t *testing.T) {
	lines := []string{"NAME    STATE   REASON", "ready   Ready   Ready", "x       Lost    y", "z       Odd     y"}
	paintColumn(lines, "STATE", stateColour)
	want := []string{"NAME    STATE   REASON", "ready   \x1b[32mReady\x1b[0m   Ready", "x       \x1b[31mLost\x1b[0m    y", "z       Odd     y"}
	if !slices.Equal(lines, want) {
		t.Errorf("the lines are %q", lines)
	}
	if colourful(&bytes.Buffer{}) {
		t.Error("colours for something that is no terminal")
	}
}

func TestEventsAreThoseOfTheSubjectAndWhatBelongsToIt(t *testing.T) {
	event := func(kind, name, uid, message string, ago time.Duration) client.Object {
		return &corev1.Event{ObjectMeta: named("team", message, "", 0), Message: message, LastTimestamp: metav1.NewTime(now.Add(-ago)),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: named("", "", uid, 0).UID}}
	}
	box := &agents.Sandbox{ObjectMeta: ownedBy(named("team", "box", "s1", 0), extensions.SandboxClaimKind, "analysis", "claim-uid")}
	box.Annotations = map[string]string{agents.AnnotationPodName: "box-pod"}
	box.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{Metadata: agents.EmbeddedObjectMetadata{Name: "data"}}}
	member := &agents.Sandbox{ObjectMeta: ownedBy(named("team", "member", "s2", 0), extensions.SandboxWarmPoolKind, "python", "p1")}
	sandboxes := []client.Object{box, member}
	events := []client.Object{
		event("Pod", "box-pod", "any", "pod", time.Second),
		event("SandboxClaim", "analysis", "claim-uid", "claim", 3*time.Second),
		event("SandboxClaim", "analysis", "an-earlier-one", "earlier claim", time.Hour),
		event("Sandbox", "box", "s1", "sandbox", 2*time.Second),
		event("PersistentVolumeClaim", "data-box", "v", "volume", 4*time.Second),
		event("Sandbox", "member", "s2", "member", time.Second),
		event("Pod", "member", "m", "member's pod", 2*time.Second),
		event("SandboxWarmPool", "python", "p1", "pool", 3*time.Second),
		event("SandboxTemplate", "analysis", "t", "something else of the name", 0),
	}
	claims := []client.Object{claimOf("python", "box")}
	pools := []client.Object{&extensions.SandboxWarmPool{ObjectMeta: named("team", "python", "p1", 0)}}
	for name, c := range map[string]struct {
		of    string
		owner []client.Object
		want  []string
	}{
		"a claim with sandbox, pod and volume":  {"analysis", claims, []string{"volume", "claim", "sandbox", "pod"}},
		"a claim that is gone":                  {"analysis", nil, []string{"earlier claim", "claim"}},
		"a sandbox":                             {"sandbox/box", nil, []string{"volume", "sandbox", "pod"}},
		"a pool with its members and theirs":    {"pool/python", pools, []string{"pool", "member's pod", "member"}},
		"something that has never been":         {"nothing", nil, nil},
		"a sandbox that a claim's list is of":   {"sandbox/member", claims, []string{"member's pod", "member"}},
		"the long form that -o name prints":     {"sandboxwarmpool.extensions.agents.x-k8s.io/python", pools, []string{"pool", "member's pod", "member"}},
		"a claim whose name another kind has":   {"claim/analysis", claims, []string{"volume", "claim", "sandbox", "pod"}},
		"a pool of the name of a claim is none": {"pool/analysis", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			of, err := parseSubject(c.of)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range eventsOf(of, found{c.owner, sandboxes, events}) {
				got = append(got, e.Message)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the events are %q, want %q", got, c.want)
			}
		})
	}
}

func TestNoEventsOfWhatIsNotThereIsSaidSo(t *testing.T) {
	all := found{{&extensions.SandboxClaim{ObjectMeta: named("team", "analysis", "c1", 0)}}, {&agents.Sandbox{ObjectMeta: named("team", "box", "s1", 0)}}, nil}
	for text, want := range map[string]string{
		"analysis": "", "sandbox/box": "", "nope": "there is no claim nope", "sandbox/analysis": "there is no sandbox analysis", "pool/none": "there is no pool none",
	} {
		of, err := parseSubject(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := (view{nothing: "No events.", absent: of.absent}).empty(all); !strings.Contains(got, want) || (want == "") != (got == "No events.") {
			t.Errorf("of %s it says %q", text, got)
		}
	}
}

func TestWhatASandboxIsAlreadyIsNotDoneAgain(t *testing.T) {
	box := func(mode agents.OperatingMode, kind string, status metav1.ConditionStatus) *agents.Sandbox {
		s := &agents.Sandbox{ObjectMeta: named("team", "box", "s1", 0)}
		s.Spec.OperatingMode = mode
		s.Status.Conditions = []metav1.Condition{condition(kind, status, "x", "")}
		return s
	}
	on, off := agents.OperatingModeRunning, agents.OperatingModeSuspended
	for name, c := range map[string]struct {
		turn    turn
		sandbox *agents.Sandbox
		want    bool
	}{
		"one that runs runs":                 {resuming(), box(on, "Ready", metav1.ConditionTrue), true},
		"one that starts is waited for":      {resuming(), box(on, "Ready", metav1.ConditionFalse), false},
		"one that is suspended is resumed":   {resuming(), box(off, "Ready", metav1.ConditionTrue), false},
		"one that is suspended is":           {suspending(), box(off, "Suspended", metav1.ConditionTrue), true},
		"one whose pod ends is waited for":   {suspending(), box(off, "Suspended", metav1.ConditionFalse), false},
		"one that is resumed gets suspended": {suspending(), box(on, "Suspended", metav1.ConditionTrue), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.turn.over(c.sandbox); got != c.want {
				t.Errorf("it is %v", got)
			}
		})
	}
}

func TestWhenASandboxIsSuspendedOrBack(t *testing.T) {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	for name, c := range map[string]struct {
		judge     func(*agents.Sandbox) outcome
		kind      string
		status    metav1.ConditionStatus
		reason    string
		behind    bool // the condition is of the generation before
		want      outcome
		wantsNext string
	}{
		"its pod is gone":              {judgeSuspended, "Suspended", yes, "PodTerminated", false, outcome{ready: true, reason: "PodTerminated"}, ""},
		"its pod is on its way out":    {judgeSuspended, "Suspended", no, "PodTerminating", false, outcome{reason: "PodTerminating"}, ""},
		"a pod that is not its own":    {judgeSuspended, "Suspended", no, "PodNotOwned", false, outcome{failed: true, reason: "PodNotOwned"}, "delete or rename"},
		"suspended an earlier time":    {judgeSuspended, "Suspended", yes, "PodTerminated", true, outcome{}, ""},
		"nothing is said":              {judgeSuspended, "Ready", yes, "DependenciesReady", false, outcome{}, ""},
		"it is Ready":                  {judgeResumed, "Ready", yes, "DependenciesReady", false, outcome{ready: true, reason: "DependenciesReady"}, ""},
		"Ready of before it suspended": {judgeResumed, "Ready", yes, "DependenciesReady", true, outcome{}, ""},
		"its pod starts":               {judgeResumed, "Ready", no, "DependenciesNotReady", false, outcome{reason: "DependenciesNotReady"}, ""},
		"its time is over":             {judgeResumed, "Ready", no, "SandboxExpired", false, outcome{failed: true, reason: "SandboxExpired"}, "claim again"},
		"its pod has failed":           {judgeResumed, "Ready", no, "PodFailed", false, outcome{failed: true, reason: "PodFailed"}, "kubectl logs"},
		"it has two pods":              {judgeResumed, "Ready", no, "MultiplePods", false, outcome{failed: true, reason: "MultiplePods"}, "sandbox-uid=s1"},
	} {
		t.Run(name, func(t *testing.T) {
			sandbox := &agents.Sandbox{ObjectMeta: named("team", "box", "s1", 0)}
			sandbox.Generation = 2
			seen := condition(c.kind, c.status, c.reason, "")
			seen.ObservedGeneration = 2
			if c.behind {
				seen.ObservedGeneration = 1
			}
			sandbox.Status.Conditions = []metav1.Condition{seen}
			got := c.judge(sandbox)
			if !strings.Contains(got.next, c.wantsNext) || (c.wantsNext == "") != (got.next == "") {
				t.Errorf("next is %q", got.next)
			}
			got.next = ""
			if got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLogsAskForWhatTheFlagsSay(t *testing.T) {
	asked := logsOptions{container: "work", follow: true, previous: true, tail: 0, since: 1500 * time.Millisecond}.request()
	want := corev1.PodLogOptions{Container: "work", Follow: true, Previous: true, TailLines: ptr.To[int64](0), SinceSeconds: ptr.To[int64](2)}
	if asked.Container != want.Container || !asked.Follow || !asked.Previous || *asked.TailLines != 0 || *asked.SinceSeconds != 2 {
		t.Errorf("asked for %+v", asked)
	}
	if all := (logsOptions{tail: -1}).request(); all.TailLines != nil || all.SinceSeconds != nil {
		t.Errorf("without flags it asks for %+v", all)
	}
}

func TestPortsAreCompleted(t *testing.T) {
	got, err := parsePorts([]string{"80", "8080:80", ":443", "0:22"})
	if want := []portPair{{80, 80}, {8080, 80}, {0, 443}, {0, 22}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the ports are %v, %v, want %v", got, err, want)
	}
}
