// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestASandboxIsNotWokenByItsOwnStatus(t *testing.T) {
	cases := map[string]struct {
		edit func(*agents.Sandbox)
		want bool
	}{
		"a status":          {edit: func(s *agents.Sandbox) { s.Status.NodeName = "x" }},
		"a spec":            {edit: func(s *agents.Sandbox) { s.Generation++ }, want: true},
		"a label":           {edit: func(s *agents.Sandbox) { s.Labels = map[string]string{"a": "b"} }, want: true},
		"an annotation":     {edit: func(s *agents.Sandbox) { s.Annotations = nil }, want: true},
		"an owner":          {edit: inClaim, want: true},
		"its deletion":      {edit: func(s *agents.Sandbox) { at := metav1.NewTime(testStart); s.DeletionTimestamp = &at }, want: true},
		"another of a name": {edit: func(s *agents.Sandbox) { s.UID = "other" }, want: true},
		"a resync":          {edit: func(s *agents.Sandbox) { s.ResourceVersion = "10" }, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := newSandbox(), newSandbox()
			after.ResourceVersion = "11"
			c.edit(after)
			if got := len(onSandbox(before, after)) == 1; got != c.want {
				t.Errorf("woken: %t", got)
			}
		})
	}
	if len(onSandbox(nil, newSandbox())) != 1 || len(onSandbox(newSandbox(), nil)) != 1 {
		t.Error("creation and deletion do not wake")
	}
}

func TestWhoIsWokenByAnObjectOfASandboxsName(t *testing.T) {
	s := newSandbox()
	labelled := func(key, value string) *corev1.Pod {
		return newPod(s, nobodys, func(p *corev1.Pod) { p.Labels = map[string]string{key: value} })
	}
	foreign := newPod(s, func(p *corev1.Pod) { otherOwned(p); p.Labels = nil })
	another := newPod(s, func(p *corev1.Pod) { otherOwned(p); p.Labels, p.OwnerReferences[0].UID = nil, "api-uid" })
	nobody := newPod(s, nobodys)
	next := newPod(s, func(p *corev1.Pod) { nobodys(p); p.UID = "next-uid" })
	cases := map[string]struct {
		before, after client.Object
		want          []string
	}{
		"a pod of the Sandbox":            {after: newPod(s), want: []string{"box"}},
		"a pod of another name":           {after: newPod(s, named("other")), want: []string{"box", "other"}},
		"its deletion frees its name too": {before: newPod(s, named("other")), want: []string{"box", "other"}},
		"one that is released":            {before: newPod(s), after: foreign, want: []string{"box"}},
		"one that may be taken over":      {before: foreign, after: labelled(agents.LabelAdoptable, "true"), want: []string{"box"}},
		"one with the name's hash":        {after: labelled(agents.LabelSandboxNameHash, agents.NameHash("box")), want: []string{"box"}},
		"one with another hash":           {before: nobody, after: labelled(agents.LabelSandboxNameHash, agents.NameHash("bax"))},
		"one that gets an owner":          {before: nobody, after: foreign, want: []string{"box"}},
		"one that loses its owner":        {before: foreign, after: nobody, want: []string{"box"}},
		"one that gets another owner":     {before: foreign, after: another, want: []string{"box"}},
		"another object of the name":      {before: nobody, after: next, want: []string{"box"}},
		"one of others takes the name":    {after: foreign, want: []string{"box"}},
		"it wakes nobody while it stays":  {before: foreign, after: foreign},
		"until it is gone":                {before: foreign, want: []string{"box"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range onNamesake(c.before, c.after) {
				got = append(got, request.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("wakes %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhoIsWokenByAVolumeClaim(t *testing.T) {
	s := newSandbox(withVolumes)
	mine := renderVolumeClaim(s, s.Spec.VolumeClaimTemplates[0])
	mine.ResourceVersion = "1"
	bound := mine.DeepCopy()
	bound.ResourceVersion, bound.Status.Phase = "2", corev1.ClaimBound
	released := bound.DeepCopy()
	released.OwnerReferences, released.Labels = nil, nil
	willing := released.DeepCopy()
	willing.Name, willing.Labels = "a-b-box", map[string]string{agents.LabelAdoptable: "true"}
	other := released.DeepCopy()
	other.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: "u", Controller: ptr.To(true)}}
	other.ResourceVersion = "3"
	next := released.DeepCopy()
	next.ResourceVersion, next.UID = "4", "next"
	ofAnother := renderVolumeClaim(newSandbox(withVolumes, func(s *agents.Sandbox) { s.Name, s.UID = "bax", "bax-uid" }), s.Spec.VolumeClaimTemplates[0])
	ofAnother.Name, ofAnother.ResourceVersion = mine.Name, "5"
	ofThird := ofAnother.DeepCopy()
	ofThird.OwnerReferences[0].Name, ofThird.OwnerReferences[0].UID, ofThird.ResourceVersion = "bux", "bux-uid", "6"
	cases := map[string]struct {
		before, after client.Object
		want          []string
	}{
		"one that is made":           {after: mine, want: []string{"box"}},
		"one that is bound":          {before: mine, after: bound},
		"a resync":                   {before: mine, after: mine, want: []string{"box"}},
		"one that is released":       {before: bound, after: released, want: []string{"box"}},
		"one that is gone":           {before: bound, want: []string{"box"}},
		"another's that is gone":     {before: other, want: []string{"box"}},
		"another's":                  {after: other},
		"one that gets an owner":     {before: released, after: other, want: []string{"box"}},
		"one that loses its owner":   {before: other, after: released, want: []string{"box"}},
		"another object of the name": {before: released, after: next, want: []string{"box"}},
		"one that changes hands":     {before: ofAnother, after: ofThird, want: []string{"bax", "box", "bux"}},
		"one that may be taken over": {after: willing, want: []string{"b-box", "box"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range onVolumeClaim(c.before, c.after) {
				got = append(got, request.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("wakes %v, want %v", got, c.want)
			}
		})
	}
}
