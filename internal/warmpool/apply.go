// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/template"
)

// apply does one step. An error for which consistent.Again holds means to observe
// again.
func (r *Reconciler) apply(ctx context.Context, seen observed, next step) error {
	switch next := next.(type) {
	case confirm:
		return r.confirm(ctx, seen)
	case deleteMembers:
		return r.deleteMembers(ctx, seen, next)
	case ensurePolicy:
		return r.ensurePolicy(ctx, seen)
	case createMembers:
		return r.createMembers(ctx, seen, next)
	case writeStatus:
		return r.writeStatus(ctx, seen, next.status)
	default:
		return fmt.Errorf("unknown step %T", next)
	}
}

// confirm reads pool and template from the server, and remembers which versions of
// them are no older than this moment.
func (r *Reconciler) confirm(ctx context.Context, seen observed) error {
	pool, ok, err := r.views.WarmPools.Live(ctx, seen.key())
	if err != nil || !ok {
		return err
	}
	t, ok, err := r.views.Templates.Live(ctx, types.NamespacedName{Namespace: pool.Namespace, Name: pool.Spec.TemplateRef.Name})
	if err != nil {
		return err
	}
	if !ok {
		t = nil
	}
	known := seen.Memory
	known.Confirmed = versionsOf(pool, t)
	r.memories.set(seen.key(), known)
	return nil
}

// ensurePolicy is done before members are created, not only by the template's own
// controller: no pod is without isolation for a moment.
func (r *Reconciler) ensurePolicy(ctx context.Context, seen observed) error {
	var err error
	if seen.Policy == nil {
		_, err = r.views.NetworkPolicies.Create(ctx, template.Policy(seen.Template))
	} else {
		_, err = r.views.NetworkPolicies.Patch(ctx, seen.Policy, template.PolicyPatch(seen.Policy, seen.Template))
	}
	problem := refused("no members can be made, because the template's NetworkPolicy is refused", []error{err}, nil)
	known := seen.Memory
	return r.settle(seen, &known, &known.Creates, extensions.ReasonPoolError, problem, []error{err})
}

func (r *Reconciler) createMembers(ctx context.Context, seen observed, next createMembers) error {
	members := slices.Clone(next.again)
	for range next.fresh {
		members = append(members, control.MemberName(seen.Pool.Name, r.env.Suffix()))
	}
	log.FromContext(ctx).V(1).Info("Creating members", "count", len(members), "again", len(next.again))
	known := seen.Memory
	if rate := seen.Options.MaxRefillRate; rate > 0 {
		now := r.env.Clock.Now()
		known.Tokens, known.TokensAt = known.tokens(rate, now)-float64(next.fresh), now
	}
	errs := r.each(ctx, len(members), func(ctx context.Context, i int) error {
		_, err := r.views.Sandboxes.Create(ctx, seen.Blueprint.Member(seen.Pool, members[i]))
		return err
	})
	for _, err := range errs {
		if err == nil {
			known.Live++ // a claim that takes one meanwhile is noticed
		}
	}
	return r.settle(seen, &known, &known.Creates, extensions.ReasonCreateRefused, refused("new members are refused", errs, members), errs)
}

func (r *Reconciler) deleteMembers(ctx context.Context, seen observed, next deleteMembers) error {
	log.FromContext(ctx).Info("Deleting members", "count", len(next.members), "names", names(next.members), "why", next.why)
	known := seen.Memory
	if next.lost {
		now := r.env.Clock.Now()
		known.Failures, known.Replaced = known.failures(now)+1, now
	}
	errs := r.each(ctx, len(next.members), func(ctx context.Context, i int) error {
		// A member exists until its pod is gone, so that it counts until then.
		return r.views.Sandboxes.Delete(ctx, next.members[i], consistent.Precondition{Foreground: true})
	})
	return r.settle(seen, &known, &known.Deletes, extensions.ReasonPoolError, refused("the deletion of members is refused", errs, nil), errs)
}

// each runs calls side by side and returns the error of each.
func (r *Reconciler) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) []error {
	errs := make([]error, n)
	// The errors are looked at one by one, so the joined one says nothing new.
	_ = r.env.Group.Each(ctx, n, func(ctx context.Context, i int) error {
		errs[i] = do(ctx, i)
		return errs[i]
	})
	return errs
}

// refused says what the server refused and why, or "" if it refused nothing. The names
// that were tried are left out: the next attempt's differ, and the reason does not.
func refused(what string, errs []error, tried []string) string {
	for i, err := range errs {
		if !isRefusal(err) {
			continue
		}
		message := err.Error()
		if i < len(tried) {
			message = strings.ReplaceAll(message, tried[i], "<member>")
		}
		return what + ": " + message
	}
	return ""
}

// firstLine is the first of several joined errors.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// isRefusal reports whether an error is the server's word that it will not do what was
// asked, so that asking again at once is no use.
func isRefusal(err error) bool {
	return err != nil && !consistent.Again(err) && !errors.Is(err, consistent.ErrLagging) && !errors.Is(err, context.Canceled)
}

// settle remembers what became of a batch of requests. A refusal is no error: it ends
// in a condition and a pause.
//
// of is the part of known that the requests belong to.
func (r *Reconciler) settle(seen observed, known *memory, of *refusal, reason, problem string, errs []error) error {
	before := *of
	err := errors.Join(errs...)
	switch {
	case problem != "":
		*of = before.failed(reason, problem, seen.versions(), r.env.Clock.Now())
		err = nil
	case err == nil:
		*of = before.succeeded(seen.Options.MaxBatchSize)
	case !consistent.Again(err), of == &known.Deletes:
		// What changed in the meantime is seen when members are looked at again.
	case before.Limit == 1:
		// Twice in a row nobody knows what became of a create: the server is not well.
		*of = before.failed(extensions.ReasonPoolError, "it is unknown whether new members are created: "+firstLine(err), seen.versions(), r.env.Clock.Now())
		err = nil
	default:
		*of = before.failed("", "", seen.versions(), r.env.Clock.Now())
	}
	r.memories.set(seen.key(), *known)
	return err
}

// writeStatus writes the status, then tells people of what changed.
func (r *Reconciler) writeStatus(ctx context.Context, seen observed, status extensions.SandboxWarmPoolStatus) error {
	patch, differs, err := consistent.Diff(seen.Pool.Status, status)
	if err != nil || !differs {
		return err
	}
	if _, err := r.views.WarmPools.PatchStatus(ctx, seen.Pool, consistent.Patch{"status": map[string]any(patch)}); err != nil {
		return err
	}
	known := seen.Memory
	known.StatusWritten = r.env.Clock.Now()
	r.memories.set(seen.key(), known)
	for _, e := range transitions(&seen.Pool.Status, &status) {
		log.FromContext(ctx).Info(e.reason, "note", e.note)
		r.env.Events.Eventf(seen.Pool, nil, e.kind, e.reason, "Reconciling", "%s", e.note)
	}
	return nil
}

type event struct{ kind, reason, note string }

// transitions are the events about a change from one status to the next.
func transitions(was, is *extensions.SandboxWarmPoolStatus) []event {
	var events []event
	missing := func(s *extensions.SandboxWarmPoolStatus) string {
		return (*poolStatus)(s).condition(extensions.ConditionTemplateResolved).Reason
	}
	if missing(is) == extensions.ReasonTemplateNotFound && missing(was) != extensions.ReasonTemplateNotFound {
		events = append(events, event{corev1.EventTypeWarning, extensions.ReasonTemplateNotFound, (*poolStatus)(is).condition(extensions.ConditionTemplateResolved).Message})
	}
	before, after := (*poolStatus)(was).progress(), (*poolStatus)(is).progress()
	switch {
	case before.Reason == after.Reason:
	case after.Reason == extensions.ReasonMembersHeld:
		events = append(events, event{corev1.EventTypeWarning, extensions.EventWarmPoolNotProgressing, after.Message})
	case after.Reason == extensions.ReasonCreateRefused, after.Reason == extensions.ReasonMembersFailing, after.Reason == extensions.ReasonPoolError:
		events = append(events, event{corev1.EventTypeWarning, after.Reason, after.Message})
	case before.Reason == extensions.ReasonMembersHeld:
		events = append(events, event{corev1.EventTypeNormal, extensions.EventWarmPoolProgressing, after.Message})
	}
	return events
}
