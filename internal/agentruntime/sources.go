// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Defaults implements confighash.Source. They are as they were at one time, which a list
// tells. What the view does not show of it yet is read through the view as well: it tells
// of what it has shown and the informer then skips, which no event does.
func (c liveConfig) Defaults(ctx context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	for range listTries {
		found, err := c.lister.ListConfigMaps(ctx, namespace, api.LabelDefaults+"="+api.DefaultsTrue)
		if err != nil {
			return nil, err
		}
		if same, err := c.show(ctx, namespace, found); err != nil || same {
			return found, err
		}
	}
	return nil, fmt.Errorf("list ConfigMaps %s with the label %s: they change too often", namespace, api.LabelDefaults)
}

// listTries is how often defaults are listed in a pass until they are what reading each of
// them shows.
const listTries = 4

// show lets the view know the defaults that were listed, and reports whether they still
// are what the server has.
func (c liveConfig) show(ctx context.Context, namespace string, found []*corev1.ConfigMap) (bool, error) {
	names := sets.New[string]()
	for _, m := range found {
		names.Insert(m.Name)
		c.listed.add(m.UID)
		now, ok, err := c.views.ConfigMaps.Get(ctx, client.ObjectKeyFromObject(m))
		if err != nil {
			return false, err
		}
		if ok && isSame(now, m) {
			continue
		}
		if now, err := c.ConfigMap(ctx, m.Namespace, m.Name); err != nil || !isSame(now, m) {
			return false, err
		}
	}
	shown, err := c.views.ConfigMaps.By(ctx, kinds.ByDefaults, namespace)
	if err != nil {
		return false, err
	}
	for _, m := range shown {
		if names.Has(m.Name) {
			continue
		}
		if now, err := c.ConfigMap(ctx, m.Namespace, m.Name); err != nil || now != nil && now.Labels[api.LabelDefaults] == api.DefaultsTrue {
			return false, err
		}
	}
	return true, nil
}

// isSame reports whether two are one version of one ConfigMap.
func isSame(a, b *corev1.ConfigMap) bool {
	return a != nil && b != nil && a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
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
