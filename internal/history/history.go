// SPDX-License-Identifier: Apache-2.0

// Package history is an outside checker. It reads everything that happens in a namespace
// from the cluster's store, change by change in the one order in which it happened, and
// holds at every change what may never be, however short it lasts.
//
// No API server stands between: a history has no gap when one is restarted, and it goes
// on where it was when the store itself was away.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// root is what the API server's keys in the store begin with.
const root = "/registry/"

// History is what has happened in one namespace. Its methods may be called from several
// goroutines.
type History struct {
	namespace string
	store     *clientv3.Client
	stop      context.CancelFunc
	ended     chan struct{}

	mu      sync.Mutex
	watcher *watcher
	changes int           // of anything in the namespace
	last    string        // key of the last change
	changed chan struct{} // closed at the next change
	failed  error
}

// Begin begins the history of a namespace with what there is now. The URL is that of the
// store, etcd. Close ends it.
func Begin(ctx context.Context, url, namespace string) (*History, error) {
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop(), DialTimeout: time.Minute})
	if err != nil {
		return nil, fmt.Errorf("begin a history: %w", err)
	}
	h := &History{
		namespace: namespace, store: store, ended: make(chan struct{}), watcher: newWatcher(), changed: make(chan struct{}),
	}
	// One read: what it shows was there at one time.
	all, err := store.Get(ctx, root, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("begin a history: %w", err)
	}
	for _, kv := range all.Kvs {
		h.take(&clientv3.Event{Type: mvccpb.PUT, Kv: kv})
	}
	var watching context.Context
	watching, h.stop = context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(ctx)))
	go h.read(watching, all.Header.Revision+1)
	return h, nil
}

// Close ends the history. What has happened until then can still be asked for.
func (h *History) Close() {
	h.stop()
	<-h.ended
	h.store.Close()
}

// read reads on from a revision. A watch that breaks begins again after the last change
// that it brought.
func (h *History) read(ctx context.Context, from int64) {
	defer close(h.ended)
	for ctx.Err() == nil {
		watch, cancel := context.WithCancel(ctx)
		for response := range h.store.Watch(watch, root, clientv3.WithPrefix(), clientv3.WithRev(from)) {
			if response.CompactRevision > 0 {
				h.fail(fmt.Errorf("the history has a gap: the store has forgotten everything before revision %d", response.CompactRevision))
				cancel()
				return
			}
			for _, event := range response.Events {
				h.take(event)
				from = event.Kv.ModRevision + 1
			}
		}
		cancel()
	}
}

func (h *History) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = errors.Join(h.failed, err)
	h.wake()
}

func (h *History) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// take takes one change in.
func (h *History) take(event *clientv3.Event) {
	resource, namespace, name := parse(string(event.Kv.Key))
	if namespace != h.namespace || resource == "events" {
		return
	}
	obj, err := decode(resource, event)
	if err != nil {
		h.fail(fmt.Errorf("read %s: %w", event.Kv.Key, err))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	h.last = string(event.Kv.Key)
	h.watcher.change(event.Kv.ModRevision, resource, name, obj)
	h.wake()
}

// parse takes a key apart, such as /registry/pods/default/a or
// /registry/agents.x-k8s.io/sandboxes/default/a.
func parse(key string) (resource, namespace, name string) {
	parts := strings.Split(strings.TrimPrefix(key, root), "/")
	if len(parts) < 3 {
		return "", "", ""
	}
	parts = parts[len(parts)-3:]
	return parts[0], parts[1], parts[2]
}

// decode is the object that a change leaves, or nil if it leaves none or is of a kind
// that the invariants are not about.
func decode(resource string, event *clientv3.Event) (client.Object, error) {
	if event.Type == mvccpb.DELETE {
		return nil, nil
	}
	var obj client.Object
	switch resource {
	case pods: // the only one that is not stored as JSON
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(event.Kv.Value, nil, nil)
		if err != nil {
			return nil, err
		}
		obj = decoded.(client.Object)
	case sandboxes:
		obj = &agents.Sandbox{}
	case claims:
		obj = &extensions.SandboxClaim{}
	case pools:
		obj = &extensions.SandboxWarmPool{}
	case templates:
		obj = &extensions.SandboxTemplate{}
	default:
		return nil, nil
	}
	if resource != pods {
		if err := json.Unmarshal(event.Kv.Value, obj); err != nil {
			return nil, err
		}
	}
	obj.SetResourceVersion(strconv.FormatInt(event.Kv.ModRevision, 10))
	return obj, nil
}

// Violations are what has happened that may never happen.
func (h *History) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := slices.Clone(h.watcher.wrong)
	if h.failed != nil {
		found = append(found, h.failed.Error())
	}
	return found
}

// Steps is how many steps were taken so far: a Sandbox or a pod was created, a Sandbox
// adopted, a claim bound.
func (h *History) Steps() int { return h.count(func() int { return h.watcher.steps }) }

// Bound is how many claims were bound so far.
func (h *History) Bound() int { return h.count(func() int { return len(h.watcher.boundBy) }) }

// Changes is how many changes there were so far, of any object of the namespace.
func (h *History) Changes() int { return h.count(func() int { return h.changes }) }

func (h *History) count(what func() int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return what()
}

// BoundTo is the Sandbox that a claim was bound to, if it was; also of a claim that is
// gone.
func (h *History) BoundTo(claim types.UID) (extensions.ClaimedSandbox, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	record := h.watcher.records[claim]
	if record == nil || record.bound.UID == "" {
		return extensions.ClaimedSandbox{}, false
	}
	return record.bound, true
}

// Until waits until nothing is left of what a check finds missing. The error says what
// never came, or what happened instead that may never happen.
func (h *History) Until(ctx context.Context, missing func(*State) string) error {
	for {
		h.mu.Lock()
		left, changed, wrong := missing(&h.watcher.State), h.changed, slices.Clone(h.watcher.wrong)
		failed := h.failed
		h.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case len(wrong) > 0:
			return errors.New(strings.Join(wrong, "\n"))
		case left == "":
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited too long: %s", left)
		}
	}
}

// Reach waits until so many steps were taken.
func (h *History) Reach(ctx context.Context, steps int) error {
	return h.Until(ctx, func(*State) string {
		if now := h.watcher.steps; now < steps {
			return fmt.Sprintf("%d of %d steps were taken", now, steps)
		}
		return ""
	})
}

// Quiet waits until nothing changes for a while.
func (h *History) Quiet(ctx context.Context, while time.Duration) error {
	timer := time.NewTimer(while)
	defer timer.Stop()
	for {
		h.mu.Lock()
		changed, last := h.changed, h.last
		h.mu.Unlock()
		select {
		case <-changed:
			timer.Reset(while)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("it does not come to rest: %s still changes", last)
		}
	}
}
