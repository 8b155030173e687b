// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// sandbox is what matters of a Sandbox for replacing its pod. Two kinds of evidence say
// what a pod was made from: the revision it records, where the Sandbox's controller
// records one, and otherwise the Record.
type sandbox struct {
	runs bool
	// rollsItself says that the controller replaces a pod whose revision differs.
	rollsItself bool
	// revision is the template's, and empty where the controller computes none.
	revision string
	// seen is the generation that the controller has seen.
	seen int64
	// stopped says that the controller saw the Sandbox suspended, as it is now, and that
	// it has no pod.
	stopped bool
}

func fromSandbox(t Target, s *agents.Sandbox, pods []*corev1.Pod) *Workload {
	ready := conditionOf(s, agents.ConditionReady)
	suspended := conditionOf(s, agents.ConditionSuspended)
	runs := s.Running() && ready.Reason != agents.ReasonSandboxExpired
	template := s.Spec.PodTemplate.Metadata
	w := &Workload{
		Target: t, UID: s.UID, Generation: s.Generation, Deleting: s.DeletionTimestamp != nil,
		OwnedByPool: control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind) != nil,
		Has:         stampsOf(template.Labels, template.Annotations),
		object:      s,
		sandbox: &sandbox{
			runs:        runs,
			rollsItself: s.UpdateStrategyType() == agents.SandboxUpdateRecreate,
			seen:        ready.ObservedGeneration,
			stopped:     !runs && suspended.Status == metav1.ConditionTrue && suspended.ObservedGeneration == s.Generation && len(pods) == 0,
		},
	}
	w.describe(s)
	if runs {
		w.Desired = 1
	}
	// A revision counts only if the controller that computes revisions is the one that
	// runs: another one leaves the field as it found it.
	if s.Status.UpdateRevision != "" && s.Status.ObservedGeneration >= ready.ObservedGeneration {
		w.sandbox.revision, w.sandbox.seen = s.Status.UpdateRevision, s.Status.ObservedGeneration
	}
	w.settled = w.sandbox.seen >= s.Generation
	for i := range s.Spec.PodTemplate.Spec.Volumes {
		w.Volumes = append(w.Volumes, s.Spec.PodTemplate.Spec.Volumes[i].Name)
	}
	for _, p := range pods {
		pod := podOf(p)
		pod.revision = p.Annotations[agents.AnnotationTemplateRevision]
		w.Pods = append(w.Pods, pod)
	}
	return w
}

func conditionOf(s *agents.Sandbox, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// byRevision reports whether the pod's revision says what it was made from. Revisions
// of different algorithms cannot be compared.
func (s *sandbox) byRevision(p Pod) bool {
	algorithm, _, ok := strings.Cut(p.revision, "-")
	return ok && s.revision != "" && strings.HasPrefix(s.revision, algorithm+"-")
}

func (w *Workload) provedOnSandbox(p Pod, want Stamps) bool {
	if w.sandbox.byRevision(p) {
		return w.settled && p.revision == w.sandbox.revision
	}
	r := w.Record
	return r != nil && r.Stamps == want && r.Observed && !slices.Contains(r.Pods, p.UID)
}

// ProvedByRecord are the live pods that count as made with the stamps that a Sandbox has
// because they are not among the older ones that were written down. One that ended before
// that is not among them either, and a cache may still show it: see
// Accessor.ConfirmPod.
func (w *Workload) ProvedByRecord() []Pod {
	if w.sandbox == nil {
		return nil
	}
	var found []Pod
	for _, p := range w.Pods {
		if p.Live() && !w.sandbox.byRevision(p) && w.Proved(p, w.Has) {
			found = append(found, p)
		}
	}
	return found
}

// sandboxSettled: the controller has seen the stamps, by its revision of the template or
// by the record.
func (w *Workload) sandboxSettled(want Stamps) bool {
	if w.needsRecord() {
		return w.Record != nil && w.Record.Stamps == want && w.Record.Observed
	}
	return w.settled
}

// needsRecord reports whether revisions do not say all.
func (w *Workload) needsRecord() bool {
	if w.sandbox.revision == "" {
		return true
	}
	return slices.ContainsFunc(w.Pods, func(p Pod) bool { return !p.Finished && !w.sandbox.byRevision(p) })
}

// NewRecord is the record to write together with the stamps.
func (w *Workload) NewRecord(runtime types.UID, want Stamps) *Record {
	next := &Record{Runtime: runtime, Stamps: want}
	if w.sandbox == nil {
		return next
	}
	if old := w.Record; old != nil && old.Stamps == want && w.Has == want {
		*next = *old // what it proves does not depend on whose it is
		next.Runtime = runtime
		return next
	}
	next.Generation = w.Generation
	if w.Has != want {
		// The write is conditional on the version this was seen at, so it makes the next.
		next.Generation++
	}
	// A Sandbox that was created with the stamps never had a pod without. One that is
	// stopped, and known to be by its controller, gets its next pod only after somebody
	// starts it, which is after this.
	next.Observed = w.Has == want && w.Generation == 1 || w.sandbox.stopped
	return next
}

// A Move is what a rollout needs next from this controller.
type Move int

// Moves.
const (
	// Nothing: no pod has to be replaced.
	Nothing Move = iota
	// Await: somebody else is to act first.
	Await
	// Mark: the pods there are have to be written down as older than the stamps.
	Mark
	// Replace: pods have to be deleted.
	Replace
)

// NextMove says what a rollout of the stamps, which the workload has, needs next, which
// pods are to be deleted, and what is awaited. All but Sandboxes replace their pods
// themselves.
func (w *Workload) NextMove(want Stamps) (next Move, pods []Pod, why string) {
	if w.sandbox == nil {
		return w.nextMoveOfOthers(want)
	}
	if w.needsRecord() && w.Record != nil && w.Record.Stamps == want && !w.Record.Observed {
		if w.sandbox.seen >= w.Record.Generation {
			return Mark, nil, ""
		}
		return Await, nil, fmt.Sprintf("the Sandbox's controller has to see generation %d", w.Record.Generation)
	}
	if !w.sandbox.runs {
		return Nothing, nil, "" // the next pod has the stamps
	}
	for _, p := range w.Outdated(want) {
		why = w.holds(p)
		switch {
		case why != "":
			next = Await
		default:
			pods = append(pods, p)
		}
	}
	for _, p := range w.Pods { // one that failed does not come back by itself
		if p.Finished && !p.Succeeded && !p.Terminating && !w.Proved(p, want) && w.holds(p) == "" {
			pods = append(pods, p)
		}
	}
	if len(pods) > 0 {
		return Replace, pods, ""
	}
	return next, nil, why
}

// holds says why an outdated pod of a Sandbox that runs is not to be deleted now.
func (w *Workload) holds(p Pod) string {
	switch {
	case p.Terminating:
		return fmt.Sprintf("pod %q is terminating", p.Name)
	case !w.sandbox.byRevision(p):
		if r := w.Record; r == nil || !r.Observed || !slices.Contains(r.Pods, p.UID) {
			return fmt.Sprintf("it is not known what pod %q was made from", p.Name)
		}
		return ""
	case !w.settled:
		return fmt.Sprintf("the Sandbox's controller has to see generation %d", w.Generation)
	case w.sandbox.rollsItself:
		return fmt.Sprintf("the Sandbox replaces pod %q itself", p.Name)
	default:
		return ""
	}
}
