// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

func said(c metav1.Condition) string {
	if c.Type == "" {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + ": " + c.Message
}

const (
	notSuspended = "False/NotSuspended: Sandbox is not suspended"
	scheduled    = "True/PodScheduled: "
	notKnown     = "Unknown/PodSchedulingUnknown: Pod state is unknown. Pod scheduling cannot be determined"
	twoPods      = "False/MultiplePods: multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"
	failed       = "False/ReconcilerError: Error seen: "
	goes         = "False/DependenciesNotReady: Pod is terminating, and its grace period is over; "
	unlabelled   = `missing required pool authorization label ("agents.x-k8s.io/adoptable") or sandbox tracking label ("agents.x-k8s.io/sandbox-name-hash")`
)

func TestConditionsSayWhatIs(t *testing.T) {
	type conditions struct{ suspended, finished, scheduled, ready string }
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "box", errors.New("exceeded quota: small, used: pods=3"))
	service := func(s *agents.Sandbox) *corev1.Service { return renderService(s, serviceSelector(s, nil)) }
	noConditions := func(p *corev1.Pod) { p.Status.Conditions = nil }
	cases := map[string]struct {
		edit func(*agents.Sandbox)
		pods []func(*corev1.Pod)
		more func(*observed)
		want conditions
	}{
		"a ready pod with an address": {
			pods: []func(*corev1.Pod){func(*corev1.Pod) {}},
			want: conditions{notSuspended, "", scheduled, "True/DependenciesReady: Pod is Ready"},
		},
		"a ready pod and the Service that is wanted": {
			edit: withService(true), pods: []func(*corev1.Pod){func(*corev1.Pod) {}},
			more: func(o *observed) { o.service = service(o.sandbox) },
			want: conditions{notSuspended, "", scheduled, "True/DependenciesReady: Pod is Ready; Service Exists"},
		},
		"a ready pod and a Service kept without being asked for": {
			pods: []func(*corev1.Pod){func(*corev1.Pod) {}},
			more: func(o *observed) { o.service = service(o.sandbox) },
			want: conditions{notSuspended, "", scheduled, "True/DependenciesReady: Pod is Ready; Service Exists"},
		},
		"a ready pod without the Service that is wanted": {
			edit: withService(true), pods: []func(*corev1.Pod){func(*corev1.Pod) {}},
			want: conditions{notSuspended, "", scheduled, "False/DependenciesNotReady: Pod is Ready; Service does not exist"},
		},
		"a pod that is pending": {
			pods: []func(*corev1.Pod){phase(corev1.PodPending)},
			want: conditions{notSuspended, "", scheduled, "False/DependenciesNotReady: Pod exists with phase: Pending"},
		},
		"a pod that runs and is not ready": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }},
			want: conditions{notSuspended, "", scheduled, "False/DependenciesNotReady: Pod is Running but not Ready"},
		},
		"a pod that is ready and has no address": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { p.Status.PodIPs = nil }},
			want: conditions{notSuspended, "", scheduled, "False/DependenciesNotReady: Pod is Ready but has no podIPs yet"},
		},
		"a pod that does not say where it is": {
			pods: []func(*corev1.Pod){noConditions},
			want: conditions{notSuspended, "",
				"Unknown/PodSchedulingUnknown: Pod has not reported a PodScheduled condition yet", "False/DependenciesNotReady: Pod is Running but not Ready"},
		},
		"a pod whose volume cannot be bound says so": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "unbound immediate PersistentVolumeClaims",
				}}}
			}},
			want: conditions{notSuspended, "", "False/Unschedulable: unbound immediate PersistentVolumeClaims", "False/DependenciesNotReady: Pod exists with phase: Pending"},
		},
		"a pod whose scheduling has no reason": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }},
			want: conditions{notSuspended, "", "False/PodSchedulingUnknown: ", "True/DependenciesReady: Pod is Ready"},
		},
		"a pod that succeeded": {
			pods: []func(*corev1.Pod){phase(corev1.PodSucceeded)},
			want: conditions{notSuspended, "True/PodSucceeded: Pod completed successfully", scheduled, "False/PodSucceeded: Pod completed successfully"},
		},
		"a pod that failed": {
			pods: []func(*corev1.Pod){phase(corev1.PodFailed)},
			want: conditions{notSuspended, "True/PodFailed: Pod failed", scheduled, "False/PodFailed: Pod failed"},
		},
		"a failed pod that will be replaced does not finish the Sandbox": {
			edit: replaceFailedPods, pods: []func(*corev1.Pod){phase(corev1.PodFailed)},
			want: conditions{notSuspended, "", scheduled, "False/PodFailed: Pod failed"},
		},
		"no pod": {
			want: conditions{notSuspended, "", "", "False/DependenciesNotReady: Pod does not exist"},
		},
		"a terminating pod is never ready": {
			pods: []func(*corev1.Pod){terminating},
			want: conditions{notSuspended, "", scheduled, "False/DependenciesNotReady: Pod is terminating"},
		},
		"a terminating pod that ended does not finish the Sandbox": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { terminating(p); p.Status.Phase = corev1.PodFailed }},
			want: conditions{notSuspended, "", scheduled, "False/DependenciesNotReady: Pod is terminating"},
		},
		"a pod that outstays its grace period names its node": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { at := metav1.NewTime(testStart.Add(-time.Hour)); p.DeletionTimestamp = &at }},
			want: conditions{notSuspended, "", scheduled, goes + `node "node-1" has not said that the pod stopped`},
		},
		"a pod that finalizers keep names them": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) {
				at := metav1.NewTime(testStart.Add(-time.Hour))
				p.DeletionTimestamp, p.Finalizers = &at, []string{"example.com/a", "example.com/b"}
			}},
			want: conditions{notSuspended, "", scheduled, goes + "finalizers keep it: example.com/a, example.com/b"},
		},
		"two live pods": {
			pods: []func(*corev1.Pod){func(*corev1.Pod) {}, named("box-2")},
			want: conditions{notSuspended, "", notKnown, twoPods},
		},
		"two live pods of a suspended Sandbox": {
			edit: suspendedMode, pods: []func(*corev1.Pod){func(*corev1.Pod) {}, named("box-2")},
			want: conditions{
				"Unknown/PodStateUnknown: Pod state is unknown. Sandbox suspension cannot be confirmed", "", notKnown, twoPods,
			},
		},
		"a live pod beside a terminating one": {
			pods: []func(*corev1.Pod){func(*corev1.Pod) {}, func(p *corev1.Pod) { named("box-2")(p); terminating(p) }},
			want: conditions{notSuspended, "", scheduled, "True/DependenciesReady: Pod is Ready"},
		},
		"suspending": {
			edit: suspendedMode, pods: []func(*corev1.Pod){terminating},
			want: conditions{"False/PodTerminating: Pod is terminating. Sandbox is suspending", "", scheduled, "False/SandboxSuspended: Sandbox is suspending"},
		},
		"suspended": {
			edit: suspendedMode,
			want: conditions{"True/PodTerminated: Pod has been terminated. Sandbox is suspended", "", "", "False/SandboxSuspended: Sandbox is suspended"},
		},
		"suspended while somebody else's pod has the name": {
			edit: suspendedMode, more: func(o *observed) { o.namesake = newPod(o.sandbox, otherOwned) },
			want: conditions{"False/PodNotOwned: Refused to delete pod because it is not owned by this sandbox", "", "", "False/SandboxSuspended: Sandbox is suspending"},
		},
		"somebody else's pod has the name": {
			more: func(o *observed) { o.namesake = newPod(o.sandbox, otherOwned) },
			want: conditions{notSuspended, "", notKnown, failed + `pod "box" is owned by ReplicaSet/web (UID: web-uid), not by sandbox "box"`},
		},
		"nobody's pod has the name": {
			more: func(o *observed) { o.namesake = newPod(o.sandbox, nobodys) },
			want: conditions{notSuspended, "", notKnown, failed + `cannot adopt unowned pod "box": ` + unlabelled},
		},
		"the pod of an earlier Sandbox of the name is on its way out": {
			more: func(o *observed) {
				o.namesake = newPod(o.sandbox, terminating, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "earlier" })
			},
			want: conditions{notSuspended, "", "", "False/DependenciesNotReady: Pod of an earlier Sandbox of this name is terminating"},
		},
		"the pod of an earlier Sandbox of the name is about to go": {
			more: func(o *observed) {
				o.namesake = newPod(o.sandbox, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "earlier" })
			},
			want: conditions{notSuspended, "", "", "False/DependenciesNotReady: Pod of an earlier Sandbox of this name is terminating"},
		},
		"the server refuses the pod": {
			more: func(o *observed) { o.pass.refusals = []refusal{{subject: aboutPod, err: quota}} },
			want: conditions{notSuspended, "", notKnown, failed + `pods "box" is forbidden: exceeded quota: small, used: pods=3`},
		},
		"several problems are all told": {
			edit: withService(true),
			more: func(o *observed) {
				o.pass.refusals = []refusal{
					{subject: aboutVolumes, err: errors.New("no volume")},
					{subject: aboutPod, err: errors.New("no pod")},
					{subject: aboutService, err: errors.New("no service")},
				}
			},
			want: conditions{notSuspended, "", notKnown, failed + "no volume\nno pod\nno service"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox()
			if c.edit != nil {
				c.edit(s)
			}
			seen := seenWith(s)
			for _, edit := range c.pods {
				seen.pods = append(seen.pods, newPod(s, edit))
			}
			if c.more != nil {
				c.more(&seen)
			}
			status := statusOf(seen, verdictsOf(seen, testStart), testStart)
			got := conditions{
				said(condition(status, agents.ConditionSuspended)), said(condition(status, agents.ConditionFinished)),
				said(condition(status, agents.ConditionPodScheduled)), said(condition(status, agents.ConditionReady)),
			}
			if got != c.want {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
			for _, condition := range status.Conditions {
				if condition.ObservedGeneration != s.Generation {
					t.Errorf("%s is of generation %d", condition.Type, condition.ObservedGeneration)
				}
			}
			if status.ObservedGeneration != s.Generation {
				t.Errorf("the status is of generation %d", status.ObservedGeneration)
			}
		})
	}
}

func TestStatusFields(t *testing.T) {
	type fields struct {
		service, fqdn, selector, node string
		ips                           []string
		replicas                      int32
		current, update               bool
	}
	s := newSandbox()
	hash := "agents.x-k8s.io/sandbox-name-hash=" + agents.NameHash("box")
	cases := map[string]struct {
		seen observed
		want fields
	}{
		"a ready pod": {
			seen: seenWith(s, newPod(s)),
			want: fields{selector: hash, node: "node-1", ips: []string{"10.0.0.7"}, replicas: 1, current: true, update: true},
		},
		"a ready pod and a Service": {
			seen: func() observed {
				o := seenWith(s, newPod(s))
				o.service = renderService(s, serviceSelector(s, nil))
				return o
			}(),
			want: fields{service: "box", fqdn: "box.team.svc.cluster.local", selector: hash, node: "node-1", ips: []string{"10.0.0.7"}, replicas: 1, current: true, update: true},
		},
		"a terminating pod has no address for anybody": {
			seen: seenWith(s, newPod(s, terminating)),
			want: fields{selector: hash, update: true},
		},
		"two pods have none either": {
			seen: seenWith(s, newPod(s), newPod(s, named("other"))),
			want: fields{selector: hash, replicas: 1, update: true},
		},
		"an older kind of pod status": {
			seen: seenWith(s, newPod(s, func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = nil, "10.0.0.9" })),
			want: fields{selector: hash, node: "node-1", ips: []string{"10.0.0.9"}, replicas: 1, current: true, update: true},
		},
		"no pod": {seen: seenWith(s), want: fields{update: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := statusOf(c.seen, verdictsOf(c.seen, testStart), testStart)
			if st.Service != c.want.service || st.ServiceFQDN != c.want.fqdn || st.LabelSelector != c.want.selector || st.NodeName != c.want.node ||
				!slices.Equal(st.PodIPs, c.want.ips) || st.Replicas != c.want.replicas ||
				(st.CurrentRevision != "") != c.want.current || (st.UpdateRevision == revision(s)) != c.want.update {
				t.Errorf("got %+v, want %+v", st, c.want)
			}
		})
	}
}

func TestASelectorStaysWhenThePodGoes(t *testing.T) {
	seen := settled(seenWith(newSandbox(), newPod(newSandbox())))
	seen.pods = nil
	if got := statusOf(seen, verdictsOf(seen, testStart), testStart); got.LabelSelector == "" {
		t.Error("the selector is gone")
	}
}

func TestConditionsOfOthersStay(t *testing.T) {
	s := newSandbox(func(s *agents.Sandbox) {
		s.Status.Conditions = []metav1.Condition{{Type: "example.com/Audited", Status: metav1.ConditionTrue, Reason: "Done"}}
	})
	for name, status := range map[string]agents.SandboxStatus{
		"running": statusOf(seenWith(s), verdictsOf(seenWith(s), testStart), testStart),
		"expired": expiredStatus(s, testStart),
	} {
		if meta.FindStatusCondition(status.Conditions, "example.com/Audited") == nil {
			t.Errorf("%s: the condition is gone", name)
		}
	}
}

func TestTheNodeAloneIsNoNews(t *testing.T) {
	s := newSandbox()
	pending := newPod(s, phase(corev1.PodPending), func(p *corev1.Pod) { p.Spec.NodeName = "" })
	seen := settled(seenWith(s, pending))
	placed := pending.DeepCopy()
	placed.Spec.NodeName = "node-1"
	seen.pods = []*corev1.Pod{placed}
	wantStep(t, decide(seen, testStart), rest{})
	placed.Status.Phase = corev1.PodRunning
	got := decide(seen, testStart)
	wantStep(t, got, writeStatus{})
	if got.(writeStatus).patch["status"].(map[string]any)["nodeName"] != "node-1" {
		t.Error("the node is not written with the next news")
	}
}

func TestNothingIsWrittenTwice(t *testing.T) {
	for name, seen := range map[string]observed{
		"ready":       seenWith(newSandbox(), newPod(newSandbox())),
		"suspended":   seenWith(newSandbox(suspendedMode)),
		"terminating": seenWith(newSandbox(), newPod(newSandbox(), terminating)),
		"pooled":      seenWith(newSandbox(inPool), newPod(newSandbox(inPool))),
	} {
		t.Run(name, func(t *testing.T) {
			wantStep(t, decide(settled(seen), testStart.Add(time.Second)), rest{})
		})
	}
}

func TestARefusalIsWrittenOnce(t *testing.T) {
	s := newSandbox()
	refuse := func(text string) observed {
		seen := seenWith(s)
		seen.pass.refusals = []refusal{{subject: aboutPod, err: errors.New(text)}}
		return seen
	}
	seen := settled(refuse("exceeded quota: small, used: pods=3 (request 8a7f-1)"))
	s = seen.sandbox
	wantStep(t, decide(refuse("exceeded quota: small, used: pods=4 (request 11bb-7)"), testStart), retry{})
	wantStep(t, decide(refuse("exceeded quota: large, used: pods=4 (request 11bb-7)"), testStart), writeStatus{})
	// Another spec deserves its own words.
	s.Generation++
	again := refuse("exceeded quota: small, used: pods=4 (request 11bb-7)")
	status := statusOf(again, verdictsOf(again, testStart), testStart)
	if got := readyMessage(status); got != "Error seen: exceeded quota: small, used: pods=4 (request 11bb-7)" {
		t.Errorf("after an edit it says %q", got)
	}
}

func TestWhatIsInvalidIsAskedForSeldom(t *testing.T) {
	again := testStart.Add(control.RefusedAgain)
	soon, late := again.Add(-time.Second), again.Add(time.Second)
	for name, c := range map[string]struct {
		edits []func(*agents.Sandbox)
		want  time.Time
	}{
		"by itself":                     {want: again},
		"before the Sandbox expires":    {edits: []func(*agents.Sandbox){expiresAt(late)}, want: again},
		"not where it expires before":   {edits: []func(*agents.Sandbox){expiresAt(soon)}, want: soon},
		"when it has expired, likewise": {edits: []func(*agents.Sandbox){expiresAt(testStart)}, want: again},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(c.edits...)
			seen := seenWith(s)
			seen.pass.refusals = []refusal{{subject: aboutPod, err: errors.New("no such field"), invalid: true}}
			if expired(s, testStart) {
				seen.pods = []*corev1.Pod{newPod(s)}
				s.Status = expiringStatus(s, testStart)
			} else {
				seen = settled(seen)
			}
			next := decide(seen, testStart)
			wantStep(t, next, rest{})
			if got := next.(rest).until; !got.Equal(c.want) {
				t.Errorf("rests until %s, want %s", got, c.want)
			}
			seen.pass.refusals[0].invalid = false
			wantStep(t, decide(seen, testStart), retry{})
		})
	}
}
