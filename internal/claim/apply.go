// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/consistent"
)

// apply does one step.
func (r *Reconciler) apply(ctx context.Context, seen observed, next step) error {
	log.FromContext(ctx).V(1).Info("Step", "step", next.String())
	var err error
	switch s := next.(type) {
	case adopt:
		return r.adopt(ctx, seen.Claim, s.member)
	case createPolicy:
		_, err = r.views.NetworkPolicies.Create(ctx, s.policy)
	case deletePolicy:
		err = r.views.NetworkPolicies.Delete(ctx, s.policy, consistent.Precondition{})
	case create:
		_, err = r.views.Sandboxes.Create(ctx, s.sandbox)
	case patchSandbox:
		_, err = r.views.Sandboxes.Patch(ctx, s.sandbox, s.patch)
	case deleteSandbox:
		err = r.views.Sandboxes.Delete(ctx, s.sandbox, consistent.Precondition{})
	case deleteClaim:
		err = r.views.Claims.Delete(ctx, seen.Claim, consistent.Precondition{Foreground: s.policy == extensions.ClaimShutdownDeleteForeground})
	case annotate:
		_, err = r.views.Claims.Patch(ctx, seen.Claim, s.patch)
	case writeStatus:
		return r.writeStatus(ctx, seen.Claim, s)
	default:
		return fmt.Errorf("no way to do %T", next)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", next, err)
	}
	return nil
}

// adopt makes a member the claim's with one patch of its metadata, on the condition
// that it has not changed since it was found adoptable (R3). The spec is not touched,
// so the generation stays.
func (r *Reconciler) adopt(ctx context.Context, claim *extensions.SandboxClaim, member *agents.Sandbox) error {
	if _, err := r.views.Sandboxes.Patch(ctx, member, adoption(claim, member)); err != nil {
		return fmt.Errorf("adopt Sandbox %s: %w", member.Name, err)
	}
	r.roster.Won(claim.UID)
	return nil
}

// adoption is the patch that turns a pool's member into the claim's Sandbox.
func adoption(claim *extensions.SandboxClaim, member *agents.Sandbox) consistent.Patch {
	owners := slices.DeleteFunc(slices.Clone(member.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return ref.Controller != nil && *ref.Controller
	})
	labels := inherited(claim)
	labels[agents.LabelClaimUID] = string(claim.UID)
	labels[agents.LabelLaunchType] = agents.LaunchTypeWarm
	for _, label := range blueprint.PoolLabels() {
		labels[label] = nil
	}
	annotations := map[string]any{agents.AnnotationPodName: member.Name}
	if trace := claim.Annotations[agents.AnnotationTraceContext]; trace != "" {
		annotations[agents.AnnotationTraceContext] = trace
	}
	return consistent.Patch{"metadata": map[string]any{
		"ownerReferences": append(owners, ownerReference(claim)),
		"labels":          labels,
		"annotations":     annotations,
	}}
}

func (r *Reconciler) writeStatus(ctx context.Context, claim *extensions.SandboxClaim, s writeStatus) error {
	patch, changed, err := consistent.Diff(claim.Status, s.status)
	if err != nil || !changed {
		return err
	}
	written, err := r.views.Claims.PatchStatus(ctx, claim, consistent.Patch{"status": patch})
	if err != nil {
		return fmt.Errorf("write status of SandboxClaim %s: %w", claim.Name, err)
	}
	for _, e := range s.events {
		if !r.options.Quiet {
			r.env.Events.Eventf(written, nil, e.kind, e.reason, e.action, "%s", e.note)
		}
	}
	return nil
}
