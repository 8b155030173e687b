// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/control"
)

// Verdict says what becomes of an object if nobody does anything.
type Verdict string

// The verdicts, from good to bad.
const (
	// Well: it is what it should be.
	Well Verdict = "Well"
	// Underway: it is not yet, and work or a wait goes on that ends by itself.
	Underway Verdict = "Underway"
	// Stuck: it stays as it is until somebody does something.
	Stuck Verdict = "Stuck"
)

func (v Verdict) rank() int { return slices.Index([]Verdict{Well, Underway, Stuck}, v) }

// Report is the answer to why an object is as it is.
type Report struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	Verdict Verdict `json:"verdict"`
	// Summary is the object's state in one sentence.
	Summary string `json:"summary"`
	// Sees is what the controller sees, and what it does not look at and matters.
	Sees []string `json:"sees"`
	// Next are the controller's next steps, in order.
	Next []string `json:"next"`
	// Waits is what is waited for, and for whom.
	Waits []string `json:"waits,omitempty"`
	// Advice is what a person can do, the likeliest first.
	Advice []string `json:"advice,omitempty"`
	// Warnings are the latest events of type Warning about the object and what it depends
	// on, the newest first.
	Warnings []string `json:"warnings,omitempty"`
	// Unread is what could not be read.
	Unread []string `json:"unread,omitempty"`
	// Conditions are the object's after the next steps.
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// about are the objects whose events belong to the report, by UID.
	about map[types.UID]string
	// crashes: a container ends again and again.
	crashes bool
}

func newReport(kind Kind, key types.NamespacedName) *Report {
	return &Report{Kind: kind, Namespace: key.Namespace, Name: key.Name, Verdict: Well, about: map[types.UID]string{}}
}

// Ref is what commands call the object.
func (r *Report) Ref() string { return string(r.Kind) + "/" + r.Name }

// worsen makes the verdict no better than v.
func (r *Report) worsen(v Verdict) {
	if v.rank() > r.Verdict.rank() {
		r.Verdict = v
	}
}

func (r *Report) advise(format string, args ...any) {
	r.Advice = append(r.Advice, fmt.Sprintf(format, args...))
}

// tell takes over what the controller's own code says.
func (r *Report) tell(e control.Explanation) {
	r.Sees = append(r.Sees, e.Sees...)
	r.Next = append(r.Next, e.Next...)
	r.Conditions = e.Conditions
	for _, wait := range e.Waits {
		r.Waits = append(r.Waits, wait)
		r.worsen(Underway)
	}
	if !e.Resting || len(e.Next) > 1 { // at the least, its status does not say yet what is
		r.worsen(Underway)
	}
}

// suffer adds what is wrong with something that the object depends on.
func (r *Report) suffer(what string, troubles []trouble) {
	for _, t := range troubles {
		r.Sees = append(r.Sees, capital(what)+": "+strings.TrimSuffix(t.what, ".")+".")
		r.Advice = append(r.Advice, t.advice...)
		if t.stays {
			r.worsen(Stuck)
			r.crashes = r.crashes || t.crashed != ""
		}
	}
}

// include adds what is to be said of an object that this one depends on.
func (r *Report) include(part *Report) {
	for _, line := range part.Sees {
		r.Sees = append(r.Sees, part.Ref()+": "+line)
	}
	for _, line := range part.Next {
		if !isRest(line) {
			r.Next = append(r.Next, "for "+part.Ref()+": "+line)
		}
	}
	for _, line := range part.Waits {
		r.Waits = append(r.Waits, part.Ref()+" waits for: "+line)
	}
	r.Advice = append(r.Advice, part.Advice...)
	r.Unread = append(r.Unread, part.Unread...)
	for uid, name := range part.about {
		r.about[uid] = name
	}
	r.worsen(part.Verdict)
	r.crashes = r.crashes || part.crashes
}

// isRest reports whether a step is none; see control.Explanation's Rest.
func isRest(step string) bool { return strings.HasPrefix(step, "nothing") }

// rests reports whether the controller has nothing to do.
func (r *Report) rests() bool { return len(r.Next) == 1 && isRest(r.Next[0]) }

// depends notes an object whose events belong to the report.
func (r *Report) depends(kind string, obj client.Object) {
	r.about[obj.GetUID()] = kind + "/" + obj.GetName()
}

// condition is the named condition after the next steps, or an empty one.
func (r *Report) condition(kind string) metav1.Condition {
	for _, c := range r.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// deletion says what holds the deletion of an object.
func (r *Report) deletion(obj client.Object, now time.Time) {
	at := obj.GetDeletionTimestamp()
	if at == nil {
		return
	}
	r.worsen(Underway)
	r.Sees = append(r.Sees, "Its deletion was asked for "+ago(now, at.Time)+".")
	for _, finalizer := range obj.GetFinalizers() {
		switch finalizer {
		case metav1.FinalizerDeleteDependents:
			r.Waits = append(r.Waits, "all that belongs to it to be gone (foreground deletion)")
		case metav1.FinalizerOrphanDependents:
			r.Waits = append(r.Waits, "the garbage collector to release what belongs to it")
		default:
			r.Waits = append(r.Waits, "the finalizer "+finalizer+" to be removed by whoever set it")
			r.advise("find out who has to remove the finalizer %s, and why they do not", finalizer)
			r.worsen(Stuck)
		}
	}
}

// finish brings order into the report.
func (r *Report) finish() {
	if r.crashes && (strings.HasPrefix(r.Summary, "is Ready") || strings.HasPrefix(r.Summary, "is full")) {
		r.Summary = strings.TrimSuffix(r.Summary, ".") + "; but a container ends again and again, and is Ready only in between"
	}
	for _, list := range []*[]string{&r.Sees, &r.Next, &r.Waits, &r.Advice, &r.Unread} {
		*list = unique(*list)
	}
}

func unique(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(line string) bool {
		known := seen[line]
		seen[line] = true
		return known
	})
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
