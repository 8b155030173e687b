// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/template"
)

// observed is everything decide may know. It is never modified.
type observed struct {
	// Pool is nil if there is none.
	Pool *extensions.SandboxWarmPool
	// Template is nil if the server, not only the cache, has none.
	Template *extensions.SandboxTemplate
	// Blueprint is the template's, nil without a template.
	Blueprint *blueprint.Blueprint
	// Policy is what there is under the name of the template's NetworkPolicy, or nil.
	Policy *networkingv1.NetworkPolicy
	// Members are the Sandboxes whose controller is the pool, terminating ones included.
	Members []*agents.Sandbox
	// Binding is how many claims of the pool are not bound yet. It is a hint, and only
	// looked up while members are missing.
	Binding int
	// InFlight are the names of members whose creation may still land.
	InFlight []string
	// Pods are the pods of members that have not been Ready for longer than the grace
	// period, by the member's UID.
	Pods    map[types.UID][]*corev1.Pod
	Memory  memory
	Options Options
}

func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	pool, ok, err := r.views.WarmPools.Get(ctx, key)
	if err != nil {
		return observed{}, err
	}
	if !ok {
		r.memories.forget(key)
		return observed{}, nil
	}
	seen := observed{Pool: pool, Options: r.options}
	if pool.DeletionTimestamp != nil {
		return seen, nil
	}
	if err := r.observeTemplate(ctx, &seen); err != nil {
		return seen, err
	}
	if err := r.observeMembers(ctx, &seen); err != nil {
		return seen, err
	}
	seen.Memory = r.remember(key, &seen)
	return seen, nil
}

func (r *Reconciler) observeTemplate(ctx context.Context, seen *observed) error {
	key := types.NamespacedName{Namespace: seen.Pool.Namespace, Name: seen.Pool.Spec.TemplateRef.Name}
	t, ok, err := r.views.Templates.Get(ctx, key)
	if err == nil && !ok && !knownMissing(seen.Pool) {
		// Two informers are at different points in time: the pool's may already show
		// what the template's does not.
		t, ok, err = r.views.Templates.Live(ctx, key)
	}
	if err != nil || !ok {
		return err
	}
	seen.Template, seen.Blueprint = t, blueprint.Of(t)
	policy, ok, err := r.views.NetworkPolicies.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: template.PolicyName(t.Name)})
	if ok {
		seen.Policy = policy
	}
	return err
}

// knownMissing reports whether the server was already asked for the template that the
// pool names.
func knownMissing(pool *extensions.SandboxWarmPool) bool {
	resolved := meta.FindStatusCondition(pool.Status.Conditions, extensions.ConditionTemplateResolved)
	return resolved != nil && resolved.Status == metav1.ConditionFalse && resolved.ObservedGeneration == pool.Generation
}

func (r *Reconciler) observeMembers(ctx context.Context, seen *observed) error {
	uid := string(seen.Pool.UID)
	found, err := r.views.Sandboxes.By(ctx, kinds.ByController, uid)
	if err != nil {
		return err
	}
	members := membersAmong(found)
	seen.Members = members
	for _, attempt := range r.views.Sandboxes.Undecided(kinds.ByController, uid) {
		if attempt.Verb == consistent.VerbCreate && !slices.ContainsFunc(members, named(attempt.Intended.Name)) {
			seen.InFlight = append(seen.InFlight, attempt.Intended.Name)
		}
	}
	if len(members) < int(seen.Pool.DesiredReplicas()) {
		// A peek, because only the pace is decided from it, and a claim's undecided
		// write is no business of the pool's.
		seen.Binding = len(r.views.Claims.Peek(kinds.ByPool, kinds.InNamespace(seen.Pool.Namespace, seen.Pool.Name)))
	}
	slices.Sort(seen.InFlight)
	seen.InFlight = slices.Compact(seen.InFlight)
	now := r.env.Clock.Now()
	seen.Pods = map[types.UID][]*corev1.Pod{}
	for _, member := range members {
		if member.DeletionTimestamp != nil || isReady(member) || isFinished(member) || now.Before(graceEnd(member, r.options)) {
			continue
		}
		pods, err := r.views.Pods.By(ctx, kinds.ByController, string(member.UID))
		if err != nil {
			return err
		}
		seen.Pods[member.UID] = pods
	}
	return nil
}

// membersAmong leaves out Sandboxes whose controller carries the pool's UID and is of
// another kind.
func membersAmong(sandboxes []*agents.Sandbox) []*agents.Sandbox {
	foreign := func(s *agents.Sandbox) bool {
		return control.ControllerOf(s, extensions.GroupVersion.Group, "SandboxWarmPool") == nil
	}
	if !slices.ContainsFunc(sandboxes, foreign) {
		return sandboxes
	}
	return slices.DeleteFunc(slices.Clone(sandboxes), foreign)
}

func named(name string) func(*agents.Sandbox) bool {
	return func(s *agents.Sandbox) bool { return s.Name == name }
}

// remember returns what is remembered of the pool, after adding what can be seen now.
func (r *Reconciler) remember(key types.NamespacedName, seen *observed) memory {
	known := r.memories.of(key, seen.Pool.UID)
	next, now := known, r.env.Clock.Now()
	live := 0
	for _, member := range seen.Members {
		if member.DeletionTimestamp == nil {
			live++
		}
	}
	if live != known.Live {
		next = next.counted(live, now)
	}
	if known.Creates.Count > 0 || known.Deletes.Count > 0 {
		next = next.ofWork(seen.Pool, takeStock(*seen, now))
	}
	if next != known {
		r.memories.set(key, next)
	}
	return next
}

func isReady(s *agents.Sandbox) bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionReady)
}

func isFinished(s *agents.Sandbox) bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionFinished)
}

// graceEnd is until when a member may be not Ready: its grace begins when it was
// created, and anew when it stops being Ready.
func graceEnd(s *agents.Sandbox, o Options) time.Time {
	since := s.CreationTimestamp.Time
	if ready := meta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady); ready != nil && ready.LastTransitionTime.After(since) {
		since = ready.LastTransitionTime.Time
	}
	return since.Add(o.ReadinessGracePeriod)
}

// key is the pool's name.
func (o observed) key() types.NamespacedName { return client.ObjectKeyFromObject(o.Pool) }

// versions identifies the specs that a decision rests on.
func (o observed) versions() versions { return versionsOf(o.Pool, o.Template) }

// policyProblem says why no Sandbox may be made from the template, "" if none may be
// only because its policy has to be written first, or nothing is wrong.
func (o observed) policyProblem() string {
	switch template.StateOf(o.Policy, o.Template) {
	case template.PolicyForeign:
		return "NetworkPolicy " + o.Policy.Name + " was not made for the template, so that members would not be isolated; rename or delete it"
	case template.PolicyTerminating:
		return "NetworkPolicy " + o.Policy.Name + " is being deleted and has to be gone first"
	default:
		return ""
	}
}

// names joins the names of Sandboxes, the first few of them.
func names(sandboxes []*agents.Sandbox) string {
	const few = 3
	var list []string
	for i, s := range sandboxes {
		if i == few {
			list = append(list, "...")
			break
		}
		list = append(list, s.Name)
	}
	return strings.Join(list, ", ")
}
