// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/template"
)

// template explains a SandboxTemplate. One that does not exist is explained, too, where
// something names it.
func (x *explainer) template(ctx context.Context, key types.NamespacedName) (*Report, error) {
	t, ok, err := x.found.templates.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	r := newReport(Template, key)
	users := x.usersOf(key)
	if !ok && len(users) == 0 {
		return nil, x.missing(Template, key, nil)
	}
	if err := r.tellOr(x.templates.Explain(ctx, key)); err != nil {
		return nil, err
	}
	if !ok {
		r.Summary = "does not exist, and is named by " + few(users)
		r.worsen(Stuck)
		r.Waits = append(r.Waits, "somebody to create it: no sandbox is made before")
		r.advise("create the SandboxTemplate %q in namespace %s, and what waits for it goes on", key.Name, key.Namespace)
		return r, nil
	}
	r.depends("template", t)
	r.deletion(t, x.options.Now)
	name := template.PolicyName(t.Name)
	policy, _, err := x.found.policies.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
	if apierrors.IsForbidden(err) {
		r.Summary = "is there; whether its NetworkPolicy is cannot be read"
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	switch state := template.StateOf(policy, t); {
	case t.DeletionTimestamp != nil:
		r.Summary = "is being deleted"
	case state == template.PolicyForeign:
		r.Summary = "makes no sandboxes, because another NetworkPolicy has the name of its own"
		r.worsen(Stuck)
		r.advise("see whose it is: kubectl get networkpolicy %s -n %s -o yaml", name, key.Namespace)
		r.advise("rename or delete it, or set the template's spec.networkPolicyManagement to Unmanaged")
	case state.AllowsSandboxes():
		r.Summary = "is as it should be"
	default:
		r.Summary = fmt.Sprintf("makes no sandboxes yet, because its NetworkPolicy %s is %s", name, state)
		r.worsen(Underway)
		if state == template.PolicyMissing || state == template.PolicyDrifted {
			r.advise("if it stays so, the rules in spec.networkPolicy may be refused: kubectl get events -n %s --field-selector involvedObject.name=%s", key.Namespace, key.Name)
		}
	}
	return r, nil
}

// usersOf are the pools and the claims without a sandbox that name a template.
func (x *explainer) usersOf(key types.NamespacedName) []string {
	var users []string
	for _, pool := range x.found.pools.Peek(kinds.ByTemplate, kinds.InNamespace(key.Namespace, key.Name)) {
		users = append(users, "pool/"+pool.Name)
	}
	return append(users, x.claimsBy(kinds.ByTemplate, key)...)
}
