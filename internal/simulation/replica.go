// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/claim"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/warmpool"
)

// replica is one process of the controller.
type replica struct {
	run  *Run
	name string
	life int // how often it has started

	clock     *skewed
	informers []*informer
	sweeps    []func(context.Context) error
	views     kinds.Views

	alive  bool
	paused bool
	// leading is what the replica believes; the run knows who really leads.
	leading     bool
	controllers []*running
	tasks       []*task
	// seen is what each pass has seen at least.
	seen map[*task]sight
	// reading are the tasks that stand between the parts of one read.
	reading map[*task]bool
	current *task
}

// running is a controller of a leader.
type running struct {
	control.Controller
	name    string
	watches map[reflect.Type][]control.Watch
	queue   *queue
	busy    int
}

// workers is how many objects each controller works on at a time.
const workers = 2

func newRunning(clock *Clock, c control.Controller) *running {
	running := &running{Controller: c, name: c.Name(), watches: map[reflect.Type][]control.Watch{}, queue: newQueue(clock)}
	for _, watch := range c.Watches() {
		kind := reflect.TypeOf(watch.Object)
		running.watches[kind] = append(running.watches[kind], watch)
	}
	return running
}

// start begins a new life of the replica: nothing of the last is known.
func (r *replica) start() {
	r.life++
	r.alive, r.paused, r.leading = true, false, false
	r.informers, r.sweeps, r.controllers, r.tasks = nil, nil, nil, nil
	r.seen, r.reading = map[*task]sight{}, map[*task]bool{}
	r.views = kinds.Views{
		Sandboxes:       newView(r, kinds.Sandboxes()),
		Templates:       newView(r, kinds.Templates()),
		WarmPools:       newView(r, kinds.WarmPools()),
		Claims:          newView(r, kinds.Claims()),
		Pods:            newView(r, kinds.Pods()),
		Services:        newView(r, kinds.Services()),
		VolumeClaims:    newView(r, kinds.VolumeClaims()),
		NetworkPolicies: newView(r, kinds.NetworkPolicies()),
	}
	if r.run.settings.World == Agents {
		r.views.AgentRuntimes = newView(r, kinds.AgentRuntimes())
		r.views.ConfigMaps = newView(r, kinds.ConfigMaps())
	}
	for _, i := range r.informers {
		i.pace = r.run.pace()
	}
	r.run.note("%s starts", r.name)
}

func newView[T client.Object](r *replica, kind kinds.Kind[T]) consistent.Kind[T] {
	i := &informer{
		server: r.run.server, replica: r, kind: reflect.TypeOf(kind.New()), resource: kind.Resource,
		slim:    func(obj client.Object) client.Object { return kind.Slim(obj.(T)) },
		indexes: map[string]func(client.Object) []string{},
	}
	for name, index := range kind.Indexes {
		i.indexes[name] = func(obj client.Object) []string { return index(obj.(T)) }
	}
	i.sync()
	view := consistent.New(consistent.Options[T]{
		Name: kind.Resource, API: &api[T]{r, kind}, Store: i, Clock: r.clock, Indexes: kind.Indexes, Transform: kind.Slim,
		Vanished:  func(last T) { r.told(i.kind, notice{before: last}) },
		LookAgain: func(now T) { r.told(i.kind, notice{after: now}) },
	})
	i.told = func(obj client.Object) { view.Told(obj.(T)) }
	r.informers = append(r.informers, i)
	r.sweeps = append(r.sweeps, view.Sweep)
	switch r.run.settings.Mutation {
	case NoOverlay:
		return &withoutOverlay[T]{view, i, kind.Indexes}
	case StoreBeforeEntry:
		return &storeFirst[T]{view, i}
	}
	return view
}

// lead starts the controllers: they are told of everything in the stores first.
func (r *replica) lead() {
	r.leading = true
	environment := control.Environment{
		Clock:   r.clock,
		Suffix:  r.run.suffix,
		Group:   inTurn{},
		Events:  r.run.events,
		Wake:    r.wake,
		NewLock: func() sync.Locker { return &lock{replica: r} },
	}
	r.controllers = nil
	for _, c := range r.production(environment) {
		r.controllers = append(r.controllers, newRunning(r.run.clock, c))
	}
	for _, i := range r.informers {
		i.notices = nil
		for _, obj := range i.sorted() {
			i.notices = append(i.notices, notice{after: obj})
		}
	}
	for _, i := range r.informers {
		i.reach = 0
		for _, obj := range r.run.server.peek(i.resource) {
			version, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
			i.reach = max(i.reach, version)
		}
	}
	r.run.watch.budget.causes++
	r.run.note("%s leads", r.name)
}

// production are the controllers that the replica runs.
func (r *replica) production(environment control.Environment) []control.Controller {
	views := func(controller string) kinds.Views { return r.mutated(controller, r.views) }
	var all []control.Controller
	if r.run.public == nil {
		all = append(all,
			sandbox.New(environment, views("sandbox"), sandbox.Options{}),
			template.New(environment, views("template")),
			warmpool.New(environment, views("warmpool"), warmpool.Options{}),
			claim.New(environment, views("claim"), claim.Options{}),
		)
	}
	if r.run.settings.World == Agents {
		all = append(all, agentruntime.New(environment, views("agentruntime"), r.agentOptions()))
	}
	return all
}

// caughtUp reports whether the informers show every object that there was when the
// replica began to lead. Before that it makes no pass.
func (r *replica) caughtUp() bool {
	for _, i := range r.informers {
		if i.version < i.reach {
			return false
		}
	}
	return true
}

// tell lets the handlers of an informer learn of its oldest change.
func (r *replica) tell(i *informer) {
	n := i.notices[0]
	i.notices = i.notices[1:]
	if n.after != nil {
		i.told(n.after)
	}
	r.told(i.kind, n)
}

// told lets the controllers that run learn of a change.
func (r *replica) told(kind reflect.Type, n notice) {
	if !r.leading {
		return
	}
	for _, c := range r.controllers {
		for _, watch := range c.watches[kind] {
			for _, request := range watch.Enqueue(n.before, n.after) {
				c.queue.add(request)
			}
		}
	}
}

func (r *replica) wake(controller string, requests ...reconcile.Request) {
	for _, c := range r.controllers {
		if c.name == controller {
			for _, request := range requests {
				c.queue.add(request)
			}
		}
	}
}

// informerOf returns the informer of a resource.
func (r *replica) informerOf(resource string) *informer {
	return r.informers[slices.IndexFunc(r.informers, func(i *informer) bool { return i.resource == resource })]
}

// begin starts a pass over the n-th request in a controller's queue.
func (r *replica) begin(c *running, n int) {
	request := c.queue.take(n)
	c.busy++
	t := r.run.crew.newTask(c.name, c.name+" "+request.Name, func() {
		result, err := c.Reconcile(quiet, request)
		c.busy--
		c.queue.done(request, result, err)
		if err != nil {
			r.run.note("%s: the pass of %s %s failed: %s", r.name, c.name, request.Name, err.Error())
		}
	})
	r.tasks = append(r.tasks, t)
	r.seen[t] = sight{
		pods: r.informerOf("pods").shows(), pools: r.informerOf("sandboxwarmpools").shows(),
		sandboxes: r.informerOf("sandboxes").shows(), began: r.run.server.version,
	}
}

// quiet is a context whose logger says nothing.
var quiet = logr.NewContext(context.Background(), logr.Discard())

// sweep starts a sweep of the n-th view.
func (r *replica) sweep(n int) {
	sweep := r.sweeps[n]
	r.tasks = append(r.tasks, r.run.crew.newTask("sweep", "sweep", func() { _ = sweep(quiet) }))
}

// sweepNow sweeps the n-th view before anything else happens.
func (r *replica) sweepNow(n int) {
	r.sweep(n)
	for at := len(r.tasks) - 1; len(r.tasks) > at; {
		r.resume(at)
	}
}

// resume lets the n-th task go on to its next stop.
func (r *replica) resume(n int) {
	t := r.tasks[n]
	r.current = t
	t.resume()
	r.current = nil
	if t.panic != nil {
		r.run.fail(noPanic, "%s: %s: %v\n%s", r.name, t.name, t.panic, t.stack)
	}
	if t.ended {
		delete(r.seen, t)
		r.tasks = append(r.tasks[:n:n], r.tasks[n+1:]...)
	}
}

// stop lets everything else happen before the replica's current task goes on.
func (r *replica) stop() {
	t := r.current
	t.stop()
	r.current = t
}

// maybeStop stops now and then, if it is a task that asks.
func (r *replica) maybeStop() {
	if r.current != nil && r.run.faulty && r.run.choices.Chance(r.run.focus.oneStop) {
		t := r.current
		r.reading[t] = true
		r.stop()
		delete(r.reading, t)
	}
}

// crash ends the replica where it is.
func (r *replica) crash() {
	r.run.note("%s crashes", r.name)
	for _, t := range r.tasks {
		t.kill()
	}
	r.tasks = nil
	r.alive, r.leading = false, false
}

// fenced reports whether the fence refuses the replica's writes.
func (r *replica) fenced() bool { return r.run.fence && r.run.leader != r }

// inTurn runs the calls of a group one after the other.
type inTurn struct{}

// Each implements control.Group.
func (inTurn) Each(ctx context.Context, n int, do func(context.Context, int) error) error {
	var errs []error
	for i := range n {
		if err := do(ctx, i); err != nil {
			errs = append(errs, err)
		}
	}
	return joined(errs)
}

// lock is a lock that may be held while other tasks run.
type lock struct {
	replica *replica
	held    bool
}

// Lock implements sync.Locker.
func (l *lock) Lock() {
	for l.held {
		l.replica.stop()
	}
	l.held = true
}

// Unlock implements sync.Locker.
func (l *lock) Unlock() { l.held = false }

// skew is how wrong a replica's clock may be.
const skew = 3 * time.Second
