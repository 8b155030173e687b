// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/workload"
)

// apply does one step. What no view will show of it goes into learnt.
func (r *Reconciler) apply(ctx context.Context, seen observed, next step, learnt *pass) error {
	a := seen.runtime
	switch do := next.(type) {
	case addFinalizer:
		return r.patchFinalizers(ctx, a, append(slices.Clone(a.Finalizers), api.Finalizer))
	case removeFinalizer:
		return r.removeFinalizer(ctx, a, do)
	case askFor:
		found, err := r.workloads.Live(ctx, do.target)
		if err != nil && !workload.NotServed(err) {
			err = fmt.Errorf("ask for %s: %w", do.target, err)
			if a.DeletionTimestamp == nil {
				return err
			}
			learnt.refusal = err // it is not waited for without end
			return nil
		}
		learnt.asked[do.target], learnt.absent[do.target] = true, found == nil
		return nil
	case confirmPods:
		return r.confirmPods(ctx, do, learnt)
	case readConfig:
		result, err := confighash.Of(ctx, r.live, r.options.OperatorNamespace, a.Namespace)
		if learnt.configErr = err; err == nil {
			learnt.config = &result
		}
		return nil // the status tells of the error
	case begin:
		return r.begin(ctx, a, do, learnt)
	case writeStatus:
		return r.writeStatus(ctx, a, do)
	}
	return learnt.take(next, r.applyToWorkload(ctx, a, next, learnt))
}

func (r *Reconciler) applyToWorkload(ctx context.Context, a *api.AgentRuntime, next step, learnt *pass) error {
	switch do := next.(type) {
	case stamp:
		log.FromContext(ctx).Info("Configuring the workload", "kind", do.workload.Kind, "name", do.workload.Name, "hash", do.want.ConfigHash)
		delete(learnt.asked, do.workload.Target)
		delete(learnt.absent, do.workload.Target)
		delete(learnt.released, do.workload.Target)
		err := r.workloads.Stamp(ctx, do.workload, do.want, do.workload.NewRecord(a.UID, do.want))
		if err == nil && do.wiped { // what was refused was not removed once more
			r.wiped(a.UID)
		}
		return err
	case release:
		log.FromContext(ctx).Info("Taking the configuration off the workload", "kind", do.workload.Kind, "name", do.workload.Name)
		err := r.workloads.Release(ctx, do.workload, do.keep)
		if err == nil {
			r.outOfTrouble(a.UID)
		}
		if err == nil && do.keep == nil {
			learnt.released[do.workload.Target] = true
		}
		return err
	case mark:
		return r.workloads.Mark(ctx, do.workload)
	case replace:
		return r.replace(ctx, a, do)
	}
	return fmt.Errorf("no way to do the step %T: %s", next, next)
}

func (r *Reconciler) confirmPods(ctx context.Context, do confirmPods, learnt *pass) error {
	for _, p := range do.pods {
		if err := r.workloads.ConfirmPod(ctx, p); err != nil {
			return fmt.Errorf("ask for pod %s: %w", p.Name, err)
		}
		learnt.confirmed[p.UID] = true
	}
	return nil
}

// take remembers that the server refused a write to the workload, so that the status can
// say so. Other errors end the pass.
func (p *pass) take(next step, err error) error {
	if err == nil || consistent.Again(err) {
		return err
	}
	var conflict *workload.ConflictError
	var answer apierrors.APIStatus
	if errors.As(err, &conflict) || errors.As(err, &answer) && !workload.NotServed(err) {
		p.refusal = err
		return nil
	}
	if r, ok := next.(release); ok && workload.NotServed(err) {
		p.absent[r.workload.Target] = true // gone with its kind
		return nil
	}
	return err
}

// replace deletes the pods by their UIDs.
func (r *Reconciler) replace(ctx context.Context, a *api.AgentRuntime, do replace) error {
	for _, p := range do.pods {
		log.FromContext(ctx).Info("Deleting a pod that is older than the configuration", "pod", p.Name, "podUID", p.UID)
		if err := r.workloads.DeletePod(ctx, p); err != nil {
			return err
		}
		r.env.Events.Eventf(a, nil, corev1.EventTypeNormal, api.EventSandboxRestarted, actionRestart,
			"pod %q of %s was deleted; the next has the configuration", p.Name, do.workload.Target)
	}
	return nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, a *api.AgentRuntime, do removeFinalizer) error {
	kept := slices.DeleteFunc(slices.Clone(a.Finalizers), func(f string) bool { return f == api.Finalizer })
	err := r.patchFinalizers(ctx, a, kept)
	if err != nil && !consistent.Again(err) { // one that may have landed is not seen again
		return err
	}
	if err == nil {
		r.forget(a.UID)
	}
	if do.left != "" {
		log.FromContext(ctx).Info("The AgentRuntime goes without having cleaned up", "why", do.left)
		r.env.Events.Eventf(a, nil, corev1.EventTypeWarning, api.EventReleaseAbandoned, actionRelease, "%s", do.left)
	}
	return err
}

func (r *Reconciler) patchFinalizers(ctx context.Context, a *api.AgentRuntime, finalizers []string) error {
	_, err := r.views.AgentRuntimes.Patch(ctx, a, consistent.Patch{"metadata": map[string]any{"finalizers": finalizers}})
	return err
}

func (r *Reconciler) writeStatus(ctx context.Context, a *api.AgentRuntime, do writeStatus) error {
	if _, err := r.views.AgentRuntimes.PatchStatus(ctx, a, do.patch); err != nil {
		return err
	}
	r.metrics.count(do.note)
	for _, e := range do.events {
		r.env.Events.Eventf(a, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
	return nil
}
