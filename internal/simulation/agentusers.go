// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// onBerth is a deed for which there is no occasion beside the public controller.
func onBerth(do deed) deed {
	return func(w *world, run *Run) {
		if run.public == nil {
			do(w, run)
		}
	}
}

func addRuntime(w *world, run *Run) {
	w.createRuntime(run, fmt.Sprintf("a%d", w.agents.runtimes%run.focus.agents.runtimes))
	w.agents.runtimes++
}

func dropRuntime(w *world, run *Run) { w.delete(run, "agentruntimes", false) }

func pauseRuntime(w *world, run *Run) {
	w.edit(run, "agentruntimes", "pause or resume rollouts of", func(obj client.Object) {
		annotations := maps.Clone(obj.GetAnnotations())
		if _, paused := annotations[runtimes.AnnotationPaused]; paused {
			delete(annotations, runtimes.AnnotationPaused)
		} else {
			annotations = map[string]string{runtimes.AnnotationPaused: runtimes.PausedTrue}
		}
		obj.SetAnnotations(annotations)
	})
}

func editRuntime(w *world, run *Run) {
	w.edit(run, "agentruntimes", "edit", func(obj client.Object) {
		a := obj.(*runtimes.AgentRuntime)
		switch n := run.choices.Pick(4); n {
		case 3:
			was := a.Spec.Type
			if a.Spec.Type = runtimes.RuntimeTypeAgent; was == runtimes.RuntimeTypeAgent {
				a.Spec.Type = runtimes.RuntimeTypeTool
			}
		default:
			a.Spec.MTLSMode = []runtimes.MTLSMode{runtimes.MTLSPermissive, runtimes.MTLSStrict, runtimes.MTLSDisabled}[n]
		}
	})
}

// retarget lets an AgentRuntime name another workload.
func retarget(w *world, run *Run) {
	to := w.target(run)
	w.edit(run, "agentruntimes", "target "+to+" with", func(obj client.Object) { obj.(*runtimes.AgentRuntime).Spec.TargetRef.Name = to })
}

// replaceTarget makes one of the Sandboxes that users make themselves.
func replaceTarget(w *world, run *Run) {
	if run.focus.sandboxes > 0 {
		w.createTarget(run, fmt.Sprintf("s%d", w.sandboxes%run.focus.sandboxes))
		w.sandboxes++
	}
}

// remakeTarget deletes a Sandbox and makes another of the same name at once.
func remakeTarget(w *world, run *Run) {
	if obj := w.any(run, "sandboxes"); obj != nil && obj.GetDeletionTimestamp() == nil && len(obj.GetOwnerReferences()) == 0 {
		w.deleteOne(run, "sandboxes", obj, false)
		w.createTarget(run, obj.GetName())
	}
}

// ownKeys are the keys of the controller of AgentRuntimes.
var ownKeys = []string{runtimes.LabelType, runtimes.LabelManagedBy, runtimes.AnnotationConfigHash, runtimes.AnnotationMTLSMode, runtimes.AnnotationRollout}

// wipeStamps is what a controller does that replaces the whole template's metadata.
func wipeStamps(w *world, run *Run) {
	w.edit(run, "sandboxes", "wipe the template's metadata of", func(obj client.Object) {
		obj.(*agents.Sandbox).Spec.PodTemplate.Metadata = agents.PodMetadata{}
	})
}

// contest is somebody else who has another opinion about the same key.
func contest(w *world, run *Run) {
	w.edit(run, "sandboxes", "set the hash by hand on", func(obj client.Object) {
		run.watch.agents.contested[obj.GetUID()] = true
		template := &obj.(*agents.Sandbox).Spec.PodTemplate.Metadata
		template.Annotations = withKey(template.Annotations, runtimes.AnnotationConfigHash, []string{"mine", run.watch.agents.desired()}[run.choices.Pick(2)])
	})
}

// noteSomething is somebody else who writes keys of their own.
func noteSomething(w *world, run *Run) {
	w.edit(run, "sandboxes", "note something on", func(obj client.Object) {
		w.agents.notes++
		note := fmt.Sprintf("note-%d", w.agents.notes)
		obj.SetAnnotations(withKey(obj.GetAnnotations(), "example.com/note", note))
		if run.choices.Pick(2) == 1 {
			template := &obj.(*agents.Sandbox).Spec.PodTemplate.Metadata
			template.Annotations = withKey(template.Annotations, "example.com/note", note)
		}
	})
}

// forgetPodName takes away what says which pod the Sandbox has, as people do to whom it
// seems stuck.
func forgetPodName(w *world, run *Run) {
	w.edit(run, "sandboxes", "forget the pod's name on", func(obj client.Object) {
		annotations := maps.Clone(obj.GetAnnotations())
		delete(annotations, agents.AnnotationPodName)
		obj.SetAnnotations(annotations)
	})
}

func withKey(of map[string]string, key, value string) map[string]string {
	next := maps.Clone(of)
	if next == nil {
		next = map[string]string{}
	}
	next[key] = value
	return next
}
