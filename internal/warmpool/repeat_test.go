// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"slices"
	"testing"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestCreatesOfUnknownOutcomeAreRepeatedAsFarAsThereIsRoom(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		members  int
		inFlight []string
		want     []string
	}{
		"all, while there is room for all":                  {3, 0, []string{"a", "b", "c"}, []string{"a", "b", "c"}},
		"one, of a pool that was made smaller meanwhile":    {1, 0, []string{"a", "b", "c"}, []string{"a"}},
		"what is missing beside the members that there are": {3, 2, []string{"a", "b"}, []string{"a"}},
		"none, of a pool that has its members":              {2, 2, []string{"a"}, nil},
		"none, of a pool that has too many":                 {1, 2, []string{"a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := newScene(extensions.WarmPoolOnReplenish, readyMembers(c.members, "new")...).with(replicas(c.replicas)).observed
			seen.InFlight = c.inFlight
			var wake alarm
			next := repeat(seen, takeStock(seen, now), now, &wake)
			if create, _ := next.(createMembers); !slices.Equal(create.again, c.want) {
				t.Errorf("next is %v, want %v again", next, c.want)
			}
		})
	}
}
