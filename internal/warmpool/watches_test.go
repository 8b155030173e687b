// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func (onePool) Peek(string, string) []*extensions.SandboxWarmPool {
	return []*extensions.SandboxWarmPool{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "python"}}}
}

func TestAPolicyWakesPoolsWhenItIsNotInTheWayAnyMore(t *testing.T) {
	policy := func(edit func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "python-network-policy"}}
		edit(p)
		return p
	}
	ours := policy(func(p *networkingv1.NetworkPolicy) {
		p.Annotations = map[string]string{agents.AnnotationTemplateUID: "template-uid"}
	})
	theirs := policy(func(*networkingv1.NetworkPolicy) {})
	cases := map[string]struct {
		before, after client.Object
		want          int
	}{
		"ours comes":                       {nil, ours, 0},
		"ours changes":                     {ours, ours, 0},
		"ours, or a former one's, is gone": {ours, nil, 1},
		"somebody else's is gone":          {theirs, nil, 1},
		"somebody else's becomes ours":     {theirs, ours, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{views: kinds.Views{WarmPools: onePool{}}}
			if woken := r.forPolicy(c.before, c.after); len(woken) != c.want {
				t.Errorf("woke %v, want %d pools", woken, c.want)
			}
		})
	}
}
