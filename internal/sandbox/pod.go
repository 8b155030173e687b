// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// stuckAfter is how long past its grace period a pod may stay before that is said.
const stuckAfter = 30 * time.Second

// podVerdict is what is to be done about the pod, and what there is of it.
type podVerdict struct {
	next step
	// problem is why the pod is not known or cannot be had.
	problem string
	// live are the owned pods that are not terminating.
	live []*corev1.Pod
	// current is the one that backs the Sandbox. A terminating pod never does.
	current *corev1.Pod
	// dying is an owned pod that is terminating.
	dying *corev1.Pod
	// namesake: a pod that is not the Sandbox's has its name.
	namesake bool
	// waiting is the message for why there is no pod yet.
	waiting string

	drift    drift
	failures *agents.PodFailures
	// until is when time alone changes the verdict, and why says what is waited for.
	until time.Time
	why   string
}

// isGone reports whether nothing is left of the pod, as far as the view shows.
func (v podVerdict) isGone() bool {
	return len(v.live) == 0 && v.dying == nil && !v.namesake && v.problem == ""
}

// multiple reports whether the Sandbox has more pods than it may.
func (v podVerdict) multiple() bool { return len(v.live) > 1 }

// decidePod: a Sandbox that runs has one pod, and one that is suspended none. Of two
// live pods neither is chosen and neither is deleted: somebody made the second, and
// which of them holds the work nobody here can know.
func decidePod(seen observed, now time.Time) podVerdict {
	s := seen.sandbox
	v := lookAtPods(seen)
	switch {
	case v.multiple():
		v.problem = fmt.Sprintf(agents.MessageMultiplePodsFormat, len(v.live))
		v.why = "more than one live pod is owned by the Sandbox; delete all but one"
	case !s.Running():
		suspend(&v, seen)
	case v.current != nil:
		keep(&v, seen, now)
	case v.dying != nil:
		waitForEnd(&v, v.dying, now)
	case seen.namesake != nil:
		contend(&v, seen, now)
	default:
		v.next = createPod{pod: renderPod(s, seen.settings)}
	}
	if refused := seen.pass.refused(aboutPod); refused != nil && !v.multiple() {
		v.next, v.problem = nil, refused.err.Error()
	}
	return v
}

// lookAtPods sorts the pods that there are.
func lookAtPods(seen observed) podVerdict {
	v := podVerdict{namesake: seen.namesake != nil}
	for _, pod := range seen.pods {
		if pod.DeletionTimestamp != nil {
			v.dying = pod
			continue
		}
		v.live = append(v.live, pod)
	}
	if len(v.live) == 1 {
		v.current = v.live[0]
	}
	if seen.sandbox.Running() && seen.sandbox.ReplacesFailedPods() {
		v.failures = seen.sandbox.Status.PodFailures
	}
	return v
}

// suspend: the pod goes, with its own grace period. One that is not the Sandbox's stays.
func suspend(v *podVerdict, seen observed) {
	switch {
	case v.current != nil:
		v.next = deletePods{pods: []*corev1.Pod{v.current}, why: "the Sandbox is suspended"}
	case v.dying != nil:
		v.why = "the pod " + v.dying.Name + " is terminating"
	case v.namesake:
		v.why = "the pod " + seen.namesake.Name + " is not the Sandbox's"
	}
}

// keep looks after the pod that is there: replaces it if the Sandbox's policies say so,
// else brings its metadata up to date, and names it to clients.
func keep(v *podVerdict, seen observed, now time.Time) {
	s, pod := seen.sandbox, v.current
	v.drift = driftOf(s, pod)
	failure := decideFailure(s, pod, now)
	v.failures, v.until, v.why = failure.remember, failure.until, failure.why
	replace := failure.replace
	if replace == "" && v.drift.outdated() && recreates(s) {
		replace = "podTemplate changed, and updateStrategy is Recreate"
	}
	if replace != "" {
		v.next = deletePods{pods: []*corev1.Pod{pod}, why: replace}
		return
	}
	labels, annotations, changed := metadataFor(s, seen.settings).changesTo(pod)
	if patch := metadataPatch(labels, annotations); patch != nil {
		v.next = syncPod{pod: pod, patch: patch, changed: changed}
		return
	}
	if s.Annotations[agents.AnnotationPodName] != pod.Name {
		v.next = namePod{pod: pod.Name}
	}
}

// waitForEnd waits for a terminating pod to be gone, which its event tells, however
// long that takes: a pod that nobody saw stop may still run.
func waitForEnd(v *podVerdict, pod *corev1.Pod, now time.Time) {
	v.why = "the pod " + pod.Name + " is terminating, and the next one waits for it"
	v.waiting = agents.MessagePodGoing
	// The deletion timestamp is the end of the grace period.
	late := pod.DeletionTimestamp.Add(stuckAfter)
	switch {
	case now.Before(late):
		v.until = late
	case len(pod.Finalizers) > 0:
		v.waiting = fmt.Sprintf(agents.MessagePodHeldFormat, strings.Join(pod.Finalizers, ", "))
	case pod.Spec.NodeName != "":
		v.waiting = fmt.Sprintf(agents.MessagePodStuckFormat, pod.Spec.NodeName)
	}
}

// contend is for a pod that has the Sandbox's name and is not the Sandbox's: it is
// taken over if its labels allow that, and waited for otherwise.
func contend(v *podVerdict, seen observed, now time.Time) {
	s, pod := seen.sandbox, seen.namesake
	v.why = "the pod " + pod.Name + " is not the Sandbox's"
	switch kind := relate(s, pod); {
	case kind == adoptable && pod.DeletionTimestamp == nil:
		labels, annotations, _ := metadataFor(s, seen.settings).changesTo(pod)
		patch := metadataPatch(labels, annotations) // never nil: it has the Sandbox's UID
		if patch == nil {
			patch = consistent.Patch{"metadata": map[string]any{}}
		}
		patch["metadata"].(map[string]any)["ownerReferences"] = ownersWith(s, pod)
		v.next = adoptPod{pod: pod, patch: patch}
	case kind == adoptable:
		waitForEnd(v, pod, now)
	case kind == unowned:
		v.problem = fmt.Sprintf(agents.MessageCannotAdoptFormat, "pod", pod.Name)
	case leftBehind(s, pod):
		v.waiting = agents.MessageEarlierPodGoing
	default:
		v.problem = otherOwner(agents.MessagePodOtherOwnerFormat, s, pod)
	}
}

// leftBehind reports whether the pod is of an earlier Sandbox and goes without anybody's
// help: it is terminating, or the garbage collector is about to see that there is
// another Sandbox of its owner's name now.
func leftBehind(s *agents.Sandbox, pod *corev1.Pod) bool {
	owner := control.ControllerOf(pod, agents.GroupName, agents.SandboxKind)
	return owner != nil && (pod.DeletionTimestamp != nil || owner.Name == s.Name && owner.UID != s.UID)
}
