// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// Explain says what the next pass does about a template, and why. It writes nothing.
// The explanation is not Found for a template that does not exist, and still says what
// is seen and done: pools and Sandboxes may name it.
func (r *Reconciler) Explain(ctx context.Context, key types.NamespacedName) (control.Explanation, error) {
	seen, err := r.observe(ctx, key)
	if err != nil {
		return control.Explanation{}, err
	}
	e := control.Explanation{Found: seen.Template != nil}
	if e.Sees, err = r.sights(ctx, seen); err != nil {
		return e, err
	}
	switch next := decide(seen).(type) {
	case rest:
		why := next.why
		if seen.Template != nil && seen.Template.DeletionTimestamp == nil && StateOf(seen.Policy, seen.Template) == PolicyCurrent {
			why = ""
		}
		e.Rest(why, time.Time{})
	case warn:
		e.Rest(next.note, time.Time{})
	default:
		e.Next = append(e.Next, next.String())
	}
	return e, nil
}

// sights are what was observed, in words, and who uses the template.
func (r *Reconciler) sights(ctx context.Context, seen observed) ([]string, error) {
	list := []string{policySight(seen)}
	value := kinds.InNamespace(seen.Key.Namespace, seen.Key.Name)
	pools, err := r.views.WarmPools.By(ctx, kinds.ByTemplate, value)
	if err != nil {
		return list, err
	}
	for _, pool := range pools {
		list = append(list, fmt.Sprintf("pool/%s makes its members from it: %d of %d members are of its present blueprint (update strategy %s).",
			pool.Name, pool.Status.UpdatedReplicas, pool.Status.Replicas, pool.UpdateStrategyType()))
	}
	claims, err := r.views.Claims.By(ctx, kinds.ByTemplate, value)
	if err != nil {
		return list, err
	}
	sandboxes, err := r.views.Sandboxes.By(ctx, kinds.ByTemplate, value)
	if err != nil {
		return list, err
	}
	return append(list, fmt.Sprintf("Sandboxes that were made from it: %d. Claims without a sandbox that name it: %d.", len(sandboxes), len(claims))), nil
}

func policySight(seen observed) string {
	if seen.Template == nil {
		if seen.Policy == nil {
			return "There is no such template, and no NetworkPolicy of it."
		}
		return "There is no such template. Its NetworkPolicy " + seen.Policy.Name + " is still there."
	}
	name := PolicyName(seen.Template.Name)
	switch StateOf(seen.Policy, seen.Template) {
	case PolicyMissing:
		return "Its NetworkPolicy " + name + " is not there yet."
	case PolicyDrifted:
		return "Its NetworkPolicy " + name + " is not what it says."
	case PolicyUnwanted:
		return "It wants no NetworkPolicy, and has " + name + " from before."
	case PolicyTerminating:
		return "Its NetworkPolicy " + name + " is being deleted."
	case PolicyForeign:
		return "The NetworkPolicy " + name + " has the name of its own and was not made for it."
	default:
		if !seen.Template.NetworkPolicyManaged() {
			return "It wants no NetworkPolicy (spec.networkPolicyManagement)."
		}
		return "Its NetworkPolicy " + name + " is what it says."
	}
}
