// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/internal/control"
)

// evidence remembers when each Sandbox had a pod that serves: live, running and ready.
// What a pass says of a pod may be out of date when it is said, but must have been so
// at some time since what the pass has seen.
type evidence map[types.UID][]moment

// moment is since which version a Sandbox has a pod that serves, or has none.
type moment struct {
	since  uint64
	serves bool
}

// changed is told of every change of a pod.
func (e evidence) changed(run *Run, before, after *corev1.Pod) {
	var owners [2]types.UID
	if before != nil {
		owners[0] = control.ControllerUID(before)
	}
	if after != nil && (before == nil || control.ControllerUID(after) != owners[0]) {
		owners[1] = control.ControllerUID(after)
	}
	for _, owner := range owners {
		if owner == "" {
			continue
		}
		serves := false
		for _, obj := range run.server.peek("pods") {
			pod := obj.(*corev1.Pod)
			serves = serves || control.ControllerUID(pod) == owner && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && isReady(pod)
		}
		if known := e[owner]; len(known) == 0 || known[len(known)-1].serves != serves {
			e[owner] = append(known, moment{run.server.version, serves})
		}
	}
}

// since reports whether a Sandbox had a pod that served at some time since a version.
func (e evidence) since(owner types.UID, version uint64) bool {
	known := e[owner]
	for at := len(known) - 1; at >= 0; at-- {
		if known[at].serves {
			return true
		}
		if known[at].since <= version {
			return false
		}
	}
	return false
}
