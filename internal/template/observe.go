// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"errors"
	"maps"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

// observed is everything decide may know. It is never modified.
type observed struct {
	Key types.NamespacedName
	// Template is nil if there is none.
	Template *extensions.SandboxTemplate
	// Policy is what there is under the name of the template's NetworkPolicy, or nil.
	Policy *networkingv1.NetworkPolicy
	// AbsenceProved says that the server, not only the cache, has no such template.
	AbsenceProved bool
	// InUse says that Sandboxes name the template. It is only looked up where the
	// template is gone and its policy is not.
	InUse bool
}

func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	seen := observed{Key: key}
	t, ok, err := r.views.Templates.Get(ctx, key)
	if err != nil {
		return seen, err
	}
	if ok {
		seen.Template = t
	}
	policy, ok, err := r.views.NetworkPolicies.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: PolicyName(key.Name)})
	if err != nil {
		return seen, err
	}
	if ok {
		seen.Policy = policy
	}
	if seen.Template != nil || seen.Policy == nil || !isPolicyOf(seen.Policy, key.Name) {
		return seen, nil
	}
	return r.observeLeftOver(ctx, seen)
}

// errUndecided makes a pass be repeated with backoff: nothing announces that a create
// is given up whose outcome nobody asks for any more.
var errUndecided = errors.New("a Sandbox of the template may still come into being")

// observeLeftOver finds out whether a policy has outlived its template and the last
// Sandbox made from it. The template is asked for last: whoever makes a Sandbox from
// a template that came back touches the policy first, and its delete then fails.
func (r *Reconciler) observeLeftOver(ctx context.Context, seen observed) (observed, error) {
	value := kinds.InNamespace(seen.Key.Namespace, seen.Key.Name)
	sandboxes, err := r.views.Sandboxes.By(ctx, kinds.ByTemplate, value)
	if err != nil {
		return seen, err
	}
	seen.InUse = len(sandboxes) > 0
	if seen.InUse {
		return seen, nil
	}
	if len(r.views.Sandboxes.Undecided(kinds.ByTemplate, value)) > 0 {
		return seen, errUndecided
	}
	t, ok, err := r.views.Templates.Live(ctx, seen.Key)
	if err != nil {
		return seen, err
	}
	if ok {
		seen.Template = t
	}
	seen.AbsenceProved = !ok
	return seen, nil
}

// ByPolicyName returns the template whose managed NetworkPolicy would have that name,
// or "" if none would. Names that had to be cut are not told.
func ByPolicyName(policy string) string {
	template, ok := strings.CutSuffix(policy, policySuffix)
	if !ok {
		return ""
	}
	return template
}

// samePolicy reports whether nothing this controller keeps differs.
func samePolicy(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() &&
		a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		(a.GetDeletionTimestamp() == nil) == (b.GetDeletionTimestamp() == nil)
}
