// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/roster"
)

// observed is everything decide may know. It is never modified.
type observed struct {
	Claim *extensions.SandboxClaim
	// Mine are the Sandboxes the claim controls, the oldest first, terminating ones
	// included.
	Mine []*agents.Sandbox
	// Undecided are writes that would give the claim a Sandbox and whose outcome is
	// not known.
	Undecided []consistent.Attempt[*agents.Sandbox]
	// OwnPolicy is a NetworkPolicy of a bound claim alone, as former versions made them.
	OwnPolicy *networkingv1.NetworkPolicy
	// Named is the Sandbox that stands under the name in the claim's status, whoever
	// it belongs to. If it is nil, a live read proved that there is none.
	Named *agents.Sandbox

	// What follows is looked up only for a claim that has no Sandbox and may get one.

	Source source
	// Candidate is the member promised to the claim, found adoptable.
	Candidate *agents.Sandbox
	// Wait is true if a member that is coming up is meant for the claim.
	Wait bool
	// Rejected says of members that were promised to the claim why it cannot adopt
	// them.
	Rejected []string
	// Occupant is a Sandbox of the claim's name that is not the claim's.
	Occupant *agents.Sandbox
	// Policy is the template's NetworkPolicy if it exists.
	Policy *networkingv1.NetworkPolicy

	// AnnotateTimes is Options.AnnotateTimes, and Times what is known to annotate.
	AnnotateTimes bool
	Times         times

	// answers are what the server said to this pass's writes.
	answers
	// LabelDomains are the domains of Options.AllowedLabelDomains.
	LabelDomains []string
}

// observe reads what there is to know about one claim. On an error the claim is
// returned as far as it is known.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName, heard answers) (observed, error) {
	seen := observed{answers: heard, LabelDomains: r.options.AllowedLabelDomains}
	claim, ok, err := r.views.Claims.Get(ctx, key)
	if err != nil || !ok {
		return seen, err
	}
	seen.Claim = claim
	if claim.DeletionTimestamp != nil {
		return seen, nil
	}
	if seen.Mine, err = r.views.Sandboxes.By(ctx, kinds.ByController, string(claim.UID)); err != nil {
		return seen, err
	}
	seen.Undecided = gaining(claim, r.views.Sandboxes.Undecided(kinds.ByController, string(claim.UID)))
	if claim.Status.Sandbox.Name != "" {
		seen.AnnotateTimes = r.options.AnnotateTimes
		if seen.OwnPolicy, err = r.ownPolicy(ctx, claim); err != nil {
			return seen, err
		}
		seen.Named, err = r.named(ctx, claim)
		return seen, err
	}
	if !wantsSandbox(seen, r.env.Clock.Now()) {
		return seen, nil
	}
	return r.observeSupply(ctx, seen)
}

// gaining picks the writes that would give the claim a Sandbox it does not have yet.
func gaining(claim *extensions.SandboxClaim, writes []consistent.Attempt[*agents.Sandbox]) []consistent.Attempt[*agents.Sandbox] {
	return slices.DeleteFunc(writes, func(a consistent.Attempt[*agents.Sandbox]) bool {
		switch a.Verb {
		case consistent.VerbCreate:
			return false
		case consistent.VerbPatch:
			return control.IsControlledBy(a.Base, claim.UID)
		default:
			return true
		}
	})
}

// named reads the Sandbox the claim's status names. If it is not there, or is another
// one than was bound, that is read live before it counts.
func (r *Reconciler) named(ctx context.Context, claim *extensions.SandboxClaim) (*agents.Sandbox, error) {
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Status.Sandbox.Name}
	s, ok, err := r.views.Sandboxes.Get(ctx, key)
	if err != nil || ok && isBoundTo(claim, s) {
		return s, err
	}
	s, ok, err = r.views.Sandboxes.Live(ctx, key)
	if err != nil || !ok {
		return nil, err
	}
	return s, nil
}

// observeSupply looks for a Sandbox for an unbound claim.
func (r *Reconciler) observeSupply(ctx context.Context, seen observed) (observed, error) {
	var err error
	if seen.Source, err = r.source(ctx, seen.Claim); err != nil {
		return seen, err
	}
	if mayAdoptFrom(seen.Source.Pool) && mayAdopt(seen.Claim) {
		if seen, err = r.observeCandidate(ctx, seen); err != nil || seen.Candidate != nil || seen.Wait {
			return seen, err
		}
	}
	if seen.Source.Template == nil {
		return seen, nil
	}
	if s, ok, err := r.views.Sandboxes.Get(ctx, client.ObjectKeyFromObject(seen.Claim)); err != nil {
		return seen, err
	} else if ok {
		seen.Occupant = s
	}
	seen.Policy, err = r.policy(ctx, seen.Source.Template)
	return seen, err
}

// source resolves where the claim is served from.
func (r *Reconciler) source(ctx context.Context, claim *extensions.SandboxClaim) (source, error) {
	if pool := claim.PoolName(); pool != "" {
		found, err := r.supply.fromPool(ctx, poolKey(claim, pool))
		if err == nil && found.Pool == nil && claim.TemplateName() != "" {
			// A v1alpha1 claim names its template beside the pool.
			return r.supply.fromTemplate(ctx, poolKey(claim, claim.TemplateName()))
		}
		return found, err
	}
	template := poolKey(claim, claim.TemplateName())
	if claim.AnyPool() {
		pool, err := r.bestPool(ctx, claim, template)
		if err != nil {
			return source{}, err
		}
		if pool != nil {
			found, err := r.supply.fromPool(ctx, client.ObjectKeyFromObject(pool))
			if found.OwnTemplate = true; err != nil || found.TemplateName == template.Name {
				return found, err
			}
			// The pool is gone, or another template's by now.
		}
	}
	return r.supply.fromTemplate(ctx, template)
}

// bestPool returns the pool of a template with most ready members that are for no other
// claim, then by name.
func (r *Reconciler) bestPool(ctx context.Context, claim *extensions.SandboxClaim, template types.NamespacedName) (*extensions.SandboxWarmPool, error) {
	pools, err := r.views.WarmPools.By(ctx, kinds.ByTemplate, kinds.InNamespace(template.Namespace, template.Name))
	if err != nil {
		return nil, err
	}
	var best *extensions.SandboxWarmPool
	most := -1
	for _, pool := range pools {
		free := r.roster.Free(client.ObjectKeyFromObject(pool), claim.UID)
		if mayAdoptFrom(pool) && (free > most || free == most && pool.Name < best.Name) {
			best, most = pool, free
		}
	}
	return best, nil
}

// observeCandidate takes members from the roster until one is adoptable, or there is
// none. A member that is not is looked at once.
func (r *Reconciler) observeCandidate(ctx context.Context, seen observed) (observed, error) {
	pool := client.ObjectKeyFromObject(seen.Source.Pool)
	looked := map[types.UID]bool{}
	for {
		offer := r.take(pool, seen.Claim, looked)
		if offer.Member == nil {
			seen.Wait = offer.Wait
			return seen, nil
		}
		looked[offer.Member.UID] = true
		s, ok, err := r.views.Sandboxes.Get(ctx, offer.Member.Key)
		if err != nil {
			return seen, err
		}
		var pods []*corev1.Pod
		if ok {
			if pods, err = r.views.Pods.By(ctx, kinds.ByController, string(s.UID)); err != nil {
				return seen, err
			}
		}
		why := unfit(seen.Source, s, pods)
		if why == "" {
			seen.Candidate = s
			return seen, nil
		}
		seen.Rejected = append(seen.Rejected, offer.Member.Key.Name+" "+why)
		if seen.Source.OwnTemplate { // others want it of other templates
			r.wake(r.roster.PassOn(seen.Claim.UID))
		} else {
			r.wake(r.roster.Reject(seen.Claim.UID))
		}
	}
}

// take asks the roster for a member: one that is ready, else one that was rejected before
// and may fit by now.
func (r *Reconciler) take(pool types.NamespacedName, claim *extensions.SandboxClaim, looked map[types.UID]bool) roster.Offer {
	offer := r.roster.Take(pool, waiter(claim))
	r.wake(offer.Wake)
	if offer.Member != nil {
		return offer
	}
	second := r.roster.TakeRejected(pool, waiter(claim), looked)
	r.wake(second.Wake)
	if second.Member != nil {
		return second
	}
	return offer
}
