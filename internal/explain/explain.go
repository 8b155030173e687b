// SPDX-License-Identifier: Apache-2.0

// Package explain says why a claim, a sandbox, a pool, a template or an AgentRuntime is
// as it is: it runs
// the controllers' own observing and deciding on what the API server shows, writes
// nothing, and adds what the controllers do not look at and people need.
package explain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/claim"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/warmpool"
)

// Kind is a kind of object that can be explained.
type Kind string

// The kinds, as people write them.
const (
	Claim    Kind = "claim"
	Sandbox  Kind = "sandbox"
	Pool     Kind = "pool"
	Template Kind = "template"

	AgentRuntime Kind = "agentruntime"
)

// Options of an explanation.
type Options struct {
	// Now is the time that the decision is made for.
	Now time.Time
	// ControllerNamespace is where the controllers' Lease is.
	ControllerNamespace string
	// OperatorNamespace holds the cluster's configuration of agents; empty means
	// agentruntime's default.
	OperatorNamespace string
	// Command writes one of this program's commands for a person to type.
	Command func(name string, args ...string) string
}

// NotFoundError says that there is no such object.
type NotFoundError struct {
	Kind Kind
	Key  types.NamespacedName
	// Names are those that there are of the kind, and Users are the objects that name the
	// one that is not there.
	Names, Users []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no %s %q in namespace %q", e.Kind, e.Key.Name, e.Key.Namespace)
}

// Of explains one object. It returns a NotFoundError if there is no such object and
// nothing to say about it, or the server's error if it cannot be read.
func Of(ctx context.Context, reader client.Reader, kind Kind, key types.NamespacedName, o Options) (*Report, error) {
	found, err := take(ctx, reader, key.Namespace)
	if err == nil && kind == AgentRuntime {
		err = found.takeAgents(ctx, reader, key.Namespace, o.operatorNamespace())
	}
	if err != nil {
		return nil, err
	}
	x := newExplainer(reader, found, o)
	var r *Report
	switch kind {
	case Claim:
		r, err = x.claim(ctx, key)
	case Sandbox:
		r, err = x.sandbox(ctx, key)
	case Pool:
		r, err = x.pool(ctx, key)
	case Template:
		r, err = x.template(ctx, key)
	case AgentRuntime:
		r, err = x.agentRuntime(ctx, key)
	default:
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	if err != nil {
		return nil, err
	}
	x.controllers(ctx, r)
	if r.Verdict != Well {
		x.forWhom(r, key)
		r.Warnings = x.warnings(r)
	}
	for _, err := range found.unread {
		r.Unread = append(r.Unread, err.Error())
	}
	r.finish()
	return r, nil
}

// explainer explains the objects of one snapshot.
type explainer struct {
	reader  client.Reader
	found   *snapshot
	options Options
	nodes   map[string]nodeState // by name, those that were read

	sandboxes *sandbox.Reconciler
	pools     *warmpool.Reconciler
	templates *template.Reconciler
	claims    *claim.Reconciler
	agents    *agentruntime.Reconciler
}

func newExplainer(reader client.Reader, found *snapshot, o Options) *explainer {
	env := control.Environment{
		Clock:   standing{now: o.Now},
		Suffix:  func() string { return "xxxxx" },
		Wake:    func(string, ...reconcile.Request) {},
		NewLock: func() sync.Locker { return &sync.Mutex{} },
	}
	views := found.views()
	x := &explainer{
		reader: reader, found: found, options: o, nodes: map[string]nodeState{},
		sandboxes: sandbox.New(env, views, sandbox.Options{WholePods: wholePods{found}}),
		pools:     warmpool.New(env, views, warmpool.Options{}),
		templates: template.New(env, views),
		claims:    claim.New(env, views, claim.Options{Quiet: true}),
		agents:    agentruntime.New(env, views, agentruntime.Options{OperatorNamespace: o.OperatorNamespace, Lister: found}),
	}
	// As a controller that starts to lead is told.
	for _, obj := range found.all() {
		for _, watch := range x.claims.Watches() {
			if fmt.Sprintf("%T", watch.Object) == fmt.Sprintf("%T", obj) {
				watch.Enqueue(nil, obj)
			}
		}
	}
	return x
}

// standing is a clock that stands still: all of an explanation is of one moment.
type standing struct{ now time.Time }

var _ clock.PassiveClock = standing{}

// Now implements clock.PassiveClock.
func (s standing) Now() time.Time { return s.now }

// Since implements clock.PassiveClock.
func (s standing) Since(t time.Time) time.Duration { return s.now.Sub(t) }

// wholePods are the pods with all that is in them.
type wholePods struct{ found *snapshot }

// Get implements sandbox.PodReader.
func (w wholePods) Get(_ context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	for _, pod := range w.found.whole {
		if client.ObjectKeyFromObject(pod) == key {
			return pod, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
}

// podsOf are the whole pods that have the given controller.
func (x *explainer) podsOf(uid types.UID) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range x.found.whole {
		if control.IsControlledBy(pod, uid) {
			list = append(list, pod)
		}
	}
	return list
}

// controllers says if no controller is at work that does what is next.
func (x *explainer) controllers(ctx context.Context, r *Report) {
	state := x.anyAtWork(ctx, x.leases(r.Kind))
	if state.unread != nil {
		r.Unread = append(r.Unread, state.unread.Error())
	}
	if state.absent == "" || !state.sure && r.Verdict == Well {
		return
	}
	r.Sees = append([]string{capital(state.absent) + "."}, r.Sees...)
	if r.Verdict == Well {
		return
	}
	if state.sure {
		r.worsen(Stuck)
	}
	r.Advice = append([]string{fmt.Sprintf("see why no controller runs: kubectl get deployments,pods -n %s", x.options.ControllerNamespace)}, r.Advice...)
}

// forWhom says who waits for the object.
func (x *explainer) forWhom(r *Report, key types.NamespacedName) {
	var users []string
	switch r.Kind {
	case Sandbox:
		for _, s := range x.found.sandboxes.items {
			ref := metav1.GetControllerOfNoCopy(s)
			switch {
			case client.ObjectKeyFromObject(s) != key || ref == nil:
			case ref.Kind == extensions.SandboxClaimKind:
				users = append(users, "claim/"+ref.Name)
			case ref.Kind == extensions.SandboxWarmPoolKind:
				users = append(users, "pool/"+ref.Name)
			}
		}
	case Pool:
		users = x.claimsBy(kinds.ByPool, key)
	case Template:
		users = x.usersOf(key)
	case Claim, AgentRuntime: // a person does
	}
	if len(users) > 0 {
		r.Waits = append(r.Waits, "waiting for this "+string(r.Kind)+": "+few(users))
	}
}

// missing is the error for an object that is not there.
func (x *explainer) missing(kind Kind, key types.NamespacedName, users []string) error {
	var names []string
	switch kind {
	case Claim:
		names = namesOf(x.found.claims)
	case Sandbox:
		names = namesOf(x.found.sandboxes)
	case Pool:
		names = namesOf(x.found.pools)
	case Template:
		names = namesOf(x.found.templates)
	case AgentRuntime:
		names = namesOf(x.found.agents)
	}
	return &NotFoundError{Kind: kind, Key: key, Names: names, Users: users}
}

func namesOf[T client.Object](v *view[T]) []string {
	var names []string
	for _, item := range v.items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return names
}

// tellOr takes over an explanation, or says why there is none: what the decision rests
// on may not be readable for this person. Any other error is returned.
func (r *Report) tellOr(e control.Explanation, err error) error {
	if apierrors.IsForbidden(err) {
		r.Next = append(r.Next, "not known, because something that it depends on cannot be read")
		r.Unread = append(r.Unread, err.Error())
		return nil
	}
	if err == nil {
		r.tell(e)
	}
	return err
}
