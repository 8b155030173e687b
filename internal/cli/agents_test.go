// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/workload"
)

func TestMistakesWithAgentsAreAnsweredWithWhatToType(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a command misspelled":            {[]string{"agents", "rn"}, []string{`there is no command "agents rn"`, "did you mean: berth agents run"}},
		"no name":                         {[]string{"agents", "run", "--image", "x"}, []string{"agents run needs a name for the agent", "berth agents run NAME --image IMAGE"}},
		"two names":                       {[]string{"agents", "run", "a", "b", "--image", "x"}, []string{"got 2 arguments"}},
		"no image":                        {[]string{"agents", "run", "a"}, []string{"needs an image", "berth agents run a --image IMAGE"}},
		"a name that is none":             {[]string{"agents", "run", "1a", "--image", "x"}, []string{`"1a" cannot be the name of an agent`, "begin with a small letter"}},
		"a name that is too long":         {[]string{"agents", "run", strings.Repeat("a", 53), "--image", "x"}, []string{"no more than 52 characters"}},
		"a kind that is none":             {[]string{"agents", "run", "a", "--image", "x", "--kind", "job"}, []string{"--kind", "write one of sandbox, deployment, statefulset"}},
		"a variable that is none":         {[]string{"agents", "run", "a", "--image", "x", "--env", "A"}, []string{"write it as --env NAME=VALUE"}},
		"a size that is none":             {[]string{"agents", "run", "a", "--image", "x", "--storage", "big"}, []string{"such as 500m or 1Gi"}},
		"a size of nothing":               {[]string{"agents", "run", "a", "--image", "x", "--storage", "0"}, []string{"such as 500m or 1Gi"}},
		"a port that is none":             {[]string{"agents", "run", "a", "--image", "x", "--port", "70000"}, []string{"it is not a number from 1 to 65535"}},
		"a place without a volume":        {[]string{"agents", "run", "a", "--image", "x", "--mount", "/d"}, []string{"say how big it is: --storage 1Gi"}},
		"a place that is relative":        {[]string{"agents", "run", "a", "--image", "x", "--storage", "1Gi", "--mount", "d"}, []string{"--mount /data"}},
		"a label of the controller's":     {[]string{"agents", "run", "a", "--image", "x", "--label", "rossoctl.io/type=agent"}, []string{"this label is set by what it tells of"}},
		"a label that says whose it is":   {[]string{"agents", "run", "a", "--image", "x", "--label", "app.kubernetes.io/name=b"}, []string{"this label is set by what it tells of"}},
		"a name of another kind":          {[]string{"agents", "rm", "pod/a"}, []string{`"pod/a" does not name an agent`, "agentruntime/NAME"}},
		"nothing to remove":               {[]string{"agents", "rm"}, []string{"rm needs the name of an agent"}},
		"a format that does not fit":      {[]string{"agents", "run", "a", "--image", "x", "-o", "html"}, []string{`there is no output format "html"`}},
		"an explanation of something odd": {[]string{"why", "pod/a"}, []string{"agentruntime/NAME"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, code := offline(t, append([]string{"berth"}, c.args...)...)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q but\n%s", want, got)
				}
			}
		})
	}
}

func TestAgentsGoByTheNamesOfTheirKind(t *testing.T) {
	for _, text := range []string{"web", "agentruntime/web", "art/web", "agentruntime.agent.rossoctl.dev/web", "AgentRuntime/web"} {
		if name, err := agentName(text); name != "web" || err != nil {
			t.Errorf("%s is %q, %v", text, name, err)
		}
		if _, slash, _ := strings.Cut(text, "/"); slash == "" {
			continue
		}
		if kind, name, err := parseWhy(text); kind != "agentruntime" || name != "web" || err != nil {
			t.Errorf("why takes %s as %q %q, %v", text, kind, name, err)
		}
	}
}

func TestAClusterThatLacksAKindIsToldApart(t *testing.T) {
	p := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard())
	unserved := func(group, resource string) error {
		return apierrors.NewGenericServerResponse(404, "post", schema.GroupResource{Group: group, Resource: resource}, "web", "404 page not found", 0, true)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"without Sandboxes":     {unserved(agents.GroupName, "sandboxes"), "the cluster does not know Sandboxes: it does not serve agents.x-k8s.io/v1beta1"},
		"without AgentRuntimes": {unserved(api.GroupName, "agentruntimes"), "the cluster does not know agents: it does not serve agent.rossoctl.dev/v1alpha1"},
	} {
		t.Run(name, func(t *testing.T) {
			var known *problem
			if err := p.explainAgents(c.err); !errors.As(err, &known) || known.Error() != c.want || len(known.next) == 0 {
				t.Errorf("it is %v", err)
			}
		})
	}
}

var agentsNow = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// newAgentState is an agent whose AgentRuntime says that it is Ready, and whose Deployment has its one pod.
func newAgentState(edits ...func(*agent)) agent {
	a := agent{AgentRuntime: &api.AgentRuntime{}, target: workload.Target{Namespace: "team", Group: "apps", Kind: workload.Deployment, Name: "web"}, read: true, now: agentsNow}
	a.Name, a.Namespace, a.Generation = "web", "team", 1
	a.says(metav1.ConditionTrue, api.ReasonConfigured, "it has configuration 0123")
	a.Status.Pods = &api.PodCounts{Total: 1, Updated: 1, Ready: 1}
	a.Status.AppliedConfigHash, a.Status.DesiredConfigHash = "0123", "0123"
	a.Status.Target = ptr.To(a.target.Reference())
	d := &appsv1.Deployment{}
	d.Generation, d.Spec.Replicas = 2, ptr.To[int32](1)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
	a.workload = d
	a.pods = []*corev1.Pod{newAgentPod()}
	for _, edit := range edits {
		edit(&a)
	}
	return a
}

func (a *agent) says(status metav1.ConditionStatus, reason, message string) {
	a.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: 1}}
}

func newAgentPod(edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "team"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func waits(reason, message string, restarts int32) func(*agent) {
	return func(a *agent) {
		a.says(metav1.ConditionFalse, api.ReasonPodsNotReady, "0 of 1 pods are ready")
		a.pods = []*corev1.Pod{newAgentPod(func(p *corev1.Pod) {
			p.Status.Conditions = nil
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: restarts,
				LastTerminationState: map[bool]corev1.ContainerState{true: lastEnd(3)}[restarts > 0],
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		})}
	}
}

// restarted is a Ready pod whose container has ended so often, and was started again age ago.
func restarted(times int32, age time.Duration) func(*agent) {
	return func(a *agent) {
		a.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: times, Ready: true,
			State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(agentsNow.Add(-age))}},
			LastTerminationState: lastEnd(3)}}
	}
}

func lastEnd(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}
}

// endedNow is a pod whose container has just ended, and was started again so often.
func endedNow(restarts int32) func(*agent) {
	return func(a *agent) {
		waits("", "", restarts)(a)
		a.pods[0].Status.ContainerStatuses[0].State = lastEnd(3)
	}
}

func scaled(to int32) func(*agent) {
	return func(a *agent) { a.workload.(*appsv1.Deployment).Spec.Replicas = &to }
}

func runs(obj client.Object) func(*agent) { return func(a *agent) { a.workload = obj } }

func TestAgentsAreJudged(t *testing.T) {
	never := func(reason, message string, more ...metav1.Condition) func(*agent) {
		return func(a *agent) {
			a.says(metav1.ConditionFalse, reason, message)
			a.Status.Conditions = append(a.Status.Conditions, more...)
		}
	}
	conflict := metav1.Condition{Type: api.ConditionConfigConflict, Status: metav1.ConditionTrue, Reason: api.ReasonFieldConflict}
	terminating := newAgentPod(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(9, 0))) })
	box := func(generation int64, mode agents.OperatingMode) *agents.Sandbox {
		s := &agents.Sandbox{}
		s.Generation, s.Spec.OperatingMode = generation, mode
		s.Status.Conditions = []metav1.Condition{{Type: agents.ConditionReady, Status: metav1.ConditionTrue, Reason: agents.ReasonDependenciesReady, ObservedGeneration: 2}}
		return s
	}
	for name, c := range map[string]struct {
		agent         agent
		ready, failed bool
		says, next    string
	}{
		"one whose pod has the configuration is ready":     {agent: newAgentState(), ready: true},
		"a Sandbox is ready as its own condition says":     {agent: newAgentState(runs(box(2, ""))), ready: true},
		"one that was not looked at yet waits":             {agent: newAgentState(func(a *agent) { a.Status = api.AgentRuntimeStatus{} })},
		"a Sandbox that was not looked at yet, too":        {agent: newAgentState(runs(box(2, "")), func(a *agent) { a.Status = api.AgentRuntimeStatus{} })},
		"a pod that is replaced may be the one that fails": {agent: newAgentState(waits("CrashLoopBackOff", "back-off", 9), never(api.ReasonRollingOut, "x")), says: "CrashLoopBackOff"},
		"one that was changed since waits":                 {agent: newAgentState(func(a *agent) { a.Generation = 2 })},
		"one without its workload waits":                   {agent: newAgentState(runs(nil), never(api.ReasonTargetNotFound, "not found")), says: "TargetNotFound: not found"},
		"a Deployment that its controller has not seen":    {agent: newAgentState(func(a *agent) { a.workload.SetGeneration(3) }), says: "Deployment: 1 of 1 pods"},
		"a Sandbox that its controller has not seen":       {agent: newAgentState(runs(box(3, "")))},
		"what it says may be of the time before it began":  {agent: newAgentState(func(a *agent) { a.Status.Pods = &api.PodCounts{} }), says: "its controller has not seen them yet"},
		"what both say may be of the pod before":           {agent: newAgentState(func(a *agent) { a.pods = []*corev1.Pod{terminating} }), says: "pod web-1 is terminating"},
		"pods that cannot be read are not held against it": {agent: newAgentState(func(a *agent) { a.pods, a.read = nil, false }), ready: true},
		"one that is suspended does not become ready":      {agent: newAgentState(scaled(0)), failed: true, says: "Suspended"},
		"a Sandbox that is suspended does not either":      {agent: newAgentState(runs(box(2, agents.OperatingModeSuspended))), failed: true, says: "Suspended"},
		"one that is being deleted does not":               {agent: newAgentState(func(a *agent) { a.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(9, 0))) }), failed: true, says: "Deleting"},
		"one whose workload another has does not":          {agent: newAgentState(never(api.ReasonTargetTaken, `"a" is older`)), failed: true, next: "delete one of the two"},
		"one whose reference is wrong does not":            {agent: newAgentState(never(api.ReasonTargetResolveError, "x")), failed: true, next: "kubectl edit agentruntime web -n team"},
		"one whose rollout stalls does not":                {agent: newAgentState(never(api.ReasonRolloutStalled, "x")), failed: true},
		"one that another field manager keeps off does":    {agent: newAgentState(never(api.ReasonConfigApplyError, "x", conflict)), failed: true, next: "only one of the two"},
		"one that a webhook keeps off may":                 {agent: newAgentState(never(api.ReasonConfigApplyError, "no endpoints")), says: "no endpoints"},
		"one whose configuration cannot be read may":       {agent: newAgentState(never(api.ReasonConfigHashError, "x")), says: "ConfigHashError"},
		"an image that runs as root is told what helps":    {agent: newAgentState(waits("CreateContainerConfigError", "Error: container has runAsNonRoot and image will run as root", 0)), failed: true, next: "--run-as-user 1000"},
		"an image with a user's name, too": {agent: newAgentState(waits("CreateContainerConfigError", "Error: container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root", 0)),
			failed: true, next: "--run-as-user 1000"},
		"a Secret that is missing may come":       {agent: newAgentState(waits("CreateContainerConfigError", `secret "s" not found`, 0)), says: `secret "s" not found`},
		"an image that cannot be pulled may come": {agent: newAgentState(waits("ImagePullBackOff", "no such image", 0)), says: "ImagePullBackOff"},
		"an image whose name is none does not":    {agent: newAgentState(waits("InvalidImageName", "x", 0)), failed: true, next: "another --image"},
		"a container that ended once may start":   {agent: newAgentState(waits("CrashLoopBackOff", "back-off", 1)), says: "CrashLoopBackOff"},
		"a container that ends again and again doesn't": {agent: newAgentState(waits("CrashLoopBackOff", "back-off", 3)), failed: true,
			says: "container agent has ended 4 times, last with exit code 3", next: "kubectl logs web-1 -c agent -n team --previous"},
		"of some it is not known how they end": {agent: newAgentState(waits("CrashLoopBackOff", "back-off", 3), func(a *agent) {
			a.pods[0].Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{}
		}), failed: true, says: "container agent ends again and again"},
		"it need not be caught in the pause between":   {agent: newAgentState(endedNow(3)), failed: true, says: "has ended 4 times, last with exit code 3"},
		"a container that has just ended waits":        {agent: newAgentState(endedNow(0)), says: "has ended once, with exit code 3"},
		"one that is Ready right after its end is not": {agent: newAgentState(restarted(2, 3*time.Second)), says: "container agent has ended 2 times, last with exit code 3, in pod web-1"},
		"one that has run on since its end is":         {agent: newAgentState(restarted(2, 10*time.Second)), ready: true},
		"one that has just started may fail at once":   {agent: newAgentState(restarted(0, 2*time.Second)), says: "container agent of pod web-1 has just started"},
		"one that has run for a moment has not":        {agent: newAgentState(restarted(0, 3*time.Second)), ready: true},
		"a probe knows at once": {agent: newAgentState(restarted(0, 0), func(a *agent) {
			a.pods[0].Spec.Containers = []corev1.Container{{Name: "agent", ReadinessProbe: &corev1.Probe{}}}
		}), ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := judgeAgent(c.agent)
			if seen.ready != c.ready || seen.failed != c.failed || !strings.Contains(seen.String(), c.says) || !strings.Contains(seen.next, c.next) {
				t.Errorf("it is %+v", seen)
			}
			if c.agent.pods != nil && strings.Contains(seen.String(), "it runs again") && seen.again != 7*time.Second {
				t.Errorf("it is looked at again after %s", seen.again)
			}
			if strings.Contains(seen.String(), "just started") && seen.again != time.Second {
				t.Errorf("it is looked at again after %s", seen.again)
			}
			if seen.failed && seen.next == "" {
				t.Error("nothing is said to do")
			}
		})
	}
}

func TestAnAgentIsStartedOnlyOnceItsOwnWorkloadIsConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		agent agent
		want  bool
	}{
		"without pods":              {newAgentState(scaled(0), func(a *agent) { a.Status.Pods = &api.PodCounts{} }), true},
		"before it has been seen":   {newAgentState(func(a *agent) { a.Status = api.AgentRuntimeStatus{} }), false},
		"while it is of another":    {newAgentState(func(a *agent) { a.Status.Target.Name = "other" }), false},
		"while nothing is known":    {newAgentState(func(a *agent) { a.Status.AppliedConfigHash = "" }), false},
		"while it is not found":     {newAgentState(func(a *agent) { a.says(metav1.ConditionFalse, api.ReasonTargetNotFound, "x") }), false},
		"while it is not on it yet": {newAgentState(func(a *agent) { a.says(metav1.ConditionFalse, api.ReasonRollingOut, "x") }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if seen := judgeConfigured(c.agent); seen.ready != c.want {
				t.Errorf("it is %+v", seen)
			}
		})
	}
}

func TestThatAWorkloadWasNotFoundIsNoNewsOnceItIsThere(t *testing.T) {
	notFound := func(a *agent) { a.says(metav1.ConditionFalse, api.ReasonTargetNotFound, "not found") }
	for name, c := range map[string]struct {
		agent agent
		want  bool
	}{
		"one that is there":         {newAgentState(notFound), true},
		"one that is not":           {newAgentState(notFound, runs(nil)), false},
		"one that is being deleted": {newAgentState(notFound, func(a *agent) { a.workload.SetDeletionTimestamp(ptr.To(metav1.NewTime(agentsNow))) }), false},
		"another reason":            {newAgentState(func(a *agent) { a.says(metav1.ConditionFalse, api.ReasonRollingOut, "x") }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if seen := judgeConfigured(c.agent); seen.outdated != c.want || seen.reason == "" {
				t.Errorf("it is %+v", seen)
			}
		})
	}
}

func TestAnAgentThatEndsAgainAndAgainIsAnsweredWithItsLogs(t *testing.T) {
	p := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard())
	if got := p.nextFor(judgeAgent(newAgentState(endedNow(3))), "web"); !strings.HasPrefix(got, "berth agents logs web --pod web-1 -c agent --previous ") {
		t.Errorf("it is %q", got)
	}
}

func TestAnAgentIsSuspendedOnceItsPodsAreGone(t *testing.T) {
	for name, c := range map[string]struct {
		agent         agent
		ready, failed bool
	}{
		"with a pod":                           {newAgentState(scaled(0)), false, false},
		"without":                              {newAgentState(scaled(0), func(a *agent) { a.pods = nil }), true, false},
		"by what the Deployment says":          {newAgentState(scaled(0), func(a *agent) { a.pods, a.read = nil, false }), false, false},
		"unless somebody starts it":            {newAgentState(), false, true},
		"unless its workload is gone":          {newAgentState(runs(nil)), false, true},
		"by what the Deployment says, at last": {newAgentState(scaled(0), func(a *agent) { a.pods, a.read = nil, false; a.workload.(*appsv1.Deployment).Status.Replicas = 0 }), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if seen := judgeStopped(c.agent); seen.ready != c.ready || seen.failed != c.failed {
				t.Errorf("it is %+v", seen)
			}
		})
	}
}

func TestTheStatesOfAgents(t *testing.T) {
	for name, c := range map[string]struct {
		agent       agent
		state, hash string
	}{
		"one that runs":         {newAgentState(), stateReady, "0123"},
		"one that is suspended": {newAgentState(scaled(0)), stateSuspended, "0123"},
		"one that is rolled": {newAgentState(func(a *agent) {
			a.says(metav1.ConditionFalse, api.ReasonRollingOut, "x")
			a.Status.DesiredConfigHash = "4567"
		}), stateNotReady, "0123->4567"},
		"one that is new":                 {newAgentState(func(a *agent) { a.Status = api.AgentRuntimeStatus{DesiredConfigHash: "4567"} }), stateWaiting, "->4567"},
		"one without its workload":        {newAgentState(runs(nil), func(a *agent) { a.says(metav1.ConditionFalse, api.ReasonTargetNotFound, "x") }), stateWaiting, "0123"},
		"one whose workload is another's": {newAgentState(func(a *agent) { a.says(metav1.ConditionFalse, api.ReasonTargetTaken, "x") }), stateFailed, "0123"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := agentState(c.agent).state; got != c.state {
				t.Errorf("it is %s, want %s", got, c.state)
			}
			if got := configWord(c.agent); got != c.hash {
				t.Errorf("its configuration is %s, want %s", got, c.hash)
			}
		})
	}
}
