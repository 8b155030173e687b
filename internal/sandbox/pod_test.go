// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestOnePodPerSandbox(t *testing.T) {
	adoptableBy := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { nobodys(p); p.Labels = map[string]string{key: value} }
	}
	cases := map[string]struct {
		edit     func(*agents.Sandbox)
		pods     []func(*corev1.Pod)
		namesake func(*corev1.Pod)
		refused  bool
		want     step
	}{
		"a pod is made where there is none":                     {want: createPod{}},
		"none is made for a suspended Sandbox":                  {edit: suspendedMode},
		"none is made where replicas is 0":                      {edit: func(s *agents.Sandbox) { s.Spec.Replicas = ptr.To[int32](0) }},
		"none is made while one is terminating":                 {pods: []func(*corev1.Pod){terminating}},
		"none is made where a terminating one has another name": {pods: []func(*corev1.Pod){func(p *corev1.Pod) { named("old")(p); terminating(p) }}},
		"none is made again when it was refused":                {refused: true},
		"a pod that is there stays":                             {pods: []func(*corev1.Pod){func(*corev1.Pod) {}}},
		"a pod of another name is as good": {
			edit: func(s *agents.Sandbox) { s.Annotations[agents.AnnotationPodName] = "old" }, pods: []func(*corev1.Pod){named("old")},
		},
		"a finished pod stays":                       {pods: []func(*corev1.Pod){phase(corev1.PodSucceeded)}},
		"a failed pod stays":                         {pods: []func(*corev1.Pod){phase(corev1.PodFailed)}},
		"of two pods none is deleted":                {pods: []func(*corev1.Pod){func(*corev1.Pod) {}, named("other")}},
		"of two pods of a suspended Sandbox neither": {edit: suspendedMode, pods: []func(*corev1.Pod){func(*corev1.Pod) {}, named("other")}},
		"a terminating pod beside a live one is no second": {
			edit: suspendedMode, pods: []func(*corev1.Pod){func(*corev1.Pod) {}, func(p *corev1.Pod) { named("other")(p); terminating(p) }},
			want: deletePods{},
		},
		"suspending deletes the pod": {edit: suspendedMode, pods: []func(*corev1.Pod){func(*corev1.Pod) {}}, want: deletePods{}},
		"replicas 0 deletes the pod": {
			edit: func(s *agents.Sandbox) { s.Spec.Replicas = ptr.To[int32](0) }, pods: []func(*corev1.Pod){func(*corev1.Pod) {}}, want: deletePods{},
		},
		"a terminating pod is not deleted again":   {edit: suspendedMode, pods: []func(*corev1.Pod){terminating}},
		"suspending leaves another's pod":          {edit: suspendedMode, namesake: otherOwned},
		"suspending leaves a pod it might take":    {edit: suspendedMode, namesake: adoptableBy(agents.LabelAdoptable, "true")},
		"another's pod is left alone":              {namesake: otherOwned},
		"another's pod with our label is too":      {namesake: func(p *corev1.Pod) { otherOwned(p); p.Labels[agents.LabelAdoptable] = "true" }},
		"nobody's pod is left alone":               {namesake: nobodys},
		"a pod that asks for it is taken over":     {namesake: adoptableBy(agents.LabelAdoptable, "true"), want: adoptPod{}},
		"only the value true asks for it":          {namesake: adoptableBy(agents.LabelAdoptable, "yes")},
		"a pod with the name's hash is taken over": {namesake: adoptableBy(agents.LabelSandboxNameHash, agents.NameHash("box")), want: adoptPod{}},
		"one with another hash is not":             {namesake: adoptableBy(agents.LabelSandboxNameHash, agents.NameHash("bax"))},
		"a terminating pod is never taken over":    {namesake: func(p *corev1.Pod) { adoptableBy(agents.LabelAdoptable, "true")(p); terminating(p) }},
		"no second pod is taken over": {
			pods: []func(*corev1.Pod){named("old")}, namesake: adoptableBy(agents.LabelAdoptable, "true"), want: namePod{},
		},
		"nor while one is terminating": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { named("old")(p); terminating(p) }}, namesake: adoptableBy(agents.LabelAdoptable, "true"),
		},
		"a forged name is set right and nothing else": {
			edit: func(s *agents.Sandbox) { s.Annotations[agents.AnnotationPodName] = "forged" }, pods: []func(*corev1.Pod){func(*corev1.Pod) {}},
			want: namePod{},
		},
		"a name that was removed is written again": {
			edit: func(s *agents.Sandbox) { s.Annotations = map[string]string{} }, pods: []func(*corev1.Pod){func(*corev1.Pod) {}}, want: namePod{},
		},
		"a name is not cleared without a pod":               {edit: func(s *agents.Sandbox) { suspendedMode(s); s.Annotations[agents.AnnotationPodName] = "gone" }},
		"a forged name does not keep a pod from being made": {edit: func(s *agents.Sandbox) { s.Annotations[agents.AnnotationPodName] = "forged" }, want: createPod{}},
		"a pod without the UID label gets it": {
			pods: []func(*corev1.Pod){func(p *corev1.Pod) { delete(p.Labels, agents.LabelSandboxUID) }}, want: syncPod{},
		},
		"a terminating pod gets nothing": {pods: []func(*corev1.Pod){func(p *corev1.Pod) { p.Labels = nil; terminating(p) }}},
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
			if c.namesake != nil {
				seen.namesake = newPod(s, c.namesake)
			}
			if c.refused {
				seen.pass.refusals = []refusal{{subject: aboutPod, err: errors.New("no")}}
			}
			wantStep(t, decidePod(seen, testStart).next, c.want)
		})
	}
}

func TestTakingOverAPodIsOnePatch(t *testing.T) {
	s := newSandbox()
	seen := seenWith(s)
	seen.namesake = newPod(s, func(p *corev1.Pod) {
		p.Labels = map[string]string{agents.LabelAdoptable: "true", "own": "1"}
		p.Annotations = nil
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "o", UID: "o"}}
	})
	metadata := decidePod(seen, testStart).next.(adoptPod).patch["metadata"].(map[string]any)
	owners := metadata["ownerReferences"].([]metav1.OwnerReference)
	if len(owners) != 2 || owners[0].Name != "o" || owners[1].UID != s.UID || owners[1].APIVersion != "agents.x-k8s.io/v1beta1" ||
		!*owners[1].Controller || !*owners[1].BlockOwnerDeletion {
		t.Errorf("owners are %+v", owners)
	}
	labels := metadata["labels"].(map[string]any)
	if labels[agents.LabelSandboxUID] != string(s.UID) || labels["team"] != "a" {
		t.Errorf("labels are %v", labels)
	}
	if _, touched := labels["own"]; touched {
		t.Error("the pod's own label is touched")
	}
	if _, claimed := metadata["annotations"].(map[string]any)[agents.AnnotationTemplateRevision]; claimed {
		t.Error("a pod that was not made from the template has its revision")
	}
}

func TestAStuckPodIsSaidOnce(t *testing.T) {
	seen := settled(seenWith(newSandbox(), newPod(newSandbox(), terminating)))
	got := decide(seen, testStart)
	wantStep(t, got, rest{})
	late := testStart.Add(stuckAfter)
	if until := got.(rest).until; !until.Equal(late) {
		t.Errorf("rests until %s, want %s", until, late)
	}
	wantStep(t, decide(seen, late.Add(-time.Second)), rest{})
	wantStep(t, decide(seen, late), writeStatus{})
}

func TestSuspensionIsProvedBeforeItIsTold(t *testing.T) {
	seen := seenWith(newSandbox(suspendedMode))
	wantStep(t, decide(seen, testStart), confirmPodGone{})
	seen.pass.podGone = true
	wantStep(t, decide(seen, testStart), writeStatus{})
	seen = settled(seen)
	seen.pass.podGone = false
	wantStep(t, decide(seen, testStart), rest{})
}

func TestTwoPodsAreOneEvent(t *testing.T) {
	s := newSandbox()
	seen := seenWith(s, newPod(s), newPod(s, named("other")))
	events := decide(seen, testStart).(writeStatus).events
	if len(events) != 1 || events[0].reason != agents.ReasonMultiplePods {
		t.Fatalf("events are %v", events)
	}
	seen = settled(seen)
	seen.pods = append(seen.pods, newPod(s, named("third")))
	if events := decide(seen, testStart).(writeStatus).events; len(events) != 0 {
		t.Errorf("a third pod is told again: %v", events)
	}
}

func TestADeletedSandboxIsLeftAlone(t *testing.T) {
	at := metav1.NewTime(testStart)
	s := newSandbox(func(s *agents.Sandbox) { s.DeletionTimestamp, s.Spec.ShutdownTime = &at, &at })
	wantStep(t, decide(seenWith(s, newPod(s)), testStart), rest{})
}

func TestPartsAreBroughtAboutInOrder(t *testing.T) {
	s := newSandbox(withService(true), func(s *agents.Sandbox) {
		s.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{Metadata: agents.EmbeddedObjectMetadata{Name: "work"}}}
	})
	seen := seenWith(s)
	wantStep(t, decide(seen, testStart), createVolumeClaims{})
	seen.pass.refusals = []refusal{{subject: aboutVolumes, err: errors.New("no")}}
	wantStep(t, decide(seen, testStart), createPod{})
	seen.pods = []*corev1.Pod{newPod(s)}
	wantStep(t, decide(seen, testStart), createService{})
	seen.service = renderService(s, serviceSelector(s, nil))
	wantStep(t, decide(seen, testStart), writeStatus{})
}

func TestEveryStepSaysItself(t *testing.T) {
	s := newSandbox()
	pod := newPod(s)
	all := []step{
		rest{why: "a"}, rest{why: "a", until: testStart}, retry{errors.New("b")}, createVolumeClaims{}, adoptVolumeClaims{},
		createPod{pod}, adoptPod{pod: pod}, syncPod{pod: pod}, deletePods{pods: []*corev1.Pod{pod}}, namePod{"box"},
		createService{renderService(s, nil)}, patchService{service: renderService(s, nil)}, deleteService{renderService(s, nil)},
		confirmPodGone{}, readPod{pod}, writeStatus{}, deleteSandbox{},
	}
	var sentences []string
	for _, one := range all {
		if slices.Contains(sentences, one.String()) || one.String() == "" {
			t.Errorf("%T says %q", one, one)
		}
		sentences = append(sentences, one.String())
	}
}
