// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func explain(t *testing.T, w *world, kind Kind, name string) *Report {
	t.Helper()
	r, err := Of(t.Context(), w, kind, types.NamespacedName{Namespace: "team", Name: name}, Options{
		Now: now, ControllerNamespace: system,
		Command: func(name string, args ...string) string {
			return strings.Join(append([]string{"berth", name}, args...), " ")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text is a report as one string, a section a line.
func text(r *Report) string {
	return strings.Join([]string{
		"summary: " + r.Summary, "sees: " + strings.Join(r.Sees, " | "), "next: " + strings.Join(r.Next, " | "), "waits: " + strings.Join(r.Waits, " | "),
		"advice: " + strings.Join(r.Advice, " | "), "warnings: " + strings.Join(r.Warnings, " | "), "unread: " + strings.Join(r.Unread, " | "),
	}, "\n")
}

// want is what a report says; each text is looked for in its section.
type want struct {
	verdict                                      Verdict
	summary, sees, next, waits, advice, warnings []string
	never                                        []string
}

func (w want) check(t *testing.T, r *Report) {
	t.Helper()
	all := text(r)
	sections := map[string]string{}
	for _, line := range strings.Split(all, "\n") {
		name, content, _ := strings.Cut(line, ": ")
		sections[name] = content
	}
	for section, texts := range map[string][]string{"summary": w.summary, "sees": w.sees, "next": w.next, "waits": w.waits, "advice": w.advice, "warnings": w.warnings} {
		for _, want := range texts {
			if !strings.Contains(sections[section], want) {
				t.Errorf("%s does not say %q", section, want)
			}
		}
	}
	for _, never := range w.never {
		if strings.Contains(all, never) {
			t.Errorf("it says %q", never)
		}
	}
	if r.Verdict != w.verdict {
		t.Errorf("the verdict is %s, want %s", r.Verdict, w.verdict)
	}
	if t.Failed() {
		t.Log("\n" + all)
	}
}

func TestClaims(t *testing.T) {
	tmpl := newTemplate()
	base := isolated(tmpl)
	comingUp := newMember("python-aaaaa")
	pending := newPod(comingUp, unschedulable)
	lostClaim := newClaim("task", boundTo("python-aaaaa",
		says(agents.ConditionReady, yes, agents.ReasonDependenciesReady, agents.MessagePodReady), says(extensions.ConditionBound, yes, extensions.ReasonAdopted, "x")))
	own := newSandbox("task", claimed("task"), func(s *agents.Sandbox) {
		s.Status.Conditions = []metav1.Condition{says(agents.ConditionReady, no, agents.ReasonDependenciesNotReady, "Pod exists with phase: Pending")}
	})
	mine := newSandbox("task", claimed("task"))
	labelledBox := edit(mine.DeepCopy(), func(s *agents.Sandbox) {
		s.Spec.PodTemplate.Metadata.Labels = map[string]string{"sandbox.users.io/a": "theirs"}
	})
	readyClaim := newClaim("task", boundTo("task", says(extensions.ConditionBound, yes, extensions.ReasonStarted, `Sandbox "task" was made for the claim and has been Ready`),
		says(agents.ConditionReady, yes, agents.ReasonDependenciesReady, agents.MessagePodReady)))
	readyClaim.Status.Sandbox.PodIPs = []string{"10.0.0.7"}
	withEnv := func(c *extensions.SandboxClaim) { c.Spec.Env = []extensions.EnvVar{{Name: "A", Value: "b"}} }
	labelled := func(key string, conditions ...metav1.Condition) func(*extensions.SandboxClaim) {
		return func(c *extensions.SandboxClaim) {
			c.Spec.AdditionalPodMetadata.Labels = map[string]string{key: "x"}
			c.Status.Conditions = conditions
		}
	}

	for name, c := range map[string]struct {
		objects []client.Object
		want    want
	}{
		"on an empty pool, a claim starts cold at once": {
			append(base, newPool(0), newClaim("task")),
			want{verdict: Underway, sees: []string{"It has no sandbox yet", "0 ready members", "template/python-template is there"},
				next: []string{`create Sandbox "task" for the claim`}},
		},
		"on an empty pool with a quota that is full, the server's answer stands": {
			append(base, newPool(0), newClaim("task", func(c *extensions.SandboxClaim) {
				c.Status.Conditions = []metav1.Condition{says(agents.ConditionReady, no, extensions.ReasonSandboxCreateRefused, `Sandbox "task" was refused: exceeded quota: small`),
					says(extensions.ConditionBound, no, extensions.ReasonSandboxCreateRefused, `Sandbox "task" was refused: exceeded quota: small`)}
			})),
			want{verdict: Stuck, summary: []string{"exceeded quota: small"}, next: []string{`create Sandbox "task"`}, advice: []string{"kubectl get resourcequota -n team"}},
		},
		"on a pool whose pods are unschedulable, it waits for one and says what for": {
			append(base, newPool(1), newClaim("task"), comingUp, pending, warning(pending, "FailedScheduling", "0/3 nodes are available", time.Minute)),
			want{verdict: Stuck, summary: []string{"WaitingForMember"}, sees: []string{"and 1 coming up", "no claim waits before it", "no node takes it (Unschedulable): 0/3 nodes are available"},
				next:  []string{"Ready is False (SandboxNotReady)", "nothing, until something that it watches changes"},
				waits: []string{"a member of pool/python that is coming up and is meant for this claim"}, advice: []string{"make room on a node"},
				warnings: []string{"pod/python-aaaaa FailedScheduling, 60s ago: 0/3 nodes are available (12 times)"}},
		},
		"behind another claim, it starts cold": {
			append(base, newPool(1), newClaim("task"), newClaim("first", older), comingUp, pending),
			want{verdict: Stuck, sees: []string{"claim/first waits before it"}, next: []string{`create Sandbox "task" for the claim`}},
		},
		"a claim that failed before does not stand in the way": {
			append(base, newPool(1), newClaim("task"), newClaim("first", older, labelled("kubernetes.io/x")), comingUp, pending),
			want{verdict: Stuck, sees: []string{"no claim waits before it"}, waits: []string{"meant for this claim"}, never: []string{"create Sandbox"}},
		},
		"on a missing template": {
			[]client.Object{newPool(1), newClaim("task")},
			want{verdict: Stuck, summary: []string{"TemplateNotFound"}, sees: []string{"template/python-template does not exist"},
				advice: []string{`create the SandboxTemplate "python-template" in namespace team, and the claim goes on; there are no templates`}},
		},
		"on a missing pool": {
			append(base, edit(newPool(1), func(p *extensions.SandboxWarmPool) { p.Name = "pythom" }), newClaim("task")),
			want{verdict: Stuck, summary: []string{"WarmPoolNotFound"}, sees: []string{"pool/python does not exist"}, advice: []string{"there are the pools pythom", "berth release task"}},
		},
		"lost": {
			append(base, newPool(0), lostClaim),
			want{verdict: Stuck, summary: []string{"Sandbox does not exist"}, sees: []string{"sandbox/python-aaaaa, which it was given, is gone"},
				advice: []string{"sandboxLost", "berth release task, then berth claim python"}},
		},
		"lost, and another sandbox has its name": {
			append(base, newPool(0), lostClaim, newSandbox("python-aaaaa", func(s *agents.Sandbox) { s.UID = "other" })),
			want{verdict: Stuck, sees: []string{"Another sandbox has its name now"}},
		},
		"expired and retained": {
			append(base, newPool(0), newClaim("task", func(c *extensions.SandboxClaim) {
				c.Spec.Lifecycle = &extensions.ClaimLifecycle{ShutdownTime: ptr.To(metav1.NewTime(now.Add(-time.Minute)))}
				c.Status.Conditions = []metav1.Condition{says(extensions.ConditionBound, no, extensions.ReasonClaimExpired, extensions.MessageClaimExpired),
					says(agents.ConditionReady, no, extensions.ReasonClaimExpired, extensions.MessageClaimExpired)}
			})),
			want{verdict: Well, summary: []string{"ClaimExpired"}, sees: []string{"It expires at 2026-09-01T11:59:00Z"}, advice: []string{"berth claim python gets another sandbox"}},
		},
		"expired and about to be deleted": {
			append(base, newPool(0), newClaim("task", func(c *extensions.SandboxClaim) {
				c.Spec.Lifecycle = &extensions.ClaimLifecycle{ShutdownTime: ptr.To(metav1.NewTime(now.Add(-time.Minute))), ShutdownPolicy: extensions.ClaimShutdownDelete}
			})),
			want{verdict: Underway, next: []string{"Ready is False (ClaimExpired)", "delete the claim, which has expired (shutdownPolicy Delete)"}},
		},
		"refused for its metadata": {
			append(base, newPool(1), newClaim("task", labelled("kubernetes.io/x"))),
			want{verdict: Stuck, summary: []string{"InvalidMetadata", "labels[kubernetes.io/x]", "sandbox.users.io"}, advice: []string{"kubectl edit sandboxclaim task -n team"}},
		},
		"a label that a controller with other domains took is none to complain of": {
			append(base, newPool(0), newClaim("task", labelled("corp.example/x", says(agents.ConditionReady, no, extensions.ReasonSandboxNotReady, "x")))),
			want{verdict: Underway, next: []string{`create Sandbox "task"`}, never: []string{"InvalidMetadata"}},
		},
		"a label that a controller with other domains refused is": {
			append(base, newPool(0), newClaim("task", labelled("sandbox.users.io/x", says(agents.ConditionReady, no, extensions.ReasonInvalidMetadata,
				"spec.additionalPodMetadata.labels[sandbox.users.io/x]: labels need a prefix of one of the allowed domains, or of one below them: corp.example, b.example")))),
			want{verdict: Stuck, summary: []string{"below them: corp.example, b.example"}},
		},
		"refused for its env": {
			append(base, newPool(1), newClaim("task", withEnv)),
			want{verdict: Stuck, summary: []string{"EnvVarsInjectionRejected"}, sees: []string{"It asks for env or volumes of its own"},
				advice: []string{"spec.envVarsInjectionPolicy Allowed or Overrides", "berth release task"}},
		},
		"bound to a sandbox that is not Ready, it shows that one's pod": {
			append(base, newPool(0), own, newPod(own, waitingFor("ImagePullBackOff", `Back-off pulling image "python:3.12"`)),
				newClaim("task", boundTo("task", says(agents.ConditionReady, no, agents.ReasonDependenciesNotReady, "Pod exists with phase: Pending"), says(extensions.ConditionBound, yes, extensions.ReasonCreated, `Sandbox "task" was made for the claim`)))),
			want{verdict: Stuck, sees: []string{"It has sandbox/task (Created)", "sandbox/task: Pod task: container main: its image python:3.12 cannot be pulled (ImagePullBackOff)"},
				waits: []string{"sandbox/task to be Ready"}, advice: []string{"kubectl describe pod task -n team"}},
		},
		"with a sandbox that is Ready between two crashes": {
			slices.Concat(base, []client.Object{newPool(0), readyClaim}, settled(t, mine, newPod(mine, crashing(2, time.Second)))),
			want{verdict: Stuck, summary: []string{"is Ready with sandbox/task; but a container ends again and again"}, sees: []string{"container main has ended 2 times, last with exit code 3"}, advice: []string{"--previous"}},
		},
		"Ready, it has nothing to say but that": {
			slices.Concat(base, []client.Object{newPool(0), readyClaim}, settled(t, mine, newPod(mine))),
			want{verdict: Well, summary: []string{"is Ready with sandbox/task"}, next: []string{"nothing, until"}, never: []string{"Pod task"}},
		},
		"Ready, and the sandbox has no pod any more": {
			slices.Concat(base, []client.Object{newPool(0), readyClaim}, []client.Object{mine}),
			want{verdict: Underway, summary: []string{"is Ready with sandbox/task"}, next: []string{"for sandbox/task: create the pod task"}},
		},
		"with a sandbox that is suspended, it is the claim that is resumed": {
			slices.Concat(base, []client.Object{newPool(0), readyClaim}, settled(t, edit(mine.DeepCopy(), func(s *agents.Sandbox) {
				s.Spec.OperatingMode, s.Annotations = agents.OperatingModeSuspended, nil
			}))),
			want{verdict: Underway, advice: []string{"to resume it: berth resume task"}, never: []string{"resume sandbox/"}},
		},
		"with another writer's value on its key": {
			slices.Concat(base, []client.Object{newPool(0), edit(readyClaim.DeepCopy(), func(c *extensions.SandboxClaim) {
				c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/a": "mine"}
			})}, settled(t, labelledBox, newPod(labelledBox))),
			want{verdict: Stuck, sees: []string{"Another writer's value stands on"}, advice: []string{"remove the other writer's value"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{objects: append(slices.Clone(c.objects), lease(time.Second), node("node-1", corev1.ConditionTrue))}
			c.want.check(t, explain(t, w, Claim, "task"))
		})
	}
}

func TestSandboxes(t *testing.T) {
	box := newSandbox("box")
	waitingForPod := newSandbox("box", claimed("task"), func(s *agents.Sandbox) {
		s.Status.Conditions = []metav1.Condition{says(agents.ConditionReady, no, agents.ReasonDependenciesNotReady, agents.MessagePodGoing)}
	})
	older := func(p *corev1.Pod) {
		p.Annotations = map[string]string{agents.AnnotationTemplateRevision: "v1-" + strings.Repeat("0", 32)}
		p.Spec.Containers[0].Image = "python:3.11"
	}
	drifted := newSandbox("box", func(s *agents.Sandbox) {
		s.Status.Conditions = append(s.Status.Conditions, says(agents.ConditionPodOutdated, yes, agents.ReasonSpecChanged, "it differs"))
	})
	recreate := newSandbox("box", func(s *agents.Sandbox) {
		s.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
	})
	suspended := newSandbox("box", func(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended })
	ended := newSandbox("box", func(s *agents.Sandbox) { s.Spec.ShutdownTime = ptr.To(metav1.NewTime(now.Add(-time.Hour))) })
	withVolume := newSandbox("box", func(s *agents.Sandbox) {
		s.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{Metadata: agents.EmbeddedObjectMetadata{Name: "data"}}}
	})
	alone := newSandbox("box", func(s *agents.Sandbox) { s.Status.Conditions = nil })
	dying := newSandbox("box", func(s *agents.Sandbox) {
		s.DeletionTimestamp, s.Finalizers = ptr.To(metav1.NewTime(now.Add(-time.Minute))), []string{"example.com/backup", metav1.FinalizerDeleteDependents}
	})

	for name, c := range map[string]struct {
		objects []client.Object
		want    want
	}{
		"two owned pods": {
			[]client.Object{box, newPod(box), newPod(box, func(p *corev1.Pod) { p.Name, p.UID = "box-2", "box-2" })},
			want{verdict: Stuck, never: []string{"kubectl delete pod box"}, summary: []string{"MultiplePods"}, sees: []string{"Pod box is its own", "Pod box-2 is its own"}, advice: []string{"box, box-2", "kubectl delete pod NAME -n team"}},
		},
		"two owned pods of a Sandbox that has drifted": {
			[]client.Object{drifted, newPod(drifted), newPod(drifted, func(p *corev1.Pod) { p.Name, p.UID = "box-2", "box-2" })},
			want{verdict: Stuck, summary: []string{"MultiplePods"}, never: []string{"take the change over"}},
		},
		"drift that nobody is to act on but a person": {
			[]client.Object{box, newPod(box, older)},
			want{verdict: Stuck, summary: []string{"is Ready, and its pod is not what its podTemplate says"}, sees: []string{"image"}, next: []string{"PodOutdated is True (SpecChanged)", "nothing, until"},
				advice: []string{"kubectl delete pod box -n team", "Recreate"}},
		},
		"drift under Recreate": {
			[]client.Object{recreate, newPod(recreate, older)},
			want{verdict: Underway, next: []string{"delete the pod box: podTemplate changed, and updateStrategy is Recreate"}},
		},
		"a pod that a finalizer holds": {
			[]client.Object{waitingForPod, newPod(waitingForPod, terminatingSince(time.Hour, "example.com/hold"))},
			want{verdict: Stuck, sees: []string{"held by the finalizers example.com/hold"}, waits: []string{"the pod box is terminating, and the next one waits for it", "waiting for this sandbox: claim/task"},
				advice: []string{`kubectl patch pod box -n team --type merge -p '{"metadata":{"finalizers":null}}'`}},
		},
		"a pod whose node is gone": {
			[]client.Object{waitingForPod, newPod(waitingForPod, terminatingSince(time.Hour), func(p *corev1.Pod) { p.Spec.NodeName = "node-9" })},
			want{verdict: Stuck, sees: []string{"node node-9 does not exist any more"}, advice: []string{"kubectl delete pod box -n team --force --grace-period=0"}},
		},
		"a pod whose node does not answer": {
			[]client.Object{waitingForPod, node("node-8", corev1.ConditionUnknown), newPod(waitingForPod, terminatingSince(time.Hour), func(p *corev1.Pod) { p.Spec.NodeName = "node-8" })},
			want{verdict: Stuck, sees: []string{"node node-8 is not Ready (NodeStatusUnknown): Kubelet stopped"}},
		},
		"a pod within its grace period": {
			[]client.Object{waitingForPod, newPod(waitingForPod, terminatingSince(-time.Minute))},
			want{verdict: Underway, sees: []string{"its grace period ends at 2026-09-01T12:01:00Z"}, never: []string{"--force"}},
		},
		"a pod that crashes": {
			[]client.Object{waitingForPod, newPod(waitingForPod, waitingFor("CrashLoopBackOff", "back-off"), func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
			})},
			want{verdict: Stuck, sees: []string{"container main has ended 5 times, last with exit code 137 (OOMKilled)"}, advice: []string{"kubectl logs box -c main -n team --previous"}},
		},
		"a pod that crashes, of which no more is known": {
			[]client.Object{waitingForPod, newPod(waitingForPod, waitingFor("CrashLoopBackOff", "back-off"))},
			want{verdict: Stuck, sees: []string{"container main ends again and again (4 restarts)"}, advice: []string{"--previous"}},
		},
		"a pod that runs and is Ready between two crashes": {
			settled(t, newSandbox("box"), newPod(newSandbox("box"), crashing(2, 3*time.Second))),
			want{verdict: Stuck, summary: []string{"is Ready; but a container ends again and again"}, sees: []string{"container main has ended 2 times, last with exit code 3; it was started again 3s ago"},
				advice: []string{"kubectl logs box -c main -n team --previous"}},
		},
		"a pod that has crashed once, and runs again": {
			settled(t, newSandbox("box"), newPod(newSandbox("box"), crashing(1, 3*time.Second))),
			want{verdict: Well, summary: []string{"is Ready"}, sees: []string{"container main has ended once, with exit code 3"}, never: []string{"again and again"}},
		},
		"a pod that crashed, and has run on since": {
			settled(t, newSandbox("box"), newPod(newSandbox("box"), crashing(9, time.Minute))),
			want{verdict: Well, never: []string{"ended", "--previous"}},
		},
		"a pod whose container has just ended": {
			[]client.Object{waitingForPod, newPod(waitingForPod, crashing(0, 0), func(p *corev1.Pod) {
				p.Status.Conditions = p.Status.Conditions[:1]
				p.Status.ContainerStatuses[0].State = p.Status.ContainerStatuses[0].LastTerminationState
			})},
			want{verdict: Underway, sees: []string{"container main has ended once, with exit code 3"}, advice: []string{"kubectl logs box -c main -n team"}, never: []string{"--previous"}},
		},
		"somebody else's pod of its name": {
			[]client.Object{box, newPod(box, func(p *corev1.Pod) {
				p.OwnerReferences, p.Labels = controlled("apps/v1", "ReplicaSet", "web", "web-uid"), nil
			})},
			want{verdict: Stuck, summary: []string{"ReconcilerError"}, sees: []string{`The pod box has its name and is not its own: ReplicaSet "web" controls it`}},
		},
		"suspended": {
			settled(t, suspended),
			want{verdict: Well, summary: []string{"SandboxSuspended"}, next: []string{"nothing, until"}, advice: []string{"to resume it: berth resume sandbox/box"}},
		},
		"suspended, and the status does not say so yet": {
			[]client.Object{suspended},
			want{verdict: Underway, next: []string{"Ready is False (SandboxSuspended)", "nothing, until"}},
		},
		"expired": {
			settled(t, ended),
			want{verdict: Well, summary: []string{"SandboxExpired"}, sees: []string{"It expires at 2026-09-01T11:00:00Z"}, advice: []string{"shutdownTime"}},
		},
		"a volume that nobody makes": {
			[]client.Object{withVolume, newPod(withVolume, unschedulable), edit(&corev1.PersistentVolumeClaim{ObjectMeta: object("data-box", time.Hour)}, func(c *corev1.PersistentVolumeClaim) {
				c.OwnerReferences, c.Status.Phase = controlled(agents.GroupVersion.String(), agents.SandboxKind, "box", "box-uid"), corev1.ClaimPending
			})},
			want{verdict: Stuck, sees: []string{"PersistentVolumeClaim data-box is Pending", "PersistentVolumeClaim data-box: it has no volume yet"}, advice: []string{"kubectl describe pvc data-box -n team"}},
		},
		"new": {
			[]client.Object{alone}, want{verdict: Underway, summary: []string{"has not been looked at yet"}, next: []string{"create the pod box"}},
		},
		"held in its deletion by a finalizer": {
			[]client.Object{dying},
			want{verdict: Stuck, summary: []string{"is being deleted"}, waits: []string{"the finalizer example.com/backup", "all that belongs to it to be gone"}, advice: []string{"example.com/backup"}},
		},
		"Ready": {
			settled(t, box, newPod(box)),
			want{verdict: Well, summary: []string{"is Ready"}, next: []string{"nothing, until"}, never: []string{"kubectl"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{objects: append(slices.Clone(c.objects), lease(time.Second), node("node-1", corev1.ConditionTrue))}
			c.want.check(t, explain(t, w, Sandbox, "box"))
		})
	}
}

// crashingPool is a pool of two members that are Ready for the moment.
func crashingPool(t *testing.T) []client.Object {
	list := []client.Object{newPool(2)}
	for _, name := range []string{"python-aaaaa", "python-bbbbb"} {
		member := newMember(name)
		list = append(list, settled(t, member, newPod(member, crashing(2, 3*time.Second)))...)
	}
	return list
}

func TestPoolsAndTemplates(t *testing.T) {
	base := isolated(newTemplate())
	first, second := newMember("python-aaaaa"), newMember("python-bbbbb")
	foreign := base[1].DeepCopyObject().(*networkingv1.NetworkPolicy)
	foreign.Annotations = nil

	for name, c := range map[string]struct {
		kind    Kind
		objects []client.Object
		want    want
	}{
		"a pool whose pods are unschedulable says so once": {
			Pool, append(base, newPool(2), newClaim("task"), first, second, newPod(first, unschedulable), newPod(second, unschedulable)),
			want{verdict: Stuck, summary: []string{"Filling"}, sees: []string{"2 members' pods (python-aaaaa, python-bbbbb): no node takes it"}, waits: []string{"waiting for this pool: claim/task"}},
		},
		"a pool without its template": {
			Pool, []client.Object{newPool(2), newClaim("task")},
			want{verdict: Stuck, summary: []string{"TemplateNotFound"}, sees: []string{"template/python-template does not exist"}, advice: []string{`create the SandboxTemplate "python-template"`}},
		},
		"a pool whose members are Ready between their crashes": {
			Pool, append(base, crashingPool(t)...),
			want{verdict: Stuck, sees: []string{"2 members' pods (python-aaaaa, python-bbbbb): container main has ended 2 times, last with exit code 3"}, advice: []string{"--previous"}},
		},
		"a pool whose members the server refuses": {
			Pool, append(base, newPool(2, says(extensions.ConditionProgressing, no, extensions.ReasonCreateRefused, "new members are refused: exceeded quota"))),
			want{verdict: Stuck, summary: []string{"CreateRefused", "exceeded quota"}, next: []string{"or it is 2026-09-01T12:05:00Z"}, advice: []string{"kubectl get resourcequota -n team"}, never: []string{"create 2 members"}},
		},
		"a pool that is to be filled": {
			Pool, append(base, newPool(2)), want{verdict: Underway, next: []string{"create 2 members"}},
		},
		"a template whose NetworkPolicy is another's": {
			Template, []client.Object{newTemplate(), foreign, newPool(2)},
			want{verdict: Stuck, summary: []string{"another NetworkPolicy has the name"}, waits: []string{"left alone", "waiting for this template: pool/python"}, advice: []string{"kubectl get networkpolicy python-template-network-policy -n team"}},
		},
		"a template that does not exist and is named": {
			Template, []client.Object{newPool(2)},
			want{verdict: Stuck, summary: []string{"does not exist, and is named by pool/python"}, advice: []string{"create the SandboxTemplate"}},
		},
		"a template that is as it should be": {
			Template, append(base, newPool(2)), want{verdict: Well, summary: []string{"is as it should be"}, sees: []string{"pool/python makes its members from it"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{objects: append(slices.Clone(c.objects), lease(time.Second), node("node-1", corev1.ConditionTrue))}
			c.want.check(t, explain(t, w, c.kind, map[Kind]string{Pool: "python", Template: "python-template"}[c.kind]))
		})
	}
}

func TestAControllerThatDoesNotRunIsNamed(t *testing.T) {
	base := append(isolated(newTemplate()), newPool(2))
	for name, c := range map[string]struct {
		lease *world
		want  want
	}{
		"the Lease has run out": {&world{objects: []client.Object{lease(time.Hour)}},
			want{verdict: Stuck, sees: []string{"No controller runs: controller-0_x held the Lease", "since 2026-09-01T11:00:00Z"}, advice: []string{"kubectl get deployments,pods -n " + system}}},
		"the Lease was given up": {&world{objects: []client.Object{edit(lease(time.Hour), func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })}},
			want{verdict: Stuck, sees: []string{"the last one gave up the Lease"}}},
		"there is no Lease, which a controller without election has not": {&world{},
			want{verdict: Underway, sees: []string{"or one without --leader-elect"}, advice: []string{"see why no controller runs"}}},
		"the Lease is fresh": {&world{objects: []client.Object{lease(time.Second)}},
			want{verdict: Underway, never: []string{"no controller", "No controller"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{objects: append(slices.Clone(base), c.lease.objects...)}
			c.want.check(t, explain(t, w, Pool, "python"))
		})
	}
}

func TestWhatIsNotThereIsAnErrorThatHelps(t *testing.T) {
	w := &world{objects: []client.Object{newPool(1), newClaim("task", boundTo("gone"))}}
	for name, c := range map[string]struct {
		kind         Kind
		name         string
		names, users []string
	}{
		"a claim":                      {Claim, "tusk", []string{"task"}, nil},
		"a pool":                       {Pool, "pithon", []string{"python"}, nil},
		"a sandbox that a claim is of": {Sandbox, "gone", nil, []string{"claim/task"}},
		"a template that nobody names": {Template, "nothing", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Of(t.Context(), w, c.kind, types.NamespacedName{Namespace: "team", Name: c.name}, Options{Now: now})
			var missing *NotFoundError
			if !errors.As(err, &missing) || !slices.Equal(missing.Names, c.names) || !slices.Equal(missing.Users, c.users) {
				t.Errorf("the error is %v, %+v", err, missing)
			}
		})
	}
}

func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	box := newSandbox("box")
	w := &world{objects: []client.Object{box, newPod(box)}, forbidden: []client.Object{&corev1.Service{}, &corev1.Event{}}}
	r := explain(t, w, Sandbox, "box")
	if got := text(r); !strings.Contains(got, "next: not known") || !strings.Contains(strings.Join(r.Unread, " "), "services") || !strings.Contains(strings.Join(r.Unread, " "), "events") {
		t.Error(got)
	}
}
