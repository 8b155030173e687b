// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/template"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func newClaim(edits ...func(*extensions.SandboxClaim)) *extensions.SandboxClaim {
	c := &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "task", UID: "claim-uid", Generation: 3, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec:       extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// boundAs binds the claim to a Sandbox, the way reason says.
func boundAs(name string, uid types.UID, reason string) func(*extensions.SandboxClaim) {
	return func(c *extensions.SandboxClaim) {
		c.Status.Sandbox = extensions.ClaimedSandbox{Name: name, UID: uid}
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: extensions.ConditionBound, Status: metav1.ConditionTrue, Reason: reason})
	}
}

func expiredSince(policy extensions.ClaimShutdownPolicy, marked bool) func(*extensions.SandboxClaim) {
	return func(c *extensions.SandboxClaim) {
		c.Spec.Lifecycle = &extensions.ClaimLifecycle{ShutdownTime: ptr.To(metav1.NewTime(now.Add(-time.Second))), ShutdownPolicy: policy}
		if marked {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
				Type: agents.ConditionReady, Status: metav1.ConditionFalse, Reason: extensions.ReasonClaimExpired,
				Message: extensions.MessageClaimExpired, ObservedGeneration: 3,
			})
		}
	}
}

func newSandbox(name string, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7", OwnerReferences: []metav1.OwnerReference{controllerRef("SandboxClaim", "claim-uid")}},
		Status: agents.SandboxStatus{
			PodIPs:     []string{"10.0.0.1"},
			Conditions: []metav1.Condition{{Type: agents.ConditionReady, Status: metav1.ConditionTrue, Reason: agents.ReasonDependenciesReady, Message: agents.MessagePodReady, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}},
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func controllerRef(kind string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: extensions.GroupVersion.String(), Kind: kind, Name: "x", UID: uid, Controller: ptr.To(true)}
}

func ownedBy(kind string, uid types.UID) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) { s.OwnerReferences = []metav1.OwnerReference{controllerRef(kind, uid)} }
}

func terminating(s *agents.Sandbox) { s.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }

func newTemplate() *extensions.SandboxTemplate {
	return &extensions.SandboxTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "python", UID: "template-uid"},
		Spec: extensions.SandboxTemplateSpec{SandboxBlueprint: agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
		}}},
	}
}

func fromPool() source {
	return source{
		PoolName: "python", Pool: &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "python", UID: "pool-uid"}},
		TemplateName: "python", Template: newTemplate(),
	}
}

func currentPolicy() *networkingv1.NetworkPolicy { return template.Policy(newTemplate()) }
