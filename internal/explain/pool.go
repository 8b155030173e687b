// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

// pool explains a SandboxWarmPool, its template and the pods of its members.
func (x *explainer) pool(ctx context.Context, key types.NamespacedName) (*Report, error) {
	pool, ok, err := x.found.pools.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, x.missing(Pool, key, x.claimsBy(kinds.ByPool, key))
	}
	r := newReport(Pool, key)
	r.depends("pool", pool)
	r.Conditions = pool.Status.Conditions
	if err := r.tellOr(x.pools.Explain(ctx, key)); err != nil {
		return nil, err
	}
	r.judgePool(pool)
	r.deletion(pool, x.options.Now)
	if err := x.members(ctx, r, pool); err != nil {
		return nil, err
	}
	templateKey := types.NamespacedName{Namespace: key.Namespace, Name: pool.Spec.TemplateRef.Name}
	if _, ok, err := x.found.templates.Get(ctx, templateKey); ok && err == nil {
		part, err := x.template(ctx, templateKey)
		if err != nil {
			return nil, err
		}
		if part.Verdict != Well {
			r.include(part)
		}
	}
	return r, nil
}

// judgePool says what the conditions mean.
func (r *Report) judgePool(pool *extensions.SandboxWarmPool) {
	available, progressing := r.condition(extensions.ConditionAvailable), r.condition(extensions.ConditionProgressing)
	switch {
	case pool.DeletionTimestamp != nil:
		r.Summary = "is being deleted"
		return
	case progressing.Reason == "":
		r.Summary = "has not been looked at yet"
		r.worsen(Underway)
		return
	case progressing.Reason == extensions.ReasonComplete:
		r.Summary = "is full: " + available.Message
	default:
		r.Summary = fmt.Sprintf("is not as it should be, %s (%s): %s", available.Message, progressing.Reason, oneLine(progressing.Message))
	}
	template := pool.Spec.TemplateRef.Name
	if r.condition(extensions.ConditionTemplateResolved).Status == metav1.ConditionFalse {
		r.worsen(Stuck)
		r.advise("create the SandboxTemplate %q in namespace %s, or name another: kubectl edit sandboxwarmpool %s -n %s", template, pool.Namespace, pool.Name, pool.Namespace)
		r.advise("kubectl get sandboxtemplates -n %s lists those there are", pool.Namespace)
	}
	switch progressing.Reason {
	case extensions.ReasonCreateRefused:
		r.worsen(Stuck)
		r.advise("mend what the message says: raise a quota (kubectl get resourcequota -n %s), or correct what the template is refused for; "+
			"it is tried again by itself after pauses of up to 5 minutes", pool.Namespace)
	case extensions.ReasonPoolError:
		r.worsen(Stuck)
		r.advise("mend what the message says; it is tried again by itself")
	case extensions.ReasonMembersFailing:
		r.worsen(Stuck)
		r.advise("correct template/%s: its pods fail or do not become Ready", template)
	case extensions.ReasonMembersHeld:
		r.worsen(Stuck)
	}
}

// members tells of the pods of members that are not ready, what is the same of several
// once.
func (x *explainer) members(ctx context.Context, r *Report, pool *extensions.SandboxWarmPool) error {
	members, err := x.found.sandboxes.By(ctx, kinds.ByController, string(pool.UID))
	if err != nil {
		return err
	}
	type group struct {
		trouble trouble
		names   []string
	}
	var groups []*group
	byWords := map[string]*group{}
	for _, member := range members {
		ready := conditionOf(member.Status.Conditions, agents.ConditionReady)
		up := ready.Status == metav1.ConditionTrue && member.DeletionTimestamp == nil
		if !up {
			r.depends("sandbox", member)
		}
		if ready.Reason == agents.ReasonReconcilerError || ready.Reason == agents.ReasonMultiplePods {
			t := trouble{what: ready.Message, stays: true, advice: []string{x.options.Command("why", "sandbox/"+member.Name) + " says more"}}
			groups = append(groups, &group{trouble: t, names: []string{"sandbox/" + member.Name}})
		}
		for _, pod := range x.podsOf(member.UID) {
			if up && (pod.DeletionTimestamp != nil || len(containerTroubles(pod, x.options.Now)) == 0) {
				continue // of a Ready member there is to say only that it is not so for long
			}
			r.depends("pod", pod)
			for _, t := range podTroubles(pod, x.nodeOf(ctx, pod), x.options.Now) {
				known := byWords[t.what]
				if known == nil {
					known = &group{trouble: t}
					byWords[t.what] = known
					groups = append(groups, known)
				}
				known.names = append(known.names, pod.Name)
			}
		}
	}
	const most = 5
	for _, g := range groups[:min(most, len(groups))] {
		what := "pod " + g.names[0]
		switch {
		case strings.HasPrefix(g.names[0], "sandbox/"):
			what = "member " + g.names[0]
		case len(g.names) > 1:
			what = fmt.Sprintf("%d members' pods (%s)", len(g.names), few(g.names))
		}
		r.suffer(what, []trouble{g.trouble})
	}
	return nil
}

func conditionOf(conditions []metav1.Condition, kind string) metav1.Condition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// claimsBy are the claims without a sandbox that an index finds.
func (x *explainer) claimsBy(index string, key types.NamespacedName) []string {
	var users []string
	for _, claim := range x.found.claims.Peek(index, kinds.InNamespace(key.Namespace, key.Name)) {
		users = append(users, "claim/"+claim.Name)
	}
	return users
}

// few are the first of several names.
func few(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
