// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

const (
	pods      = "pods"
	sandboxes = "sandboxes"
	claims    = "sandboxclaims"
	pools     = "sandboxwarmpools"
	templates = "sandboxtemplates"
)

// State is what there is in the namespace, by name. Nobody may change it.
type State struct {
	Pods      map[string]*corev1.Pod
	Sandboxes map[string]*agents.Sandbox
	Claims    map[string]*extensions.SandboxClaim
	Pools     map[string]*extensions.SandboxWarmPool
	Templates map[string]*extensions.SandboxTemplate
}

func newState() State {
	return State{
		Pods: map[string]*corev1.Pod{}, Sandboxes: map[string]*agents.Sandbox{}, Claims: map[string]*extensions.SandboxClaim{},
		Pools: map[string]*extensions.SandboxWarmPool{}, Templates: map[string]*extensions.SandboxTemplate{},
	}
}

// put replaces the object of a name, or removes it, and returns what was there.
func put[T any](table map[string]*T, name string, after *T) (before *T) {
	before = table[name]
	if after == nil {
		delete(table, name)
	} else {
		table[name] = after
	}
	return before
}

// exists says whether an object of any kind has a UID.
func (s *State) exists(uid types.UID) bool {
	return has(s.Sandboxes, uid) || has(s.Claims, uid) || has(s.Pools, uid) || has(s.Templates, uid) || has(s.Pods, uid)
}

func has[T any, P interface {
	*T
	client.Object
}](table map[string]P, uid types.UID) bool {
	for _, obj := range table {
		if obj.GetUID() == uid {
			return true
		}
	}
	return false
}

// ownPods are the pods of a Sandbox, in the order of their names.
func (s *State) ownPods(of types.UID) []*corev1.Pod { return owned(s.Pods, of) }

// ownSandboxes are those of a claim or a pool, in the order of their names.
func (s *State) ownSandboxes(of types.UID) []*agents.Sandbox { return owned(s.Sandboxes, of) }

func owned[T any, P interface {
	*T
	client.Object
}](table map[string]P, by types.UID) []P {
	var found []P
	for _, obj := range table {
		if control.IsControlledBy(obj, by) {
			found = append(found, obj)
		}
	}
	slices.SortFunc(found, func(a, b P) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return found
}

// version is a state that an object had since a revision; nil is absence.
type version[T any] struct {
	since int64
	obj   *T
}

// since are the states an object had at some time from a revision on.
func since[T any](all []version[T], revision int64) []*T {
	at := len(all)
	for at > 0 && all[at-1].since > revision {
		at--
	}
	found := make([]*T, 0, len(all)-at+1)
	if at == 0 {
		found = append(found, nil) // it did not exist yet
	} else {
		at--
	}
	for _, v := range all[at:] {
		found = append(found, v.obj)
	}
	return found
}
