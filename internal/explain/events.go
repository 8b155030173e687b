// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

const (
	// mostWarnings is how many events a report shows.
	mostWarnings = 5
	// recent is how old they may be.
	recent = time.Hour
)

// warnings are the latest warnings about what the report is about.
func (x *explainer) warnings(r *Report) []string {
	var events []corev1.Event
	for _, e := range x.found.warnings {
		if _, ok := r.about[e.InvolvedObject.UID]; ok && e.Type == corev1.EventTypeWarning && x.options.Now.Sub(lastSeen(e)) < recent && !r.settled(e) {
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastSeen(b).Compare(lastSeen(a)) })
	var lines []string
	for _, e := range events {
		line := fmt.Sprintf("%s %s, %s: %s", r.about[e.InvolvedObject.UID], e.Reason, ago(x.options.Now, lastSeen(e)), oneLine(e.Message))
		if n := count(e); n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		if lines = append(lines, line); len(lines) == mostWarnings {
			break
		}
	}
	return unique(lines)
}

// toldOnce are the conditions whose change ends what a warning about an AgentRuntime tells
// of, by its reason. Of StampsRemoved it does not: whoever removed them may come back.
var toldOnce = map[string]string{
	api.ReasonTargetNotFound:     api.ConditionTargetResolved,
	api.ReasonTargetResolveError: api.ConditionTargetResolved,
	api.ReasonConfigHashError:    api.ConditionConfigResolved,
	api.ReasonFieldConflict:      api.ConditionConfigConflict,
	api.ReasonTargetTaken:        api.ConditionConfigConflict,
	api.ReasonSPIREUnavailable:   api.ConditionMTLSReady,
}

// settled reports whether a warning about the AgentRuntime is over: the condition that it
// told of says something else now.
func (r *Report) settled(e corev1.Event) bool {
	if r.Kind != AgentRuntime || r.about[e.InvolvedObject.UID] != r.Ref() {
		return false
	}
	is := r.condition(toldOnce[e.Reason])
	return is.Reason != "" && is.Reason != e.Reason
}

// lastSeen is when an event happened last. The two APIs of events say it in different
// fields.
func lastSeen(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

func count(e corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return e.Count
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ago is how long ago something was.
func ago(now, then time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(then))) + " ago"
}
