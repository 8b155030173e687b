// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestWhatAChangeOfTheTemplateDoes(t *testing.T) {
	both := func(edits ...func(*agents.Sandbox)) func(*agents.Sandbox) {
		return func(s *agents.Sandbox) {
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	claimed := func(s *agents.Sandbox) {
		s.Spec.PodTemplate.Metadata.Labels["job"] = "7"
		s.Annotations[agents.AnnotationClaimMetadata] = `{"labels":{"job":"7"}}`
	}
	unrecorded := func(p *corev1.Pod) { delete(p.Annotations, agents.AnnotationTemplateRevision) }
	otherBuild := func(p *corev1.Pod) {
		p.Annotations[agents.AnnotationTemplateRevision] = "v0-00000000000000000000000000000000"
	}
	cases := map[string]struct {
		edit func(*agents.Sandbox) // after the pod was made
		pod  func(*corev1.Pod)
		want step
	}{
		"nothing changed":                              {},
		"a new spec waits for the pod's end":           {edit: newImage},
		"new metadata is applied to the pod":           {edit: newNote, want: syncPod{}},
		"Recreate replaces the pod for a new spec":     {edit: both(recreate, newImage), want: deletePods{}},
		"Recreate replaces the pod for an annotation":  {edit: both(recreate, newNote), want: deletePods{}},
		"Recreate leaves a pod of the template alone":  {edit: recreate},
		"Recreate leaves what a claim put there alone": {edit: both(recreate, claimed), want: syncPod{}},
		"Recreate leaves system keys alone": {
			edit: both(recreate, func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata.Labels[agents.LabelWarmPool] = "x" }),
		},
		"Recreate is the pool's business in a pool":        {edit: both(inPool, recreate, newImage), want: syncPod{}},
		"Recreate is the Sandbox's business in a claim":    {edit: both(inClaim, recreate, newImage), want: deletePods{}},
		"a pod that says nothing is never replaced":        {edit: both(recreate, newImage), pod: unrecorded},
		"nor is one that another build made":               {edit: both(recreate, newImage), pod: otherBuild},
		"metadata is applied even so":                      {edit: both(recreate, newNote), pod: unrecorded, want: syncPod{}},
		"a suspended Sandbox's pod goes for another cause": {edit: both(suspendedMode, recreate, newImage), pod: terminating},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox()
			pod := newPod(s)
			if c.edit != nil {
				c.edit(s)
			}
			if c.pod != nil {
				c.pod(pod)
			}
			wantStep(t, decidePod(seenWith(s, pod), testStart).next, c.want)
		})
	}
}

// outdatedAfter is the PodOutdated condition after a template was edited and the
// controller came to rest.
func outdatedAfter(t *testing.T, seen observed) string {
	t.Helper()
	status := statusOf(seen, verdictsOf(seen, testStart), testStart)
	return said(condition(status, agents.ConditionPodOutdated))
}

func TestPodOutdated(t *testing.T) {
	s := newSandbox()
	pod := newPod(s)
	seen := settled(seenWith(s, pod))
	s = seen.sandbox
	if got := outdatedAfter(t, seen); got != "" {
		t.Fatalf("a Sandbox without drift says %q", got)
	}

	newImage(s)
	wantStep(t, decide(seen, testStart), readPod{})
	seen.pass.asked = true
	if got, want := outdatedAfter(t, seen), "True/SpecChanged: The running Pod differs from podTemplate in spec; it stays as it is until it is deleted"; got != want {
		t.Errorf("without the pod it says %q, want %q", got, want)
	}
	seen.pass.wholePod = newPod(s)
	seen.pass.wholePod.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}}
	const want = "True/SpecChanged: The running Pod differs from podTemplate in spec.containers[main].image; it stays as it is until it is deleted"
	if got := outdatedAfter(t, seen); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}

	seen = settled(seen)
	s, seen.pass = seen.sandbox, pass{}
	wantStep(t, decide(seen, testStart), rest{})
	if got := outdatedAfter(t, seen); got != want {
		t.Errorf("another pass says %q, want %q", got, want)
	}

	s.Spec.PodTemplate.Spec.Containers[0].Image = "busybox:1.38"
	wantStep(t, decide(seen, testStart), readPod{})

	s.Spec.PodTemplate.Spec.Containers[0].Image = "busybox:1.36"
	if got, want := outdatedAfter(t, seen), "False/UpToDate: Pod is of the current podTemplate"; got != want {
		t.Errorf("after the edit was taken back it says %q, want %q", got, want)
	}

	newImage(s)
	seen.pods = nil
	if got, want := outdatedAfter(t, seen), "False/UpToDate: The next Pod will be of the current podTemplate"; got != want {
		t.Errorf("without a pod it says %q, want %q", got, want)
	}
}

func TestPodOutdatedByMetadata(t *testing.T) {
	s := newSandbox()
	seen := settled(seenWith(s, newPod(s)))
	s = seen.sandbox
	newNote(s)
	next := decide(seen, testStart)
	wantStep(t, next, syncPod{})
	seen.pass.changed = next.(syncPod).changed
	seen.pods[0] = newPod(s, func(p *corev1.Pod) {
		p.Annotations[agents.AnnotationTemplateRevision] = revision(newSandbox())
	})
	const want = "True/MetadataAppliedInPlace: metadata.annotations[note] changed on the running Pod, whose processes may not have noticed"
	if got := outdatedAfter(t, seen); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	seen = settled(seen)
	seen.pass = pass{}
	wantStep(t, decide(seen, testStart), rest{})
	if got := condition(seen.sandbox.Status, agents.ConditionReady).Status; got != metav1.ConditionTrue {
		t.Errorf("Ready is %s", got)
	}
	if st := seen.sandbox.Status; st.CurrentRevision == st.UpdateRevision || st.CurrentRevision != revision(newSandbox()) {
		t.Errorf("revisions are %s and %s", st.CurrentRevision, st.UpdateRevision)
	}
}

func TestAPodThatSaysNothingIsNotOutdated(t *testing.T) {
	s := newSandbox()
	seen := settled(seenWith(s, newPod(s, func(p *corev1.Pod) { delete(p.Annotations, agents.AnnotationTemplateRevision) })))
	newImage(seen.sandbox)
	status := statusOf(seen, verdictsOf(seen, testStart), testStart)
	if status.CurrentRevision != status.UpdateRevision || said(condition(status, agents.ConditionPodOutdated)) != "" {
		t.Errorf("status is %+v", status)
	}
}
