// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
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
	r := New(control.Environment{Clock: clocktesting.NewFakePassiveClock(now)}, kinds.Views{}, Options{})
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

// peeking is a view of unbound claims of which only Peek is used.
type peeking struct {
	consistent.Kind[*extensions.SandboxClaim]
	claims []*extensions.SandboxClaim
}

func (p peeking) Peek(index, _ string) []*extensions.SandboxClaim {
	if index == kinds.BySandbox {
		return nil
	}
	return p.claims
}

// poolsAt is a view of pools of which only Peek is used.
type poolsAt struct {
	consistent.Kind[*extensions.SandboxWarmPool]
	found []*extensions.SandboxWarmPool
}

func (p poolsAt) Peek(string, string) []*extensions.SandboxWarmPool { return p.found }

func TestAMemberWakesClaimsThatTakeFromAnyPool(t *testing.T) {
	anyPool := claimWithUID("any")
	anyPool.Spec = extensions.SandboxClaimSpec{TemplateRef: &extensions.SandboxTemplateRef{Name: "python"}}
	x := recreating("python")
	x.Name = "x"
	r := New(control.Environment{Clock: clocktesting.NewFakePassiveClock(now)}, kinds.Views{
		Claims:    peeking{claims: []*extensions.SandboxClaim{anyPool}},
		WarmPools: poolsAt{found: []*extensions.SandboxWarmPool{x}},
	}, Options{})
	where := types.NamespacedName{Namespace: "default", Name: "x"}
	named := newSandbox("named", ownedBy(extensions.SandboxWarmPoolKind, "pool-uid"))
	r.roster.Take(where, roster.Claim{UID: "other"})
	r.roster.Stay(where, roster.Claim{UID: "other"})
	elsewhere := observed{Claim: anyPool, Source: source{PoolName: "y", Pool: &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "y"}}, OwnTemplate: true}}
	if r.stays(elsewhere) {
		t.Fatal("there is nothing anywhere")
	}
	if woken := r.sandboxChanged(nil, named); slices.Contains(woken, control.Request("default", "task")) {
		t.Errorf("a member that is promised to another claim woke %v", woken)
	}
	if woken := r.roster.Leave("other"); !slices.Contains(woken, types.NamespacedName{Namespace: "default", Name: "task"}) {
		t.Errorf("the other needs none, and %v look", woken)
	}
	if !r.stays(elsewhere) {
		t.Error("the claim does not see what became ready before it waited")
	}
	r.roster.Enter(where, roster.Claim{UID: "before"})
	if r.stays(elsewhere) {
		t.Error("the claim looks for what another is to get")
	}
}

func TestAPoolThatTakesAnotherTemplateWakesTheClaimsOfBoth(t *testing.T) {
	of := func(template string) *extensions.SandboxWarmPool {
		return &extensions.SandboxWarmPool{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool", ResourceVersion: template, Generation: int64(len(template))},
			Spec:       extensions.SandboxWarmPoolSpec{TemplateRef: extensions.SandboxTemplateRef{Name: template}},
		}
	}
	r := New(control.Environment{Clock: clocktesting.NewFakePassiveClock(now)}, kinds.Views{Claims: byIndex{found: map[string]string{
		kinds.ByPool + " default/pool":      "of-the-pool",
		kinds.ByTemplate + " default/old":   "of-the-former",
		kinds.ByTemplate + " default/newer": "of-the-next",
	}}}, Options{})
	var woken []string
	for _, request := range r.poolChanged(of("old"), of("newer")) {
		woken = append(woken, request.Name)
	}
	slices.Sort(woken)
	if want := []string{"of-the-former", "of-the-next", "of-the-pool"}; !slices.Equal(woken, want) {
		t.Errorf("woke %v, want %v", woken, want)
	}
}

func TestWhatAPoolsControllerSaysOfItWakesNoClaim(t *testing.T) {
	r := New(control.Environment{}, kinds.Views{Claims: byIndex{found: map[string]string{kinds.ByPool + " default/pool": "task"}}}, Options{})
	before, after := recreating("python"), recreating("python")
	before.ResourceVersion, after.ResourceVersion = "1", "2"
	after.Status.ReadyReplicas = 3
	if woken := r.poolChanged(before, after); len(woken) > 0 {
		t.Errorf("woke %v", woken)
	}
	after.Generation++
	if woken := r.poolChanged(before, after); len(woken) != 1 {
		t.Errorf("an edit woke %v", woken)
	}
}

// byIndex is a view of claims, of which each value of an index finds one.
type byIndex struct {
	consistent.Kind[*extensions.SandboxClaim]
	found map[string]string
}

func (b byIndex) Peek(index, value string) []*extensions.SandboxClaim {
	name, ok := b.found[index+" "+value]
	if !ok {
		return nil
	}
	return []*extensions.SandboxClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}}
}

func TestASandboxWakesTheClaimThatIsBoundToItWhoeverControlsIt(t *testing.T) {
	r := New(control.Environment{}, kinds.Views{Claims: byIndex{found: map[string]string{kinds.BySandbox + " default/taken": "task"}}}, Options{})
	// The watch was broken while the claim made the Sandbox and somebody took it away.
	stripped := newSandbox("taken", func(s *agents.Sandbox) { s.OwnerReferences = nil })
	anothers := newSandbox("taken", ownedBy(extensions.SandboxClaimKind, "another"))
	for _, s := range []*agents.Sandbox{stripped, anothers} {
		if woken := r.sandboxChanged(nil, s); !slices.Contains(woken, control.Request("default", "task")) {
			t.Errorf("woke %v", woken)
		}
		if woken := r.sandboxChanged(s, nil); !slices.Contains(woken, control.Request("default", "task")) {
			t.Errorf("that it is gone woke %v", woken)
		}
	}
}

func TestASandboxOfTheClaimsNameWakesItWhenItBeginsToGo(t *testing.T) {
	r := New(control.Environment{}, kinds.Views{Claims: byIndex{}}, Options{})
	occupant := newSandbox("task", ownedBy(extensions.SandboxClaimKind, "another"))
	going, next := occupant.DeepCopy(), occupant.DeepCopy()
	going.ResourceVersion, going.DeletionTimestamp = "2", &metav1.Time{Time: now}
	next.ResourceVersion, next.UID = "3", "next"
	for what, after := range map[string]*agents.Sandbox{"going": going, "the next": next} {
		if woken := r.sandboxChanged(occupant, after); !slices.Contains(woken, control.Request("default", "task")) {
			t.Errorf("%s woke %v", what, woken)
		}
	}
}
