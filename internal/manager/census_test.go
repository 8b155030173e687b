// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

var born = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func sandbox(name string, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(born),
	}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// member makes a Sandbox one of a pool.
func member(s *agents.Sandbox) {
	s.Labels = map[string]string{agents.LabelLaunchType: agents.LaunchTypeWarm, agents.LabelCreatedBy: agents.CreatedByController}
	s.Annotations = map[string]string{agents.AnnotationTemplateRef: "python"}
	owned("SandboxWarmPool")(s)
}

func owned(kind string) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		yes := true
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: extensions.GroupVersion.String(), Kind: kind, Name: "x", UID: "x", Controller: &yes}}
	}
}

func readyIs(status metav1.ConditionStatus, reason string, after time.Duration) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		s.Status.Conditions = []metav1.Condition{{Type: agents.ConditionReady, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(born.Add(after))}}
	}
}

func TestSandboxesAreCountedAsTheyChange(t *testing.T) {
	c := newCensus()
	ready := readyIs(metav1.ConditionTrue, agents.ReasonDependenciesReady, time.Second)
	c.change(nil, sandbox("alone", func(s *agents.Sandbox) { s.Labels = map[string]string{agents.LabelCreatedBy: "me"} }))
	c.change(nil, sandbox("a", member))
	c.change(nil, sandbox("b", member))
	c.change(sandbox("b", member), sandbox("b", member, ready))
	c.change(nil, sandbox("c", member, ready))
	claimed := func(s *agents.Sandbox) { s.Labels[agents.LabelCreatedBy] = agents.CreatedByGoClient }
	c.change(sandbox("c", member, ready), sandbox("c", member, owned("SandboxClaim"), ready, claimed))
	c.change(nil, sandbox("old", member, readyIs(metav1.ConditionFalse, agents.ReasonSandboxExpired, time.Hour)))
	c.change(nil, sandbox("gone", member))
	c.change(sandboxOf(toolscache.DeletedFinalStateUnknown{Key: "team/gone", Obj: sandbox("gone", member)}), nil)
	want := `# HELP agent_sandboxes Sandboxes there are.
# TYPE agent_sandboxes gauge
agent_sandboxes{created_by="controller",expired="false",launch_type="warm",namespace="team",owned_by="SandboxWarmPool",ready_condition="false",sandbox_template="python"} 1
agent_sandboxes{created_by="controller",expired="false",launch_type="warm",namespace="team",owned_by="SandboxWarmPool",ready_condition="true",sandbox_template="python"} 1
agent_sandboxes{created_by="controller",expired="true",launch_type="warm",namespace="team",owned_by="SandboxWarmPool",ready_condition="false",sandbox_template="python"} 1
agent_sandboxes{created_by="go-client",expired="false",launch_type="warm",namespace="team",owned_by="SandboxClaim",ready_condition="true",sandbox_template="python"} 1
agent_sandboxes{created_by="unknown",expired="false",launch_type="unknown",namespace="team",owned_by="None",ready_condition="false",sandbox_template="unknown"} 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), metricSandboxes); err != nil {
		t.Error(err)
	}
}

func TestTheTimeToReadyIsRecordedOnce(t *testing.T) {
	ready := readyIs(metav1.ConditionTrue, agents.ReasonDependenciesReady, 3*time.Second)
	unready := readyIs(metav1.ConditionFalse, agents.ReasonDependenciesNotReady, 0)
	dropped := readyIs(metav1.ConditionFalse, agents.ReasonDependenciesNotReady, time.Hour)
	later := readyIs(metav1.ConditionTrue, agents.ReasonDependenciesReady, 2*time.Hour)
	cases := map[string]struct {
		seen []*agents.Sandbox // one Sandbox over time
		want int
	}{
		"a Sandbox that becomes Ready":                       {[]*agents.Sandbox{sandbox("a", member), sandbox("a", member, unready), sandbox("a", member, ready)}, 1},
		"a Sandbox that stays Ready":                         {[]*agents.Sandbox{sandbox("a", member), sandbox("a", member, ready), sandbox("a", member, ready)}, 1},
		"a Sandbox that becomes Ready again":                 {[]*agents.Sandbox{sandbox("a", member), sandbox("a", member, ready), sandbox("a", member, dropped), sandbox("a", member, later)}, 1},
		"a Sandbox that is Ready at first sight":             {[]*agents.Sandbox{sandbox("a", member, ready)}, 0},
		"a Sandbox that had been Ready before it was seen":   {[]*agents.Sandbox{sandbox("a", member, dropped), sandbox("a", member, later)}, 0},
		"a Sandbox that is not Ready yet at first sight":     {[]*agents.Sandbox{sandbox("a", member, unready), sandbox("a", member, ready)}, 1},
		"a Sandbox of the same name that was made meanwhile": {[]*agents.Sandbox{sandbox("a", member, ready), sandbox("a", member, func(s *agents.Sandbox) { s.UID = "again" }), sandbox("a", member, ready, func(s *agents.Sandbox) { s.UID = "again" })}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			counted := newCensus()
			var before *agents.Sandbox
			for _, s := range c.seen {
				counted.change(before, s)
				before = s
			}
			sum := &strings.Builder{}
			if c.want > 0 {
				sum.WriteString(`# HELP agent_sandbox_creation_latency_ms Milliseconds from the creation of a Sandbox until it was first Ready. Kubernetes keeps both times in seconds.
# TYPE agent_sandbox_creation_latency_ms histogram
`)
				for _, bucket := range []string{"50 0", "100 0", "250 0", "500 0", "1000 0", "2500 0", "5000 1", "10000 1", "30000 1", "60000 1", "120000 1", "240000 1", "300000 1", "600000 1", "+Inf 1"} {
					le, n, _ := strings.Cut(bucket, " ")
					sum.WriteString(`agent_sandbox_creation_latency_ms_bucket{launch_type="warm",namespace="team",sandbox_template="python",le="` + le + `"} ` + n + "\n")
				}
				sum.WriteString(`agent_sandbox_creation_latency_ms_sum{launch_type="warm",namespace="team",sandbox_template="python"} 3000
agent_sandbox_creation_latency_ms_count{launch_type="warm",namespace="team",sandbox_template="python"} 1
`)
			}
			if err := testutil.CollectAndCompare(counted, strings.NewReader(sum.String()), metricCreationLatency); err != nil {
				t.Error(err)
			}
			counted.change(before, nil)
			if len(counted.pending) > 0 || len(counted.counts) > 0 {
				t.Errorf("of a Sandbox that is gone %v and %v are left", counted.pending, counted.counts)
			}
		})
	}
}

func TestMetricsOfTheClusterAreShownByTheLeaderAlone(t *testing.T) {
	counted := newCensus()
	counted.change(nil, sandbox("a"))
	elected := make(chan struct{})
	shown := whileLeading{counted, elected}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(shown)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("before the election %d, %v", n, err)
	}
	close(elected)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 1 {
		t.Errorf("after the election %d, %v", n, err)
	}
}
