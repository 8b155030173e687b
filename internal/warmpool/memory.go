// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// memory is what this process remembers of a pool. Losing it costs a few requests and
// nothing else.
type memory struct {
	// Pool is the UID that the rest is about.
	Pool types.UID
	// StatusWritten is when the status was last written.
	StatusWritten time.Time
	// Confirmed are the versions of pool and template the server was last asked for.
	Confirmed versions
	// Creates and Deletes are why the server refuses members, or their deletion.
	Creates, Deletes refusal
	// Failures counts members that were replaced in a row, and Replaced is when the
	// last one was.
	Failures int
	Replaced time.Time
	// Live is how many live members there should be if none left, -1 before any were
	// counted, and Dropped when there last were fewer.
	Live    int
	Dropped time.Time
	// Tokens is how many members MaxRefillRate allowed at TokensAt.
	Tokens   float64
	TokensAt time.Time
}

// versions identifies the specs that a decision rests on.
type versions struct {
	pool, template         types.UID
	poolSpec, templateSpec int64
}

func versionsOf(pool *extensions.SandboxWarmPool, template *extensions.SandboxTemplate) versions {
	v := versions{pool: pool.UID, poolSpec: pool.Generation}
	if template != nil {
		v.template, v.templateSpec = template.UID, template.Generation
	}
	return v
}

// refusal is an answer of the server that only a person, or a controller we know
// nothing of, can change. Nothing announces that, so the request is repeated after a
// growing pause.
type refusal struct {
	// Reason is that of the Progressing condition.
	Reason  string
	Message string
	// Count is how often in a row, At when last.
	Count int
	At    time.Time
	// Of is what the refused request was made from; another version is tried at once.
	Of versions
	// Limit is how many requests are made side by side after one failed: one, then
	// twice as many for every batch that succeeds. 0 is without limit.
	Limit int
}

// applies reports whether the server refused what would be asked of it now.
func (r refusal) applies(to versions) bool { return r.Count > 0 && r.Of == to }

// until is when what was refused may be tried again; zero is at once.
func (r refusal) until(of versions) time.Time {
	if !r.applies(of) {
		return time.Time{}
	}
	return r.At.Add(pause(r.Count))
}

// batch is how many requests may be made side by side, at most most.
func (r refusal) batch(most int) int {
	if r.Limit > 0 {
		return min(r.Limit, most)
	}
	return most
}

// failed is the refusal after another request failed, for a reason or, if that is
// empty, with an outcome that is unknown.
func (r refusal) failed(reason, message string, of versions, now time.Time) refusal {
	next := refusal{Limit: 1}
	if reason == "" {
		next.Count, next.Reason, next.Message, next.At, next.Of = r.Count, r.Reason, r.Message, r.At, r.Of
		return next
	}
	next.Reason, next.Message, next.Of, next.At, next.Count = reason, message, of, now, 1
	if r.Of == of {
		next.Count += r.Count
	}
	return next
}

// succeeded is the refusal after a batch that was not refused.
func (r refusal) succeeded(most int) refusal {
	if next := 2 * r.Limit; next < most {
		return refusal{Limit: next}
	}
	return refusal{}
}

const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// forgetFailures is how long after the last failure the next is the first again.
	forgetFailures = 2 * longestPause
)

// pause is how long to wait after the n-th failure in a row: nothing after none, then
// a second, doubled each time up to five minutes.
func pause(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	const doublings = 9 // beyond that it is the longest
	return min(firstPause<<min(n-1, doublings), longestPause)
}

// memories are the memories of all pools.
type memories struct {
	mu    *sync.Mutex
	pools map[types.NamespacedName]memory
}

func newMemories() memories {
	return memories{mu: &sync.Mutex{}, pools: map[types.NamespacedName]memory{}}
}

// of returns what is remembered of the pool with that UID.
func (m memories) of(key types.NamespacedName, uid types.UID) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.pools[key]; ok && known.Pool == uid {
		return known
	}
	return memory{Pool: uid, Live: -1}
}

func (m memories) set(key types.NamespacedName, known memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pools[key] = known
}

func (m memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pools, key)
}

// counted is the memory after live members were counted.
func (m memory) counted(live int, now time.Time) memory {
	if live < m.Live {
		m.Dropped = now
	}
	m.Live = live
	return m
}

// ofWork is the memory without the refusals of what is not to be done any more: somebody
// else did it, or a create landed that nobody knew of.
func (m memory) ofWork(pool *extensions.SandboxWarmPool, s stock) memory {
	if m.Creates.Count > 0 && s.room() == 0 && s.inFlight == 0 {
		m.Creates = refusal{}
	}
	if m.Deletes.Count > 0 && len(s.lost) == 0 && len(s.live) <= s.limit && len(outdated(pool, s)) == 0 {
		m.Deletes = refusal{}
	}
	return m
}

// failures is how many times in a row members were replaced because they would never
// be Ready.
func (m memory) failures(now time.Time) int {
	if now.Sub(m.Replaced) >= forgetFailures {
		return 0
	}
	return m.Failures
}

// replaceFrom is when the next lost members may be replaced.
func (m memory) replaceFrom(now time.Time) time.Time {
	return m.Replaced.Add(pause(m.failures(now)))
}

// allowance is how many members may be created now at rate members a second, and if
// none, when the next. The allowance grows to what one second, and at least one
// member, is worth.
func (m memory) allowance(rate float64, now time.Time) (int, time.Time) {
	if rate <= 0 {
		return math.MaxInt, time.Time{}
	}
	tokens := m.tokens(rate, now)
	if tokens >= 1 {
		return int(tokens), time.Time{}
	}
	return 0, now.Add(time.Duration((1 - tokens) / rate * float64(time.Second)))
}

func (m memory) tokens(rate float64, now time.Time) float64 {
	full := max(1, rate)
	if m.TokensAt.IsZero() {
		return full
	}
	return min(full, m.Tokens+rate*now.Sub(m.TokensAt).Seconds())
}
