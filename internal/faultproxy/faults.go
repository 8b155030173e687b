// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	errReplyLost    = errors.New("the reply was lost")
	errWatchDropped = errors.New("the watch was dropped")
)

// faults are what goes wrong at present.
type faults struct {
	mu      sync.Mutex
	all     bool            // every watch is held
	held    map[string]bool // by resource
	changed chan struct{}   // closed when something is released
	watches map[*watching]struct{}
	expired map[string]int // watches that are to begin anew, by resource
	delay   time.Duration
	lost    int // replies that are to be lost
}

func (f *faults) init() {
	f.held, f.changed = map[string]bool{}, make(chan struct{})
	f.watches, f.expired = map[*watching]struct{}{}, map[string]int{}
}

// HoldWatches lets the client hear nothing of some resources, such as "pods" or
// "sandboxclaims", or of any if none is named. Lists and reads show what there is.
func (p *Proxy) HoldWatches(resources ...string) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.all = p.faults.all || len(resources) == 0
	for _, resource := range resources {
		p.faults.held[resource] = true
	}
}

// ReleaseWatches lets the client hear of some resources again, or of all if none is named:
// first of what happened while they were held.
func (p *Proxy) ReleaseWatches(resources ...string) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	if len(resources) == 0 {
		p.faults.all = false
		clear(p.faults.held)
	}
	for _, resource := range resources {
		delete(p.faults.held, resource)
	}
	close(p.faults.changed)
	p.faults.changed = make(chan struct{})
}

// DropWatches ends the watches of some resources, or all if none is named, and lets them
// not resume: the server has forgotten where they were. Their client has to list anew.
// Together with HoldWatches before, that is to miss everything between two states. It
// returns how many watches there were.
func (p *Proxy) DropWatches(resources ...string) int {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	dropped := 0
	for watch := range p.faults.watches {
		if len(resources) == 0 || slices.Contains(resources, watch.resource) {
			watch.drop()
			p.faults.expired[watch.resource]++
			dropped++
		}
	}
	return dropped
}

// Delay lets every request except watches wait so long on its way to the server; 0 ends
// that.
func (p *Proxy) Delay(by time.Duration) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.delay = by
}

// LoseReplies lets the next writes be carried out without the client being told.
func (p *Proxy) LoseReplies(count int) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.lost = count
}

// wait holds a request up.
func (f *faults) wait(r *http.Request) error {
	f.mu.Lock()
	delay := f.delay
	f.mu.Unlock()
	if delay == 0 || isWatch(r) {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// expires answers a watch that wants to resume where it was dropped.
func (f *faults) expires(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	if version := query.Get("resourceVersion"); !isWatch(r) || version == "" || version == "0" || query.Get("sendInitialEvents") == "true" {
		return false
	}
	resource := resourceOf(r.URL.Path)
	f.mu.Lock()
	expired := f.expired[resource] > 0
	if expired {
		f.expired[resource]--
	}
	f.mu.Unlock()
	if !expired {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a client that is gone needs no answer
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
		Message: "too old resource version",
	})
	return true
}

// answered is told of every reply before the client is.
func (f *faults) answered(response *http.Response) error {
	if isWatch(response.Request) && response.StatusCode == http.StatusOK {
		response.Body = f.watch(response)
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost > 0 && isWrite(response.Request.Method) && response.StatusCode < http.StatusBadRequest {
		f.lost--
		_ = response.Body.Close() // nobody reads it
		return errReplyLost
	}
	return nil
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return r.Method == http.MethodGet && (watch == "true" || watch == "1")
}

func isWrite(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// resourceOf is the resource in a path such as /apis/apps/v1/namespaces/default/deployments.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return ""
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return parts[0]
}

// watching is the body of a watch's reply.
type watching struct {
	io.ReadCloser
	faults   *faults
	resource string
	alive    context.Context
	drop     context.CancelFunc
	gone     context.Context // the client's request
}

func (f *faults) watch(response *http.Response) *watching {
	alive, drop := context.WithCancel(context.Background())
	w := &watching{
		ReadCloser: response.Body, faults: f, resource: resourceOf(response.Request.URL.Path),
		alive: alive, drop: drop, gone: response.Request.Context(),
	}
	context.AfterFunc(alive, func() { _ = response.Body.Close() }) // ends a Read that waits for an event
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = struct{}{}
	return w
}

// Read implements io.Reader. What was read before the resource was released is held back.
func (w *watching) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	for {
		released := w.faults.release(w.resource)
		if w.alive.Err() != nil {
			return 0, errWatchDropped
		}
		if released == nil {
			return n, err
		}
		select {
		case <-released:
		case <-w.alive.Done():
		case <-w.gone.Done():
			return 0, w.gone.Err()
		}
	}
}

// release is closed when something is released, or nil if the resource is not held.
func (f *faults) release(resource string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all || f.held[resource] {
		return f.changed
	}
	return nil
}

// Close implements io.Closer.
func (w *watching) Close() error {
	w.faults.mu.Lock()
	delete(w.faults.watches, w)
	w.faults.mu.Unlock()
	w.drop()
	return w.ReadCloser.Close()
}
