// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// Explain says what the next pass does about a pool, and why. It writes nothing. What
// another process remembers of the pool is taken from what that wrote to its status.
func (r *Reconciler) Explain(ctx context.Context, key types.NamespacedName) (control.Explanation, error) {
	seen, err := r.observe(ctx, key)
	if err != nil || seen.Pool == nil {
		return control.Explanation{}, err
	}
	now := r.env.Clock.Now()
	seen.Memory = told(seen, now)
	e := control.Explanation{Found: true}
	if e.Sees, err = r.sights(ctx, seen, now); err != nil {
		return e, err
	}
	for range control.MaxSteps {
		switch next := decide(seen, now).(type) {
		case confirm: // a read, and what observe read is of the server
			seen.Memory.Confirmed = seen.versions()
			continue
		case writeStatus:
			e.Next = append(e.Next, control.StatusWrite(seen.Pool.Status.Conditions, next.status.Conditions))
			after := *seen.Pool
			after.Status = next.status
			seen.Pool = &after
			continue
		case rest:
			why := next.why
			if (*poolStatus)(&seen.Pool.Status).progress().Reason == extensions.ReasonComplete {
				why = ""
			}
			e.Rest(why, next.until)
		default:
			e.Next = append(e.Next, next.String())
		}
		e.Conditions = seen.Pool.Status.Conditions
		return e, nil
	}
	return e, control.ErrNoProgress
}

// told is what the process that keeps the pool remembers of it, as far as the pool's
// status says: that the server refuses members, and how often members failed. When it
// did last is not said, so that the next attempt is at the end of the longest pause.
func told(seen observed, now time.Time) memory {
	known := seen.Memory
	said := (*poolStatus)(&seen.Pool.Status).progress()
	if said.Status != metav1.ConditionFalse || said.ObservedGeneration != seen.Pool.Generation {
		return known
	}
	const many = 20
	switch said.Reason {
	case extensions.ReasonCreateRefused, extensions.ReasonPoolError:
		if seen.Template != nil && seen.policyProblem() == "" {
			known.Creates = refusal{Reason: said.Reason, Message: said.Message, Count: many, At: now, Of: seen.versions(), Limit: 1}
		}
	case extensions.ReasonMembersFailing:
		var failures int
		if _, err := fmt.Sscanf(said.Message, failingFormat, &failures); err == nil {
			known.Failures, known.Replaced = failures, now
		}
	}
	return known.ofWork(seen.Pool, takeStock(seen, now))
}

// sights are what was observed, in words.
func (r *Reconciler) sights(ctx context.Context, seen observed, now time.Time) ([]string, error) {
	s := takeStock(seen, now)
	list := []string{fmt.Sprintf("Members: %d wanted, %d ready, %d not ready, %d on their way out.",
		s.desired, s.ready, len(s.live)-s.ready, s.terminating)}
	name := seen.Pool.Spec.TemplateRef.Name
	switch {
	case seen.Template == nil && seen.Pool.DeletionTimestamp == nil:
		list = append(list, fmt.Sprintf("Its template/%s does not exist.", name))
	case seen.Template != nil:
		list = append(list, fmt.Sprintf("Its template/%s is there. Members of its present blueprint: %d (update strategy %s).",
			name, s.updated, seen.Pool.UpdateStrategyType()))
	}
	for _, h := range s.held {
		list = append(list, fmt.Sprintf("Member %s is not ready in time, and replacing it would not help: %s.", h.member, h.why))
	}
	if len(s.lost) > 0 {
		list = append(list, fmt.Sprintf("Members that will never be ready: %d (%s).", len(s.lost), names(s.lost)))
	}
	if len(s.stale) > 0 {
		list = append(list, fmt.Sprintf("Members of an older blueprint that are to be replaced: %d (%s).", len(s.stale), names(s.stale)))
	}
	waiting, err := r.views.Claims.By(ctx, kinds.ByPool, kinds.InNamespace(seen.Pool.Namespace, seen.Pool.Name))
	if err != nil || len(waiting) == 0 {
		return list, err
	}
	return append(list, fmt.Sprintf("Claims that name it and have no sandbox yet: %d, the oldest is claim/%s.", len(waiting), waiting[0].Name)), nil
}
