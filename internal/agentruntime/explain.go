// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/mergepatch"
	"github.com/berthdev/berth/internal/workload"
)

// Explanation is what the controller would do about an AgentRuntime, and what it has to
// do with.
type Explanation struct {
	control.Explanation
	// Workload is the one that the AgentRuntime names, nil if there is none.
	Workload *workload.Workload
	// Holder is the AgentRuntime that has the workload, if that is another one.
	Holder *api.AgentRuntime
}

// Explain says what the next pass does about an AgentRuntime, and why. It writes
// nothing. What only the running controller knows is taken from what it wrote.
func (r *Reconciler) Explain(ctx context.Context, key types.NamespacedName) (Explanation, error) {
	learnt := newPass()
	seen, err := r.observe(ctx, key, learnt)
	if err != nil || seen.runtime == nil {
		return Explanation{}, err
	}
	now := r.env.Clock.Now()
	seen = told(seen, now)
	e := Explanation{Workload: seen.workload}
	e.Found, e.Sees, e.Conditions = true, sights(seen), seen.runtime.Status.Conditions
	if seen.holder != nil && seen.holder.UID != seen.runtime.UID {
		e.Holder = seen.holder
	}
	for range maxSteps {
		next := decide(seen, now)
		switch do := next.(type) {
		case askFor, confirmPods: // reads
			if err := r.apply(ctx, seen, do, &seen.pass); err != nil {
				return e, err
			}
			continue
		case readConfig:
			seen.pass.configErr = seen.configErr
			if seen.configErr == nil {
				seen.pass.config = &seen.config
			}
			continue
		case begin:
			e.Next = append(e.Next, do.String())
			if err := e.write(&seen, do.writeStatus); err != nil {
				return e, err
			}
			continue
		case writeStatus:
			if err := e.write(&seen, do); err != nil {
				return e, err
			}
			continue
		case rest:
			e.Rest(missing(seen, do.why), do.until)
		case retry:
			e.Next = append(e.Next, "try again, ever more rarely: "+do.err.Error())
			e.Waits = append(e.Waits, "what it tries to succeed: "+do.err.Error())
			e.Resting = true
		default:
			e.Next = append(e.Next, do.String())
		}
		return e, nil
	}
	return e, control.ErrNoProgress
}

// write makes what was seen what it is after a write of the status.
func (e *Explanation) write(seen *observed, do writeStatus) error {
	body, err := json.Marshal(do.patch)
	if err != nil {
		return err
	}
	after, _, err := new(mergepatch.Merger).Apply(seen.runtime, body)
	if err != nil {
		return err
	}
	e.Next = append(e.Next, control.StatusWrite(seen.runtime.Status.Conditions, after.(*api.AgentRuntime).Status.Conditions))
	was := seen.runtime
	seen.runtime = after.(*api.AgentRuntime)
	if seen.holder == was {
		seen.holder = seen.runtime
	}
	e.Conditions = seen.runtime.Status.Conditions
	return nil
}

// missing is why the controller waits, or nothing if all is as it should be.
func missing(seen observed, why string) string {
	if seen.runtime.Status.Phase == api.PhaseActive && seen.runtime.DeletionTimestamp == nil {
		return ""
	}
	return why
}

// configUnread and slotless are what the status says before what could not be read, and
// before who else's pods are being replaced.
const (
	configUnread = "the configuration cannot be read, and nothing is changed: "
	slotless     = "have to be replaced: "
)

// told adds to what was seen what the controller has said that nobody else can know: how
// many pods may be replaced at a time, what the server refused it, what it could not
// read, and how often it lost its stamps.
func told(seen observed, now time.Time) observed {
	a, w := seen.runtime, seen.workload
	ready, conflict := saidOf(a.Status, api.ConditionReady), saidOf(a.Status, api.ConditionConfigConflict)
	if c := saidOf(a.Status, api.ConditionConfigResolved); c.Reason == api.ReasonConfigHashError {
		seen.configErr = errors.New(strings.TrimPrefix(c.Message, configUnread))
	} else if apierrors.IsForbidden(seen.configErr) && a.Status.DesiredConfigHash != "" {
		seen.config, seen.configErr = confighash.Result{Hash: a.Status.DesiredConfigHash}, nil // this person may not read it
	}
	if w == nil || seen.configErr != nil {
		return seen
	}
	want := seen.want()
	switch {
	case conflict.Reason == api.ReasonStampsRemoved && w.Wiped(a.UID, want):
		seen.heldUntil = now.Add(lastWipeDelay) // at the latest
	case ready.Reason == api.ReasonConfigApplyError && (!w.Stamped(want) || needOf(seen).move == workload.Replace):
		seen.pass.refusal = refusal{ready.Message, conflict.Reason == api.ReasonFieldConflict, seen.target}
	case rolloutReason(a) == api.ReasonRolloutPending && !rolledOut(a):
		_, seen.pass.noSlot, _ = strings.Cut(saidOf(a.Status, api.ConditionRolloutComplete).Message, slotless)
	}
	return seen
}

// refusal is an answer of the server that the controller has told of.
type refusal struct {
	message  string
	conflict bool
	target   workload.Target
}

func (r refusal) Error() string { return r.message }

// As makes it a *workload.ConflictError if it was one.
func (r refusal) As(into any) bool {
	conflict, ok := into.(**workload.ConflictError)
	if ok && r.conflict {
		*conflict = &workload.ConflictError{Target: r.target}
	}
	return ok && r.conflict
}

// sights are what was observed, in words.
func sights(seen observed) []string {
	a, w := seen.runtime, seen.workload
	if seen.targetErr != nil {
		return []string{"Its targetRef names nothing that it can configure: " + seen.targetErr.Error() + "."}
	}
	list := []string{fmt.Sprintf("It gives %s the configuration of its namespace, as type %s, with mTLS %s.", seen.target, a.Spec.Type, a.MTLS())}
	if a.DeletionTimestamp != nil {
		list[0] = fmt.Sprintf("It is being deleted, and takes its configuration off %s.", seen.target)
	}
	if a.Paused() {
		list = append(list, fmt.Sprintf("Its rollouts are paused by the annotation %s.", api.AnnotationPaused))
	}
	for _, warning := range seen.config.Warnings {
		list = append(list, capital(warning)+".")
	}
	if w == nil {
		return list
	}
	want := seen.want()
	list = append(list, fmt.Sprintf("%s should have %s.", w.Target, plural(int(w.Desired), "pod")))
	if w.Held != "" {
		list = append(list, capital(w.Held)+", so that outdated pods stay.")
	}
	if seen.configErr == nil && a.DeletionTimestamp == nil {
		list = append(list, stampSight(w, want))
	}
	for _, p := range w.Pods {
		list = append(list, podSight(w, p, want))
	}
	return list
}

func stampSight(w *workload.Workload, want workload.Stamps) string {
	switch has := w.Has; {
	case has == want:
		return fmt.Sprintf("Its pod template has configuration %s, which is the one it should have.", shortHash(want.ConfigHash))
	case has.ConfigHash == "":
		return fmt.Sprintf("Its pod template has no configuration, and should have %s.", shortHash(want.ConfigHash))
	case has.ConfigHash == want.ConfigHash:
		return fmt.Sprintf("Its pod template has type %q and mTLS %q, and should have %q and %q.", has.Type, has.MTLSMode, want.Type, want.MTLSMode)
	default:
		return fmt.Sprintf("Its pod template has configuration %s, and should have %s.", shortHash(has.ConfigHash), shortHash(want.ConfigHash))
	}
}

func podSight(w *workload.Workload, p workload.Pod, want workload.Stamps) string {
	words := []string{"Pod " + p.Name + " was not made with it, as far as is known"}
	if w.Proved(p, want) {
		words[0] = "Pod " + p.Name + " was made with it"
	}
	switch {
	case p.Terminating:
		words = append(words, "is terminating")
	case p.Finished:
		words = append(words, "has ended")
	case p.Ready:
		words = append(words, "is Ready")
	default:
		words = append(words, "is not Ready")
	}
	return strings.Join(words, ", ") + "."
}

func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
