// SPDX-License-Identifier: Apache-2.0

// Package leader keeps a process that has lost its lead from writing.
//
// Leader election alone does not: a leader that was paused wakes up and goes on with
// what it was doing, while another has taken over. So every request that changes
// something passes a Fence, which lets it through only for a limited time after the
// lease was last renewed. That time is shorter than the one others wait before they
// take over.
package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrNotLeading is the error of a request that the fence refused. It was not sent.
var ErrNotLeading = errors.New("this process does not hold the lease: nothing is written")

// errTermEnded is the error of a request that was under way when the fence closed. It
// may have been sent.
var errTermEnded = errors.New("this process ceased to hold the lease before the request was answered")

// Fence refuses requests that change something unless the lease was renewed
// recently.
type Fence struct {
	clock clock.PassiveClock
	term  time.Duration

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal began
	holds   bool
}

// NewFence returns a fence that is closed. A renewal opens it for term, counted from
// the moment before the renewal was sent; term is the election's renew deadline.
func NewFence(c clock.PassiveClock, term time.Duration) *Fence {
	return &Fence{clock: c, term: term}
}

// Wrap returns a transport that refuses with ErrNotLeading what would change
// something while the fence is closed, and ends such a request that is under way when
// it closes. Reads pass.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &fenced{fence: f, next: next}
}

// open records a renewal that began at the given time.
func (f *Fence) open(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.holds || began.After(f.renewed) {
		f.renewed, f.holds = began, true
	}
}

// shut closes the fence until the next renewal.
func (f *Fence) shut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds = false
}

// left is how much longer the fence is open.
func (f *Fence) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.holds {
		return 0
	}
	now := f.clock.Now()
	// The monotonic clock stands still while a machine is suspended, the wall clock
	// may be set back; whichever has gone further counts.
	passed := max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0)))
	return f.term - passed
}

// fenced is a transport behind a fence.
type fenced struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if reads(request.Method) {
		return t.next.RoundTrip(request)
	}
	left := t.fence.left()
	if left <= 0 {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper always does
		}
		return nil, ErrNotLeading
	}
	// A request can wait below for a connection, or be sent a second time there. It
	// ends with the term it began in.
	ctx, cancel := context.WithTimeoutCause(request.Context(), left, errTermEnded)
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, close: cancel}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// body releases the request's context once the reply was read.
type body struct {
	io.ReadCloser
	close context.CancelFunc
}

func (b *body) Close() error {
	defer b.close()
	return b.ReadCloser.Close()
}
