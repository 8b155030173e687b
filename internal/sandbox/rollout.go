// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// recreates reports whether a pod made from an older podTemplate is replaced. A pool
// replaces its members itself.
func recreates(s *agents.Sandbox) bool {
	return s.UpdateStrategyType() == agents.SandboxUpdateRecreate &&
		control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind) == nil
}

// newlyOutdated reports whether the status does not tell of this difference between pod
// and podTemplate yet.
func newlyOutdated(s *agents.Sandbox, d drift) bool {
	return d.outdated() &&
		(s.Status.CurrentRevision != d.current || s.Status.UpdateRevision != d.update || !isTrue(s, agents.ConditionPodOutdated))
}

// outdatedCondition is the condition PodOutdated, or nil if there is none: it is not
// added to a Sandbox whose pod never differed from its podTemplate.
func outdatedCondition(seen observed, v podVerdict) *metav1.Condition {
	old := condition(seen.sandbox.Status, agents.ConditionPodOutdated)
	switch {
	case v.current != nil && v.drift.outdated():
		return outdated(seen, v, old)
	case old.Type == "":
		return nil
	case v.multiple():
		return &old
	case v.current == nil:
		return newCondition(agents.ConditionPodOutdated, metav1.ConditionFalse, agents.ReasonUpToDate, agents.MessageNextPodUpToDate)
	default:
		return newCondition(agents.ConditionPodOutdated, metav1.ConditionFalse, agents.ReasonUpToDate, agents.MessagePodUpToDate)
	}
}

// outdated says what differs. It is found out once for each pair of revisions and then
// kept: it takes a read of the whole pod, and labels and annotations do not differ any
// more once they are applied.
func outdated(seen observed, v podVerdict, old metav1.Condition) *metav1.Condition {
	reason := agents.ReasonMetadataAppliedInPlace
	if v.drift.specChanged() {
		reason = agents.ReasonSpecChanged
	}
	if !newlyOutdated(seen.sandbox, v.drift) && old.Reason == reason {
		return &old
	}
	if reason == agents.ReasonMetadataAppliedInPlace {
		what := listed(seen.pass.changed)
		if what == "" {
			what = "labels or annotations"
		}
		return newCondition(agents.ConditionPodOutdated, metav1.ConditionTrue, reason, fmt.Sprintf(agents.MessageMetadataAppliedFormat, what))
	}
	var paths []string
	if seen.pass.wholePod != nil {
		want := podSpec(seen.sandbox)
		paths = differences(&want, &seen.pass.wholePod.Spec)
	}
	if len(paths) == 0 {
		// What a template does not set says nothing about the pod, which the server
		// gave defaults: a field that was removed leaves no trace.
		paths = []string{"spec"}
	}
	what := listed(append(paths, seen.pass.changed...))
	return newCondition(agents.ConditionPodOutdated, metav1.ConditionTrue, reason, fmt.Sprintf(agents.MessageSpecChangedFormat, what))
}

// listed joins what differs, cut to what a person reads.
func listed(paths []string) string {
	const most = 8
	if more := len(paths) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), more)
	}
	return strings.Join(paths, ", ")
}
