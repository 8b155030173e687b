// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAMemberThatWasSetAsideIsReadyAgainOnceItIsToBeRechecked(t *testing.T) {
	r := New()
	r.Update(python, memberOf(0), Ready)
	r.Enter(python, claimOf(0))
	r.Take(python, claimOf(0))
	if woken := r.Recheck(memberOf(0).UID); !slices.Equal(woken, []types.NamespacedName{claimOf(0).Key}) {
		t.Errorf("while it is promised, %v look once more", woken)
	}
	r.Reject(claimOf(0).UID)
	r.Enter(python, claimOf(1))
	if ready := r.Standing(python).Ready; ready != 0 {
		t.Fatalf("%d members are ready", ready)
	}
	if woken := r.Recheck(memberOf(0).UID); !slices.Equal(woken, []types.NamespacedName{claimOf(0).Key}) {
		t.Errorf("once it is set aside, %v look, want the oldest claim", woken)
	}
	if offer := r.Take(python, claimOf(0)); offer.Member == nil || *offer.Member != memberOf(0) {
		t.Errorf("the oldest claim is offered %+v", offer)
	}
	if woken := r.Recheck(memberOf(1).UID); woken != nil {
		t.Errorf("for a member that nobody knows %v look", woken)
	}
}
