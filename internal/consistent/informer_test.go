// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// wire is the connection of a real client-go informer to a server: nothing passes
// until the test says so. All of it runs in a synctest bubble, where the informer's
// own backoff takes no time and synctest.Wait waits until the informer is idle.
type wire struct {
	t        *testing.T
	server   *server
	informer cache.SharedIndexInformer
	sent     uint64 // every change up to this version was sent
	listAt   uint64 // version of the next list
	stream   *stream
	watching chan struct{}
}

// connect starts an informer that has listed the server's present state.
func connect(t *testing.T, s *server) *wire {
	w := &wire{t: t, server: s, watching: make(chan struct{}), listAt: s.latest()}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			t.Error("the informer lists instead of using a streaming list")
			return &corev1.PodList{}, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return w.watch(options), nil
		},
	}
	w.informer = cache.NewSharedIndexInformerWithOptions(lw, &corev1.Pod{}, cache.SharedIndexInformerOptions{Indexers: Indexers(byOwner), ResyncPeriod: time.Hour})
	if err := w.informer.SetTransform(func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			return slim(p), nil
		}
		return obj, nil
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.informer.RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	w.listed()
	return w
}

// slim is a transform: it drops the spec.
func slim(p *corev1.Pod) *corev1.Pod {
	p.Spec = corev1.PodSpec{}
	return p
}

// view is a view over the informer.
func (w *wire) view() (*View[*corev1.Pod], *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	store := FromIndexer(w.informer.GetIndexer())
	if err := CheckVersion(store); err != nil {
		w.t.Fatal(err)
	}
	v := New(Options[*corev1.Pod]{Name: "pods", API: w.server, Store: store, Clock: clock, Indexes: byOwner, Transform: slim})
	w.handle(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { v.Told(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, after any) { v.Told(after.(*corev1.Pod)) },
	})
	return v, clock
}

// handle adds a handler to the informer.
func (w *wire) handle(h cache.ResourceEventHandler) {
	if _, err := w.informer.AddEventHandler(h); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// watch answers the informer's request: a streaming list, or a watch from where
// the last one ended.
func (w *wire) watch(options metav1.ListOptions) watch.Interface {
	var initial []watch.Event
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		for _, obj := range w.server.at(w.listAt) {
			initial = append(initial, watch.Event{Type: watch.Added, Object: obj.DeepCopy()})
		}
		end := bookmark(w.listAt)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		initial = append(initial, watch.Event{Type: watch.Bookmark, Object: end})
		w.sent = w.listAt
	}
	w.stream = &stream{events: make(chan watch.Event, len(initial)), stopped: make(chan struct{})}
	for _, e := range initial {
		w.stream.events <- e
	}
	go func() { w.watching <- struct{}{} }()
	return w.stream
}

// listed waits for the informer's next watch and for the informer to be idle.
func (w *wire) listed() {
	<-w.watching
	synctest.Wait()
}

// deliver sends the next n changes, fewer if there are no more.
func (w *wire) deliver(n int) {
	for _, c := range w.server.since(w.sent) {
		if n--; n < 0 {
			break
		}
		w.stream.send(eventOf(c))
		w.sent = c.version
	}
	synctest.Wait()
}

func eventOf(c change) watch.Event { return watch.Event{Type: c.kind, Object: c.pod.DeepCopy()} }

// deliverAll sends all changes.
func (w *wire) deliverAll() { w.deliver(len(w.server.since(w.sent))) }

// bookmark tells the informer how far it has come without sending a change.
func (w *wire) bookmark() {
	if pending := w.server.since(w.sent); len(pending) > 0 {
		w.sent = pending[0].version - 1
	} else {
		w.sent = w.server.latest()
	}
	w.stream.send(watch.Event{Type: watch.Bookmark, Object: bookmark(w.sent)})
	synctest.Wait()
}

// relist ends the watch with "too old resource version". The informer lists the state
// at the given version, which skips what was between.
func (w *wire) relist(version uint64) {
	w.listAt = version
	w.stream.send(watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410, Message: "too old resource version",
	}})
	w.listed()
}

func bookmark(version uint64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10)}}
}

// stream is one watch.
type stream struct {
	events  chan watch.Event
	stopped chan struct{}
}

func (s *stream) ResultChan() <-chan watch.Event { return s.events }

func (s *stream) Stop() {
	select {
	case <-s.stopped:
	default:
		close(s.stopped)
	}
}

func (s *stream) send(e watch.Event) {
	select {
	case s.events <- e:
	case <-s.stopped:
	}
}
