// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// eventAction is what the controller was doing when something was worth an event.
const eventAction = "Reconciling"

// apply performs one step. What no view will show of it goes into learnt.
func (r *Reconciler) apply(ctx context.Context, seen observed, next step, learnt *pass) error {
	switch next.about() {
	case aboutVolumes:
		return r.applyToVolumes(ctx, next)
	case aboutPod:
		return r.applyToPod(ctx, next, learnt)
	case aboutService:
		return r.applyToService(ctx, next)
	}
	switch do := next.(type) {
	case namePod:
		_, err := r.views.Sandboxes.Patch(ctx, seen.sandbox, consistent.Patch{"metadata": map[string]any{
			"annotations": map[string]any{agents.AnnotationPodName: do.pod},
		}})
		return err
	case confirmPodGone:
		pod, there, err := r.views.Pods.Live(ctx, client.ObjectKeyFromObject(seen.sandbox))
		learnt.podGone = err == nil && (!there || !control.IsControlledBy(pod, seen.sandbox.UID))
		return err
	case readPod:
		return r.readPod(ctx, do.pod, learnt)
	case writeStatus:
		return r.writeStatus(ctx, seen.sandbox, do)
	case deleteSandbox:
		log.FromContext(ctx).Info("Deleting the Sandbox, which has expired")
		return r.views.Sandboxes.Delete(ctx, seen.sandbox, consistent.Precondition{})
	}
	return noWay(next)
}

func (r *Reconciler) applyToVolumes(ctx context.Context, next step) error {
	switch do := next.(type) {
	case createVolumeClaims:
		return r.each(ctx, len(do.claims), func(ctx context.Context, i int) error {
			_, err := r.views.VolumeClaims.Create(ctx, do.claims[i])
			return err
		})
	case adoptVolumeClaims:
		return r.each(ctx, len(do.claims), func(ctx context.Context, i int) error {
			_, err := r.views.VolumeClaims.Patch(ctx, do.claims[i], do.patches[i])
			return err
		})
	}
	return noWay(next)
}

func (r *Reconciler) applyToPod(ctx context.Context, next step, learnt *pass) error {
	switch do := next.(type) {
	case createPod:
		log.FromContext(ctx).Info("Creating the pod", "pod", do.pod.Name)
		_, err := r.views.Pods.Create(ctx, do.pod)
		return err
	case adoptPod:
		log.FromContext(ctx).Info("Taking over the pod", "pod", do.pod.Name, "podUID", do.pod.UID)
		_, err := r.views.Pods.Patch(ctx, do.pod, do.patch)
		return err
	case syncPod:
		if _, err := r.views.Pods.Patch(ctx, do.pod, do.patch); err != nil {
			return err
		}
		learnt.changed = append(learnt.changed, do.changed...)
		return nil
	case deletePods:
		log.FromContext(ctx).Info("Deleting pods", "pods", names(do.pods), "why", do.why)
		return r.each(ctx, len(do.pods), func(ctx context.Context, i int) error {
			return r.views.Pods.Delete(ctx, do.pods[i], consistent.Precondition{AnyVersion: true})
		})
	}
	return noWay(next)
}

func (r *Reconciler) applyToService(ctx context.Context, next step) error {
	switch do := next.(type) {
	case createService:
		_, err := r.views.Services.Create(ctx, do.service)
		return err
	case patchService:
		_, err := r.views.Services.Patch(ctx, do.service, do.patch)
		return err
	case deleteService:
		return r.views.Services.Delete(ctx, do.service, consistent.Precondition{})
	}
	return noWay(next)
}

// noWay is for a step that apply does not know, which is a mistake in this package.
func noWay(next step) error { return fmt.Errorf("no way to do the step %T: %s", next, next) }

// each makes n calls side by side. Of several errors it returns the one that leaves
// most open, else the first: the others say the same of another object.
func (r *Reconciler) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	failures := make([]error, n)
	_ = r.env.Group.Each(ctx, n, func(ctx context.Context, i int) error {
		failures[i] = do(ctx, i)
		return nil
	})
	if err := errors.Join(failures...); consistent.Again(err) {
		return err
	}
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, s *agents.Sandbox, do writeStatus) error {
	if _, err := r.views.Sandboxes.PatchStatus(ctx, s, do.patch); err != nil {
		return err
	}
	for _, e := range do.events {
		r.env.Events.Eventf(s, nil, corev1.EventTypeWarning, e.reason, eventAction, "%s", e.note)
	}
	return nil
}

// readPod reads the whole pod. That it cannot be read costs a detail in a message, not
// the pass.
func (r *Reconciler) readPod(ctx context.Context, pod *corev1.Pod, learnt *pass) error {
	learnt.asked = true
	if r.wholePods == nil {
		return nil
	}
	whole, err := r.wholePods.Get(ctx, client.ObjectKeyFromObject(pod))
	if err != nil {
		if !apierrors.IsNotFound(err) {
			log.FromContext(ctx).Error(err, "Could not read in what the pod differs from its template", "pod", pod.Name)
		}
		return nil
	}
	if whole.UID == pod.UID {
		learnt.wholePod = whole
	}
	return nil
}
