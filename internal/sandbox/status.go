// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// statusOf is the status that says what was observed and decided. Conditions of other
// writers stay.
func statusOf(seen observed, v verdicts, now time.Time) agents.SandboxStatus {
	s, pod := seen.sandbox, v.pod.current
	next := *s.Status.DeepCopy()
	next.ObservedGeneration = s.Generation
	if len(seen.pods) > 0 {
		next.LabelSelector = agents.LabelSandboxNameHash + "=" + agents.NameHash(s.Name)
	}
	next.Replicas = int32(min(len(v.pod.live), 1))
	next.PodIPs, next.NodeName, next.CurrentRevision = nil, "", ""
	if pod != nil {
		next.PodIPs, next.NodeName = podIPs(pod), pod.Spec.NodeName
		next.CurrentRevision = v.pod.drift.current
	}
	if next.UpdateRevision = v.pod.drift.update; next.UpdateRevision == "" {
		next.UpdateRevision = revision(s)
	}
	next.PodFailures = v.pod.failures
	next.Service, next.ServiceFQDN = "", ""
	if v.service.exists {
		next.Service = s.Name
		next.ServiceFQDN = fmt.Sprintf("%s.%s.svc.%s", s.Name, s.Namespace, seen.settings.clusterDomain)
	}

	c := conditions{list: next.Conditions, generation: s.Generation, now: now}
	c.set(suspendedCondition(s, v.pod))
	c.setOrRemove(agents.ConditionFinished, finishedCondition(s, pod))
	c.setOrRemove(agents.ConditionPodScheduled, scheduledCondition(v.pod))
	c.setOrRemove(agents.ConditionPodOutdated, outdatedCondition(seen, v.pod))
	c.set(readyCondition(s, v, c.find(agents.ConditionReady)))
	next.Conditions = c.list

	// Where a pod is interests clients once it is Ready; until then it waits for the
	// next thing worth a write.
	if !isTrueIn(next, agents.ConditionReady) {
		withOldNode := next
		withOldNode.NodeName = s.Status.NodeName
		if statusStep(s, withOldNode) == nil {
			return withOldNode
		}
	}
	return next
}

func podIPs(pod *corev1.Pod) []string {
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		if ip.IP != "" {
			ips = append(ips, ip.IP)
		}
	}
	if len(ips) == 0 && pod.Status.PodIP != "" {
		ips = []string{pod.Status.PodIP}
	}
	return ips
}

func suspendedCondition(s *agents.Sandbox, pod podVerdict) *metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return newCondition(agents.ConditionSuspended, status, reason, message)
	}
	switch {
	case s.Running():
		return is(metav1.ConditionFalse, agents.ReasonNotSuspended, agents.MessageNotSuspended)
	case pod.multiple():
		return is(metav1.ConditionUnknown, agents.ReasonPodStateUnknown, agents.MessagePodStateUnknown)
	case pod.current != nil || pod.dying != nil:
		return is(metav1.ConditionFalse, agents.ReasonPodTerminating, agents.MessagePodTerminating)
	case pod.problem != "":
		return is(metav1.ConditionUnknown, agents.ReasonPodStateUnknown, agents.MessagePodStateUnknown)
	case pod.namesake:
		return is(metav1.ConditionFalse, agents.ReasonPodNotOwned, agents.MessagePodNotOwned)
	default:
		return is(metav1.ConditionTrue, agents.ReasonPodTerminated, agents.MessagePodTerminated)
	}
}

// finishedCondition is there only for a pod that ended and stays.
func finishedCondition(s *agents.Sandbox, pod *corev1.Pod) *metav1.Condition {
	switch {
	case pod == nil:
		return nil
	case pod.Status.Phase == corev1.PodSucceeded:
		return newCondition(agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodSucceeded, agents.MessagePodSucceeded)
	case pod.Status.Phase == corev1.PodFailed && !s.ReplacesFailedPods():
		return newCondition(agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodFailed, agents.MessagePodFailed)
	default:
		return nil
	}
}

// scheduledCondition is the pod's own, also of one on its way out.
func scheduledCondition(v podVerdict) *metav1.Condition {
	unknown := func(message string) *metav1.Condition {
		return newCondition(agents.ConditionPodScheduled, metav1.ConditionUnknown, agents.ReasonPodSchedulingUnknown, message)
	}
	pod := v.current
	if pod == nil && !v.multiple() {
		pod = v.dying
	}
	if pod == nil {
		if v.problem != "" {
			return unknown(agents.MessageSchedulingUnknown)
		}
		return nil
	}
	own := podCondition(pod, corev1.PodScheduled)
	if own == nil {
		return unknown(agents.MessageSchedulingNotReported)
	}
	return podsOwn(own)
}

// podsOwn is a condition of a pod as one of the Sandbox, of which more is asked: the
// server refuses a status whose reason is not one word, or that is neither true nor
// false nor unknown.
func podsOwn(c *corev1.PodCondition) *metav1.Condition {
	status, reason, message := metav1.ConditionStatus(c.Status), c.Reason, c.Message
	if status != metav1.ConditionTrue && status != metav1.ConditionFalse {
		status = metav1.ConditionUnknown
	}
	switch {
	case reason != "" && control.IsReason(reason):
	case reason != "":
		reason, message = agents.ReasonPodSchedulingUnknown, reason+": "+message
	case status == metav1.ConditionTrue:
		reason = agents.ReasonPodScheduled
	default:
		reason = agents.ReasonPodSchedulingUnknown
	}
	return newCondition(agents.ConditionPodScheduled, status, reason, message)
}

func readyCondition(s *agents.Sandbox, v verdicts, old *metav1.Condition) *metav1.Condition {
	no := func(reason, message string) *metav1.Condition {
		return newCondition(agents.ConditionReady, metav1.ConditionFalse, reason, message)
	}
	pod := v.pod.current
	problems := v.problems()
	switch {
	case v.pod.multiple():
		return no(agents.ReasonMultiplePods, v.pod.problem)
	case len(problems) > 0:
		return no(agents.ReasonReconcilerError, errorMessage(s, problems, old))
	case !s.Running() && v.pod.isGone():
		return no(agents.ReasonSandboxSuspended, agents.MessageSandboxSuspended)
	case !s.Running():
		return no(agents.ReasonSandboxSuspended, agents.MessageSandboxSuspending)
	case pod != nil && pod.Status.Phase == corev1.PodSucceeded:
		return no(agents.ReasonPodSucceeded, agents.MessagePodSucceeded)
	case pod != nil && pod.Status.Phase == corev1.PodFailed:
		return no(agents.ReasonPodFailed, agents.MessagePodFailed)
	}
	return dependenciesCondition(v)
}

// errorMessage tells of problems, in the words that the status already has for them if
// it has any.
func errorMessage(s *agents.Sandbox, problems []string, old *metav1.Condition) string {
	message := control.Message(fmt.Sprintf(agents.MessageErrorFormat, strings.Join(problems, "\n")))
	if old != nil && old.Reason == agents.ReasonReconcilerError && old.ObservedGeneration == s.Generation && sameButForNumbers(old.Message, message) {
		return old.Message
	}
	return message
}

// dependenciesCondition is Ready by what the Sandbox needs: its pod, and its Service
// where one is required.
func dependenciesCondition(v verdicts) *metav1.Condition {
	message, ready := podReadiness(v.pod)
	switch {
	case v.service.required && v.service.exists:
		message += agents.MessageServiceExistsSuffix
	case v.service.required:
		message += agents.MessageServiceMissingSuffix
		ready = false
	}
	if ready {
		return newCondition(agents.ConditionReady, metav1.ConditionTrue, agents.ReasonDependenciesReady, message)
	}
	return newCondition(agents.ConditionReady, metav1.ConditionFalse, agents.ReasonDependenciesNotReady, message)
}

// podReadiness says how far the pod is.
func podReadiness(v podVerdict) (message string, ready bool) {
	pod := v.current
	if pod == nil {
		if v.waiting != "" {
			return v.waiting, false
		}
		return agents.MessagePodMissing, false
	}
	if pod.Status.Phase != corev1.PodRunning {
		return fmt.Sprintf(agents.MessagePodPhaseFormat, pod.Status.Phase), false
	}
	if c := podCondition(pod, corev1.PodReady); c == nil || c.Status != corev1.ConditionTrue {
		return agents.MessagePodNotReady, false
	}
	if len(podIPs(pod)) == 0 {
		return agents.MessagePodWithoutIP, false
	}
	return agents.MessagePodReady, true
}

// wordsWithDigits are what differs between two refusals for the same cause: how much of
// a quota is used, the identity of a request.
var wordsWithDigits = regexp.MustCompile(`\w*\d[\w.]*`)

// sameButForNumbers reports whether two messages say the same, so that a refusal that
// is repeated is not written down again and again.
func sameButForNumbers(a, b string) bool {
	return wordsWithDigits.ReplaceAllString(a, "#") == wordsWithDigits.ReplaceAllString(b, "#")
}

// conditions is a list of conditions as a status writer changes it.
type conditions struct {
	list       []metav1.Condition
	generation int64
	now        time.Time
}

func (c *conditions) find(kind string) *metav1.Condition {
	return meta.FindStatusCondition(c.list, kind)
}

// set adds or changes a condition; nil changes nothing.
func (c *conditions) set(to *metav1.Condition) {
	if to == nil {
		return
	}
	next := *to
	next.Message = control.Message(next.Message)
	next.ObservedGeneration = c.generation
	next.LastTransitionTime = metav1.NewTime(c.now).Rfc3339Copy()
	meta.SetStatusCondition(&c.list, next)
}

func (c *conditions) setOrRemove(kind string, to *metav1.Condition) {
	if to == nil {
		meta.RemoveStatusCondition(&c.list, kind)
		return
	}
	c.set(to)
}

func newCondition(kind string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// condition is the condition of the given type, or an empty one.
func condition(s agents.SandboxStatus, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func isTrueIn(s agents.SandboxStatus, kind string) bool {
	return condition(s, kind).Status == metav1.ConditionTrue
}

func isTrue(s *agents.Sandbox, kind string) bool { return isTrueIn(s.Status, kind) }

func readyMessage(s agents.SandboxStatus) string { return condition(s, agents.ConditionReady).Message }
