// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// settings are the options as decide knows them.
type settings struct {
	clusterDomain    string
	warmPoolEviction bool
}

// observed is everything decide may know. It is never modified.
type observed struct {
	sandbox *agents.Sandbox // nil if it does not exist
	// pods are those owned by the Sandbox's UID, terminating ones included.
	pods []*corev1.Pod
	// namesake is the pod of the Sandbox's name if the Sandbox does not own it.
	namesake *corev1.Pod
	// volumeClaims has an entry for every volumeClaimTemplate, nil where there is none.
	volumeClaims []*corev1.PersistentVolumeClaim
	// service is the Service of the Sandbox's name, whoever owns it.
	service  *corev1.Service
	settings settings
	pass     pass
}

func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName, learnt pass) (observed, error) {
	seen := observed{settings: r.settings, pass: learnt}
	s, ok, err := r.views.Sandboxes.Get(ctx, key)
	if err != nil || !ok {
		return seen, err
	}
	if seen.pods, err = r.views.Pods.By(ctx, kinds.ByController, string(s.UID)); err != nil {
		return seen, err
	}
	named, ok, err := r.views.Pods.Get(ctx, key)
	if err != nil {
		return seen, err
	}
	if ok && !control.IsControlledBy(named, s.UID) {
		seen.namesake = named
	}
	seen.volumeClaims = make([]*corev1.PersistentVolumeClaim, len(s.Spec.VolumeClaimTemplates))
	for i, template := range s.Spec.VolumeClaimTemplates {
		name := agents.PersistentVolumeClaimName(template.Metadata.Name, s.Name)
		claim, ok, err := r.views.VolumeClaims.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: name})
		if err != nil {
			return seen, err
		}
		if ok {
			seen.volumeClaims[i] = claim
		}
	}
	service, ok, err := r.views.Services.Get(ctx, key)
	if err != nil {
		return seen, err
	}
	if ok {
		seen.service = service
	}
	seen.sandbox = s
	return seen, nil
}
