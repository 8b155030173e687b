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

func TestAMemberIsLookedAtAgainOnceItsPodsAreAsTheyShould(t *testing.T) {
	pod := func(version string, edits ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "member", UID: "pod-uid", ResourceVersion: version}}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Sandbox", UID: "member-uid", Controller: ptr.To(true)}}
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, edit := range edits {
			edit(p)
		}
		return p
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	stripped := func(p *corev1.Pod) { p.OwnerReferences = nil }
	dying := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"it is ready again":                 {pod("1", unready), pod("2"), true},
		"it is ready as before":             {pod("1"), pod("2"), false},
		"it is told of once more":           {pod("1"), pod("1"), true},
		"it is not ready":                   {pod("1"), pod("2", unready), false},
		"it is the member's again":          {pod("1", stripped), pod("2"), true},
		"it has an IP by now":               {pod("1", func(p *corev1.Pod) { p.Status.PodIPs = nil }), pod("2"), true},
		"another has its name":              {pod("1", func(p *corev1.Pod) { p.UID = "former" }), pod("2"), true},
		"it is ready and dying":             {pod("1", unready), pod("2", dying), true}, // one less
		"it was dying before":               {pod("1", dying), pod("2", dying), false},
		"one pod too many is gone":          {pod("1"), nil, true},
		"one pod too many is another's":     {pod("1"), pod("2", stripped), true},
		"one that was dying anyway is gone": {pod("1", dying), nil, false},
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
	if woken := New(control.Environment{}, kinds.Views{}, Options{}).podChanged(pod("1"), nil); len(woken) > 0 {
		t.Errorf("the end of a pod that is nobody's woke %v", woken)
	}
}
