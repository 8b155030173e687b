// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

// queue is a controller's work queue: a request is in it once, is not worked on twice
// at a time, and comes back later after a failure.
type queue struct {
	clock    *Clock
	waiting  []reconcile.Request
	working  map[reconcile.Request]bool
	dirty    map[reconcile.Request]bool // added while worked on
	failures map[reconcile.Request]int
	timers   []timer
}

type timer struct {
	at      time.Time
	request reconcile.Request
}

func newQueue(clock *Clock) *queue {
	return &queue{clock: clock, working: map[reconcile.Request]bool{}, dirty: map[reconcile.Request]bool{}, failures: map[reconcile.Request]int{}}
}

func (q *queue) add(request reconcile.Request) {
	switch {
	case q.working[request]:
		q.dirty[request] = true
	case !slices.Contains(q.waiting, request):
		q.waiting = append(q.waiting, request)
	}
}

func (q *queue) addAfter(request reconcile.Request, after time.Duration) {
	q.timers = append(q.timers, timer{at: q.clock.Now().Add(after), request: request})
	slices.SortStableFunc(q.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

// take takes the n-th request that waits.
func (q *queue) take(n int) reconcile.Request {
	request := q.waiting[n]
	q.waiting = slices.Delete(q.waiting, n, n+1)
	q.working[request] = true
	return request
}

// done ends the work on a request.
func (q *queue) done(request reconcile.Request, result reconcile.Result, err error) {
	delete(q.working, request)
	if q.dirty[request] {
		delete(q.dirty, request)
		q.add(request)
	}
	switch {
	case err != nil:
		wait := lastRetry
		if n := q.failures[request]; n < 14 {
			wait = min(firstRetry<<n, lastRetry)
		}
		q.failures[request]++
		q.addAfter(request, wait)
	default:
		delete(q.failures, request)
		if result.RequeueAfter > 0 {
			q.addAfter(request, result.RequeueAfter)
		}
	}
}

// ring adds the requests whose time has come.
func (q *queue) ring() {
	for len(q.timers) > 0 && !q.timers[0].at.After(q.clock.Now()) {
		q.add(q.timers[0].request)
		q.timers = q.timers[1:]
	}
}
