// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

const term = 10 * time.Second

// lease is a lock whose requests do what a test says.
type lease struct {
	resourcelock.Interface
	write func() error
}

func (lease) Identity() string { return "me" }

func (l lease) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func (l lease) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func record(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder}
}

func TestTheFence(t *testing.T) {
	refused := errors.New("conflict")
	type world struct {
		clock *clocktesting.FakeClock
		lock  func(write func() error) resourcelock.Interface
	}
	ok := func() error { return nil }
	for _, c := range []struct {
		name   string
		method string
		before func(*testing.T, world)
		passes bool
	}{
		{"refuses writes before the lease was ever held", http.MethodPost, func(*testing.T, world) {}, false},
		{"lets reads pass at any time", http.MethodGet, func(*testing.T, world) {}, true},
		{"lets writes pass once the lease was created", http.MethodPost, func(t *testing.T, w world) {
			must(t, w.lock(ok).Create(t.Context(), record("me")))
		}, true},
		{"lets writes pass while some of the term is left", http.MethodPatch, func(t *testing.T, w world) {
			must(t, w.lock(ok).Update(t.Context(), record("me")))
			w.clock.Step(term - time.Second)
		}, true},
		{"refuses writes when the term has ended", http.MethodPatch, func(t *testing.T, w world) {
			must(t, w.lock(ok).Update(t.Context(), record("me")))
			w.clock.Step(term)
		}, false},
		{"counts the term from before the renewal was sent", http.MethodDelete, func(t *testing.T, w world) {
			slow := func() error { w.clock.Step(term); return nil }
			must(t, w.lock(slow).Update(t.Context(), record("me")))
		}, false},
		{"opens again with a later renewal", http.MethodPut, func(t *testing.T, w world) {
			must(t, w.lock(ok).Update(t.Context(), record("me")))
			w.clock.Step(term)
			must(t, w.lock(ok).Update(t.Context(), record("me")))
		}, true},
		{"takes a failed renewal for none", http.MethodPost, func(t *testing.T, w world) {
			if err := w.lock(func() error { return refused }).Update(t.Context(), record("me")); !errors.Is(err, refused) {
				t.Fatalf("renewal gave %v", err)
			}
		}, false},
		{"closes when the lease is given up", http.MethodPost, func(t *testing.T, w world) {
			must(t, w.lock(ok).Update(t.Context(), record("me")))
			must(t, w.lock(ok).Update(t.Context(), record("")))
		}, false},
		{"closes when giving the lease up fails", http.MethodPost, func(t *testing.T, w world) {
			must(t, w.lock(ok).Update(t.Context(), record("me")))
			_ = w.lock(func() error { return refused }).Update(t.Context(), record(""))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			fence := NewFence(clock, term)
			c.before(t, world{clock: clock, lock: func(write func() error) resourcelock.Interface {
				return fence.Watch(lease{write: write})
			}})
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
			defer server.Close()
			err := send(t, &http.Client{Transport: fence.Wrap(http.DefaultTransport)}, c.method, server.URL)
			if c.passes && (err != nil || sent != 1) {
				t.Errorf("request gave %v and was sent %d times, want it to pass", err, sent)
			}
			if !c.passes && (!errors.Is(err, ErrNotLeading) || sent != 0) {
				t.Errorf("request gave %v and was sent %d times, want it refused", err, sent)
			}
		})
	}
}

func TestTheFenceIsClosedWhileTheLeaseIsBeingGivenUp(t *testing.T) {
	fence := NewFence(clocktesting.NewFakeClock(time.Now()), term)
	must(t, fence.Watch(lease{write: func() error { return nil }}).Update(t.Context(), record("me")))
	during := fence.Watch(lease{write: func() error {
		if left := fence.left(); left > 0 {
			t.Errorf("the fence is open for %s", left)
		}
		return nil
	}})
	must(t, during.Update(t.Context(), record("")))
}

// The monotonic clock of a machine that was suspended has stood still; its wall clock
// has not.
func TestTheFenceGoesByTheClockThatIsAhead(t *testing.T) {
	monotonic := time.Now()
	for name, now := range map[string]time.Time{
		"the wall clock is ahead": monotonic.Round(0).Add(term), // Round(0) takes the monotonic reading off
		"both agree":              monotonic.Add(term),
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(monotonic)
			fence := NewFence(clock, term)
			fence.open(monotonic)
			clock.SetTime(now)
			if left := fence.left(); left > 0 {
				t.Errorf("the fence is open for %s", left)
			}
		})
	}
}

func TestAWriteUnderWayEndsWithTheTerm(t *testing.T) {
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
	defer server.Close()
	defer close(answer)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	fence := NewFence(clock, term)
	fence.open(clock.Now().Add(50*time.Millisecond - term)) // 50 milliseconds are left
	err := send(t, &http.Client{Transport: fence.Wrap(http.DefaultTransport)}, http.MethodPost, server.URL)
	if !errors.Is(err, errTermEnded) {
		t.Errorf("a write that is not answered gave %v", err)
	}
}

func send(t *testing.T, client *http.Client, method, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	must(t, err)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
