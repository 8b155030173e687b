// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

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
	listed *listed
}

// ConfigMap implements confighash.Source.
func (c liveConfig) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	m, ok, err := c.views.ConfigMaps.Live(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || !ok {
		return nil, err
	}
	return m, nil
}

// Defaults implements confighash.Source. Each of those that the server lists, or that only
// the view has for one, is read once more through the view: it tells of what it has shown
// and the informer then skips, which no event does.
func (c liveConfig) Defaults(ctx context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	candidates, err := c.lister.ListConfigMaps(ctx, namespace, api.LabelDefaults+"="+api.DefaultsTrue)
	if err != nil {
		return nil, err
	}
	shown, err := c.views.ConfigMaps.By(ctx, kinds.ByDefaults, namespace)
	if err != nil {
		return nil, err
	}
	for _, m := range shown {
		if !slices.ContainsFunc(candidates, func(o *corev1.ConfigMap) bool { return o.Name == m.Name }) {
			candidates = append(candidates, m)
		}
	}
	var found []*corev1.ConfigMap
	for _, m := range candidates {
		now, err := c.read(ctx, m)
		if err != nil {
			return nil, err
		}
		if now != nil && now.Labels[api.LabelDefaults] == api.DefaultsTrue {
			found = append(found, now)
		}
	}
	return found, nil
}

// read reads a ConfigMap once more, which is remembered before: the view may tell of it
// right after.
func (c liveConfig) read(ctx context.Context, m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	for {
		c.listed.add(m.UID)
		now, err := c.ConfigMap(ctx, m.Namespace, m.Name)
		if err != nil || now == nil || now.UID == m.UID {
			return now, err
		}
		m = now
	}
}

// listed remembers which ConfigMaps were taken for defaults by what the server said. The
// label by which others are known to be may come off before any informer has seen it.
type listed struct {
	mu   sync.Mutex
	uids sets.Set[types.UID]
}

func newListed() *listed { return &listed{uids: sets.New[types.UID]()} }

func (l *listed) add(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uids.Insert(uid)
}

func (l *listed) has(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uids.Has(uid)
}

func (l *listed) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uids.Delete(uid)
}
