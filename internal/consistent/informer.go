// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoStoreVersion says that the informer's store does not know its
// resourceVersion, without which absence cannot be told from lag. client-go reports
// it while the AtomicFIFO feature gate is on, which is its default.
var ErrNoStoreVersion = errors.New("the informer does not report its resourceVersion: the client-go feature gate AtomicFIFO must be on")

// informerStore is a client-go informer's store.
type informerStore struct{ indexer cache.Indexer }

// FromIndexer adapts the store of an informer that watches one or all namespaces.
func FromIndexer(indexer cache.Indexer) Store { return informerStore{indexer} }

func (s informerStore) Get(key types.NamespacedName) (any, bool) {
	item, ok, err := s.indexer.GetByKey(key.String())
	if err != nil {
		return nil, false
	}
	return item, ok
}

func (s informerStore) ByIndex(index, value string) []any {
	items, err := s.indexer.ByIndex(index, value)
	if err != nil {
		panic(err) // the index was not declared: a fault of the program
	}
	return items
}

func (s informerStore) Version() uint64 { return version(s.indexer.LastStoreSyncResourceVersion()) }

// CheckVersion returns ErrNoStoreVersion if a synced store has no version.
func CheckVersion(s Store) error {
	if s.Version() == 0 {
		return ErrNoStoreVersion
	}
	return nil
}

// Indexers turns typed indexes into those an informer takes.
func Indexers[T client.Object](indexes map[string]Index[T]) cache.Indexers {
	indexers := make(cache.Indexers, len(indexes))
	for name, index := range indexes {
		indexers[name] = func(obj any) ([]string, error) { return index(obj.(T)), nil }
	}
	return indexers
}
