// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/simulation"
)

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
