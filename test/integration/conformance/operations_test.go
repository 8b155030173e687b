// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
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

var deletes = []operation{
	{"a delete removes at once what nothing holds", func(s *session) {
		s.create(box("a"))
		s.remove("a", simulation.Deletion{Propagation: background})
		s.look("a")
		s.remove("a", simulation.Deletion{})
	}},
	{"a delete for another UID or version is a conflict", func(s *session) {
		s.create(box("a"))
		old := s.version("a")
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.remove("a", simulation.Deletion{UID: "other"})
		s.remove("a", simulation.Deletion{UID: s.uid("a"), ResourceVersion: old})
		s.remove("a", simulation.Deletion{ResourceVersion: old})
		s.look("a")
	}},
	{"a delete for this UID and version is done", func(s *session) {
		s.create(box("a"))
		s.remove("a", simulation.Deletion{UID: s.uid("a"), ResourceVersion: s.version("a")})
		s.look("a")
	}},
	{"a delete by UID spares what took the name since", func(s *session) {
		s.create(box("a"))
		first := s.uid("a")
		s.remove("a", simulation.Deletion{})
		s.create(box("a"))
		s.remove("a", simulation.Deletion{UID: first})
		s.look("a")
	}},
	{"a finalizer keeps what is deleted until it is gone", func(s *session) {
		s.create(finalized(box("a")))
		s.remove("a", simulation.Deletion{Propagation: background})
		s.look("a")
		s.remove("a", simulation.Deletion{Propagation: background})
		s.look("a")
		s.patch("a", `{"metadata":{"finalizers":null}}`)
		s.look("a")
	}},
	{"a finalizer keeps what has no status subresource too", func(s *session) {
		s.create(finalized(template("t")))
		s.remove("t", simulation.Deletion{})
		s.look("t")
		s.patchJSON("t", `[{"op":"remove","path":"/metadata/finalizers"}]`)
		s.look("t")
	}},
	{"what is being deleted takes no new finalizer", func(s *session) {
		s.create(finalized(box("a")))
		s.remove("a", simulation.Deletion{})
		s.look("a")
		s.patch("a", `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`)
		s.look("a")
	}},
	{"what is being deleted can still be written", func(s *session) {
		s.create(finalized(box("a")))
		s.remove("a", simulation.Deletion{})
		s.look("a")
		s.patch("a", `{"metadata":{"labels":{"x":"1"}},"spec":{"shutdownPolicy":"Delete"}}`)
		s.look("a")
		s.patchStatus("a", `{"status":{"nodeName":"n"}}`)
		s.look("a")
	}},
	{"a patch cannot delete", func(s *session) {
		s.create(box("a"))
		s.patch("a", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":5}}`)
		s.look("a")
	}},
	{"a patch cannot undo a delete", func(s *session) {
		s.create(finalized(box("a")))
		s.remove("a", simulation.Deletion{})
		s.look("a")
		s.patch("a", `{"metadata":{"deletionTimestamp":null,"deletionGracePeriodSeconds":null}}`)
		s.look("a")
	}},
	{"another delete says anew what becomes of dependents", func(s *session) {
		s.create(finalized(box("a")))
		s.create(finalized(s.ownedBy(box("b"), "a", true)))
		s.remove("a", simulation.Deletion{Propagation: foreground})
		s.becomes("b", "is being deleted", isDeleting)
		s.look("a")
		s.remove("a", simulation.Deletion{})
		s.look("a")
		s.remove("a", simulation.Deletion{Propagation: background})
		s.look("a")
	}},
}

var podDeletes = []operation{
	{"a pod without a node goes at once", func(s *session) {
		s.create(pod("a"))
		s.look("a")
		s.remove("a", simulation.Deletion{})
		s.look("a")
	}},
	{"a pod on a node gets its grace period", func(s *session) {
		s.create(pod("a"))
		s.answer("bind", s.server.bind(s.copied("a").(*corev1.Pod)))
		s.look("a")
		s.remove("a", simulation.Deletion{UID: s.uid("a")})
		s.look("a")
		s.remove("a", simulation.Deletion{})
		s.look("a")
	}},
	{"a pod's own grace period counts", func(s *session) {
		a := pod("a")
		a.Spec.TerminationGracePeriodSeconds = ptr.To(int64(300))
		s.create(a)
		s.answer("bind", s.server.bind(s.copied("a").(*corev1.Pod)))
		s.remove("a", simulation.Deletion{})
		s.look("a")
		s.remove("a", simulation.Deletion{Grace: ptr.To(int64(100))})
		s.look("a")
		s.remove("a", simulation.Deletion{Grace: ptr.To(int64(200))})
		s.look("a")
	}},
	{"a pod goes when its node says that it has ended", func(s *session) {
		s.create(pod("a"))
		s.answer("bind", s.server.bind(s.copied("a").(*corev1.Pod)))
		s.remove("a", simulation.Deletion{})
		s.remove("a", simulation.Deletion{UID: s.uid("a"), Grace: ptr.To(int64(0))})
		s.look("a")
	}},
	{"a pod that failed goes at once", func(s *session) {
		s.create(pod("a"))
		s.answer("bind", s.server.bind(s.copied("a").(*corev1.Pod)))
		s.patchStatus("a", `{"status":{"phase":"Failed"}}`)
		s.look("a")
		s.remove("a", simulation.Deletion{})
		s.look("a")
	}},
	{"a finalizer keeps a pod beyond its grace period", func(s *session) {
		s.create(finalized(pod("a")))
		s.answer("bind", s.server.bind(s.copied("a").(*corev1.Pod)))
		s.remove("a", simulation.Deletion{})
		s.remove("a", simulation.Deletion{Grace: ptr.To(int64(0))})
		s.look("a")
		s.patch("a", `{"metadata":{"finalizers":null}}`)
		s.look("a")
	}},
}

var collections = []operation{
	{"what is owned goes after its owner", func(s *session) {
		s.create(box("owner"))
		s.create(s.ownedBy(pod("a"), "owner", true))
		s.remove("owner", simulation.Deletion{Propagation: background})
		s.look("owner")
		s.gone("a")
	}},
	{"what names an owner of another UID goes", func(s *session) {
		s.create(box("owner"))
		a := s.ownedBy(pod("a"), "owner", true)
		a.GetOwnerReferences()[0].UID = "other"
		s.create(a)
		s.gone("a")
		s.look("owner")
	}},
	{"what has another owner stays", func(s *session) {
		s.create(box("owner"))
		s.create(box("other"))
		a := s.ownedBy(pod("a"), "other", true)
		second := s.ownedBy(pod("a"), "owner", true).GetOwnerReferences()[0]
		second.Controller = nil
		a.SetOwnerReferences(append(a.GetOwnerReferences(), second))
		s.create(a)
		s.create(s.ownedBy(pod("b"), "owner", true))
		s.remove("owner", simulation.Deletion{Propagation: background})
		s.gone("b")
		s.becomes("a", "has one owner", func(obj client.Object) bool { return len(obj.GetOwnerReferences()) == 1 })
		s.look("a")
	}},
	{"an owner deleted in the foreground stays until what it owns is gone", func(s *session) {
		s.create(box("owner"))
		s.create(finalized(s.ownedBy(box("a"), "owner", true)))
		s.remove("owner", simulation.Deletion{Propagation: foreground})
		s.becomes("a", "is being deleted", isDeleting)
		s.look("owner", "a")
		s.patch("a", `{"metadata":{"finalizers":null}}`)
		s.gone("owner")
		s.look("a")
	}},
	{"an owner deleted in the foreground does not wait for what does not block it", func(s *session) {
		s.create(box("owner"))
		s.create(finalized(s.ownedBy(box("a"), "owner", false)))
		s.remove("owner", simulation.Deletion{Propagation: foreground})
		s.gone("owner")
		s.becomes("a", "is being deleted", isDeleting)
		s.look("a")
	}},
	{"what is owned and owns is deleted in the foreground with its owner", func(s *session) {
		s.create(box("owner"))
		s.create(s.ownedBy(box("a"), "owner", true))
		s.create(finalized(s.ownedBy(box("b"), "a", true)))
		s.remove("owner", simulation.Deletion{Propagation: foreground})
		s.becomes("b", "is being deleted", isDeleting)
		s.look("owner", "a", "b")
		s.patch("b", `{"metadata":{"finalizers":null}}`)
		s.gone("owner")
		s.look("a", "b")
	}},
	{"what is owned by an orphaning owner stays without it", func(s *session) {
		s.create(box("owner"))
		s.create(s.ownedBy(box("a"), "owner", true))
		s.remove("owner", simulation.Deletion{Propagation: orphan})
		s.gone("owner")
		s.look("a")
	}},
}

var applies = []operation{
	{"an apply makes what is not there", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, `,"service":true`)
		s.look("t")
	}},
	{"an apply of the same changes nothing", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.look("t")
	}},
	{"an apply changes what its manager owns", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.apply("t", "one", false, `"labels":{"x":"2"}`, `,"service":true`)
		s.look("t")
	}},
	{"an apply removes what its manager no longer wants", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1","y":"2"}`, `,"service":true`)
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.look("t")
	}},
	{"an apply of what another manager owns is a conflict, unless forced", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.apply("t", "two", false, `"labels":{"x":"2"}`, "")
		s.look("t")
		s.apply("t", "two", true, `"labels":{"x":"2"}`, "")
		s.look("t")
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.apply("t", "one", false, "", "")
		s.look("t")
	}},
	{"what two managers want stays until neither does", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.apply("t", "two", false, `"labels":{"x":"1"}`, "")
		s.apply("t", "one", false, "", "")
		s.look("t")
		s.apply("t", "two", false, "", "")
		s.look("t")
	}},
	{"an apply over somebody's patch is a conflict", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.patch("t", `{"metadata":{"labels":{"x":"2"}}}`)
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.look("t")
		s.apply("t", "one", false, "", "")
		s.look("t")
	}},
	{"an apply on an old version is a conflict", func(s *session) {
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		old := s.version("t")
		s.patch("t", `{"metadata":{"labels":{"y":"1"}}}`)
		s.apply("t", "one", false, fmt.Sprintf(`"resourceVersion":%q,"labels":{"x":"2"}`, old), "")
		s.look("t")
	}},
	{"an apply leaves what others wrote", func(s *session) {
		s.create(labelled(template("t"), map[string]string{"y": "1"}))
		s.apply("t", "one", false, `"labels":{"x":"1"}`, "")
		s.look("t")
	}},
}

var reads = []operation{
	{"a list by label has what is labelled so", func(s *session) {
		s.create(labelled(box("a"), map[string]string{"x": "1"}))
		s.create(labelled(box("b"), map[string]string{"x": "2"}))
		s.create(box("c"))
		for _, selector := range []string{"x=1", "x!=1", "x in (1,2)", "!x", "x", "x=1,x=2"} {
			names, err := s.server.list(box(""), selector, "")
			s.answer(fmt.Sprintf("%s: %v", selector, names), err)
		}
	}},
	{"a list by name has what is named so", func(s *session) {
		s.create(box("a"))
		s.create(box("b"))
		for _, selector := range []string{"metadata.name=a", "metadata.name!=a", "metadata.name=c"} {
			names, err := s.server.list(box(""), "", selector)
			s.answer(fmt.Sprintf("%s: %v", selector, names), err)
		}
	}},
	{"a watch tells of each change once, in order", func(s *session) {
		s.create(box("first"))
		s.create(finalized(box("a")))
		s.create(box("b"))
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.patchStatus("b", `{"status":{"nodeName":"n"}}`)
		s.remove("a", simulation.Deletion{})
		s.remove("b", simulation.Deletion{})
		s.patch("a", `{"metadata":{"finalizers":null}}`)
		s.create(box("a"))
		s.create(box("last"))
		s.events("")
	}},
	{"a watch by label tells of what enters and leaves", func(s *session) {
		s.create(box("first"))
		s.create(box("a"))
		s.create(labelled(box("b"), map[string]string{"x": "1"}))
		s.patch("a", `{"metadata":{"labels":{"x":"1"}}}`)
		s.patch("a", `{"metadata":{"labels":{"y":"1"}}}`)
		s.patch("a", `{"metadata":{"labels":{"x":"2"}}}`)
		s.patch("a", `{"metadata":{"labels":{"y":"2"}}}`)
		s.remove("b", simulation.Deletion{})
		s.create(labelled(box("last"), map[string]string{"x": "1"}))
		s.events("x=1")
	}},
	{"a template has no status to write", func(s *session) {
		s.create(template("t"))
		s.patchStatus("t", `{"status":{"a":"b"}}`)
		s.look("t")
	}},
	{"the generation of a template follows its content", func(s *session) {
		s.create(template("t"))
		s.update("t", func(obj client.Object) { obj.(*extensions.SandboxTemplate).Spec.Service = ptr.To(true) })
		s.look("t")
		s.patch("t", `{"metadata":{"annotations":{"x":"1"}}}`)
		s.look("t")
	}},
}

// events says what a watch told between the first and the last object.
func (s *session) events(labels string) {
	events, err := s.server.watch(s.last("first"), s.last("last"), labels)
	s.answer(fmt.Sprintf("watched %v", events), err)
}
