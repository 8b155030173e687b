// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

const (
	// firstRetry and lastRetry bound the time a pass that failed waits, which doubles
	// from one failure to the next.
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
	// parallel is how many calls of one group run at a time. It leaves room on a
	// connection of 100 for other objects' calls.
	parallel = 50
	// suffixLength is how many random characters names of children end in.
	suffixLength = 5
)

func newEnvironment(recorder events.EventRecorder, wake func(string, ...reconcile.Request)) control.Environment {
	return control.Environment{
		Wake:    wake,
		Clock:   clock.RealClock{},
		Suffix:  func() string { return rand.String(suffixLength) },
		Group:   group{},
		Events:  recorder,
		NewLock: func() sync.Locker { return &sync.Mutex{} },
	}
}

// group runs calls in parallel.
type group struct{}

// Each implements control.Group.
func (group) Each(ctx context.Context, n int, do func(context.Context, int) error) error {
	failures := make([]error, n)
	var calls errgroup.Group
	calls.SetLimit(parallel)
	for i := range n {
		calls.Go(func() error {
			failures[i] = do(ctx, i)
			return nil // one call's failure does not end the others
		})
	}
	_ = calls.Wait()
	return errors.Join(failures...)
}

// run adds a controller to the manager.
func (m *Manager) run(c control.Controller, workers int, connections *connections) error {
	name := c.Name()
	if err := connections.add(name); err != nil {
		return err
	}
	running, err := controller.New(name, m.manager, controller.Options{
		Reconciler:              &passes{controller: c, current: m.current},
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("run controller %s: %w", name, err)
	}
	if err := running.Watch(m.queues.of(name)); err != nil {
		return fmt.Errorf("run controller %s: %w", name, err)
	}
	m.wakers.add(c)
	for _, watches := range byKind(c.Watches()) {
		if _, ok := watches[0].Object.(*agents.Sandbox); ok && m.served != nil {
			m.served.onChange(func(before, after client.Object) {
				for _, w := range watches {
					m.queues.wake(name, w.Enqueue(before, after)...)
				}
			})
			continue
		}
		if err := running.Watch(source.Kind(m.manager.GetCache(), watches[0].Object, wake(watches))); err != nil {
			return fmt.Errorf("run controller %s: watch %T: %w", name, watches[0].Object, err)
		}
	}
	return nil
}

// queues are the work queues of the controllers that run, by name.
type queues struct {
	mu     sync.Mutex
	byName map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// of is a source that enqueues nothing by itself: it lets wake find the queue.
func (q *queues) of(controller string) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.byName[controller] = queue
		return nil
	})
}

// wake implements control.Environment's Wake. A controller that does not run yet
// reconciles everything when it starts.
func (q *queues) wake(controller string, requests ...reconcile.Request) {
	q.mu.Lock()
	queue := q.byName[controller]
	q.mu.Unlock()
	for i := 0; queue != nil && i < len(requests); i++ {
		queue.Add(requests[i])
	}
}

// wakers are what wakes each controller, by the controller's name.
type wakers map[string][]control.Watch

func (w wakers) add(c control.Controller) { w[c.Name()] = c.Watches() }

// tell wakes whom a change of an object would wake, where no event may tell of it: nil
// before is an object that is new, nil after one that is gone.
func (w wakers) tell(of, before, after client.Object, wake func(string, ...reconcile.Request)) {
	for controller, all := range w {
		for _, watch := range all {
			if reflect.TypeOf(watch.Object) == reflect.TypeOf(of) {
				wake(controller, watch.Enqueue(before, after)...)
			}
		}
	}
}

// passes runs a controller's passes on its own connection, and none before the views
// show what was there when this process began to lead.
type passes struct {
	controller control.Controller
	current    <-chan struct{}
}

// Reconcile implements reconcile.Reconciler. A pass that ends because the process does is
// no failure, and is not told of as one.
func (p *passes) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	select {
	case <-p.current:
	case <-ctx.Done():
		return reconcile.Result{}, nil
	}
	result, err := p.controller.Reconcile(onBehalfOf(ctx, p.controller.Name()), request)
	if ctx.Err() != nil {
		err = nil
	}
	return result, err
}

// byKind groups watches of the same kind, in the order the kinds first appear.
func byKind(watches []control.Watch) [][]control.Watch {
	var groups [][]control.Watch
	places := map[reflect.Type]int{}
	for _, w := range watches {
		kind := reflect.TypeOf(w.Object)
		place, ok := places[kind]
		if !ok {
			place = len(groups)
			places[kind] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], w)
	}
	return groups
}

// wake enqueues whom the watches of one kind name.
func wake(watches []control.Watch) handler.EventHandler {
	enqueue := func(before, after client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, w := range watches {
			for _, request := range w.Enqueue(before, after) {
				queue.Add(request)
			}
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(nil, e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueue(e.ObjectOld, e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(e.Object, nil, q) },
	}
}
