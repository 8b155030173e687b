// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// outdated returns the members of an older blueprint that are to be deleted now.
//
// Recreate: all of them. RollingUpdate: those that are not Ready, and as many Ready
// ones, oldest first, as can go while no more than maxUnavailable are missing from the
// replicas. Until then they can be claimed.
func outdated(pool *extensions.SandboxWarmPool, s stock) []*agents.Sandbox {
	if pool.UpdateStrategyType() == extensions.WarmPoolRecreate {
		return s.stale
	}
	unavailable, _ := bounds(pool)
	spare := s.ready - (s.desired - unavailable)
	var gone []*agents.Sandbox
	for _, member := range s.stale {
		if isReady(member) {
			if spare <= 0 {
				continue
			}
			spare--
		}
		gone = append(gone, member)
	}
	return gone
}

// surge is how many members there may be above the replicas now.
func surge(pool *extensions.SandboxWarmPool, s stock) int {
	if pool.UpdateStrategyType() != extensions.WarmPoolRollingUpdate {
		return 0
	}
	_, above := bounds(pool)
	return min(above, len(s.stale))
}

// bounds returns maxUnavailable and maxSurge as numbers of members. They are never
// both 0.
func bounds(pool *extensions.SandboxWarmPool) (unavailable, surge int) {
	replicas := int(pool.DesiredReplicas())
	unavailable = 1
	if pool.Spec.UpdateStrategy == nil || pool.Spec.UpdateStrategy.RollingUpdate == nil {
		return unavailable, 0
	}
	rolling := pool.Spec.UpdateStrategy.RollingUpdate
	surge = scaled(rolling.MaxSurge, replicas, true, 0)
	unavailable = scaled(rolling.MaxUnavailable, replicas, false, unavailable)
	if surge == 0 {
		unavailable = max(unavailable, 1)
	}
	return unavailable, surge
}

// scaled returns a number or percentage as a number. What the API server's validation
// would refuse counts as unset.
func scaled(value *intstr.IntOrString, of int, up bool, unset int) int {
	if value == nil {
		return unset
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, of, up)
	if err != nil || n < 0 {
		return unset
	}
	return n
}
