// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/workload"
)

// observed is everything decide may know. It is never modified.
type observed struct {
	runtime *api.AgentRuntime // nil if it does not exist
	target  workload.Target
	// targetErr is what is wrong with spec.targetRef.
	targetErr error
	// holder is the oldest AgentRuntime with this target, which may be this one.
	holder *api.AgentRuntime
	// workload is nil if there is none, or none was looked for.
	workload *workload.Workload
	// unserved says that the server does not know the target's kind.
	unserved bool
	// leaving are workloads that are not to have this AgentRuntime's configuration any
	// more.
	leaving []leaving

	config    confighash.Result
	configErr error
	// heldUntil is when the stamps may be written again, which somebody keeps removing.
	heldUntil time.Time
	// troubledSince is since when leaving its workloads fails; zero if it does not.
	troubledSince time.Time
	jitter        time.Duration
	pass          pass
}

// leaving is a workload that an AgentRuntime leaves.
type leaving struct {
	target   workload.Target
	workload *workload.Workload
	unserved bool
	// heir says that another AgentRuntime is to have the workload: what is on it stays
	// until that one has changed it.
	heir bool
	// inDoubt says that what was written to the workload last may still land.
	inDoubt bool
	// err is why it could not be looked at.
	err error
}

func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName, learnt pass) (observed, error) {
	seen := observed{pass: learnt, jitter: r.options.RestartJitter}
	a, ok, err := r.views.AgentRuntimes.Get(ctx, key)
	if err != nil || !ok {
		return seen, err
	}
	seen.target, seen.targetErr = workload.TargetOf(a.Namespace, a.Spec.TargetRef)
	if seen.targetErr == nil && a.DeletionTimestamp == nil {
		if err := r.observeTarget(ctx, a, &seen); err != nil {
			return seen, err
		}
	}
	if err := r.observeLeaving(ctx, a, &seen); err != nil {
		return seen, err
	}
	seen.troubledSince = r.troubledSince(a.UID)
	seen.runtime = a
	return seen, nil
}

func (r *Reconciler) observeTarget(ctx context.Context, a *api.AgentRuntime, seen *observed) error {
	rivals, err := r.rivals(ctx, seen.target)
	if err != nil {
		return err
	}
	seen.holder = a
	if len(rivals) > 0 {
		seen.holder = rivals[0]
	}
	seen.workload, err = r.workloads.Get(ctx, seen.target)
	if workload.NotServed(err) {
		seen.unserved = true
	} else if err != nil {
		return err
	}
	switch {
	case learntConfig(seen.pass):
		seen.configErr = seen.pass.configErr
		if seen.pass.config != nil {
			seen.config = *seen.pass.config
		}
	default:
		seen.config, seen.configErr = confighash.Of(ctx, r.cached, r.options.OperatorNamespace, a.Namespace)
	}
	seen.heldUntil = r.heldUntil(a.UID)
	if seen.pass.noSlot == "" {
		seen.pass.noSlot, err = r.full(ctx, a)
	}
	return err
}

func learntConfig(p pass) bool { return p.config != nil || p.configErr != nil }

// observeLeaving looks at the workloads that are to be left.
func (r *Reconciler) observeLeaving(ctx context.Context, a *api.AgentRuntime, seen *observed) error {
	var targets []workload.Target
	if had := a.Status.Target; had != nil {
		t := workload.TargetFrom(a.Namespace, *had)
		if a.DeletionTimestamp != nil || seen.targetErr != nil || t != seen.target {
			targets = append(targets, t)
		}
	}
	// An AgentRuntime that took over a workload may be deleted before its status says so.
	if a.DeletionTimestamp != nil && seen.targetErr == nil && !slices.Contains(targets, seen.target) {
		targets = append(targets, seen.target)
	}
	for _, t := range targets {
		if !t.Supported() {
			continue
		}
		l := leaving{target: t}
		rivals, err := r.rivals(ctx, t)
		if err != nil {
			return err
		}
		l.heir = slices.ContainsFunc(rivals, func(o *api.AgentRuntime) bool { return o.UID != a.UID })
		l.workload, l.err = r.workloads.Get(ctx, t)
		if workload.NotServed(l.err) {
			l.unserved, l.err = true, nil
		}
		l.inDoubt = l.workload != nil && r.workloads.InDoubt(t)
		seen.leaving = append(seen.leaving, l)
	}
	return nil
}

// rivals are the AgentRuntimes that name a workload and are not being deleted, oldest
// first.
func (r *Reconciler) rivals(ctx context.Context, t workload.Target) ([]*api.AgentRuntime, error) {
	found, err := r.views.AgentRuntimes.By(ctx, kinds.ByTarget, t.Index())
	if err != nil {
		return nil, err
	}
	rivals := slices.DeleteFunc(slices.Clone(found), func(o *api.AgentRuntime) bool {
		named, err := workload.TargetOf(o.Namespace, o.Spec.TargetRef)
		return err != nil || named != t || o.DeletionTimestamp != nil
	})
	slices.SortStableFunc(rivals, func(a, b *api.AgentRuntime) int {
		if byTime := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rivals, nil
}

// unconfirmed are the pods that count as configured as long as nobody has asked for them.
func (seen observed) unconfirmed() []workload.Pod {
	if seen.workload == nil {
		return nil
	}
	return slices.DeleteFunc(seen.workload.ProvedByRecord(), func(p workload.Pod) bool { return seen.pass.confirmed[p.UID] })
}

// want are the stamps that the workload should have.
func (seen observed) want() workload.Stamps {
	return workload.Stamps{
		Type:       string(seen.runtime.Spec.Type),
		ConfigHash: seen.config.Hash,
		MTLSMode:   string(seen.runtime.MTLS()),
	}
}
