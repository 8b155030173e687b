// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Explanation is what a controller would do about one object, told by the code that
// does it. The zero value is of an object that does not exist.
type Explanation struct {
	Found bool
	// Sees is what the decision rests on, a sentence each.
	Sees []string
	// Next are the steps that follow, in order. Reads of the server are left out. A write
	// of the status is followed by what comes after it, and any other write is the last.
	Next []string
	// Resting is true if Next ends in a wait.
	Resting bool
	// Waits is what is waited for. It is empty where nothing is missing.
	Waits []string
	// Until is when the controller looks again by itself, or zero.
	Until time.Time
	// Conditions are those of the object after Next.
	Conditions []metav1.Condition
}

// Rest ends the explanation with a wait.
func (e *Explanation) Rest(why string, until time.Time) {
	e.Resting, e.Until = true, until
	words := "nothing, until something that it watches changes"
	if !until.IsZero() {
		words += ", or it is " + until.UTC().Format(time.RFC3339)
	}
	e.Next = append(e.Next, words)
	if why != "" {
		e.Waits = append(e.Waits, why)
	}
}

// StatusWrite says what the write of a status changes in its conditions.
func StatusWrite(before, after []metav1.Condition) string {
	var changes []string
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		if was == nil || was.Status != c.Status || was.Reason != c.Reason || was.Message != c.Message {
			changes = append(changes, fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	for _, c := range before {
		if meta.FindStatusCondition(after, c.Type) == nil {
			changes = append(changes, c.Type+" is no more")
		}
	}
	if len(changes) == 0 {
		return "write the status"
	}
	return "write the status: " + strings.Join(changes, "; ")
}
