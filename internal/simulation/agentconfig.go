// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
)

// configThen are the ConfigMaps there are since a version.
type configThen struct {
	since uint64
	maps  map[types.NamespacedName]*corev1.ConfigMap
}

func (w *agentWatcher) configChanged(obj, after client.Object) {
	next := maps.Clone(w.config[len(w.config)-1].maps)
	if after == nil {
		delete(next, client.ObjectKeyFromObject(obj))
	} else {
		next[client.ObjectKeyFromObject(obj)] = after.(*corev1.ConfigMap)
	}
	w.config = append(w.config, configThen{w.run.server.version, next})
}

// desired is the hash of the configuration as it is.
func (w *agentWatcher) desired() string {
	return hashOf([]configThen{w.config[len(w.config)-1]}, make([]int, reads))
}

// was reports whether a hash is that of the configuration as somebody may have read it
// since a version, one ConfigMap after the other.
func (w *agentWatcher) was(hash string, version uint64) bool {
	at := len(w.config) - 1
	for at > 0 && w.config[at].since > version {
		at--
	}
	times := w.config[at:]
	const tooMany = 6
	if len(times) > tooMany {
		return true // there are too many ways to have read it
	}
	order := make([]int, reads)
	for {
		if hashOf(times, order) == hash {
			return true
		}
		// The next order, in which no read is of an earlier time than the one before.
		n := reads - 1
		for n >= 0 && order[n] == len(times)-1 {
			n--
		}
		if n < 0 {
			return false
		}
		for next := order[n] + 1; n < reads; n++ {
			order[n] = next
		}
	}
}

// reads is how many it takes to read a configuration.
const reads = 5

func hashOf(times []configThen, order []int) string {
	result, err := confighash.Of(context.Background(), &history{times: times, order: order}, runtimes.DefaultOperatorNamespace, namespace)
	if err != nil {
		panic("what cannot fail fails: " + err.Error())
	}
	return result.Hash
}

// history is a source whose n-th read is of the n-th time in order.
type history struct {
	times []configThen
	order []int
	n     int
}

func (h *history) next() map[types.NamespacedName]*corev1.ConfigMap {
	h.n++
	return h.times[h.order[h.n-1]].maps
}

// ConfigMap implements confighash.Source.
func (h *history) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return h.next()[types.NamespacedName{Namespace: namespace, Name: name}], nil
}

// Defaults implements confighash.Source.
func (h *history) Defaults(_ context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	all := h.next()
	var found []*corev1.ConfigMap
	for _, key := range slices.SortedFunc(maps.Keys(all), compareKeys) {
		if m := all[key]; key.Namespace == namespace && m.Labels[runtimes.LabelDefaults] == runtimes.DefaultsTrue {
			found = append(found, m)
		}
	}
	return found, nil
}
