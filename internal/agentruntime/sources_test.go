// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// lagging is a server that has ConfigMaps, and an informer whose watch of them is broken.
type lagging struct {
	consistent.API[*corev1.ConfigMap]
	w       *world
	version int
	has     map[types.NamespacedName]*corev1.ConfigMap
	stored  stored
	view    *consistent.View[*corev1.ConfigMap]
	woken   []string
}

// stored is what the informer has.
type stored struct {
	version uint64
	items   map[types.NamespacedName]*corev1.ConfigMap
}

func (l *lagging) Get(_ context.Context, key types.NamespacedName) (*corev1.ConfigMap, error) {
	if m := l.has[key]; m != nil {
		return m.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

func (l *lagging) ListPods(ctx context.Context, namespace, selector string) ([]*corev1.Pod, error) {
	return lister{l.w}.ListPods(ctx, namespace, selector)
}

func (l *lagging) ListConfigMaps(_ context.Context, namespace, _ string) ([]*corev1.ConfigMap, error) {
	var found []*corev1.ConfigMap
	for _, m := range l.has {
		if slices.Contains(kinds.ConfigMaps().Indexes[kinds.ByDefaults](m), namespace) {
			found = append(found, m.DeepCopy())
		}
	}
	return found, nil
}

type store struct{ of *lagging }

func (s store) Get(key types.NamespacedName) (any, bool) {
	m, ok := s.of.stored.items[key]
	return m, ok
}

func (s store) ByIndex(index, value string) []any {
	var found []any
	for _, m := range s.of.stored.items {
		if slices.Contains(kinds.ConfigMaps().Indexes[index](m), value) {
			found = append(found, m)
		}
	}
	return found
}

func (s store) Version() uint64 { return s.of.stored.version }

// lag lets the controller see ConfigMaps by an informer that knows those that there are.
func (w *world) lag(known ...*corev1.ConfigMap) *lagging {
	l := &lagging{w: w, version: 100, has: map[types.NamespacedName]*corev1.ConfigMap{}}
	kind := kinds.ConfigMaps()
	l.view = consistent.New(consistent.Options[*corev1.ConfigMap]{
		Name: kind.Resource, API: l, Store: store{l}, Clock: w.clock, Indexes: kind.Indexes, Transform: kind.Slim,
		Vanished:  func(last *corev1.ConfigMap) { l.tell(last, nil) },
		LookAgain: func(now *corev1.ConfigMap) { l.tell(nil, now) },
	})
	w.options.Lister = l
	views := w.r.views
	views.ConfigMaps = l.view
	w.r = New(w.r.env, views, w.options)
	for _, m := range known {
		l.put(m)
	}
	l.relist()
	return l
}

func (l *lagging) put(m *corev1.ConfigMap) {
	l.version++
	m = m.DeepCopy()
	m.ResourceVersion = fmt.Sprint(l.version)
	l.has[client.ObjectKeyFromObject(m)] = m
}

func (l *lagging) remove(m *corev1.ConfigMap) {
	l.version++
	delete(l.has, client.ObjectKeyFromObject(m))
}

// relist lets the informer list again, tell of what was before and what is now, and be
// swept up after. It notes who is woken.
func (l *lagging) relist() {
	l.w.t.Helper()
	l.version++ // by something else
	before := l.stored.items
	l.stored = stored{uint64(l.version), map[types.NamespacedName]*corev1.ConfigMap{}}
	for key, m := range l.has {
		l.stored.items[key] = kinds.ConfigMaps().Slim(m.DeepCopy())
	}
	l.woken = nil
	for key, was := range before {
		if l.stored.items[key] == nil {
			l.tell(was, nil)
		}
	}
	for key, is := range l.stored.items {
		if was := before[key]; was == nil || was.ResourceVersion != is.ResourceVersion {
			l.tell(was, is)
			l.view.Told(is)
		}
	}
	if err := l.view.Sweep(l.w.t.Context()); err != nil {
		l.w.t.Fatal(err)
	}
}

func (l *lagging) tell(was, is *corev1.ConfigMap) {
	var before, after client.Object
	if was != nil {
		before = was
	}
	if is != nil {
		after = is
	}
	l.woken = append(l.woken, names(l.w.r.onConfigMap(before, after))...)
}

// A pass puts the hash of what the server lists on a workload. A relist may show the
// informer's handlers nothing of that: what was before is what comes after.
func TestDefaultsThatNoEventTellsOfAreLookedAtAgain(t *testing.T) {
	defaults := func(uid types.UID, value string, edits ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
		m := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "defaults", UID: uid, Labels: map[string]string{api.LabelDefaults: api.DefaultsTrue}},
			Data:       map[string]string{"value": value},
		}
		for _, edit := range edits {
			edit(m)
		}
		return m
	}
	bare := func(m *corev1.ConfigMap) { m.Labels = nil }
	for name, test := range map[string]struct {
		known         []*corev1.ConfigMap
		change, after func(l *lagging)
	}{
		"an edit that is undone": {
			[]*corev1.ConfigMap{defaults("m", "one")},
			func(l *lagging) { l.put(defaults("m", "two")) },
			func(l *lagging) { l.put(defaults("m", "one")) },
		},
		"one that comes and goes": {
			nil,
			func(l *lagging) { l.put(defaults("m", "one")) },
			func(l *lagging) { l.remove(defaults("m", "one")) },
		},
		"one that goes and comes": {
			[]*corev1.ConfigMap{defaults("m", "one")},
			func(l *lagging) { l.remove(defaults("m", "one")) },
			func(l *lagging) { l.put(defaults("other", "one")) },
		},
		"a label that is taken off and put on": {
			[]*corev1.ConfigMap{defaults("m", "one")},
			func(l *lagging) { l.put(defaults("m", "one", bare)) },
			func(l *lagging) { l.put(defaults("m", "one")) },
		},
		"a label that is put on and taken off": {
			[]*corev1.ConfigMap{defaults("m", "one", bare)},
			func(l *lagging) { l.put(defaults("m", "one")) },
			func(l *lagging) { l.put(defaults("m", "one", bare)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime("box")
			l := w.lag(test.known...)
			hash := func() string {
				t.Helper()
				h, err := w.r.hash(t.Context(), team)
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			before := hash()
			test.change(l)
			if hash() == before {
				t.Fatal("the change is no part of the hash")
			}
			test.after(l)
			l.relist()
			if !slices.Contains(l.woken, control.Request(team, "box").String()) {
				t.Errorf("nobody is woken: %v", l.woken)
			}
			if got := hash(); got != before {
				t.Errorf("the hash is %s in the end, want %s", got, before)
			}
		})
	}
}

func TestConfigMapsThatAreGoneAreNotRemembered(t *testing.T) {
	w := newWorld(t)
	w.configure("one")
	w.runtime("box")
	w.settle()
	if _, err := w.r.hash(t.Context(), team); err != nil {
		t.Fatal(err)
	}
	m := w.maps.get("defaults")
	if !w.r.listed.has(m.UID) {
		t.Error("what was listed is not remembered")
	}
	w.r.onConfigMap(m, nil)
	if w.r.listed.has(m.UID) {
		t.Error("what is gone is")
	}
}

// listsBefore lists at first what was before.
type listsBefore struct {
	lister
	before *corev1.ConfigMap
	lists  int
}

func (l *listsBefore) ListConfigMaps(ctx context.Context, namespace, labels string) ([]*corev1.ConfigMap, error) {
	if l.lists++; l.lists == 1 || l.w == nil {
		return []*corev1.ConfigMap{l.before}, nil
	}
	return l.lister.ListConfigMaps(ctx, namespace, labels)
}

func TestDefaultsAreThoseOfOneTime(t *testing.T) {
	w := newWorld(t)
	w.configure("one")
	old := w.maps.get("defaults")
	live := liveConfig{w.r.views, &listsBefore{before: old}, w.r.listed}
	read := func() []*corev1.ConfigMap {
		t.Helper()
		live.lister = &listsBefore{lister: lister{w}, before: old}
		found, err := live.Defaults(t.Context(), team)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	next := old.DeepCopy()
	next.UID, next.Data = "next", map[string]string{"value": "two"}
	w.maps.put(next)
	if got := read(); len(got) != 1 || got[0].UID != "next" || !w.r.listed.has("next") {
		t.Errorf("one that was made anew: %v", got)
	}
	bare := next.DeepCopy()
	bare.Labels = nil
	w.maps.put(bare)
	if got := read(); len(got) != 0 {
		t.Errorf("one whose label was taken off: %v", got)
	}
	delete(w.maps.objects, client.ObjectKeyFromObject(bare))
	if got := read(); len(got) != 0 {
		t.Errorf("one that is gone: %v", got)
	}
	live.lister = &listsBefore{before: old}
	if got, err := live.Defaults(t.Context(), team); err == nil {
		t.Errorf("what is not there any more counts, however often it was listed: %v", got)
	}
}
