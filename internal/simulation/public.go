// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// public is a model of the public Sandbox controller since v0.4.3, as others meet it: it
// acts on caches that lag, copies the template's labels and annotations onto the pod that
// runs, computes no revisions, takes a terminating pod for one like any other, and writes
// without conditions. One Sandbox is worked on by one pass at a time, and between any two
// of its requests everything else may happen.
//
// A write never meets another Sandbox of the same name: that the real one may do so is
// outside of what a record of generations can hold against.
type public struct {
	run             *Run
	sandboxes, pods *informer
	waiting         []string
	passes          []*publicPass
	// making is the generation of the Sandbox that a pod is being made from.
	making int64
}

// publicPass is a pass over one Sandbox. again says that it has to be repeated.
type publicPass struct {
	name  string
	task  *task
	again bool
}

func newPublic(run *Run) *public {
	p := &public{run: run}
	cache := func(resource string, kind client.Object) *informer {
		return &informer{server: run.server, kind: reflect.TypeOf(kind), resource: resource, slim: func(obj client.Object) client.Object { return obj }}
	}
	p.sandboxes, p.pods = cache("sandboxes", &agents.Sandbox{}), cache("pods", &corev1.Pod{})
	p.start()
	return p
}

// start begins a new life: nothing of the last is known.
func (p *public) start() {
	p.end()
	p.waiting, p.passes = nil, nil
	p.sandboxes.sync()
	p.pods.sync()
	p.told()
}

func (p *public) end() {
	for _, pass := range p.passes {
		pass.task.kill()
	}
}

// actions are what can happen next.
func (p *public) actions() {
	run := p.run
	for _, i := range []*informer{p.sandboxes, p.pods} {
		if behind := i.behind(); behind > 0 {
			run.may(run.focus.agents.pace(), func() {
				i.deliver(1 + run.choices.Pick(min(behind, 4)))
				p.told()
			})
		}
	}
	for n := range p.passes {
		run.may(40, func() { p.resume(n) })
	}
	for _, name := range p.waiting {
		if !p.working(name) {
			run.may(40, func() { p.begin(name) })
		}
	}
	if run.faulty {
		run.may(run.focus.upheaval, func() {
			run.note("public controller: starts again")
			p.start()
		})
	}
}

// settle sees everything and does everything there is to do, and reports whether there
// was anything.
func (p *public) settle() bool {
	busy := p.sandboxes.behind()+p.pods.behind()+len(p.waiting)+len(p.passes) > 0
	for len(p.passes) > 0 {
		p.resume(0)
	}
	p.sandboxes.deliver(p.sandboxes.behind())
	p.pods.deliver(p.pods.behind())
	p.told()
	for _, name := range slices.Clone(p.waiting) {
		p.begin(name)
		for len(p.passes) > 0 {
			p.resume(0)
		}
	}
	return busy
}

// told puts into the queue what the caches have learnt of.
func (p *public) told() {
	for _, n := range p.sandboxes.notices {
		for _, obj := range []client.Object{n.before, n.after} {
			if obj != nil {
				p.enqueue(obj.GetName())
			}
		}
	}
	for _, n := range p.pods.notices {
		for _, obj := range []client.Object{n.before, n.after} {
			if obj == nil {
				continue
			}
			if owner := control.ControllerOf(obj, agents.GroupName, agents.SandboxKind); owner != nil {
				p.enqueue(owner.Name)
			}
		}
	}
	p.sandboxes.notices, p.pods.notices = nil, nil
}

func (p *public) enqueue(name string) {
	if !slices.Contains(p.waiting, name) {
		p.waiting = append(p.waiting, name)
	}
}

func (p *public) working(name string) bool {
	return slices.ContainsFunc(p.passes, func(pass *publicPass) bool { return pass.name == name })
}

func (p *public) begin(name string) {
	p.waiting = slices.DeleteFunc(p.waiting, func(waits string) bool { return waits == name })
	pass := &publicPass{name: name}
	pass.task = p.run.crew.newTask("public", name, func() { p.reconcile(pass) })
	p.passes = append(p.passes, pass)
	p.resume(len(p.passes) - 1)
}

func (p *public) resume(n int) {
	pass := p.passes[n]
	pass.task.resume()
	if pass.task.panic != nil {
		p.run.fail(noPanic, "public controller: %s: %v\n%s", pass.name, pass.task.panic, pass.task.stack)
	}
	if pass.task.ended {
		p.passes = slices.Delete(p.passes, n, n+1)
		if pass.again {
			p.enqueue(pass.name)
		}
	}
}

// reconcile is one pass over a Sandbox as the cache shows it.
func (p *public) reconcile(pass *publicPass) {
	s, ok := p.sandboxes.items[key(pass.name)].(*agents.Sandbox)
	if !ok || s.DeletionTimestamp != nil {
		return
	}
	pod, problem := p.podOf(pass, s)
	pass.again = problem != ""
	p.report(pass, s, pod, problem)
}

// podOf brings the pod about that the Sandbox should have, and returns it.
func (p *public) podOf(pass *publicPass, s *agents.Sandbox) (pod *corev1.Pod, problem string) {
	named := s.Annotations[agents.AnnotationPodName]
	pod, _ = p.pods.items[key(cmp.Or(named, s.Name))].(*corev1.Pod)
	for _, obj := range p.pods.sorted() {
		if control.IsControlledBy(obj, s.UID) {
			pod = obj.(*corev1.Pod)
		}
	}
	if pod == nil && named != "" {
		p.annotate(pass, s, "")
		named = ""
	}
	mine := pod != nil && control.IsControlledBy(pod, s.UID)
	switch {
	case !s.Running():
		if mine && pod.DeletionTimestamp == nil {
			pass.task.stop()
			_, _, err := p.run.server.Delete("pods", client.ObjectKeyFromObject(pod), consistent.DeleteCondition{})
			p.run.note("public controller: delete pod %s: %s", pod.Name, outcome{nil, err})
		}
		if named != "" {
			p.annotate(pass, s, "")
		}
		return pod, ""
	case pod != nil && !mine:
		return nil, "the pod is another's"
	case pod != nil:
		problem = p.copyMetadata(pass, s, pod)
	default:
		if pod, problem = p.make(pass, s); pod == nil {
			return nil, problem
		}
	}
	if named == "" {
		p.annotate(pass, s, pod.Name)
	}
	return pod, problem
}

// make creates the pod from the Sandbox as it was when the pass began.
func (p *public) make(pass *publicPass, s *agents.Sandbox) (*corev1.Pod, string) {
	template := s.Spec.PodTemplate.Metadata
	pod := &corev1.Pod{ObjectMeta: named(s.Name)}
	pod.Labels, pod.Annotations = maps.Clone(template.Labels), maps.Clone(template.Annotations)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, agents.LabelSandboxNameHash, agents.NameHash(s.Name))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, agents.AnnotationPropagatedLabels, keysOf(template.Labels))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, agents.AnnotationPropagatedAnnotations, keysOf(template.Annotations))
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, agents.GroupVersion.WithKind(agents.SandboxKind))}
	pod.Spec = *s.Spec.PodTemplate.Spec.DeepCopy()
	pass.task.stop()
	p.making = s.Generation
	made, err := p.run.server.Create("pods", pod)
	p.run.note("public controller: create pod %s from generation %d of the Sandbox: %s", pod.Name, s.Generation, outcome{made, err})
	switch {
	case err == nil:
		return made.(*corev1.Pod), ""
	case apierrors.IsAlreadyExists(err):
		found, _ := p.run.server.tables["pods"].objects[key(s.Name)].(*corev1.Pod)
		if found == nil || !control.IsControlledBy(found, s.UID) {
			return nil, "the pod is another's"
		}
		return found, ""
	default:
		return nil, err.Error()
	}
}

// copyMetadata brings labels and annotations of a pod that runs to the template's.
func (p *public) copyMetadata(pass *publicPass, s *agents.Sandbox, pod *corev1.Pod) (problem string) {
	template := s.Spec.PodTemplate.Metadata
	merge := func(has, want map[string]string, listed string) map[string]string {
		next := maps.Clone(has)
		if next == nil {
			next = map[string]string{}
		}
		for _, gone := range strings.Split(listed, ",") {
			if _, kept := want[gone]; !kept {
				delete(next, gone)
			}
		}
		maps.Copy(next, want)
		return next
	}
	labels := merge(pod.Labels, template.Labels, pod.Annotations[agents.AnnotationPropagatedLabels])
	annotations := merge(pod.Annotations, template.Annotations, pod.Annotations[agents.AnnotationPropagatedAnnotations])
	annotations[agents.AnnotationPropagatedLabels] = keysOf(template.Labels)
	annotations[agents.AnnotationPropagatedAnnotations] = keysOf(template.Annotations)
	if maps.Equal(labels, pod.Labels) && maps.Equal(annotations, pod.Annotations) {
		return ""
	}
	pass.task.stop()
	err := p.run.server.Edit("pods", client.ObjectKeyFromObject(pod), func(obj client.Object) {
		if obj.GetUID() == pod.UID {
			obj.SetLabels(labels)
			obj.SetAnnotations(annotations)
		}
	})
	p.run.note("public controller: copy metadata to pod %s: %s", pod.Name, outcome{nil, err})
	if err != nil {
		return err.Error()
	}
	return ""
}

// annotate writes which pod the Sandbox has, or takes that away.
func (p *public) annotate(pass *publicPass, s *agents.Sandbox, pod string) {
	pass.task.stop()
	p.run.note("public controller: the pod of %s is %q", s.Name, pod)
	_ = p.run.server.Edit("sandboxes", client.ObjectKeyFromObject(s), func(obj client.Object) {
		if obj.GetUID() != s.UID {
			return
		}
		annotations := maps.Clone(obj.GetAnnotations())
		if delete(annotations, agents.AnnotationPodName); pod != "" {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[agents.AnnotationPodName] = pod
		}
		obj.SetAnnotations(annotations)
	})
}

// report writes the status.
func (p *public) report(pass *publicPass, s *agents.Sandbox, pod *corev1.Pod, problem string) {
	ready := metav1.Condition{Type: agents.ConditionReady, Status: metav1.ConditionFalse, Reason: agents.ReasonDependenciesNotReady}
	suspended := metav1.Condition{Type: agents.ConditionSuspended, Status: metav1.ConditionFalse, Reason: agents.ReasonNotSuspended}
	switch {
	case problem != "":
		ready.Reason = agents.ReasonReconcilerError
	case !s.Running() && pod == nil:
		ready.Reason = agents.ReasonSandboxSuspended
		suspended.Status, suspended.Reason = metav1.ConditionTrue, agents.ReasonPodTerminated
	case !s.Running():
		ready.Reason, suspended.Reason = agents.ReasonSandboxSuspended, agents.ReasonPodTerminating
	case pod != nil && pod.Status.Phase == corev1.PodRunning && isReady(pod):
		ready.Status, ready.Reason = metav1.ConditionTrue, agents.ReasonDependenciesReady
	}
	next := slices.Clone(s.Status.Conditions)
	for _, c := range []metav1.Condition{suspended, ready} {
		c.ObservedGeneration, c.LastTransitionTime = s.Generation, p.run.server.seconds(0)
		apimeta.SetStatusCondition(&next, c)
	}
	if slices.Equal(next, s.Status.Conditions) {
		return
	}
	pass.task.stop()
	if now := p.run.server.tables["sandboxes"].objects[key(s.Name)]; now == nil || now.GetUID() != s.UID {
		return
	}
	p.run.note("public controller: Sandbox %s at generation %d: Ready is %s (%s)", s.Name, s.Generation, ready.Status, ready.Reason)
	p.run.server.EditStatus("sandboxes", key(s.Name), func(obj client.Object) { obj.(*agents.Sandbox).Status.Conditions = next })
}

func keysOf(of map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(of)), ",") }

// sandboxWith returns a state of an object if it is of the Sandbox with a UID, else nil.
func sandboxWith(uid types.UID, obj client.Object) *agents.Sandbox {
	if s := asSandbox(obj); s != nil && s.UID == uid {
		return s
	}
	return nil
}
