// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/roster"
)

var waitingFor = extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}

func claimWithUID(uid types.UID) *extensions.SandboxClaim {
	return &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "task", UID: uid}, Spec: waitingFor}
}

func TestTheNextClaimOfANameTakesThePlaceOfTheFormerInTheQueue(t *testing.T) {
	r := New(control.Environment{}, kinds.Views{}, Options{})
	pool := types.NamespacedName{Namespace: "default", Name: "python"}
	r.claimChanged(nil, claimWithUID("former"))
	r.claimChanged(claimWithUID("former"), claimWithUID("next"))
	if waiting := r.roster.Standing(pool).Waiting; waiting != 1 {
		t.Errorf("%d claims wait, want the next one alone", waiting)
	}
	if offer := r.roster.Take(pool, roster.Claim{UID: "next"}); offer.Member != nil {
		t.Errorf("an empty pool offers %+v", offer)
	}
	if waiting := r.roster.Standing(pool).Waiting; waiting != 0 {
		t.Errorf("%d claims wait for ever", waiting)
	}
}

// peeking is a view of claims of which only Peek is used.
type peeking struct {
	consistent.Kind[*extensions.SandboxClaim]
	claims []*extensions.SandboxClaim
}

func (p peeking) Peek(string, string) []*extensions.SandboxClaim { return p.claims }

func TestAMemberWakesClaimsThatTakeFromAnyPool(t *testing.T) {
	anyPool := claimWithUID("any")
	anyPool.Spec = extensions.SandboxClaimSpec{TemplateRef: &extensions.SandboxTemplateRef{Name: "python"}}
	r := New(control.Environment{}, kinds.Views{Claims: peeking{claims: []*extensions.SandboxClaim{anyPool}}}, Options{})
	member := newSandbox("member", ownedBy(extensions.SandboxWarmPoolKind, "pool-uid"))
	if woken := r.sandboxChanged(nil, member); !slices.Contains(woken, control.Request("default", "task")) {
		t.Errorf("woke %v", woken)
	}
	r.roster.Take(types.NamespacedName{Namespace: "default", Name: "x"}, roster.Claim{UID: "other"})
	if woken := r.sandboxChanged(member, member); slices.Contains(woken, control.Request("default", "task")) {
		t.Errorf("a member that is promised to another claim woke %v", woken)
	}
}

// twoTimes is a view whose cache is behind the server.
type twoTimes[T any] struct{ cached, live T }

type pools struct {
	consistent.Kind[*extensions.SandboxWarmPool]
	twoTimes[*extensions.SandboxWarmPool]
}

func (p pools) Get(context.Context, types.NamespacedName) (*extensions.SandboxWarmPool, bool, error) {
	return p.cached, true, nil
}

func (p pools) Live(context.Context, types.NamespacedName) (*extensions.SandboxWarmPool, bool, error) {
	return p.live, p.live != nil, nil
}

type templates struct {
	consistent.Kind[*extensions.SandboxTemplate]
	there string
}

func (f templates) Get(_ context.Context, key types.NamespacedName) (*extensions.SandboxTemplate, bool, error) {
	return &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}, key.Name == f.there, nil
}

func (f templates) Live(ctx context.Context, key types.NamespacedName) (*extensions.SandboxTemplate, bool, error) {
	return f.Get(ctx, key)
}

func TestATemplateIsMissingOnlyIfThePoolStillNamesIt(t *testing.T) {
	naming := func(template string) *extensions.SandboxWarmPool {
		return &extensions.SandboxWarmPool{Spec: extensions.SandboxWarmPoolSpec{TemplateRef: extensions.SandboxTemplateRef{Name: template}}}
	}
	newLock := func() sync.Locker { return &sync.Mutex{} }
	for name, test := range map[string]struct {
		live     *extensions.SandboxWarmPool
		pool     bool
		template string
	}{
		"the pool has been switched to a template that is there": {naming("new"), true, "new"},
		"the pool is gone": {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			views := kinds.Views{
				WarmPools: pools{twoTimes: twoTimes[*extensions.SandboxWarmPool]{naming("old"), test.live}},
				Templates: templates{there: "new"},
			}
			found, err := newSupply(views, newLock).fromPool(t.Context(), types.NamespacedName{Namespace: "default", Name: "python"})
			if err != nil || (found.Pool != nil) != test.pool || found.TemplateName != test.template || (found.Template != nil) != test.pool {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}
