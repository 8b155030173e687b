// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// Explain says what the next pass does about a claim, and why. It writes nothing. Its
// watches must have been told of all that there is before, and it is for one claim: the
// claims that are served before that one have their turn in it.
func (r *Reconciler) Explain(ctx context.Context, key types.NamespacedName) (control.Explanation, error) {
	claim, ok, err := r.views.Claims.Get(ctx, key)
	if err != nil || !ok {
		return control.Explanation{}, err
	}
	before, err := r.serveThoseBefore(ctx, claim)
	if err != nil {
		return control.Explanation{Found: true}, err
	}
	seen, next, err := r.foresee(ctx, claim)
	e := control.Explanation{Found: true}
	if err != nil {
		return e, err
	}
	e.Sees = sights(seen, r.standing(seen), before)
	for range control.MaxSteps {
		switch do := next.(type) {
		case writeStatus:
			e.Next = append(e.Next, control.StatusWrite(seen.Claim.Status.Conditions, do.status.Conditions))
			sameSandbox := do.status.Sandbox.Name == seen.Claim.Status.Sandbox.Name
			after := *seen.Claim
			after.Status = do.status
			seen.Claim = &after
			if sameSandbox { // else what follows takes another look
				next = decide(seen, r.env.Clock.Now())
				continue
			}
		case rest:
			e.Rest(waitOf(seen, before), do.until)
		default:
			e.Next = append(e.Next, next.String())
		}
		e.Conditions = seen.Claim.Status.Conditions
		return e, nil
	}
	return e, control.ErrNoProgress
}

// turn is a claim that is served earlier, and the pool whose member it waits for.
type turn struct {
	claim *extensions.SandboxClaim
	pool  string
}

// serveThoseBefore gives the claims that stand before this one in the queues of its pools
// their turn, and returns those that wait. One that is bound or failed, or starts cold,
// is out of the way.
func (r *Reconciler) serveThoseBefore(ctx context.Context, claim *extensions.SandboxClaim) ([]turn, error) {
	rivals, err := r.rivals(ctx, claim)
	if err != nil {
		return nil, err
	}
	var waiting []turn
	for _, rival := range rivals {
		seen, next, err := r.foresee(ctx, rival)
		if err != nil {
			return nil, err
		}
		if waits(next) && seen.Source.Pool != nil {
			waiting = append(waiting, turn{claim: rival, pool: seen.Source.Pool.Name})
		}
	}
	return waiting, nil
}

// foresee is a pass up to its first write.
func (r *Reconciler) foresee(ctx context.Context, claim *extensions.SandboxClaim) (observed, step, error) {
	as := *r
	as.options.AllowedLabelDomains = toldDomains(claim, r.options.AllowedLabelDomains)
	for range control.MaxSteps {
		seen, err := as.observe(ctx, client.ObjectKeyFromObject(claim), answers{})
		if err != nil {
			return seen, nil, err
		}
		next := decide(seen, r.env.Clock.Now())
		if next.leavesQueue() {
			as.leave(claim)
		}
		if waits(next) && as.stays(seen) {
			continue
		}
		return seen, next, nil
	}
	return observed{}, nil, control.ErrNoProgress
}

// waits reports whether a claim stays in the queue of a pool.
func waits(next step) bool {
	switch next := next.(type) {
	case writeStatus:
		return next.waits
	case rest:
		return next.waits
	default:
		return false
	}
}

// rivals are the claims that may stand before this one in the queue of a pool: the
// older ones without a Sandbox that name a pool it may take from, or any of its template.
func (r *Reconciler) rivals(ctx context.Context, claim *extensions.SandboxClaim) ([]*extensions.SandboxClaim, error) {
	if !mayAdopt(claim) {
		return nil, nil
	}
	pools, template, err := r.poolsFor(ctx, claim)
	if err != nil {
		return nil, err
	}
	older := map[types.UID]*extensions.SandboxClaim{}
	add := func(index, name string, wanted func(*extensions.SandboxClaim) bool) error {
		found, err := r.views.Claims.By(ctx, index, kinds.InNamespace(claim.Namespace, name))
		for _, other := range found {
			if wanted(other) && mayAdopt(other) && inOrder(other, claim) < 0 {
				older[other.UID] = other
			}
		}
		return err
	}
	for _, pool := range pools {
		if err := add(kinds.ByPool, pool, func(*extensions.SandboxClaim) bool { return true }); err != nil {
			return nil, err
		}
	}
	if err := add(kinds.ByTemplate, template, (*extensions.SandboxClaim).AnyPool); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(older), inOrder), nil
}

// poolsFor returns the pools a claim may take from, and their template.
func (r *Reconciler) poolsFor(ctx context.Context, claim *extensions.SandboxClaim) (pools []string, template string, err error) {
	if name := claim.PoolName(); name != "" {
		pool, ok, err := r.views.WarmPools.Get(ctx, poolKey(claim, name))
		if ok {
			template = pool.Spec.TemplateRef.Name
		}
		return []string{name}, template, err
	}
	template = claim.TemplateName()
	found, err := r.views.WarmPools.By(ctx, kinds.ByTemplate, kinds.InNamespace(claim.Namespace, template))
	for _, pool := range found {
		pools = append(pools, pool.Name)
	}
	return pools, template, err
}

// inOrder is the order in which claims are served, as far as the server knows it.
func inOrder(a, b *extensions.SandboxClaim) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// domainsMark stands before the domains in the message about a label of none of them.
const domainsMark = "below them: "

// toldDomains are the domains that claims may take labels from, as the controller's word
// on a claim tells. It may have been started with others than this process knows of.
func toldDomains(claim *extensions.SandboxClaim, domains []string) []string {
	ready := apimeta.FindStatusCondition(claim.Status.Conditions, agents.ConditionReady)
	if ready == nil || ready.ObservedGeneration != claim.Generation {
		return domains
	}
	if ready.Reason == extensions.ReasonInvalidMetadata {
		if _, told, ok := strings.Cut(ready.Message, domainsMark); ok {
			return strings.Split(told, ", ")
		}
		return domains
	}
	told := slices.Clone(domains) // it took no offence
	for _, key := range slices.Sorted(maps.Keys(claim.Spec.AdditionalPodMetadata.Labels)) {
		if domain, _, prefixed := strings.Cut(key, "/"); prefixed {
			told = append(told, domain)
		}
	}
	return told
}
