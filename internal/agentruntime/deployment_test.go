// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

func TestADeploymentIsStampedAndReplacesItsPodsItself(t *testing.T) {
	w := newWorld(t)
	web := w.webs.put(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1}})
	w.rollDeployment(web.Name)
	w.runtime("web", func(a *api.AgentRuntime) {
		a.Spec.TargetRef = api.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	})
	w.settle()
	w.expectReady("web", api.ReasonRollingOut)
	if s := w.status("web"); s.ConfiguredPods != 0 || s.RolloutStartTime == nil {
		t.Errorf("the status is %+v", s)
	}
	w.rollDeployment(web.Name)
	w.settle()
	w.expectReady("web", api.ReasonConfigured)
	if countOf(w.writes, "delete") != 0 {
		t.Errorf("pods were deleted: %v", w.writes)
	}
	w.runtimes.expire("web")
	w.settle()
	if d := w.webs.get("web"); w.runtimes.get("web") != nil || len(d.Labels)+len(d.Annotations)+len(d.Spec.Template.Labels)+len(d.Spec.Template.Annotations) > 0 {
		t.Errorf("the Deployment has %v, %v, %v", d.Labels, d.Annotations, d.Spec.Template.ObjectMeta)
	}
}

// rollDeployment plays the Deployment's controller.
func (w *world) rollDeployment(name string) {
	d := w.webs.get(name).DeepCopy()
	d.Status.ObservedGeneration = d.Generation
	d = w.webs.put(d)
	for _, p := range w.pods.all(team) {
		delete(w.pods.objects, client.ObjectKeyFromObject(p))
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: team, Name: fmt.Sprintf("%s-%d", name, d.Generation),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: d.UID, Controller: ptr.To(true)}},
	}}
	set.Spec.Template.ObjectMeta = d.Spec.Template.ObjectMeta
	w.sets.put(set)
	w.pods.put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: set.Name + "-x", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
}
