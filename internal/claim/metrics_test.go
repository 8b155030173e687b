// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// timed is a reconciler whose clock the test moves, and what it was told of a claim.
type timed struct {
	*Reconciler
	clock *clocktesting.FakePassiveClock
}

func newTimed(options Options) timed {
	clock := clocktesting.NewFakePassiveClock(now)
	return timed{New(control.Environment{Clock: clock}, kinds.Views{}, options), clock}
}

// after tells of the claim after some time.
func (t timed) after(d time.Duration, claim *extensions.SandboxClaim, s *agents.Sandbox) times {
	t.clock.SetTime(t.clock.Now().Add(d))
	return t.record(observed{Claim: claim, Named: s})
}

func warm(s *agents.Sandbox) {
	s.Labels = map[string]string{agents.LabelLaunchType: agents.LaunchTypeWarm}
	s.Annotations = map[string]string{agents.AnnotationTemplateRef: "python"}
}

// ready and notReady let a claim say so.
func ready(c *extensions.SandboxClaim) {
	apimeta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: agents.ConditionReady, Status: metav1.ConditionTrue, Reason: "DependenciesReady"})
}

func notReady(c *extensions.SandboxClaim) {
	apimeta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: agents.ConditionReady, Status: metav1.ConditionFalse, Reason: "DependenciesNotReady"})
}

func annotated(key, value string) func(*extensions.SandboxClaim) {
	return func(c *extensions.SandboxClaim) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = value
	}
}

func TestAClaimIsCountedAndTimedOnce(t *testing.T) {
	toA := boundAs("a", "a-uid", extensions.ReasonAdopted)
	asked := annotated(agents.AnnotationClientFirstRequestedAt, now.Add(-time.Second).Format(time.RFC3339))
	admitted := annotated(agents.AnnotationWebhookFirstObservedAt, now.Add(-500*time.Millisecond).Format(time.RFC3339Nano))
	r := newTimed(Options{})
	r.claimChanged(nil, newClaim(asked, admitted))
	s := newSandbox("a", warm)
	r.after(250*time.Millisecond, newClaim(asked, admitted, toA, notReady), s)
	r.after(250*time.Millisecond, newClaim(asked, admitted, toA, ready), s)
	r.after(time.Hour, newClaim(asked, admitted, toA, notReady), s)
	r.after(time.Hour, newClaim(asked, admitted, toA, ready), s)

	for name, took := range map[string]float64{metricFromController: 500, metricFromWebhook: 1000, metricFromClient: 1500} {
		count, sum := 0, 0.0
		if h := histogram(t, r.options.Metrics, name); h != nil {
			count, sum = int(h.GetSampleCount()), h.GetSampleSum()
		}
		if count != 1 || sum != took {
			t.Errorf("%s has %d times of %v ms together, want one of %v", name, count, sum, took)
		}
	}
	want := `# HELP agent_sandbox_claim_creation_total Claims that got a Sandbox.
# TYPE agent_sandbox_claim_creation_total counter
agent_sandbox_claim_creation_total{created_by="unknown",launch_type="warm",namespace="default",pod_condition="not_ready",sandbox_template="python",warmpool_name="python"} 1
`
	if err := testutil.CollectAndCompare(r.options.Metrics, strings.NewReader(want), metricCreations); err != nil {
		t.Error(err)
	}
	if len(r.memory.times) > 0 {
		t.Errorf("still remembered: %v", r.memory.times)
	}
}

// histogram is the only one of a name, or nil.
func histogram(t *testing.T, m *Metrics, name string) *dto.Histogram {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram()
		}
	}
	return nil
}

func TestClaimsThatAreNotTimed(t *testing.T) {
	toA, toOwn := boundAs("a", "a-uid", extensions.ReasonAdopted), boundAs("task", "task-uid", extensions.ReasonCreated)
	for name, c := range map[string]struct {
		first, then *extensions.SandboxClaim
		times       int
	}{
		"one that was Ready when this process began":           {newClaim(toA, ready), newClaim(toA, ready), 0},
		"one that was adopted when this process began":         {newClaim(toA, notReady), newClaim(toA, ready), 0},
		"one that says when it was Ready":                      {newClaim(annotated(agents.AnnotationClaimFirstReadyAt, agents.FirstReadyUnknown)), newClaim(toA, ready), 0},
		"but one whose own Sandbox was still coming up":        {newClaim(toOwn, notReady), newClaim(toOwn, ready), 1},
		"and one that had no Sandbox when this process began":  {newClaim(), newClaim(toA, ready), 1},
		"not one that its client asked for after it was Ready": {newClaim(), newClaim(toA, ready, annotated(agents.AnnotationClientFirstRequestedAt, now.Add(time.Hour).Format(time.RFC3339))), 1},
		"nor by an annotation that is no time":                 {newClaim(), newClaim(toA, ready, annotated(agents.AnnotationClientFirstRequestedAt, "yesterday")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTimed(Options{})
			r.claimChanged(nil, c.first)
			r.after(time.Second, c.then, newSandbox("a", warm))
			count := 0
			if h := histogram(t, r.options.Metrics, metricFromController); h != nil {
				count = int(h.GetSampleCount())
			}
			if count != c.times || histogram(t, r.options.Metrics, metricFromClient) != nil {
				t.Errorf("timed %d times, want %d, and never from the client", count, c.times)
			}
		})
	}
}

func TestTheTimesOfAClaimThatIsGoneAreForgotten(t *testing.T) {
	r := newTimed(Options{})
	r.claimChanged(nil, claimWithUID("former"))
	r.claimChanged(claimWithUID("former"), claimWithUID("next"))
	if _, known := r.memory.times["former"]; known || len(r.memory.times) != 1 {
		t.Errorf("remembered: %v", r.memory.times)
	}
	r.claimChanged(claimWithUID("next"), nil)
	if len(r.memory.times) != 0 {
		t.Errorf("still remembered: %v", r.memory.times)
	}
}

func TestTimesAreWrittenToTheClaimAfterItIsReady(t *testing.T) {
	seen, isReady := now.Add(-time.Second), now.Add(-time.Millisecond)
	both := times{seen: seen, ready: isReady}
	toA := func(c *extensions.SandboxClaim) {
		c.Status = decide(observed{Claim: newClaim(), Mine: []*agents.Sandbox{newSandbox("a")}}, now).(writeStatus).status
	}
	for name, c := range map[string]struct {
		claim *extensions.SandboxClaim
		times times
		on    bool
		want  map[string]any // nil: nothing is written
	}{
		"both of them": {newClaim(toA), both, true, map[string]any{
			agents.AnnotationClaimFirstReadyAt:         "2026-06-01T11:59:59.999Z",
			agents.AnnotationControllerFirstObservedAt: "2026-06-01T11:59:59Z",
		}},
		"not what stands there already": {newClaim(toA, annotated(agents.AnnotationControllerFirstObservedAt, "x")), both, true, map[string]any{
			agents.AnnotationClaimFirstReadyAt: "2026-06-01T11:59:59.999Z",
		}},
		"or that they are not known": {newClaim(toA), times{}, true, map[string]any{agents.AnnotationClaimFirstReadyAt: "unknown"}},
		"once":                       {newClaim(toA, annotated(agents.AnnotationClaimFirstReadyAt, "unknown")), both, true, nil},
		"not before it is Ready":     {newClaim(toA, notReady), times{seen: seen}, true, nil},
		"not unless asked to":        {newClaim(toA), both, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox("a")
			step := decide(observed{Claim: c.claim, Named: s, Mine: []*agents.Sandbox{s}, AnnotateTimes: c.on, Times: c.times}, now)
			write, ok := step.(annotate)
			if ok != (c.want != nil) {
				t.Fatalf("got %s", describe(step))
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(consistent.Patch{"metadata": map[string]any{"annotations": c.want}}, write.patch); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTimesAreNotWrittenBeforeTheClaimIsReady(t *testing.T) {
	if patch, changed := timesPatch(newClaim(notReady), times{seen: now}); changed {
		t.Errorf("written: %v", patch)
	}
}

func TestTimesAreRememberedUntilTheyAreWritten(t *testing.T) {
	toA := boundAs("a", "a-uid", extensions.ReasonAdopted)
	r := newTimed(Options{AnnotateTimes: true})
	r.claimChanged(nil, newClaim())
	s := newSandbox("a", warm)
	r.after(time.Second, newClaim(toA, ready), s)
	if got := r.after(time.Second, newClaim(toA, ready), s); !got.seen.Equal(now) || !got.ready.Equal(now.Add(time.Second)) {
		t.Errorf("the times are %+v", got)
	}
	r.after(0, newClaim(toA, ready, annotated(agents.AnnotationClaimFirstReadyAt, "x")), s)
	if len(r.memory.times) > 0 {
		t.Errorf("still remembered: %v", r.memory.times)
	}
}
