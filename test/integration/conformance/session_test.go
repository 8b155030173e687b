// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/simulation"
)

// server is what the operations are done to. All is in one namespace. Objects that are
// given tell the kind and the name; replies are written into them.
type server interface {
	create(obj client.Object) error
	get(obj client.Object) error
	update(obj client.Object, subresource string) error
	patch(obj client.Object, kind types.PatchType, subresource, body string) error
	apply(obj client.Object, manager string, force bool, body string) error
	remove(obj client.Object, asked simulation.Deletion) error
	// list returns the names of the selected objects.
	list(like client.Object, labels, fields string) ([]string, error)
	// watch returns the events since an object was seen, up to one of another object
	// that is the last.
	watch(since, last client.Object, labels string) ([]string, error)
	// bind puts a pod on a node.
	bind(pod *corev1.Pod) error
	// exhaust leaves no quota of pods.
	exhaust() error
	// await lets the garbage collector work until something holds.
	await(like client.Object, holds func() bool) error
}

// session is one operation on one server. It writes down what the server answered.
type session struct {
	t       *testing.T
	server  server
	lines   []string
	objects map[string]client.Object // as they were seen last
}

func (s *session) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// answer says what came of a request.
func (s *session) answer(what string, err error) {
	var status apierrors.APIStatus
	switch reason := apierrors.ReasonForError(err); {
	case err == nil:
		s.say("%s: done", what)
	case reason != metav1.StatusReasonUnknown:
		s.say("%s: %s", what, reason)
	case errors.As(err, &status):
		s.say("%s: %d", what, status.Status().Code)
	default:
		s.t.Fatalf("%s: %v", what, err)
	}
}

func box(name string) *agents.Sandbox {
	b := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	return b
}

func template(name string) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	return t
}

func pool(name string) *extensions.SandboxWarmPool {
	p := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.TemplateRef.Name = "template"
	return p
}

func claim(name string) *extensions.SandboxClaim {
	c := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.WarmPoolRef = &extensions.SandboxWarmPoolRef{Name: "pool"}
	return c
}

func pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	p.Spec.AutomountServiceAccountToken = ptr.To(false)
	return p
}

func (s *session) create(obj client.Object) {
	err := s.server.create(obj)
	if err == nil {
		s.objects[obj.GetName()] = obj
	}
	s.answer("create "+obj.GetName(), err)
}

// last is an object as it was seen last.
func (s *session) last(name string) client.Object { return s.objects[name] }

func (s *session) version(name string) string { return s.last(name).GetResourceVersion() }

func (s *session) uid(name string) types.UID { return s.last(name).GetUID() }

func (s *session) copied(name string) client.Object {
	return s.last(name).DeepCopyObject().(client.Object)
}

func (s *session) update(name string, change func(client.Object)) {
	obj := s.copied(name)
	change(obj)
	s.answer("update "+name, s.server.update(obj, ""))
}

func (s *session) patch(name, body string, args ...any) {
	s.answer("patch "+name, s.server.patch(s.copied(name), types.MergePatchType, "", fmt.Sprintf(body, args...)))
}

func (s *session) patchStatus(name, body string, args ...any) {
	s.answer("patch the status of "+name, s.server.patch(s.copied(name), types.MergePatchType, "status", fmt.Sprintf(body, args...)))
}

func (s *session) patchJSON(name, body string, args ...any) {
	s.answer("patch "+name, s.server.patch(s.copied(name), types.JSONPatchType, "", fmt.Sprintf(body, args...)))
}

func (s *session) apply(name, manager string, force bool, metadata, spec string) {
	s.answer(manager+" applies "+name, s.applied(name, manager, force, metadata, spec))
}

// applied applies a template. Its pod template is the same always.
func (s *session) applied(name, manager string, force bool, metadata, spec string) error {
	if metadata != "" {
		metadata = "," + metadata
	}
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":"SandboxTemplate","metadata":{"name":%q%s},"spec":{"podTemplate":{"spec":{"containers":[{"name":"main","image":"image"}]}}%s}}`,
		extensions.GroupVersion.String(), name, metadata, spec)
	obj := template(name)
	err := s.server.apply(obj, manager, force, body)
	if _, known := s.objects[name]; err == nil && !known {
		s.objects[name] = obj
	}
	return err
}

func (s *session) remove(name string, asked simulation.Deletion) {
	s.answer("delete "+name, s.server.remove(s.copied(name), asked))
}

// look says what has become of objects since they were seen last.
func (s *session) look(names ...string) {
	for _, name := range names {
		was, obj := s.last(name), s.copied(name)
		if err := s.server.get(obj); err != nil {
			s.answer("get "+name, err)
			continue
		}
		s.objects[name] = obj
		s.say("%s: %s", name, strings.Join(described(was, obj), ", "))
	}
}

// described is what matters of an object.
func described(was, obj client.Object) []string {
	said := []string{fmt.Sprintf("generation %d", obj.GetGeneration())}
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	switch {
	case was.GetUID() != obj.GetUID():
		say("another object")
	case was.GetResourceVersion() == obj.GetResourceVersion():
		say("same version")
	default:
		say("new version")
	}
	if len(obj.GetLabels()) > 0 {
		say("labels %v", obj.GetLabels())
	}
	if finalizers := slices.Sorted(slices.Values(obj.GetFinalizers())); len(finalizers) > 0 {
		say("finalizers %v", finalizers)
	}
	for _, owner := range obj.GetOwnerReferences() {
		say("owned by %s", owner.Name)
	}
	if obj.GetDeletionTimestamp() != nil {
		say("deleting with %d s of grace", ptr.Deref(obj.GetDeletionGracePeriodSeconds(), -1))
	}
	switch obj := obj.(type) {
	case *agents.Sandbox:
		say("%s, %d replicas, %s", obj.Spec.OperatingMode, ptr.Deref(obj.Spec.Replicas, -1), obj.Spec.ShutdownPolicy)
		if obj.Status.NodeName != "" || len(obj.Status.Conditions) > 0 {
			say("status on %q with %d conditions", obj.Status.NodeName, len(obj.Status.Conditions))
		}
	case *extensions.SandboxTemplate:
		say("service %v, %s", ptr.Deref(obj.Spec.Service, false), obj.Spec.PodTemplate.Spec.Containers[0].Image)
	case *extensions.SandboxWarmPool:
		say("%d replicas", ptr.Deref(obj.Spec.Replicas, -1))
	case *corev1.Pod:
		say("on %q, %s", obj.Spec.NodeName, obj.Status.Phase)
	}
	return said
}

// gone lets the garbage collector work until an object is gone.
func (s *session) gone(name string) {
	obj := s.copied(name)
	s.await(name+" goes", obj, func() bool { return apierrors.IsNotFound(s.server.get(obj)) })
}

// becomes lets the garbage collector work until an object is as it should be.
func (s *session) becomes(name, what string, holds func(client.Object) bool) {
	obj := s.copied(name)
	s.await(name+" "+what, obj, func() bool { return s.server.get(obj) == nil && holds(obj) })
}

func (s *session) await(what string, like client.Object, holds func() bool) {
	if err := s.server.await(like, holds); err != nil {
		s.say("%s: not seen (%v)", what, err)
		return
	}
	s.say("%s", what)
}

func isDeleting(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }

// ownedBy makes an object a dependent of another.
func (s *session) ownedBy(obj client.Object, owner string, blocks bool) client.Object {
	o := s.last(owner)
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: agents.GroupVersion.String(), Kind: "Sandbox", Name: owner, UID: o.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: &blocks,
	}})
	return obj
}

func finalized(obj client.Object) client.Object {
	obj.SetFinalizers([]string{"example.com/hold"})
	return obj
}

func labelled(obj client.Object, labels map[string]string) client.Object {
	obj.SetLabels(labels)
	return obj
}
