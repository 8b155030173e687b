// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/template"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func newTemplate(image string) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "python", UID: "template-uid", Generation: 1}}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return t
}

// scene is a pool of three whose template, policy and confirmation are in order.
type scene struct{ observed }

func newScene(strategy extensions.SandboxWarmPoolUpdateStrategyType, members ...*agents.Sandbox) *scene {
	t := newTemplate("new")
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fast", UID: "pool-uid", Generation: 4}}
	pool.Spec.Replicas = ptr.To[int32](3)
	pool.Spec.TemplateRef.Name = t.Name
	pool.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: strategy}
	s := &scene{observed{
		Pool: pool, Template: t, Blueprint: blueprint.Of(t), Policy: template.Policy(t), Members: members,
		Pods: map[types.UID][]*corev1.Pod{}, Options: Options{}.withDefaults(),
	}}
	s.Memory = memory{Pool: pool.UID, Live: -1, Confirmed: s.versions()}
	return s
}

func (s *scene) with(edits ...func(*scene)) *scene {
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// settled gives the pool the status it would write.
func (s *scene) settled() *scene {
	s.Pool.Status = statusOf(s.observed, takeStock(s.observed, now), now)
	return s
}

// member returns a member that was created age ago from a template with that image.
func member(name, image string, age time.Duration, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fast", UID: "pool-uid"}}
	s := blueprint.Member(pool, newTemplate(image), name)
	s.UID, s.Generation, s.CreationTimestamp = types.UID(name), 1, metav1.NewTime(now.Add(-age))
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func condition(name string, status metav1.ConditionStatus, reason string, age time.Duration) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: "said " + reason, LastTransitionTime: metav1.NewTime(now.Add(-age)),
		})
	}
}

var (
	ready    = condition(agents.ConditionReady, metav1.ConditionTrue, agents.ReasonDependenciesReady, time.Hour)
	notReady = notReadyFor(agents.ReasonDependenciesNotReady)
	finished = condition(agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodFailed, 0)
)

func notReadyFor(reason string) func(*agents.Sandbox) {
	return condition(agents.ConditionReady, metav1.ConditionFalse, reason, time.Hour)
}

func dying(s *agents.Sandbox)     { s.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
func suspended(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }

func replicas(n int32) func(*scene) {
	return func(s *scene) { s.Pool.Spec.Replicas = &n }
}

func readyMembers(n int, image string) []*agents.Sandbox {
	var list []*agents.Sandbox
	for i := range n {
		list = append(list, member(fmt.Sprintf("m%d", i), image, time.Hour-time.Duration(i)*time.Minute, ready))
	}
	return list
}

const (
	onReplenish = extensions.WarmPoolOnReplenish
	recreate    = extensions.WarmPoolRecreate
	rolling     = extensions.WarmPoolRollingUpdate
)

func binding(claims int) func(*scene) { return func(s *scene) { s.Binding = claims } }

func pods(of string, list ...corev1.Pod) func(*scene) {
	return func(s *scene) {
		for _, pod := range list {
			s.Pods[types.UID(of)] = append(s.Pods[types.UID(of)], &pod)
		}
	}
}

// came is a pod that runs and has had a condition for so long.
func came(to corev1.PodConditionType, ago time.Duration) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: to, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago))},
	}}}
}

// started is a pod whose container has run for so long, after so many restarts.
func started(restarts int32, ago time.Duration) corev1.Pod {
	pod := came(corev1.PodScheduled, time.Hour)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: restarts, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-ago))},
	}}}
	return pod
}

func unschedulable() corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"},
	}}}
}

func refusedCreates(count int, ago time.Duration) func(*scene) {
	return func(s *scene) {
		s.Memory.Creates = refusal{Reason: extensions.ReasonCreateRefused, Message: "quota", Count: count, At: now.Add(-ago), Of: s.versions(), Limit: 1}
	}
}
