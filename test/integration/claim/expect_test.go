// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// merge writes a merge patch, as a user would.
func (w *world) merge(obj client.Object, patch map[string]any) {
	w.Helper()
	body, err := json.Marshal(patch)
	w.must(err)
	w.must(w.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, body)))
}

// spec is a merge patch of a spec.
func spec(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }

// lifecycle is a merge patch of a claim's lifecycle.
func lifecycle(fields map[string]any) map[string]any {
	return spec(map[string]any{"lifecycle": fields})
}

// says checks a condition to the letter: clients compare these.
func (w *world) says(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) {
	w.Helper()
	c := findCondition(conditions, kind)
	if c == nil {
		w.Errorf("there is no condition %s", kind)
		return
	}
	if c.Status != status || c.Reason != reason || c.Message != message {
		w.Errorf("%s is %s, %s: %q; want %s, %s: %q", kind, c.Status, c.Reason, c.Message, status, reason, message)
	}
}

// event waits for an event about an object.
func (w *world) event(about, kind, reason, note string) {
	w.Helper()
	await(w, &corev1.EventList{}, fmt.Sprintf("the event %s %q about %s", reason, note, about), func(e *corev1.Event) bool {
		return e.InvolvedObject.Name == about && e.Type == kind && e.Reason == reason && e.Message == note
	})
}

// sandbox reads a Sandbox.
func (w *world) sandbox(name string) *agents.Sandbox {
	w.Helper()
	s := &agents.Sandbox{}
	w.must(w.Get(w.Context(), w.key(name), s))
	return s
}

// pod reads a pod.
func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(w.Get(w.Context(), w.key(name), pod))
	return pod
}

// named is an object that has but its name, to be deleted, patched or waited for.
func (w *world) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// sandboxesOf are the names of the Sandboxes that an object controls, terminating ones
// included.
func (w *world) sandboxesOf(uid types.UID) []string {
	w.Helper()
	var own []string
	for _, s := range w.sandboxes() {
		if control.IsControlledBy(&s, uid) {
			own = append(own, s.Name)
		}
	}
	return own
}

// pass waits for a pass of the claim that began after the call.
func (w *world) pass(claim string, n int) {
	w.Helper()
	before := w.passes.of(w.key(claim))
	w.merge(&extensions.SandboxClaim{ObjectMeta: w.named(claim)}, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"poke": fmt.Sprint(n)}},
	})
	w.eventually("a pass of claim "+claim, func() bool { return w.passes.of(w.key(claim)) > before })
}

// reasonOf is the reason of the claim's Ready condition, if it has one.
func reasonOf(c *extensions.SandboxClaim) string {
	if ready := findCondition(c.Status.Conditions, agents.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// requests are all that the controllers made while during ran.
func (w *world) requests(during func()) []localcluster.Request {
	w.Helper()
	var all []localcluster.Request
	for _, controller := range []string{"claim", "sandbox", "warmpool", "template"} {
		inner := during
		during = func() { all = append(all, w.manager.Requests(w.T, controller, inner)...) }
	}
	during()
	return all
}

// writes counts what the controllers wrote while during ran.
func (w *world) writes(during func()) map[string]int {
	w.Helper()
	return clustertest.Writes(w.requests(during))
}

// untouched runs during and checks that meanwhile no controller made a request about
// any of the named objects.
func (w *world) untouched(during func(), objects ...string) {
	w.Helper()
	for _, r := range w.requests(during) {
		if r.Namespace == w.namespace && slices.Contains(objects, r.Name) {
			w.Errorf("a request while there was nothing to do: %s", r)
		}
	}
}

// unfilled makes a pool without waiting for its members.
func (w *world) unfilled(name, template string, replicas int32) *extensions.SandboxWarmPool {
	w.Helper()
	p := &extensions.SandboxWarmPool{
		ObjectMeta: w.named(name),
		Spec:       extensions.SandboxWarmPoolSpec{Replicas: ptr.To(replicas), TemplateRef: extensions.SandboxTemplateRef{Name: template}},
	}
	w.must(w.Create(w.Context(), p))
	return p
}

// pending lets a template's pods stay Pending.
func pending(t *extensions.SandboxTemplate) {
	annotate(t, localcluster.FakeOutcome, localcluster.OutcomePending)
}

// annotate puts an annotation on a template's pods.
func annotate(t *extensions.SandboxTemplate, key, value string) {
	if t.Spec.PodTemplate.Metadata.Annotations == nil {
		t.Spec.PodTemplate.Metadata.Annotations = map[string]string{}
	}
	t.Spec.PodTemplate.Metadata.Annotations[key] = value
}

// podAnnotations is a merge patch of the annotations of a Sandbox's or a template's pod.
func podAnnotations(annotations map[string]any) map[string]any {
	return spec(map[string]any{"podTemplate": map[string]any{"metadata": map[string]any{"annotations": annotations}}})
}

// storageClass of the volumes that tests make. There is no such StorageClass, so that
// only those are given to claims for it.
func (w *world) storageClass() *string { return ptr.To(w.namespace) }

// volume makes a volume that volumeClaims of the same name are bound to.
func (w *world) volume(name string) {
	w.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName:       *w.storageClass(),
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
	}
	w.must(w.Create(w.Context(), v))
	w.Cleanup(func() { _ = w.Delete(context.Background(), v) })
}

// volumeClaims ask for the volume of that name, as "data".
func (w *world) volumeClaims(volume string) []agents.PersistentVolumeClaimTemplate {
	t := agents.PersistentVolumeClaimTemplate{}
	t.Metadata.Name = "data"
	t.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: w.storageClass(), VolumeName: w.namespace + "-" + volume,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	return []agents.PersistentVolumeClaimTemplate{t}
}

func inNamespace(w *world) client.ListOption { return client.InNamespace(w.namespace) }
