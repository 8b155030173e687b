// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// claim explains a SandboxClaim, and what it has or waits for: its Sandbox or its pool.
func (x *explainer) claim(ctx context.Context, key types.NamespacedName) (*Report, error) {
	claim, ok, err := x.found.claims.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, x.missing(Claim, key, nil)
	}
	r := newReport(Claim, key)
	r.depends("claim", claim)
	r.Conditions = claim.Status.Conditions
	if err := r.tellOr(x.claims.Explain(ctx, key)); err != nil {
		return nil, err
	}
	r.deletion(claim, x.options.Now)
	x.judgeClaim(r, claim)
	if claim.DeletionTimestamp != nil {
		r.Summary = "is being deleted"
	}
	return r, x.dependsOn(ctx, r, claim)
}

// judgeClaim says what the conditions mean.
func (x *explainer) judgeClaim(r *Report, claim *extensions.SandboxClaim) {
	ready, bound := r.condition(agents.ConditionReady), r.condition(extensions.ConditionBound)
	switch {
	case ready.Status == metav1.ConditionTrue && claim.Status.Sandbox.Name != "":
		r.Summary = "is Ready with sandbox/" + claim.Status.Sandbox.Name
	case ready.Reason == "":
		r.Summary = "has not been looked at yet"
		r.worsen(Underway)
	case bound.Status == metav1.ConditionFalse && bound.Reason != ready.Reason:
		r.Summary = "has no sandbox (" + bound.Reason + "): " + oneLine(bound.Message)
	default:
		r.Summary = "is not Ready (" + ready.Reason + "): " + oneLine(ready.Message)
	}
	if conflict := r.condition(extensions.ConditionMetadataConflict); conflict.Status == metav1.ConditionTrue {
		r.Sees = append(r.Sees, conflict.Message+".")
		r.worsen(Stuck)
		r.advise("remove the other writer's value from the sandbox's spec.podTemplate.metadata, or the key from the claim's spec.additionalPodMetadata")
	}
	switch {
	case ready.Status == metav1.ConditionTrue:
	case remedies[ready.Reason] != nil:
		r.worsen(Stuck)
		r.Advice = append(r.Advice, remedies[ready.Reason](x, claim)...)
	case ready.Reason == extensions.ReasonClaimExpired:
		r.advise("%s gets another sandbox; %s gives this claim up", x.options.Command("claim", poolWord(claim)), x.options.Command("release", claim.Name))
	}
}

// remedies are what a person can do about the reasons of a claim that waiting does not
// mend.
var remedies = map[string]func(*explainer, *extensions.SandboxClaim) []string{
	extensions.ReasonWarmPoolNotFound: func(x *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			"create the SandboxWarmPool \"" + c.PoolName() + "\" in namespace " + c.Namespace + ", and the claim goes on" + there("pools", namesOf(x.found.pools)),
			x.options.Command("release", c.Name) + " gives the claim up; claim from another pool then",
		}
	},
	extensions.ReasonTemplateNotFound: func(x *explainer, c *extensions.SandboxClaim) []string {
		name := c.TemplateName()
		for _, pool := range x.found.pools.items {
			if pool.Name == c.PoolName() {
				name = pool.Spec.TemplateRef.Name
			}
		}
		return []string{"create the SandboxTemplate \"" + name + "\" in namespace " + c.Namespace + ", and the claim goes on" + there("templates", namesOf(x.found.templates))}
	},
	extensions.ReasonInvalidMetadata: func(_ *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			"correct the key that the message names: kubectl edit sandboxclaim " + c.Name + " -n " + c.Namespace + " (spec.additionalPodMetadata)",
			"where the domain of a label should be allowed: an administrator adds it to the controller's allowed-label-domains",
		}
	},
	extensions.ReasonEnvVarsInjectionRejected: func(x *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			"claim again without env: " + x.options.Command("release", c.Name) + " gives this one up",
			"or allow it in the template, by spec.envVarsInjectionPolicy Allowed or Overrides",
		}
	},
	extensions.ReasonVolumeClaimTemplatesError: func(x *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			"claim again without volumeClaimTemplates: " + x.options.Command("release", c.Name) + " gives this one up",
			"or allow them in the template, by spec.volumeClaimTemplatesPolicy",
		}
	},
	extensions.ReasonSandboxMissing: func(x *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			x.options.Command("release", c.Name) + ", then " + x.options.Command("claim", poolWord(c)) + ": what was in the sandbox is lost",
			"kubectl patch sandboxclaim " + c.Name + " -n " + c.Namespace + ` --type merge -p '{"spec":{"lifecycle":{"sandboxLost":"Replace"}}}' gives this claim a new one`,
		}
	},
	extensions.ReasonSandboxNameTaken: func(x *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			"claim under another name: " + x.options.Command("release", c.Name) + " gives this one up",
			"or, if nobody needs it: kubectl delete sandbox " + c.Name + " -n " + c.Namespace,
		}
	},
	extensions.ReasonSandboxCreateRefused: func(_ *explainer, c *extensions.SandboxClaim) []string {
		return []string{"mend what the message says; what a quota or a webhook refuses is tried again by itself: kubectl get resourcequota -n " + c.Namespace}
	},
	extensions.ReasonBindDeadlineExceeded: func(x *explainer, c *extensions.SandboxClaim) []string {
		return []string{
			x.options.Command("release", c.Name) + ", and claim again when the pool has ready members: " + x.options.Command("why", "pool/"+poolWord(c)),
			"raise the pool's spec.replicas, or the claim's spec.lifecycle.bindDeadlineSeconds",
		}
	},
	agents.ReasonReconcilerError: func(*explainer, *extensions.SandboxClaim) []string {
		return []string{"mend what the message says"}
	},
}

// dependsOn tells of the Sandbox that a claim has, or of the pool that it waits for.
func (x *explainer) dependsOn(ctx context.Context, r *Report, claim *extensions.SandboxClaim) error {
	switch {
	case claim.Status.Sandbox.Name != "":
		return x.dependsOnSandbox(ctx, r, claim)
	case r.Verdict == Well:
		return nil
	}
	for _, s := range x.found.sandboxes.items {
		if control.IsControlledBy(s, claim.UID) {
			return x.includeOf(ctx, r, client.ObjectKeyFromObject(s), x.sandbox)
		}
	}
	for _, pool := range x.found.pools.items {
		if pool.Name != claim.PoolName() && (!claim.AnyPool() || pool.Spec.TemplateRef.Name != claim.TemplateName()) {
			continue
		}
		if err := x.includeOf(ctx, r, client.ObjectKeyFromObject(pool), x.pool); err != nil {
			return err
		}
	}
	return nil
}

// dependsOnSandbox tells of the Sandbox that a claim has.
func (x *explainer) dependsOnSandbox(ctx context.Context, r *Report, claim *extensions.SandboxClaim) error {
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Status.Sandbox.Name}
	s, ok, err := x.found.sandboxes.Get(ctx, key)
	if err != nil || !ok || !control.IsControlledBy(s, claim.UID) {
		return err
	}
	part, err := x.sandboxOf(ctx, key, claim.Name)
	if err != nil {
		return err
	}
	if r.Verdict == Well && part.rests() && !part.crashes {
		return nil // what the claim says of it is all there is to say
	}
	if part.Verdict == Well && r.Verdict == Underway && r.rests() {
		r.Verdict, r.Waits = Well, nil // it is suspended or has ended, as it was to
	}
	r.include(part)
	return nil
}

func (x *explainer) includeOf(ctx context.Context, r *Report, key types.NamespacedName, explain func(context.Context, types.NamespacedName) (*Report, error)) error {
	part, err := explain(ctx, key)
	if err == nil && part.Verdict != Well {
		r.include(part)
	}
	return err
}

// there lists what there is to choose from, to follow a sentence.
func there(what string, names []string) string {
	if len(names) == 0 {
		return "; there are no " + what + " in the namespace"
	}
	return "; there are the " + what + " " + few(names)
}

// poolWord is the claim's pool for a command to type.
func poolWord(claim *extensions.SandboxClaim) string {
	if pool := claim.PoolName(); pool != "" {
		return pool
	}
	return "POOL"
}
