// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

// Workload is a workload as it was seen, with its pods. It is never modified.
type Workload struct {
	Target
	UID        types.UID
	Generation int64
	Deleting   bool
	// OwnedByPool says that it is a Sandbox in a warm pool, which is no one's to change.
	OwnedByPool bool
	// Has are the stamps on the pod template.
	Has Stamps
	// Record is what was remembered with the stamps, nil if nothing was.
	Record *Record
	// Desired is how many pods there should be: 0 while it is suspended or scaled down.
	Desired int32
	// Held says why nobody replaces pods that are outdated; empty if somebody does.
	Held string
	// Volumes are the names of the pod template's volumes.
	Volumes []string
	// Pods are those it owns, the ones on their way out included, oldest first.
	Pods []Pod

	labelType, managedBy string
	settled              bool // its controller has seen Generation
	sandbox              *sandbox
	object               client.Object
}

// Pod is a pod of a workload.
type Pod struct {
	Name string
	UID  types.UID
	// Terminating says that it is on its way out.
	Terminating bool
	// Finished says that none of its containers run any more.
	Finished bool
	// Succeeded says that it finished as it should.
	Succeeded bool
	Ready     bool

	made     Stamps // of the template it was made from, on workloads whose pods keep them
	revision string // that a Sandbox's pod records
	object   *corev1.Pod
}

func podOf(p *corev1.Pod) Pod {
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	return Pod{
		Name: p.Name, UID: p.UID,
		Terminating: p.DeletionTimestamp != nil,
		Finished:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Succeeded:   p.Status.Phase == corev1.PodSucceeded,
		Ready:       ready,
		object:      p,
	}
}

// Live reports whether the pod runs, or is about to.
func (p Pod) Live() bool { return !p.Terminating && !p.Finished }

// Stamped reports whether the workload says what was wanted of it. It is no proof that
// the stamps are this controller's; the record is.
func (w *Workload) Stamped(want Stamps) bool {
	if w.Has != want || w.labelType != want.Type {
		return false
	}
	return want == (Stamps{}) || w.managedBy != ""
}

// Bears reports whether there is anything on the workload that a release would take off.
// A label alone, without a record and stamps that it goes with, may be anybody's.
func (w *Workload) Bears() bool {
	return w.Record != nil || w.Has != (Stamps{}) || w.managedBy == api.ManagedBy
}

// BearsOf reports whether that is an AgentRuntime's own, as far as can be told, and the
// workload is to stay.
func (w *Workload) BearsOf(runtime types.UID) bool {
	return !w.Deleting && w.Bears() && (w.Record == nil || w.Record.Runtime == runtime)
}

// Recorded reports whether the record is the AgentRuntime's, of these stamps.
func (w *Workload) Recorded(runtime types.UID, want Stamps) bool {
	return w.Record != nil && w.Record.Runtime == runtime && w.Record.Stamps == want
}

// HalfReleased reports whether the workload is one that an AgentRuntime was about to
// leave. What it wrote to remember that is not this field manager's: it has to come off
// before anything is applied.
func (w *Workload) HalfReleased() bool { return w.Record.released() }

// Wiped reports whether somebody removed or changed the stamps that the AgentRuntime had
// written, though these are what it still wants.
func (w *Workload) Wiped(runtime types.UID, want Stamps) bool {
	return w.Recorded(runtime, want) && w.Has != want
}

func (w *Workload) managedByOthers() bool { return w.managedBy != "" && w.managedBy != api.ManagedBy }

// Proved reports whether the pod is proved to have been made with the stamps. Nothing
// is, as long as the workload does not have them.
func (w *Workload) Proved(p Pod, want Stamps) bool {
	if w.Has != want {
		return false
	}
	if w.sandbox != nil {
		return w.provedOnSandbox(p, want)
	}
	return p.made == want
}

// Count counts the live pods.
func (w *Workload) Count(want Stamps) api.PodCounts {
	var n api.PodCounts
	for _, p := range w.Pods {
		if !p.Live() {
			continue
		}
		n.Total++
		if w.Proved(p, want) {
			n.Updated++
			if p.Ready {
				n.Ready++
			}
		}
	}
	return n
}

// Outdated are the pods that run, those on their way out included, and are not proved
// to have been made with the stamps.
func (w *Workload) Outdated(want Stamps) []Pod {
	var old []Pod
	for _, p := range w.Pods {
		if !p.Finished && !w.Proved(p, want) {
			old = append(old, p)
		}
	}
	return old
}

// Runs reports whether any pod is live, so that a change of the template disturbs it.
func (w *Workload) Runs() bool { return slices.ContainsFunc(w.Pods, Pod.Live) }

// Settled reports whether the workload's controller has seen the stamps, so that pods
// it makes from now on have them.
func (w *Workload) Settled(want Stamps) bool {
	if w.sandbox != nil {
		return w.sandboxSettled(want)
	}
	return w.settled
}
