// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// begin writes the status that says that pods are about to be replaced, unless as many
// others' are as the limits allow; then it says so. What counts is in the statuses, so
// a process that starts anew counts the same; the lock is held from the count until the
// view shows one more.
func (r *Reconciler) begin(ctx context.Context, a *api.AgentRuntime, do begin, learnt *pass) error {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	var err error
	if learnt.noSlot, err = r.full(ctx, a); err != nil || learnt.noSlot != "" {
		return err
	}
	if do.first != nil {
		err := learnt.take(do.first, r.applyToWorkload(ctx, a, do.first, learnt))
		if err != nil || learnt.refusal != nil {
			return err
		}
	}
	return r.writeStatus(ctx, a, do.writeStatus)
}

// full says how many others' pods are being replaced if that is as many as may be. Unless
// the lock is held one more may begin right after.
func (r *Reconciler) full(ctx context.Context, a *api.AgentRuntime) (string, error) {
	for _, limit := range []struct {
		most         int
		scope, where string
	}{
		{r.options.MaxConcurrentRestarts, a.Namespace, "of this namespace"},
		{r.options.MaxConcurrentRestartsInCluster, kinds.Cluster, "of the cluster"},
	} {
		if limit.most <= 0 {
			continue
		}
		rolling, err := r.views.AgentRuntimes.By(ctx, kinds.ByRolling, limit.scope)
		if err != nil {
			return "", err
		}
		others := sets.New[types.UID]()
		for _, o := range rolling {
			others.Insert(o.UID)
		}
		for _, write := range r.views.AgentRuntimes.Undecided(kinds.ByRolling, limit.scope) {
			if write.Verb != consistent.VerbDelete {
				others.Insert(write.Intended.UID) // it may land yet
			}
		}
		if others.Delete(a.UID); others.Len() >= limit.most {
			// The number is the limit, not the count: a message that changed with every
			// rollout would be a write for everyone who waits.
			return fmt.Sprintf("those of %d other workloads %s are being replaced, which is the limit", limit.most, limit.where), nil
		}
	}
	return "", nil
}

const (
	// wipesForgiven is how often stamps that somebody removed are written again at once.
	wipesForgiven = 2
	// firstWipeDelay doubles from one more time to the next, up to lastWipeDelay. After
	// wipesForgottenAfter without one they are not held against anybody.
	firstWipeDelay      = time.Minute
	lastWipeDelay       = time.Hour
	wipesForgottenAfter = 2 * time.Hour
)

// wipe counts how often stamps were removed. It is kept in memory: a process that starts
// anew is more patient than it had to be.
type wipe struct {
	count int
	last  time.Time
}

// heldUntil is when stamps of the AgentRuntime may be written again.
func (r *Reconciler) heldUntil(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.wipes[uid]
	if !ok || w.count <= wipesForgiven {
		return time.Time{}
	}
	delay := firstWipeDelay
	for i := wipesForgiven + 1; i < w.count && delay < lastWipeDelay; i++ {
		delay *= 2
	}
	return w.last.Add(min(delay, lastWipeDelay))
}

// wiped remembers that stamps had to be written again.
func (r *Reconciler) wiped(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.env.Clock.Now()
	w := r.wipes[uid]
	if now.Sub(w.last) > wipesForgottenAfter {
		w = wipe{}
	}
	r.wipes[uid] = wipe{w.count + 1, now}
}

func (r *Reconciler) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wipes, uid)
	delete(r.troubled, uid)
}
