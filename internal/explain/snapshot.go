// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

// snapshot is what one namespace holds of the kinds that controllers work on. The kinds
// are listed one beside the other, so that they are of about the same moment.
type snapshot struct {
	sandboxes *view[*agents.Sandbox]
	templates *view[*extensions.SandboxTemplate]
	pools     *view[*extensions.SandboxWarmPool]
	claims    *view[*extensions.SandboxClaim]
	pods      *view[*corev1.Pod]
	services  *view[*corev1.Service]
	volumes   *view[*corev1.PersistentVolumeClaim]
	policies  *view[*networkingv1.NetworkPolicy]

	// What only AgentRuntimes need; see takeAgents.
	agents       *view[*agentruntime.AgentRuntime]
	deployments  *view[*appsv1.Deployment]
	statefulSets *view[*appsv1.StatefulSet]
	replicaSets  *view[*appsv1.ReplicaSet]
	configs      *view[*corev1.ConfigMap]

	// whole are the pods as the server has them; the view keeps as much of them as the
	// controllers do.
	whole []*corev1.Pod
	// warnings are the events of type Warning, and unread is what could not be read
	// besides the objects.
	warnings []corev1.Event
	unread   []error
}

// take reads a namespace. What may not be read fails when it is needed.
func take(ctx context.Context, reader client.Reader, namespace string) (*snapshot, error) {
	s := &snapshot{}
	var reads errgroup.Group
	list(ctx, &reads, reader, namespace, kinds.Sandboxes(), &agents.SandboxList{}, func(l *agents.SandboxList) []*agents.Sandbox { return pointers(l.Items) }, &s.sandboxes)
	list(ctx, &reads, reader, namespace, kinds.Templates(), &extensions.SandboxTemplateList{},
		func(l *extensions.SandboxTemplateList) []*extensions.SandboxTemplate { return pointers(l.Items) }, &s.templates)
	list(ctx, &reads, reader, namespace, kinds.WarmPools(), &extensions.SandboxWarmPoolList{},
		func(l *extensions.SandboxWarmPoolList) []*extensions.SandboxWarmPool { return pointers(l.Items) }, &s.pools)
	list(ctx, &reads, reader, namespace, kinds.Claims(), &extensions.SandboxClaimList{},
		func(l *extensions.SandboxClaimList) []*extensions.SandboxClaim { return pointers(l.Items) }, &s.claims)
	list(ctx, &reads, reader, namespace, kinds.Services(), &corev1.ServiceList{}, func(l *corev1.ServiceList) []*corev1.Service { return pointers(l.Items) }, &s.services)
	list(ctx, &reads, reader, namespace, kinds.VolumeClaims(), &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) []*corev1.PersistentVolumeClaim { return pointers(l.Items) }, &s.volumes)
	list(ctx, &reads, reader, namespace, kinds.NetworkPolicies(), &networkingv1.NetworkPolicyList{},
		func(l *networkingv1.NetworkPolicyList) []*networkingv1.NetworkPolicy { return pointers(l.Items) }, &s.policies)
	list(ctx, &reads, reader, namespace, kinds.Pods(), &corev1.PodList{}, func(l *corev1.PodList) []*corev1.Pod {
		s.whole = pointers(l.Items)
		kept := slices.Clone(l.Items)
		return pointers(kept)
	}, &s.pods)
	var events corev1.EventList
	reads.Go(func() error {
		err := reader.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"type": corev1.EventTypeWarning})
		if apierrors.IsForbidden(err) {
			s.unread = append(s.unread, fmt.Errorf("events: %w", err))
			return nil
		}
		return err
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	s.warnings = events.Items
	return s, nil
}

// list reads one kind into a view. That a kind may not be read, or is not served, is
// kept in the view.
func list[T client.Object, L client.ObjectList](ctx context.Context, reads *errgroup.Group, reader client.Reader, namespace string,
	kind kinds.Kind[T], into L, items func(L) []T, made **view[T],
) {
	reads.Go(func() error {
		err := reader.List(ctx, into, client.InNamespace(namespace))
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		var slim []T
		if err == nil {
			slim = items(into)
		}
		for i := range slim {
			slim[i] = kind.Slim(slim[i])
		}
		*made = newView(kind, slim, err)
		return nil
	})
}

func pointers[T any](items []T) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	return list
}

// views are what controllers read.
func (s *snapshot) views() kinds.Views {
	return kinds.Views{
		Sandboxes: s.sandboxes, Templates: s.templates, WarmPools: s.pools, Claims: s.claims,
		Pods: s.pods, Services: s.services, VolumeClaims: s.volumes, NetworkPolicies: s.policies,
		AgentRuntimes: s.agents, Deployments: s.deployments, StatefulSets: s.statefulSets, ReplicaSets: s.replicaSets, ConfigMaps: s.configs,
	}
}

// all are the objects that a controller which starts to lead is told of, by kind.
func (s *snapshot) all() []client.Object {
	var list []client.Object
	list = append(list, objects(s.pools)...)
	list = append(list, objects(s.templates)...)
	list = append(list, objects(s.policies)...)
	list = append(list, objects(s.claims)...)
	return append(list, objects(s.sandboxes)...)
}

func objects[T client.Object](v *view[T]) []client.Object {
	list := make([]client.Object, len(v.items))
	for i, item := range v.items {
		list[i] = item
	}
	return list
}
