// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reconnects is how follow waits between attempts while the server does not answer.
func reconnects() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5, Cap: 5 * time.Second}
}

// follower watches one object by name.
type follower[T client.Object] struct {
	cluster *cluster
	list    client.ObjectList // of T's kind
	empty   func() T
	// see is shown every state of the object, gone when it was deleted, until it is done or fails.
	see func(object T, gone bool) (done bool, err error)
	// lost is told when the connection breaks; it is made again.
	lost func(error)
}

// follow shows see the states of the object from current on. It outlives broken connections and old
// resource versions, and ends when see says so, when the server refuses the watch, or with ctx's error.
func (f follower[T]) follow(ctx context.Context, current T) error {
	done, err := f.see(current, false)
	if done || err != nil {
		return err
	}
	backoff := reconnects()
	for {
		events, err := f.cluster.Watch(ctx, f.list, client.InNamespace(current.GetNamespace()),
			client.MatchingFields{"metadata.name": current.GetName()},
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: current.GetResourceVersion()}})
		if err == nil {
			var done bool
			done, err = f.consume(events, &backoff)
			if done {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final(err) {
			return err
		}
		if err != nil && !apierrors.IsResourceExpired(err) {
			f.lost(err)
		}
		if err := pause(ctx, &backoff); err != nil {
			return err
		}
		next := f.empty()
		switch err := f.cluster.Get(ctx, client.ObjectKeyFromObject(current), next); {
		case err == nil && next.GetUID() == current.GetUID():
			current = next
			if done, err := f.see(current, false); done || err != nil {
				return err
			}
		case err == nil, apierrors.IsNotFound(err) && !notServed(err):
			_, err := f.see(current, true)
			return err
		case final(err):
			return err
		}
	}
}

// final says whether asking again would get the same answer. An API server that has just started does
// not serve custom resources yet, which is not final: there was an object of the kind already.
func final(err error) bool {
	if notServed(err) {
		return false
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized, metav1.StatusReasonNotFound,
		metav1.StatusReasonBadRequest, metav1.StatusReasonInvalid, metav1.StatusReasonMethodNotAllowed:
		return true
	}
	return false
}

// consume shows the events of one watch to see. It is not done when the watch ended first.
func (f follower[T]) consume(events watch.Interface, backoff *wait.Backoff) (done bool, err error) {
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(T)
		if !ok {
			continue // a bookmark
		}
		*backoff = reconnects()
		done, err := f.see(object, event.Type == watch.Deleted)
		if done || err != nil || event.Type == watch.Deleted {
			return true, err
		}
	}
	return false, nil
}

func pause(ctx context.Context, backoff *wait.Backoff) error {
	timer := time.NewTimer(backoff.Step())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// within says how long something took, for people.
func within(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return d.Round(100 * time.Millisecond).String()
}
