// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// errTimeout is what a replica learns of a request whose reply it does not get.
var errTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

// errFenced is what the fence answers to a replica that may have lost its lease.
var errFenced = errors.New("not sent: the lease may have been lost")

// api is the API of one kind as one replica reaches it.
type api[T client.Object] struct {
	replica *replica
	kind    kinds.Kind[T]
}

var (
	_ consistent.API[client.Object]     = (*api[client.Object])(nil)
	_ consistent.Applier[client.Object] = (*api[client.Object])(nil)
)

// Get implements consistent.API.
func (a *api[T]) Get(_ context.Context, key types.NamespacedName) (T, error) {
	return a.send(call{"get", a.kind.Resource, key}, func() (client.Object, error) {
		return a.replica.run.server.Get(a.kind.Resource, key)
	})
}

// Create implements consistent.API.
func (a *api[T]) Create(_ context.Context, obj T) (T, error) {
	reply, err := a.send(call{"create", a.kind.Resource, client.ObjectKeyFromObject(obj)}, func() (client.Object, error) {
		return a.replica.run.server.Create(a.kind.Resource, obj)
	})
	return reply, a.replica.run.mutatedError(err)
}

// Patch implements consistent.API.
func (a *api[T]) Patch(_ context.Context, key types.NamespacedName, subresource string, body []byte) (T, error) {
	body = a.replica.run.mutatedPatch(a.kind.Resource, subresource, body)
	verb := "patch"
	if subresource != "" {
		verb = "patch " + subresource + " of"
	}
	return a.send(call{verb, a.kind.Resource, key}, func() (client.Object, error) {
		return a.replica.run.server.Patch(a.kind.Resource, key, subresource, body)
	})
}

// Apply implements consistent.Applier.
func (a *api[T]) Apply(_ context.Context, key types.NamespacedName, manager string, configuration consistent.Patch) (T, error) {
	body, err := json.Marshal(configuration)
	if err != nil {
		var none T
		return none, err
	}
	return a.send(call{"apply to", a.kind.Resource, key}, func() (client.Object, error) {
		return a.replica.run.server.Apply(a.kind.Resource, key, manager, false, body)
	})
}

// Delete implements consistent.API.
func (a *api[T]) Delete(_ context.Context, key types.NamespacedName, condition consistent.DeleteCondition) (T, bool, error) {
	alive := false
	if r := a.replica; r.run.settings.Mutation == DeletePodsByName && a.kind.Resource == "pods" && r.current.controller == "agentruntime" {
		condition = consistent.DeleteCondition{}
	}
	obj, err := a.send(call{"delete", a.kind.Resource, key}, func() (client.Object, error) {
		obj, ok, err := a.replica.run.server.Delete(a.kind.Resource, key, condition)
		alive = ok
		return obj, err
	})
	return obj, alive && err == nil, err
}

// call is one request.
type call struct {
	verb, resource string
	key            types.NamespacedName
}

func (c call) writes() bool { return c.verb != "get" && c.verb != "list" }

func (c call) String() string { return c.verb + " " + c.resource + " " + c.key.Name }

func (a *api[T]) send(c call, do func() (client.Object, error)) (T, error) {
	var none T
	reply, err := a.replica.send(c, do)
	if err != nil || reply == nil {
		return none, err
	}
	return reply.(T), nil
}

// send makes one request. Before it and after it everything else may happen, and what
// becomes of the request is the run's choice.
func (r *replica) send(c call, do func() (client.Object, error)) (client.Object, error) {
	w := writer{replica: r, life: r.life, controller: r.current.controller, seen: r.seen[r.current]}
	r.stop()
	if c.writes() && r.fenced() {
		r.run.note("%s: %s is refused by the fence", r.name, c)
		return nil, errFenced
	}
	reply, err := r.run.deliver(w, c, do)
	r.stop()
	return reply, err
}

// writer is who sent a request.
type writer struct {
	replica    *replica
	life       int
	controller string
	// seen is what its pass has seen at least.
	seen sight
}

// sight are the versions of pods, pools and Sandboxes that a pass has seen at least, and
// the one there was when it began.
type sight struct{ pods, pools, sandboxes, began uint64 }

// leads reports whether the sender still is who leads.
func (w writer) leads(run *Run) bool {
	return run.leader == w.replica && w.replica.alive && w.replica.life == w.life
}

func (w writer) String() string { return w.replica.name + " (" + w.controller + ")" }

// fate is what becomes of a request.
type fate int

const (
	arrives fate = iota
	conflicts
	isLost
	isLate
	losesItsReply
	isSentTwice
	isThrottled
)

// deliver decides the fate of a request and carries it out.
func (run *Run) deliver(w writer, c call, do func() (client.Object, error)) (client.Object, error) {
	run.watch.tries(w, c)
	what := run.fate()
	resource := run.server.tables[c.resource].resource
	switch what {
	case conflicts:
		if !c.writes() || c.verb == "create" {
			break
		}
		run.note("%s: %s meets a conflict", w, c)
		return nil, apierrors.NewConflict(resource, c.key.Name, errors.New("the object has been modified"))
	case isLost:
		run.note("%s: %s is lost", w, c)
		return nil, errTimeout
	case isLate:
		if !c.writes() {
			return nil, errTimeout
		}
		run.note("%s: %s is late", w, c)
		run.late = append(run.late, late{call: c, do: do, from: w, sent: run.clock.Now()})
		return nil, errTimeout
	case losesItsReply:
		_, err := run.as(w, c, do)
		run.note("%s: %s loses its reply: %s", w, c, outcome{nil, err})
		return nil, errTimeout
	case isSentTwice:
		first, firstErr := run.as(w, c, do)
		reply, err := run.as(w, c, do)
		run.note("%s: %s is sent twice: %s, then %s", w, c, outcome{first, firstErr}, outcome{reply, err})
		return reply, err
	case isThrottled:
		run.note("%s: %s is throttled", w, c)
		return nil, apierrors.NewTooManyRequests("try again later", 1)
	}
	reply, err := run.as(w, c, do)
	run.note("%s: %s: %s", w, c, outcome{reply, err})
	return reply, err
}

// as carries out a request of a writer.
func (run *Run) as(w writer, c call, do func() (client.Object, error)) (client.Object, error) {
	run.writer = &w
	defer func() { run.writer = nil }()
	if !c.writes() {
		return do()
	}
	if !w.leads(run) {
		run.watch.overlap.begin(run)
		defer run.watch.overlap.begin(run)
	}
	before := run.server.version
	reply, err := do()
	if consistent.IsFieldConflict(err) {
		return reply, err // only another try tells whether the other manager still wants it
	}
	run.watch.budget.sent(run, c, err, run.server.version == before)
	return reply, err
}

// outcome says what the server answered.
type outcome struct {
	reply client.Object
	err   error
}

func (o outcome) String() string {
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.reply == nil:
		return "gone"
	default:
		return "version " + o.reply.GetResourceVersion()
	}
}

// late is a request that arrives after others, whatever became of its sender.
type late struct {
	call call
	do   func() (client.Object, error)
	from writer
	sent time.Time
}

// requestLimit is how long the server works on a request before it gives up.
const requestLimit = time.Minute
