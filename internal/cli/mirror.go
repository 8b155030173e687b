// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// query is a list of objects to show.
type query struct {
	list    func() client.ObjectList // an empty list of the kind
	options []client.ListOption
	// optional: a person who may not read them, or whose cluster does not have the kind, sees what there
	// is without them.
	optional bool
}

// found are the objects of each query. Those of an optional one that was refused are nil.
type found [][]client.Object

// read answers queries once.
func (c *cluster) read(ctx context.Context, queries []query) (found, error) {
	all := make(found, len(queries))
	for i, q := range queries {
		list := q.list()
		err := c.List(ctx, list, q.options...)
		if q.optional && (apierrors.IsForbidden(err) || notServed(err)) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all[i], err = itemsOf(list); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func itemsOf(list client.ObjectList) ([]client.Object, error) {
	items := []client.Object{}
	err := meta.EachListItem(list, func(item kruntime.Object) error {
		if object, ok := item.(client.Object); ok {
			items = append(items, object)
		}
		return nil
	})
	return items, err
}

// change is what changed in the answer to one query.
type change struct {
	query   int
	all     []client.Object // replaces all there was, unless changed is set
	changed client.Object
	gone    bool  // changed is gone
	err     error // the query is not answered any more
	lost    error // it will be answered again
}

// mirror answers queries and keeps the answers current: it sends what changed until ctx ends.
func (c *cluster) mirror(ctx context.Context, queries []query) <-chan change {
	changes := make(chan change)
	for i, q := range queries {
		go func() {
			send := func(u change) {
				u.query = i
				select {
				case changes <- u:
				case <-ctx.Done():
				}
			}
			c.mirrorOne(ctx, q, send)
		}()
	}
	return changes
}

func (c *cluster) mirrorOne(ctx context.Context, q query, send func(change)) {
	backoff := reconnects()
	for ctx.Err() == nil {
		list := q.list()
		err := c.List(ctx, list, q.options...)
		if q.optional && (apierrors.IsForbidden(err) || notServed(err)) {
			send(change{})
			return
		}
		if err == nil {
			backoff = reconnects()
			var items []client.Object
			if items, err = itemsOf(list); err == nil {
				send(change{all: items})
				err = c.mirrorChanges(ctx, q, list, send)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if final(err) {
			send(change{err: err})
			return
		}
		if err != nil && !apierrors.IsResourceExpired(err) {
			send(change{lost: err})
		}
		if pause(ctx, &backoff) != nil {
			return
		}
	}
}

// mirrorChanges sends what changes after a list was made, until the watch ends.
func (c *cluster) mirrorChanges(ctx context.Context, q query, list client.ObjectList, send func(change)) error {
	after := &client.ListOptions{}
	after.ApplyOptions(q.options)
	raw := after.AsListOptions()
	raw.ResourceVersion = list.GetResourceVersion()
	after.Raw = raw
	events, err := c.Watch(ctx, q.list(), after)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		if object, ok := event.Object.(client.Object); ok && event.Type != watch.Bookmark {
			send(change{changed: object, gone: event.Type == watch.Deleted})
		}
	}
	return nil
}

// apply brings a change into what was found.
func (f found) apply(u change) {
	if u.changed == nil {
		f[u.query] = u.all
		return
	}
	same := func(o client.Object) bool { return identity(o) == identity(u.changed) }
	f[u.query] = slices.DeleteFunc(f[u.query], same)
	if !u.gone {
		f[u.query] = append(f[u.query], u.changed)
	}
}

func identity(o client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// typed gives the objects of a query as what they are.
func typed[T client.Object](objects []client.Object) []T {
	var all []T
	for _, object := range objects {
		if t, ok := object.(T); ok {
			all = append(all, t)
		}
	}
	return all
}
