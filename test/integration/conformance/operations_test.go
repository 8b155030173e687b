// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/simulation"
)

// operation is something to do to a server, and to look at afterwards.
type operation struct {
	name string
	do   func(*session)
}

var operations = slices.Concat(creates, writes, deletes, podDeletes, collections, applies, reads)

var (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

var creates = []operation{
	{"a create sets the defaults and the first generation", func(s *session) {
		s.create(box("a"))
		s.look("a")
	}},
	{"a create drops the status", func(s *session) {
		a := box("a")
		a.Status.NodeName = "n"
		s.create(a)
		s.look("a")
	}},
	{"a create of what is there is refused", func(s *session) {
		s.create(box("a"))
		s.create(box("a"))
		s.look("a")
	}},
	{"a create of a name whose object is still being deleted is refused", func(s *session) {
		s.create(finalized(box("a")))
		s.remove("a", simulation.Deletion{})
		s.answer("create again", s.server.create(box("a")))
		s.look("a")
	}},
	{"a name can be used again once its object is gone, for another object", func(s *session) {
		s.create(box("a"))
		s.remove("a", simulation.Deletion{})
		s.answer("create again", s.server.create(box("a")))
		s.look("a")
	}},
	{"a create with a version is refused", func(s *session) {
		a := box("a")
		a.ResourceVersion = "1"
		s.answer("create", s.server.create(a))
		s.objects["a"] = box("a")
		s.objects["a"].SetNamespace(a.Namespace)
		s.look("a")
	}},
	{"a create sets its own UID, generation and deletion timestamp", func(s *session) {
		a := box("a")
		a.UID, a.Generation, a.DeletionTimestamp = "mine", 7, ptr.To(metav1.Now())
		s.create(a)
		s.look("a")
		s.say("the UID is mine: %t", s.uid("a") == "mine")
	}},
	{"a name that is no name is invalid", func(s *session) {
		s.create(box("A"))
		s.create(box("a_b"))
	}},
	{"what the schema forbids is invalid", func(s *session) {
		s.create(box(strings.Repeat("a", 64)))
		p, c := pool("p"), claim("c")
		p.Spec.Replicas, c.Spec.WarmPoolRef = ptr.To(int32(-1)), nil
		s.create(p)
		s.create(c)
	}},
	{"two controllers are invalid", func(s *session) {
		s.create(box("owner"))
		a := s.ownedBy(box("a"), "owner", true)
		second := a.GetOwnerReferences()[0]
		second.UID, second.Name = "other", "other"
		a.SetOwnerReferences(append(a.GetOwnerReferences(), second))
		s.create(a)
	}},
	{"a create beyond the quota is forbidden", func(s *session) {
		s.create(pod("a"))
		s.answer("no quota", s.server.exhaust())
		s.create(pod("b"))
		s.look("a")
	}},
	{"a pool without replicas has one", func(s *session) {
		s.create(pool("p"))
		s.look("p")
	}},
}

var writes = []operation{
	{"a change of the spec moves the generation and the version", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"spec":{"shutdownPolicy":"Delete"}}`)
		s.look("a")
	}},
	{"a change of labels moves the version and not the generation", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.look("a")
	}},
	{"a change of nothing moves neither", func(s *session) {
		s.create(labelled(box("a"), map[string]string{"x": "1"}))
		s.patch("a", `{"metadata":{"labels":{"x":"1","y":null}},"spec":{"shutdownPolicy":"Retain"}}`)
		s.look("a")
		s.update("a", func(client.Object) {})
		s.look("a")
		s.patchStatus("a", `{"status":{"nodeName":"n"}}`)
		s.look("a")
		s.patchStatus("a", `{"status":{"nodeName":"n"}}`)
		s.look("a")
	}},
	{"null removes a key and a field", func(s *session) {
		s.create(labelled(box("a"), map[string]string{"x": "1", "y": "2"}))
		s.patch("a", `{"metadata":{"labels":{"x":null}},"spec":{"shutdownPolicy":null}}`)
		s.look("a")
	}},
	{"what the schema does not know is dropped", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"spec":{"unknown":{"a":1}},"other":true}`)
		s.look("a")
	}},
	{"a write of the status leaves the spec and the generation", func(s *session) {
		s.create(box("a"))
		s.patchStatus("a", `{"status":{"nodeName":"n"},"spec":{"shutdownPolicy":"Delete"},"metadata":{"labels":{"x":"1"}}}`)
		s.look("a")
	}},
	{"a write of the spec leaves the status", func(s *session) {
		s.create(box("a"))
		s.patchStatus("a", `{"status":{"nodeName":"n"}}`)
		s.look("a")
		s.patch("a", `{"spec":{"shutdownPolicy":"Delete"},"status":{"nodeName":"m"}}`)
		s.look("a")
	}},
	{"a patch on an old version is a conflict", func(s *session) {
		s.create(box("a"))
		old := s.version("a")
		s.patch("a", `{"metadata":{"resourceVersion":%q,"labels":{"x":"1"}}}`, old)
		s.look("a")
		s.patch("a", `{"metadata":{"resourceVersion":%q,"labels":{"x":"2"}}}`, old)
		s.patchStatus("a", `{"metadata":{"resourceVersion":%q},"status":{"nodeName":"n"}}`, old)
		s.look("a")
	}},
	{"a patch on an old version that would change nothing is a conflict too", func(s *session) {
		s.create(box("a"))
		old := s.version("a")
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.patch("a", `{"metadata":{"resourceVersion":%q,"labels":{"x":"1"}}}`, old)
		s.look("a")
	}},
	{"a patch for another UID is invalid, and of a status not even that", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"metadata":{"uid":"other","labels":{"x":"1"}}}`)
		s.patchStatus("a", `{"metadata":{"uid":"other"},"status":{"nodeName":"n"}}`)
		s.patch("a", `{"metadata":{"uid":%q,"labels":{"x":"1"}}}`, s.uid("a"))
		s.look("a")
	}},
	{"a patch of a pod for another UID is invalid", func(s *session) {
		s.create(pod("a"))
		s.patch("a", `{"metadata":{"uid":"other","labels":{"x":"1"}}}`)
		s.patchStatus("a", `{"metadata":{"uid":"other"},"status":{"phase":"Running"}}`)
		s.look("a")
	}},
	{"a patch decided on an object that was made anew since is a conflict", func(s *session) {
		s.create(box("a"))
		uid, version := s.uid("a"), s.version("a")
		s.remove("a", simulation.Deletion{})
		s.create(box("a"))
		s.patch("a", `{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{"x":"1"}}}`, uid, version)
		s.patchStatus("a", `{"metadata":{"uid":%q,"resourceVersion":%q},"status":{"nodeName":"n"}}`, uid, version)
		s.look("a")
	}},
	{"a patch of what is not there finds nothing", func(s *session) {
		s.create(box("a"))
		s.remove("a", simulation.Deletion{})
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.patchStatus("a", `{"status":{"nodeName":"n"}}`)
		s.look("a")
	}},
	{"a patch of a wrong type is no good", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"metadata":{"labels":{"x":1}}}`)
		s.look("a")
	}},
	{"a write that the schema forbids changes nothing", func(s *session) {
		s.create(pool("p"))
		s.patch("p", `{"spec":{"replicas":-1}}`)
		s.look("p")
	}},
	{"an update on an old version is a conflict", func(s *session) {
		s.create(box("a"))
		stale := s.copied("a")
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.answer("update", s.server.update(stale, ""))
		s.look("a")
	}},
	{"an update replaces everything but the status", func(s *session) {
		s.create(labelled(box("a"), map[string]string{"x": "1"}))
		s.patchStatus("a", `{"status":{"nodeName":"n"}}`)
		s.look("a")
		s.update("a", func(obj client.Object) {
			obj.SetLabels(nil)
			obj.(*agents.Sandbox).Spec.ShutdownPolicy = agents.ShutdownPolicyDelete
			obj.(*agents.Sandbox).Status.NodeName = "m"
		})
		s.look("a")
	}},
	{"an update of the status replaces nothing else", func(s *session) {
		s.create(box("a"))
		obj := s.copied("a").(*agents.Sandbox)
		obj.Labels, obj.Spec.ShutdownPolicy, obj.Status.NodeName = map[string]string{"x": "1"}, agents.ShutdownPolicyDelete, "n"
		s.answer("update the status", s.server.update(obj, "status"))
		s.look("a")
	}},
	{"an update without a version is invalid", func(s *session) {
		s.create(box("a"))
		s.update("a", func(obj client.Object) { obj.SetResourceVersion("") })
		s.look("a")
	}},
	{"suspending and resuming keep mode and replicas in step", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"spec":{"operatingMode":"Suspended"}}`)
		s.look("a")
		s.patch("a", `{"spec":{"replicas":1}}`)
		s.look("a")
		s.patch("a", `{"spec":{"replicas":0}}`)
		s.look("a")
	}},
	{"a JSON patch does its operations in order", func(s *session) {
		s.create(labelled(box("a"), map[string]string{"x": "1"}))
		s.patchJSON("a", `[{"op":"test","path":"/metadata/labels/x","value":"1"},{"op":"replace","path":"/metadata/labels/x","value":"2"},{"op":"add","path":"/metadata/labels/y","value":"3"}]`)
		s.look("a")
		s.patchJSON("a", `[{"op":"remove","path":"/metadata/labels/x"},{"op":"replace","path":"/spec/shutdownPolicy","value":"Delete"}]`)
		s.look("a")
	}},
	{"a JSON patch whose test fails changes nothing", func(s *session) {
		s.create(labelled(box("a"), map[string]string{"x": "1"}))
		s.patchJSON("a", `[{"op":"replace","path":"/metadata/labels/x","value":"2"},{"op":"test","path":"/metadata/labels/x","value":"1"}]`)
		s.look("a")
		s.patchJSON("a", `[{"op":"remove","path":"/metadata/labels/y"}]`)
		s.look("a")
	}},
	{"a JSON patch that tests an old version changes nothing", func(s *session) {
		s.create(box("a"))
		old := s.version("a")
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.patchJSON("a", `[{"op":"test","path":"/metadata/resourceVersion","value":%q},{"op":"remove","path":"/metadata/labels"}]`, old)
		s.look("a")
	}},
}
