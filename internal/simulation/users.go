// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// user lets a user, or another controller, do something.
func (w *world) user(run *Run) {
	pick := run.choices.Pick
	switch pick(24) {
	case 0, 1, 2, 3:
		w.createClaim(run)
	case 4, 5:
		w.delete(run, "sandboxclaims", pick(6) == 5)
	case 6:
		w.edit(run, "sandboxclaims", "change the metadata of", func(obj client.Object) {
			c := obj.(*extensions.SandboxClaim)
			c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/team": []string{"a", "b"}[pick(2)]}
		})
	case 7, 8:
		w.edit(run, "sandboxtemplates", "edit", func(obj client.Object) {
			w.edits++
			obj.(*extensions.SandboxTemplate).Spec.PodTemplate.Spec.Containers[0].Image = fmt.Sprintf("image:%d", w.edits)
		})
	case 9:
		w.edit(run, "sandboxwarmpools", "scale", func(obj client.Object) {
			obj.(*extensions.SandboxWarmPool).Spec.Replicas = ptr.To(int32(pick(4)))
		})
	case 10:
		w.edit(run, "sandboxwarmpools", "switch", func(obj client.Object) {
			p := obj.(*extensions.SandboxWarmPool)
			p.Spec.TemplateRef.Name = w.templates[pick(len(w.templates))]
			p.Spec.UpdateStrategy.Type = strategies[pick(3)]
		})
	case 11:
		w.delete(run, "sandboxes", pick(4) == 3)
	case 12, 13:
		w.edit(run, "sandboxes", "suspend or resume", func(obj client.Object) {
			s := obj.(*agents.Sandbox)
			if s.Spec.OperatingMode == agents.OperatingModeSuspended {
				s.Spec.OperatingMode = agents.OperatingModeRunning
			} else {
				s.Spec.OperatingMode = agents.OperatingModeSuspended
			}
		})
	case 14:
		w.delete(run, "sandboxwarmpools", pick(3) == 2)
	case 15:
		w.delete(run, "sandboxtemplates", false)
	case 16, 17:
		w.replace(run)
	case 18:
		w.forge(run)
	case 19:
		w.strip(run)
	case 20:
		w.delete(run, []string{"pods", "services", "networkpolicies"}[pick(3)], false)
	case 21, 22:
		w.stampSandbox(run)
	case 23:
		w.other(run)
	}
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
	obj := w.any(run, resource)
	if obj == nil {
		return
	}
	run.note("user: delete %s %s", resource, obj.GetName())
	_, _, _ = run.server.Delete(resource, client.ObjectKeyFromObject(obj), consistent.DeleteCondition{Foreground: foreground})
}

// replace makes what is missing of the pools, templates and Sandboxes anew, under the
// names of those that are gone.
func (w *world) replace(run *Run) {
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

// forge makes a Sandbox look like what it is not: annotations and labels are no
// evidence.
func (w *world) forge(run *Run) {
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
			labels[agents.LabelWarmPool] = agents.NameHash(w.pools[0])
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
func (w *world) strip(run *Run) {
	w.edit(run, []string{"pods", "sandboxes", "services"}[run.choices.Pick(3)], "strip the owners of", func(obj client.Object) {
		obj.SetOwnerReferences(nil)
	})
}

// stampSandbox is what another controller does to roll its configuration out.
func (w *world) stampSandbox(run *Run) {
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
func (w *world) other(run *Run) {
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
