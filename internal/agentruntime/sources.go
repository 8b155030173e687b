// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/kinds"
)

// cachedConfig reads ConfigMaps from the view. It may lag: two informers of one process
// are at different points in time, and a ConfigMap that was created before an
// AgentRuntime may come after it. So nothing is stamped by it.
type cachedConfig struct{ views kinds.Views }

// ConfigMap implements confighash.Source.
func (c cachedConfig) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	m, ok, err := c.views.ConfigMaps.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || !ok {
		return nil, err
	}
	return m, nil
}

// Defaults implements confighash.Source.
func (c cachedConfig) Defaults(ctx context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	return c.views.ConfigMaps.By(ctx, kinds.ByDefaults, namespace)
}

// liveConfig asks the server, for absence too.
type liveConfig struct {
	views  kinds.Views
	lister Lister
}

// ConfigMap implements confighash.Source.
func (c liveConfig) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	m, ok, err := c.views.ConfigMaps.Live(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || !ok {
		return nil, err
	}
	return m, nil
}

// Defaults implements confighash.Source.
func (c liveConfig) Defaults(ctx context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	return c.lister.ListConfigMaps(ctx, namespace, api.LabelDefaults+"="+api.DefaultsTrue)
}
