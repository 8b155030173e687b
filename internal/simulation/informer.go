// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informer is one replica's cache of one resource. It lags behind the server as far as
// the run lets it, and its handlers lag behind its store.
type informer struct {
	server   *Server
	replica  *replica
	kind     reflect.Type
	resource string
	slim     func(client.Object) client.Object
	indexes  map[string]func(client.Object) []string

	items   map[types.NamespacedName]client.Object
	next    int    // the first event that is not delivered
	version uint64 // what the store says it has seen
	reach   uint64 // what it has to show before a pass begins
	// notices are changes the handlers have not been told of, and told is told of what
	// they have.
	notices []notice
	told    func(client.Object)
	// frozen is what a task of a mutation sees instead of the present.
	frozen map[*task]snapshot
	// pace is how readily the run delivers: an informer may be slow for a while.
	pace int
}

// notice is a change of the store; before or after is nil.
type notice struct{ before, after client.Object }

// sync starts the informer with a list.
func (i *informer) sync() {
	i.items = map[types.NamespacedName]client.Object{}
	i.notices = nil
	i.relist()
}

// Get implements consistent.Store.
func (i *informer) Get(key types.NamespacedName) (any, bool) {
	if past, ok := i.frozen[i.replica.current]; ok {
		item, ok := past.items[key]
		return item, ok
	}
	item, ok := i.items[key]
	return item, ok
}

// ByIndex implements consistent.Store.
func (i *informer) ByIndex(index, value string) []any {
	i.replica.maybeStop()
	indexed := i.indexes[index]
	var found []any
	items := i.items
	if past, ok := i.frozen[i.replica.current]; ok {
		items = past.items
	}
	for _, item := range items { // whoever asks sorts
		if slices.Contains(indexed(item), value) {
			found = append(found, item)
		}
	}
	i.replica.maybeStop()
	return found
}

// Version implements consistent.Store. The stops before and after it are where events
// and sweeps come between the reads that a view makes.
func (i *informer) Version() uint64 {
	if past, ok := i.frozen[i.replica.current]; ok && past.version > 0 {
		return past.version
	}
	if i.replica.run.settings.Mutation == ItemBeforeVersion {
		i.freeze(0)
	}
	i.replica.maybeStop()
	version := i.version
	i.replica.maybeStop()
	return version
}

func (i *informer) sorted() []client.Object {
	keys := make([]types.NamespacedName, 0, len(i.items))
	for key := range i.items {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	all := make([]client.Object, len(keys))
	for n, key := range keys {
		all[n] = i.items[key]
	}
	return all
}

func compareKeys(a, b types.NamespacedName) int {
	if a.Namespace != b.Namespace {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

func (i *informer) events() []Event { return i.server.tables[i.resource].events }

// behind is how many events are not delivered.
func (i *informer) behind() int { return len(i.events()) - i.next }

// deliver brings the store up to date by n events, in one batch.
func (i *informer) deliver(n int) {
	for range n {
		event := i.events()[i.next]
		i.next++
		i.version = event.Version
		key := client.ObjectKeyFromObject(event.Object)
		before := i.items[key]
		if event.Deleted {
			delete(i.items, key)
			if before != nil {
				i.notices = append(i.notices, notice{before: before})
			}
			continue
		}
		after := i.slim(shallow(event.Object))
		if before != nil && before.GetUID() != after.GetUID() {
			// The deletion is an event of its own, which came first.
			panic("an object took another's place without an event")
		}
		i.items[key] = after
		i.notices = append(i.notices, notice{before: before, after: after})
	}
}

// shows is the version of everything that the store shows.
func (i *informer) shows() uint64 {
	if i.behind() == 0 {
		return i.server.version
	}
	return i.version
}

// bookmark tells a store that has caught up that nothing else has happened.
func (i *informer) bookmark() {
	if i.behind() == 0 {
		i.version = i.server.version
	}
}

// relist replaces the store by what there is, as after a broken watch. Handlers are
// told of the difference; what came and went in between they never learn.
func (i *informer) relist() {
	now := map[types.NamespacedName]client.Object{}
	for _, obj := range i.server.List(i.resource) {
		now[client.ObjectKeyFromObject(obj)] = i.slim(obj)
	}
	for _, old := range i.sorted() {
		if _, ok := now[client.ObjectKeyFromObject(old)]; !ok {
			i.notices = append(i.notices, notice{before: old})
		}
	}
	before := i.items
	i.items = now
	for _, obj := range i.sorted() {
		i.notices = append(i.notices, notice{before: before[client.ObjectKeyFromObject(obj)], after: obj})
	}
	i.next, i.version = len(i.events()), i.server.version
}

// resync tells the handlers of everything once more.
func (i *informer) resync() {
	for _, obj := range i.sorted() {
		i.notices = append(i.notices, notice{before: obj, after: obj})
	}
}
