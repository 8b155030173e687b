// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/kinds"
)

var _ agentruntime.Lister = (*snapshot)(nil)

func (o Options) operatorNamespace() string {
	return cmp.Or(o.OperatorNamespace, api.DefaultOperatorNamespace)
}

func (x *explainer) operatorNamespace() string { return x.options.operatorNamespace() }

// takeAgents reads what AgentRuntimes depend on besides: workloads, and configuration, of
// which a part is in the operator's namespace. There the two ConfigMaps are read by name,
// which people may be allowed who may not list.
func (s *snapshot) takeAgents(ctx context.Context, reader client.Reader, namespace, operator string) error {
	var reads errgroup.Group
	list(ctx, &reads, reader, namespace, kinds.AgentRuntimes(), &api.AgentRuntimeList{},
		func(l *api.AgentRuntimeList) []*api.AgentRuntime { return pointers(l.Items) }, &s.agents)
	list(ctx, &reads, reader, namespace, kinds.Deployments(), &appsv1.DeploymentList{},
		func(l *appsv1.DeploymentList) []*appsv1.Deployment { return pointers(l.Items) }, &s.deployments)
	list(ctx, &reads, reader, namespace, kinds.StatefulSets(), &appsv1.StatefulSetList{},
		func(l *appsv1.StatefulSetList) []*appsv1.StatefulSet { return pointers(l.Items) }, &s.statefulSets)
	list(ctx, &reads, reader, namespace, kinds.ReplicaSets(), &appsv1.ReplicaSetList{},
		func(l *appsv1.ReplicaSetList) []*appsv1.ReplicaSet { return pointers(l.Items) }, &s.replicaSets)
	list(ctx, &reads, reader, namespace, kinds.ConfigMaps(), &corev1.ConfigMapList{},
		func(l *corev1.ConfigMapList) []*corev1.ConfigMap { return pointers(l.Items) }, &s.configs)
	var cluster []*corev1.ConfigMap
	var unread error
	reads.Go(func() error {
		for _, name := range []string{api.ConfigMapPlatform, api.ConfigMapFeatureGates} {
			found := &corev1.ConfigMap{}
			switch err := reader.Get(ctx, types.NamespacedName{Namespace: operator, Name: name}, found); {
			case apierrors.IsForbidden(err):
				unread = err
			case err == nil:
				cluster = append(cluster, kinds.ConfigMaps().Slim(found))
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("read ConfigMap %s/%s: %w", operator, name, err)
			}
		}
		return nil
	})
	if err := reads.Wait(); err != nil {
		return err
	}
	if operator != namespace {
		s.configs.items = append(s.configs.items, cluster...)
	}
	if s.configs.err == nil {
		s.configs.err = unread
	}
	for _, err := range []error{s.configs.err, s.replicaSets.err} {
		if apierrors.IsForbidden(err) {
			s.unread = append(s.unread, err)
		}
	}
	return nil
}

// ListPods implements agentruntime.Lister. Nothing asks: only writes do.
func (s *snapshot) ListPods(context.Context, string, string) ([]*corev1.Pod, error) {
	return s.pods.items, s.pods.err
}

// ListConfigMaps implements agentruntime.Lister. Nothing asks: the configuration is that
// of the view.
func (s *snapshot) ListConfigMaps(ctx context.Context, namespace, _ string) ([]*corev1.ConfigMap, error) {
	return s.configs.By(ctx, kinds.ByDefaults, namespace)
}
