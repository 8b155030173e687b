// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// deed is something that a user, or another controller, does.
type deed func(w *world, run *Run)

func times(n int, what ...deed) []deed { return slices.Repeat(what, n) }

func deeds(parts ...[]deed) []deed { return slices.Concat(parts...) }

// everyday is what users do all in all.
func everyday() []deed {
	return deeds(
		times(4, makeClaim), times(2, dropClaim, editTemplate, suspend, replace, stampSandbox),
		times(1, changeClaim, scalePool, switchPool, dropSandbox, dropPool, dropTemplate, revertTemplate, forge, strip,
			dropDependent, other, remake, olden, bestow),
	)
}

// user lets somebody do something.
func (w *world) user(run *Run) {
	deeds := run.focus.deeds
	deeds[run.choices.Pick(len(deeds))](w, run)
}

func makeClaim(w *world, run *Run) { w.createClaim(run) }

func dropClaim(w *world, run *Run) { w.delete(run, "sandboxclaims", run.choices.Pick(6) == 5) }

func changeClaim(w *world, run *Run) {
	w.edit(run, "sandboxclaims", "change the metadata of", func(obj client.Object) {
		c := obj.(*extensions.SandboxClaim)
		c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/team": []string{"a", "b"}[run.choices.Pick(2)]}
	})
}

func editTemplate(w *world, run *Run) {
	w.edit(run, "sandboxtemplates", "edit", func(obj client.Object) {
		w.edits++
		obj.(*extensions.SandboxTemplate).Spec.PodTemplate.Spec.Containers[0].Image = fmt.Sprintf("image:%d", w.edits)
	})
}

// revertTemplate makes a template what one was at first.
func revertTemplate(w *world, run *Run) {
	w.edit(run, "sandboxtemplates", "revert", func(obj client.Object) {
		obj.(*extensions.SandboxTemplate).Spec.PodTemplate.Spec.Containers[0].Image = "image:0"
	})
}

func scalePool(w *world, run *Run) {
	w.edit(run, "sandboxwarmpools", "scale", func(obj client.Object) {
		obj.(*extensions.SandboxWarmPool).Spec.Replicas = ptr.To(int32(run.choices.Pick(4)))
	})
}

func switchPool(w *world, run *Run) {
	w.edit(run, "sandboxwarmpools", "switch", func(obj client.Object) {
		p := obj.(*extensions.SandboxWarmPool)
		p.Spec.TemplateRef.Name = w.templates[run.choices.Pick(len(w.templates))]
		p.Spec.UpdateStrategy.Type = w.strategy(run)
	})
}

func dropSandbox(w *world, run *Run) { w.delete(run, "sandboxes", run.choices.Pick(4) == 3) }

func suspend(w *world, run *Run) {
	w.edit(run, "sandboxes", "suspend or resume", func(obj client.Object) {
		s := obj.(*agents.Sandbox)
		if s.Spec.OperatingMode == agents.OperatingModeSuspended {
			s.Spec.OperatingMode = agents.OperatingModeRunning
		} else {
			s.Spec.OperatingMode = agents.OperatingModeSuspended
		}
	})
}

func dropPool(w *world, run *Run) { w.delete(run, "sandboxwarmpools", run.choices.Pick(3) == 2) }

func dropTemplate(w *world, run *Run) { w.delete(run, "sandboxtemplates", false) }

func dropPod(w *world, run *Run) { w.delete(run, "pods", false) }

func dropService(w *world, run *Run) { w.delete(run, "services", false) }

func dropDependent(w *world, run *Run) {
	w.delete(run, []string{"pods", "services", "networkpolicies"}[run.choices.Pick(3)], false)
}

// any returns one of the objects of a resource, nil if there is none. Those of
// somebody else are left alone.
func (w *world) any(run *Run, resource string) client.Object {
	all := run.server.peek(resource)
	if len(all) == 0 {
		return nil
	}
	obj := all[run.choices.Pick(len(all))]
	if obj.GetLabels()[foreign] != "" {
		return nil
	}
	return obj
}

func (w *world) edit(run *Run, resource, what string, edit func(client.Object)) {
	obj := w.any(run, resource)
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return
	}
	run.note("user: %s %s %s", what, resource, obj.GetName())
	if err := run.server.Edit(resource, client.ObjectKeyFromObject(obj), edit); err != nil {
		run.note("user: refused: %s", err.Error())
	}
}

func (w *world) delete(run *Run, resource string, foreground bool) {
	if obj := w.any(run, resource); obj != nil {
		w.deleteOne(run, resource, obj, foreground)
	}
}

func (w *world) deleteOne(run *Run, resource string, obj client.Object, foreground bool) {
	run.note("user: delete %s %s", resource, obj.GetName())
	_, _, _ = run.server.Delete(resource, client.ObjectKeyFromObject(obj), consistent.DeleteCondition{Foreground: foreground})
}

// replace makes what is missing of the pools, templates and Sandboxes anew, under the
// names of those that are gone.
func replace(w *world, run *Run) {
	for _, name := range w.templates {
		if run.server.tables["sandboxtemplates"].objects[key(name)] == nil {
			w.createTemplate(run, name)
			return
		}
	}
	for _, name := range w.pools {
		if run.server.tables["sandboxwarmpools"].objects[key(name)] == nil {
			w.createPool(run, name)
			return
		}
	}
	w.createSandbox(run)
}

// remake deletes something and makes another of the same name at once.
func remake(w *world, run *Run) {
	resource := []string{"sandboxes", "sandboxclaims", "sandboxwarmpools", "sandboxtemplates"}[run.choices.Pick(4)]
	obj := w.any(run, resource)
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return
	}
	w.deleteOne(run, resource, obj, false)
	switch name := obj.GetName(); resource {
	case "sandboxes":
		w.createSandboxNamed(run, name)
	case "sandboxclaims":
		w.createClaimNamed(run, name)
	case "sandboxwarmpools":
		w.createPool(run, name)
	case "sandboxtemplates":
		w.createTemplate(run, name)
	}
}

// bestow gives a claim a Sandbox that it did not ask for, as somebody does who restores
// a backup.
func bestow(w *world, run *Run) {
	claim := w.any(run, "sandboxclaims")
	if claim == nil || claim.GetDeletionTimestamp() != nil {
		return
	}
	s := &agents.Sandbox{ObjectMeta: named(fmt.Sprintf("b%d", w.bestowed))}
	w.bestowed++
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(claim, extensions.GroupVersion.WithKind(extensions.SandboxClaimKind))}
	s.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	run.note("user: give claim %s a Sandbox", claim.GetName())
	w.create(run, "sandboxes", s)
}

// forge makes a Sandbox look like what it is not: annotations and labels are no
// evidence.
func forge(w *world, run *Run) {
	pods := run.server.peek("pods")
	w.edit(run, "sandboxes", "forge marks on", func(obj client.Object) {
		annotations, labels := obj.GetAnnotations(), obj.GetLabels()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if labels == nil {
			labels = map[string]string{}
		}
		switch run.choices.Pick(3) {
		case 0:
			if len(pods) > 0 {
				annotations[agents.AnnotationPodName] = pods[run.choices.Pick(len(pods))].GetName()
			}
		case 1:
			labels[agents.LabelWarmPool] = agents.NameHash("p0")
			annotations[agents.AnnotationTemplateRef] = w.templates[0]
		case 2:
			delete(labels, agents.LabelWarmPool)
			labels[agents.LabelTemplateHash] = "00000000"
		}
		obj.SetAnnotations(annotations)
		obj.SetLabels(labels)
	})
}

// strip takes an object's owners away.
func strip(w *world, run *Run) {
	w.edit(run, []string{"pods", "sandboxes", "services"}[run.choices.Pick(3)], "strip the owners of", func(obj client.Object) {
		obj.SetOwnerReferences(nil)
	})
}

// olden makes an object what a release left behind that knew another version of the
// API: its owner is the same.
func olden(w *world, run *Run) {
	w.edit(run, []string{"pods", "sandboxes", "services"}[run.choices.Pick(3)], "give owners of v1alpha1 to", func(obj client.Object) {
		owners := slices.Clone(obj.GetOwnerReferences())
		for i := range owners {
			switch owners[i].APIVersion {
			case agents.GroupVersion.String():
				owners[i].APIVersion = agents.GroupName + "/v1alpha1"
			case extensions.GroupVersion.String():
				owners[i].APIVersion = extensions.GroupName + "/v1alpha1"
			}
		}
		obj.SetOwnerReferences(owners)
	})
}

// stampSandbox is what another controller does to roll its configuration out.
func stampSandbox(w *world, run *Run) {
	w.edit(run, "sandboxes", "stamp", func(obj client.Object) {
		s := obj.(*agents.Sandbox)
		w.stamps++
		if s.Spec.PodTemplate.Metadata.Annotations == nil {
			s.Spec.PodTemplate.Metadata.Annotations = map[string]string{}
		}
		value := fmt.Sprintf("hash-%d", w.stamps)
		s.Spec.PodTemplate.Metadata.Annotations[stamp] = value
		run.watch.stamps[s.UID] = value
	})
}

// other is what happens more rarely.
func other(w *world, run *Run) {
	switch run.choices.Pick(4) {
	case 0:
		w.createForeign(run)
	case 1:
		w.podQuota = !w.podQuota && run.faulty
		run.note("quota of pods is exceeded: %v", w.podQuota)
	case 2:
		w.sandboxQuota = !w.sandboxQuota && run.faulty
		run.note("quota of Sandboxes is exceeded: %v", w.sandboxQuota)
	case 3:
		w.edit(run, "sandboxes", "give an end to", func(obj client.Object) {
			s := obj.(*agents.Sandbox)
			s.Spec.ShutdownTime = ptr.To(run.server.seconds(int64(run.choices.Pick(60))))
			if run.choices.Pick(2) == 1 {
				s.Spec.ShutdownPolicy = agents.ShutdownPolicyDelete
			}
		})
	}
}
