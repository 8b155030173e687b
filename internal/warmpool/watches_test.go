// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// onePool is a view of pools of which only Peek is used.
type onePool struct {
	consistent.Kind[*extensions.SandboxWarmPool]
}

func (onePool) Peek(_, value string) []*extensions.SandboxWarmPool {
	_, template, _ := strings.Cut(value, "/")
	return []*extensions.SandboxWarmPool{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool-of-" + template}}}
}

func TestAPolicyWakesPoolsWhenItComesGoesOrIsAnothers(t *testing.T) {
	versions := 0
	policy := func(edit func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
		versions++
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "python-network-policy", ResourceVersion: strconv.Itoa(versions)}}
		edit(p)
		return p
	}
	ours := policy(func(p *networkingv1.NetworkPolicy) {
		p.Annotations = map[string]string{agents.AnnotationTemplateRef: "python", agents.AnnotationTemplateUID: "template-uid"}
	})
	edited := ours.DeepCopy()
	edited.Generation, edited.ResourceVersion, edited.Labels = 2, "edited", map[string]string{"a": "b"}
	copied := policy(func(p *networkingv1.NetworkPolicy) {
		p.Annotations = map[string]string{agents.AnnotationTemplateRef: "java", agents.AnnotationTemplateUID: "java-uid"}
	})
	owned := policy(func(p *networkingv1.NetworkPolicy) {
		p.OwnerReferences = []metav1.OwnerReference{{UID: "template-uid", Controller: ptr.To(true)}}
	})
	next := policy(func(p *networkingv1.NetworkPolicy) { p.UID = "next" })
	cut := policy(func(p *networkingv1.NetworkPolicy) { p.Name, p.Annotations = "cut", ours.Annotations })
	unrelated := policy(func(p *networkingv1.NetworkPolicy) { p.Name = "web" })
	theirs := policy(func(*networkingv1.NetworkPolicy) {})
	cases := map[string]struct {
		before, after client.Object
		want          []string
	}{
		"ours comes, or is told once more":  {nil, ours, []string{"pool-of-python"}},
		"its rules and labels change":       {ours, edited, nil},
		"a resync":                          {ours, ours, []string{"pool-of-python"}},
		"ours, or a former one's, is gone":  {ours, nil, []string{"pool-of-python"}},
		"one whose name was cut is gone":    {cut, nil, []string{"pool-of-python"}},
		"somebody else's is gone":           {theirs, nil, []string{"pool-of-python"}},
		"somebody else's becomes ours":      {theirs, ours, []string{"pool-of-python"}},
		"the template becomes its owner":    {theirs, owned, []string{"pool-of-python"}},
		"another takes its place":           {theirs, next, []string{"pool-of-python"}},
		"one that named another's template": {copied, ours, []string{"pool-of-java", "pool-of-python"}},
		"one that is not of a template":     {nil, unrelated, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{views: kinds.Views{WarmPools: onePool{}}}
			var woken []string
			for _, request := range r.forPolicy(c.before, c.after) {
				woken = append(woken, request.Name)
			}
			if !slices.Equal(woken, c.want) {
				t.Errorf("woke %v, want %v", woken, c.want)
			}
		})
	}
}

func TestAPoolIsWokenByAllButTheEchoOfItsStatus(t *testing.T) {
	version := func(edit func(*extensions.SandboxWarmPool)) *extensions.SandboxWarmPool {
		p := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "python", UID: "first", Generation: 1, ResourceVersion: "2"}}
		edit(p)
		return p
	}
	before := version(func(p *extensions.SandboxWarmPool) { p.ResourceVersion = "1" })
	for name, c := range map[string]struct {
		before, after client.Object
		wakes         bool
	}{
		"it comes":             {nil, before, true},
		"it goes":              {before, nil, true},
		"a resync":             {before, before, true},
		"its status":           {before, version(func(p *extensions.SandboxWarmPool) { p.Status.Replicas = 1 }), false},
		"an edit":              {before, version(func(p *extensions.SandboxWarmPool) { p.Generation = 2 }), true},
		"it begins to go":      {before, version(func(p *extensions.SandboxWarmPool) { p.DeletionTimestamp = &metav1.Time{Time: now} }), true},
		"the next of its name": {before, version(func(p *extensions.SandboxWarmPool) { p.UID = "next" }), true},
	} {
		t.Run(name, func(t *testing.T) {
			if woken := forPool(c.before, c.after); (len(woken) == 1) != c.wakes {
				t.Errorf("woke %v", woken)
			}
		})
	}
}
