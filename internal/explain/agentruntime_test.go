// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/workload"
)

// oldHash is of a configuration that there was.
const oldHash = "0011223344556677889900112233445566778899001122334455667788990011"

// hashOf is the hash of the namespace's configuration.
func hashOf(t *testing.T, defaults map[string]string) string {
	t.Helper()
	hash, err := confighash.Config{Defaults: defaults}.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// newAgent is an AgentRuntime of a Deployment of its name, which its controller knows.
func newAgent(conditions []metav1.Condition, edits ...func(*api.AgentRuntime)) *api.AgentRuntime {
	a := &api.AgentRuntime{ObjectMeta: object("web", time.Hour)}
	a.Finalizers = []string{api.Finalizer}
	a.Spec = api.AgentRuntimeSpec{Type: api.RuntimeTypeAgent, MTLSMode: api.MTLSPermissive,
		TargetRef: api.TargetReference{APIVersion: "apps/v1", Kind: workload.Deployment, Name: "web"}}
	a.Status.Conditions = conditions
	a.Status.Target = &api.WorkloadReference{Group: "apps", Kind: workload.Deployment, Name: "web"}
	return edit(a, edits...)
}

func ofSandbox(a *api.AgentRuntime) {
	a.Spec.TargetRef = api.TargetReference{APIVersion: "agents.x-k8s.io/v1alpha1", Kind: agents.SandboxKind, Name: "web"}
	a.Status.Target = &api.WorkloadReference{Group: agents.GroupName, Kind: agents.SandboxKind, Name: "web"}
}

// rolling says since when pods are being replaced.
func rolling(hash string, since time.Duration) func(*api.AgentRuntime) {
	return func(a *api.AgentRuntime) {
		a.Status.RolloutStartTime, a.Status.DesiredConfigHash = ptr.To(metav1.NewTime(now.Add(-since))), hash
	}
}

func named(name string, edits ...func(*api.AgentRuntime)) func(*api.AgentRuntime) {
	return func(a *api.AgentRuntime) {
		age := 2 * time.Hour
		a.ObjectMeta = object(name, age)
		a.Finalizers = []string{api.Finalizer}
		edit(a, edits...)
	}
}

func notReadyFor(reason, message string, more ...metav1.Condition) []metav1.Condition {
	return append([]metav1.Condition{says(api.ConditionReady, no, reason, message), says(api.ConditionRolloutComplete, no, reason, message)}, more...)
}

// newDeployment is one that has the stamps with a hash, if there is one, and a record of
// them.
func newDeployment(t *testing.T, hash string, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: object("web", time.Hour)}
	d.Spec.Replicas = ptr.To[int32](1)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = map[string]string{"app": "web"}
	d.Status.ObservedGeneration = 1
	if hash != "" {
		stamp(&d.Spec.Template.ObjectMeta, hash)
		record(t, &d.ObjectMeta, hash)
	}
	return edit(d, edits...)
}

func stamp(m *metav1.ObjectMeta, hash string) {
	metav1.SetMetaDataLabel(m, api.LabelType, "agent")
	metav1.SetMetaDataAnnotation(m, api.AnnotationConfigHash, hash)
	metav1.SetMetaDataAnnotation(m, api.AnnotationMTLSMode, "permissive")
}

func record(t *testing.T, m *metav1.ObjectMeta, hash string) {
	t.Helper()
	text, err := json.Marshal(workload.Record{Runtime: "web-uid", Observed: true, Stamps: workload.Stamps{Type: "agent", ConfigHash: hash, MTLSMode: "permissive"}})
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataLabel(m, api.LabelType, "agent")
	metav1.SetMetaDataLabel(m, api.LabelManagedBy, api.ManagedBy)
	metav1.SetMetaDataAnnotation(m, api.AnnotationRollout, string(text))
}

// podOf is a Deployment's pod that was made with a hash, with its ReplicaSet.
func podOf(d *appsv1.Deployment, name, hash string, edits ...func(*corev1.Pod)) []client.Object {
	set := &appsv1.ReplicaSet{ObjectMeta: object(name+"-set", time.Hour)}
	set.OwnerReferences = controlled("apps/v1", workload.Deployment, d.Name, d.UID)
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	if hash != "" {
		stamp(&set.Spec.Template.ObjectMeta, hash)
	}
	p := newPod(newSandbox(name), edits...)
	p.OwnerReferences = controlled("apps/v1", "ReplicaSet", set.Name, set.UID)
	return []client.Object{set, p}
}

// settledAgent is the objects after the controller has written the AgentRuntime's status.
func settledAgent(t *testing.T, objects ...client.Object) []client.Object {
	t.Helper()
	w := &world{objects: objects}
	found, err := take(t.Context(), w, "team")
	if err == nil {
		err = found.takeAgents(t.Context(), w, "team", api.DefaultOperatorNamespace)
	}
	if err != nil {
		t.Fatal(err)
	}
	views := found.views()
	views.AgentRuntimes = writable[*api.AgentRuntime]{found.agents}
	env := control.Environment{Clock: standing{now.Add(-time.Minute)}, Events: events.NewFakeRecorder(9), NewLock: func() sync.Locker { return &sync.Mutex{} }}
	if _, err := agentruntime.New(env, views, agentruntime.Options{Lister: found}).Reconcile(t.Context(), control.Request("team", "web")); err != nil {
		t.Fatal(err)
	}
	for i, obj := range objects {
		if obj.GetUID() == "web-uid" {
			if _, ok := obj.(*api.AgentRuntime); ok {
				objects[i], _, _ = found.agents.Get(t.Context(), client.ObjectKeyFromObject(obj))
			}
		}
	}
	return objects
}

func all(groups ...[]client.Object) []client.Object {
	var list []client.Object
	for _, g := range groups {
		list = append(list, g...)
	}
	return list
}

func of(objects ...client.Object) []client.Object { return objects }

func TestAgentRuntimes(t *testing.T) {
	empty, current := hashOf(t, nil), hashOf(t, map[string]string{"value": "2"})
	defaults := &corev1.ConfigMap{ObjectMeta: object("mine", time.Hour), Data: map[string]string{"value": "2"}}
	defaults.Labels = map[string]string{api.LabelDefaults: api.DefaultsTrue}
	configured := []metav1.Condition{
		says(api.ConditionReady, yes, api.ReasonConfigured, `Deployment "web" has configuration `+empty[:12]),
		says(api.ConditionRolloutComplete, yes, api.ReasonRolledOut, `Deployment "web" has configuration `+empty[:12]),
	}
	web := newDeployment(t, empty)
	outdated := newDeployment(t, oldHash)
	member := newSandbox("web", func(s *agents.Sandbox) {
		s.OwnerReferences = controlled(extensions.GroupVersion.String(), extensions.SandboxWarmPoolKind, "python", "pool-uid")
	})
	wiped := newDeployment(t, empty, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil })
	asRoot := waitingFor("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "web", container: agent)`)
	limit := "pods have to be replaced: those of 10 other workloads of this namespace are being replaced, which is the limit"

	for name, c := range map[string]struct {
		objects             []client.Object
		unserved, forbidden []client.Object
		want                want
	}{
		"one that is new is attached next": {
			objects: of(newAgent(nil, func(a *api.AgentRuntime) { a.Finalizers, a.Status = nil, api.AgentRuntimeStatus{} }), newDeployment(t, "")),
			want:    want{verdict: Underway, summary: []string{"has not been looked at yet"}, sees: []string{"has no configuration, and should have " + empty[:12]}, next: []string{"make sure that the workload is cleaned up"}},
		},
		"one whose pods have the configuration is well": {
			objects: settledAgent(t, all(of(newAgent(nil), web), podOf(web, "a", empty))...),
			want:    want{verdict: Well, summary: []string{"is Ready"}, sees: []string{"has configuration " + empty[:12], "Pod a was made with it, is Ready"}, next: []string{"nothing, until"}},
		},
		"one that is Ready between two crashes needs somebody": {
			objects: settledAgent(t, all(of(newAgent(nil), web), podOf(web, "a", empty, crashing(2, 3*time.Second)))...),
			want: want{verdict: Stuck, summary: []string{"is Ready", "; but a container ends again and again"}, sees: []string{"Pod a: container main has ended 2 times, last with exit code 3"},
				advice: []string{"berth agents logs web --pod a -c main --previous"}},
		},
		"one that is suspended is well, and can be started": {
			objects: settledAgent(t, newAgent(nil), newDeployment(t, empty, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })),
			want:    want{verdict: Well, summary: []string{"is suspended"}, sees: []string{"should have 0 pods"}, advice: []string{"berth agents resume web"}},
		},
		"without its workload, somebody has to create that": {
			objects: of(newAgent(nil)),
			want: want{verdict: Stuck, summary: []string{"TargetNotFound"}, advice: []string{`create the Deployment "web" in namespace team`, "kubectl edit agentruntime web", "berth agents rm web"},
				waits: []string{`Deployment "web" was not found`}},
		},
		"a warning that it has no workload stands while it has none": {
			objects: of(newAgent(nil), warning(newAgent(nil), api.ReasonTargetNotFound, `Deployment "web" was not found`, time.Minute)),
			want:    want{verdict: Stuck, warnings: []string{"agentruntime/web TargetNotFound, 60s ago"}},
		},
		"a warning that it had no workload is over once it has one": {
			objects: all(settledAgent(t, newAgent(nil), newDeployment(t, empty, func(d *appsv1.Deployment) { d.UID = "deployment-uid" })), of(warning(newAgent(nil), api.ReasonTargetNotFound, `Deployment "web" was not found`, time.Minute),
				warning(newAgent(nil), api.ReasonStampsRemoved, "somebody removed them", time.Minute))),
			want: want{verdict: Underway, warnings: []string{"agentruntime/web StampsRemoved"}, never: []string{"TargetNotFound"}},
		},
		"of a kind that is not served, the definition is missing": {
			objects: of(newAgent(nil, ofSandbox)), unserved: of(&agents.Sandbox{}),
			want: want{verdict: Stuck, summary: []string{"does not serve its kind"}, advice: []string{"install the definition of Sandboxes"}},
		},
		"of a kind that does not run agents, the reference is wrong": {
			objects: of(newAgent(nil, func(a *api.AgentRuntime) { a.Spec.TargetRef.Kind, a.Status.Target = "DaemonSet", nil })),
			want:    want{verdict: Stuck, summary: []string{"TargetResolveError"}, sees: []string{"names nothing that it can configure"}, advice: []string{"correct spec.targetRef"}},
		},
		"whose workload an older one has, one of them has to go": {
			objects: all(of(newAgent(nil), newAgent(configured, named("first")), web), podOf(web, "a", empty)),
			want: want{verdict: Stuck, summary: []string{"TargetTaken", `AgentRuntime "first" is older`}, waits: []string{"agentruntime/first to give the workload up"},
				advice: []string{"kubectl delete agentruntime web -n team"}},
		},
		"of a pool's member, a claim is waited for": {
			objects: of(newAgent(nil, ofSandbox), member, newPod(member)),
			want:    want{verdict: Underway, summary: []string{"OwnedByWarmPool"}, waits: []string{"a claim to take the Sandbox"}, advice: []string{"claim one"}},
		},
		"whose controller cannot read the configuration changes nothing": {
			objects: all(of(newAgent(notReadyFor(api.ReasonConfigHashError, "the configuration cannot be read, and nothing is changed: no rights",
				says(api.ConditionConfigResolved, no, api.ReasonConfigHashError, "the configuration cannot be read, and nothing is changed: no rights"))), outdated), podOf(outdated, "a", oldHash)),
			want: want{verdict: Stuck, summary: []string{"ConfigHashError"}, next: []string{"try again, ever more rarely: no rights"}, advice: []string{"the controller may read ConfigMaps", "rossoctl-system"},
				never: []string{"put the configuration's hash"}},
		},
		"whose configuration this person may not read is judged by the controller's hash": {
			objects:   settledAgent(t, all(of(newAgent(nil), web), podOf(web, "a", empty))...),
			forbidden: of(&corev1.ConfigMap{}),
			want:      want{verdict: Well, summary: []string{"is Ready"}},
		},
		"whose configuration changed, the pods are replaced next": {
			objects: all(of(newAgent(configured), web, defaults), podOf(web, "a", empty)),
			want: want{verdict: Underway, summary: []string{"RollingOut"}, sees: []string{"has configuration " + empty[:12] + ", and should have " + current[:12]},
				next: []string{"begin to replace pods", "put the configuration's hash on Deployment"}},
		},
		"that is paused leaves outdated pods alone": {
			objects: all(of(newAgent(configured, func(a *api.AgentRuntime) { a.Annotations = map[string]string{api.AnnotationPaused: api.PausedTrue} }), outdated), podOf(outdated, "a", oldHash)),
			want: want{verdict: Stuck, summary: []string{"RolloutPaused"}, sees: []string{"Its rollouts are paused"}, advice: []string{"kubectl annotate agentruntime web -n team rossoctl.io/rollout-paused-"},
				never: []string{"begin to replace"}},
		},
		"of a paused Deployment, the Deployment has to go on": {
			objects: all(of(newAgent(configured), newDeployment(t, empty, func(d *appsv1.Deployment) { d.Spec.Paused = true })), podOf(web, "a", oldHash)),
			want:    want{verdict: Stuck, summary: []string{"RolloutPaused"}, sees: []string{"The Deployment is paused"}, advice: []string{"kubectl rollout resume deployment/web"}},
		},
		"that waits for others names them": {
			objects: all(of(newAgent(notReadyFor(api.ReasonRolloutPending, limit)), outdated,
				newAgent(notReadyFor(api.ReasonRollingOut, "x"), named("other", rolling(empty, time.Minute)), func(a *api.AgentRuntime) { a.Spec.TargetRef.Name, a.Status.Target = "other", nil })), podOf(outdated, "a", oldHash)),
			want: want{verdict: Underway, summary: []string{"RolloutPending"}, waits: []string{"those of 10 other workloads of this namespace", "the pods of agentruntime/other to be replaced first"},
				advice: []string{"berth why agentruntime/other", "--max-concurrent-restarts"}, never: []string{"begin to replace"}},
		},
		"whose old pod is terminating waits for it": {
			objects: all(of(newAgent(notReadyFor(api.ReasonRollingOut, "1 outdated pods are left; 0 of 1 pods are ready"), rolling(empty, time.Minute)), web), podOf(web, "old", oldHash, terminatingSince(-20*time.Second))),
			want:    want{verdict: Underway, summary: []string{"RollingOut"}, sees: []string{"Pod old was not made with it, as far as is known, is terminating", "its grace period ends"}, waits: []string{"1 outdated pods are left"}},
		},
		"whose rollout stalls says why the pod does not come up": {
			objects: all(of(newAgent(notReadyFor(api.ReasonRolloutStalled, "x"), rolling(empty, time.Hour)), web), podOf(web, "new", empty, waitingFor("ImagePullBackOff", "no such image"))),
			want:    want{verdict: Stuck, summary: []string{"RolloutStalled"}, sees: []string{"cannot be pulled (ImagePullBackOff)"}, advice: []string{"see what keeps the pods from coming up"}},
		},
		"whose image runs as root is told how to run it": {
			objects: all(of(newAgent(notReadyFor(api.ReasonPodsNotReady, "0 of 1 pods are ready")), web), podOf(web, "new", empty, asRoot)),
			want:    want{verdict: Stuck, sees: []string{"runAsNonRoot"}, advice: []string{"--run-as-user"}},
		},
		"that another field manager keeps from it names that": {
			objects: all(of(newAgent(notReadyFor(api.ReasonConfigApplyError, `Deployment "web": .spec.template is set by field manager "argo"`,
				says(api.ConditionConfigConflict, yes, api.ReasonFieldConflict, `set by field manager "argo"`)), rolling(empty, time.Minute)), newDeployment(t, "")), podOf(web, "a", "")),
			want: want{verdict: Stuck, summary: []string{"ConfigApplyError", `field manager "argo"`}, waits: []string{"to give up what the message names"}, advice: []string{"--show-managed-fields"},
				next: []string{"nothing, until"}},
		},
		"whose stamps somebody removes is told to find out who": {
			objects: all(of(newAgent(notReadyFor(api.ReasonConfigApplyError, "something keeps removing what is put on it",
				says(api.ConditionConfigConflict, yes, api.ReasonStampsRemoved, "x"))), wiped), podOf(wiped, "a", "")),
			want: want{verdict: Stuck, waits: []string{"whoever removes the configuration to stop"}, advice: []string{"find out who removes rossoctl.io/config-hash"}, never: []string{"begin to replace"}},
		},
		"that is being deleted takes its configuration off": {
			objects: all(of(newAgent(configured, func(a *api.AgentRuntime) { a.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }), web), podOf(web, "a", empty)),
			want:    want{verdict: Underway, summary: []string{"is being deleted"}, sees: []string{"takes its configuration off"}, next: []string{"begin to replace pods", "take the configuration's hash off"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := all(c.objects, of(lease(time.Second), node("node-1", corev1.ConditionTrue)))
			c.want.check(t, explain(t, &world{objects: objects, unserved: c.unserved, forbidden: c.forbidden}, AgentRuntime, "web"))
		})
	}
}

func TestAnAgentRuntimeThatIsNotThereIsAnErrorThatListsThoseThereAre(t *testing.T) {
	_, err := Of(t.Context(), &world{objects: of(newAgent(nil))}, AgentRuntime, types.NamespacedName{Namespace: "team", Name: "wbe"}, Options{Now: now, ControllerNamespace: system})
	var missing *NotFoundError
	if !errors.As(err, &missing) || len(missing.Names) != 1 || missing.Names[0] != "web" {
		t.Errorf("the error is %#v", err)
	}
}

func TestAgentRuntimesMayHaveAControllerOfTheirOwn(t *testing.T) {
	own := lease(time.Second)
	own.Namespace, own.Name = api.DefaultOperatorNamespace, "b7c4ae34.rossoctl.dev"
	for name, c := range map[string]struct {
		objects []client.Object
		verdict Verdict
	}{
		"with its own Lease":                 {of(own), Underway},
		"with the Lease of the controllers":  {of(lease(time.Second)), Underway},
		"with one that is not renewed, none": {of(lease(time.Hour)), Stuck},
	} {
		t.Run(name, func(t *testing.T) {
			r := explain(t, &world{objects: all(c.objects, of(newAgent(nil, func(a *api.AgentRuntime) { a.Finalizers = nil }), newDeployment(t, "")))}, AgentRuntime, "web")
			if r.Verdict != c.verdict {
				t.Errorf("the verdict is %s, want %s:\n%s", r.Verdict, c.verdict, text(r))
			}
		})
	}
}
