// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/internal/simulation"
)

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
