// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/roster"
)

func TestAPodThatIsReadyAgainHasItsMemberLookedAtAgain(t *testing.T) {
	pod := func(version string, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "member", ResourceVersion: version}}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Sandbox", UID: "member-uid", Controller: ptr.To(true)}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"it is ready again":     {pod("1", corev1.ConditionFalse), pod("2", corev1.ConditionTrue), true},
		"it is ready as before": {pod("1", corev1.ConditionTrue), pod("2", corev1.ConditionTrue), false},
		"it is not ready":       {pod("1", corev1.ConditionTrue), pod("2", corev1.ConditionFalse), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(control.Environment{}, kinds.Views{}, Options{})
			pool := types.NamespacedName{Namespace: "default", Name: "python"}
			waiting := roster.Claim{Key: types.NamespacedName{Namespace: "default", Name: "task"}, UID: "task"}
			r.roster.Update(pool, roster.Member{UID: "member-uid"}, roster.Ready)
			r.roster.Take(pool, waiting)
			r.roster.Reject("task")
			woken := r.podChanged(c.before, c.after)
			if got := slices.Contains(woken, control.Request("default", "task")); got != c.want {
				t.Errorf("woke %v", woken)
			}
		})
	}
	if woken := New(control.Environment{}, kinds.Views{}, Options{}).podChanged(pod("1", corev1.ConditionTrue), nil); woken != nil {
		t.Errorf("the end of a pod woke %v", woken)
	}
}
