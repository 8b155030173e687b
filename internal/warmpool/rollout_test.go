// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestRollout(t *testing.T) {
	bound := func(unavailable, surge *intstr.IntOrString) func(*scene) {
		return func(s *scene) {
			s.Pool.Spec.UpdateStrategy.RollingUpdate = &extensions.SandboxWarmPoolRollingUpdate{MaxUnavailable: unavailable, MaxSurge: surge}
		}
	}
	number := func(n int) *intstr.IntOrString { return ptr.To(intstr.FromInt(n)) }
	percent := func(p string) *intstr.IntOrString { return ptr.To(intstr.FromString(p)) }
	old := func(n int) []*agents.Sandbox { return readyMembers(n, "old") }
	cases := map[string]struct {
		seen   *scene
		delete []string
		create int
	}{
		"one at a time by default":            {newScene(rolling, old(3)...), []string{"m0"}, 0},
		"two at a time":                       {newScene(rolling, old(3)...).with(bound(number(2), nil)), []string{"m0", "m1"}, 0},
		"a percentage is rounded down":        {newScene(rolling, old(3)...).with(bound(percent("70%"), nil)), []string{"m0", "m1"}, 0},
		"but to one at least without a surge": {newScene(rolling, old(3)...).with(bound(percent("1%"), nil)), []string{"m0"}, 0},
		"a surge makes new ones first":        {newScene(rolling, old(3)...).with(bound(number(0), number(1))), nil, 1},
		"a surge is rounded up":               {newScene(rolling, old(3)...).with(bound(number(0), percent("34%"))), nil, 2},
		"old ones that are not Ready go at once": {
			newScene(rolling, member("x", "old", time.Minute, notReady), member("y", "old", time.Minute, notReady), member("z", "old", time.Hour, ready)), []string{"x", "y"}, 0,
		},
		"none that is Ready goes while others are missing": {
			newScene(rolling, append(old(2), member("x", "new", time.Minute, notReady))...), nil, 0,
		},
		"claims make room for new ones": {newScene(rolling, old(1)...), nil, 2},
		"when the new one of a surge is Ready an old one goes": {
			newScene(rolling, append(old(3), member("x", "new", time.Minute, ready))...).with(bound(number(0), number(1))), []string{"m0"}, 0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := takeStock(c.seen.observed, now)
			var deleted []string
			for _, m := range outdated(c.seen.Pool, s) {
				deleted = append(deleted, m.Name)
			}
			if !slices.Equal(deleted, c.delete) || s.room() != c.create {
				t.Errorf("delete %v and create %d, want %v and %d", deleted, s.room(), c.delete, c.create)
			}
		})
	}
}
