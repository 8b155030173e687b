// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var dyingAt = metav1.NewTime(epoch)

// knows is an entry of a pod, edited.
func knows(uid string, rv uint64, edit func(*entry[*corev1.Pod])) *entry[*corev1.Pod] {
	e := &entry[*corev1.Pod]{}
	e.show(seenPod("a", "one", uid, rv))
	if edit != nil {
		edit(e)
	}
	return e
}

func gone(e *entry[*corev1.Pod])  { e.end(e.uid, e.rv) }
func dying(e *entry[*corev1.Pod]) { e.dying = &dyingAt }

func TestJoin(t *testing.T) {
	undecidedOnly := &entry[*corev1.Pod]{unknown: []attempt[*corev1.Pod]{{Attempt: Attempt[*corev1.Pod]{Verb: VerbCreate, Intended: pod("a", "one")}}}}
	for _, c := range []struct {
		name        string
		entry       *entry[*corev1.Pod]
		store       uint64
		stored      *corev1.Pod
		uid         string // "" is absent
		rv          string
		terminating bool
	}{
		{"nothing known, nothing stored", nil, 9, nil, "", "", false},
		{"nothing known: the store's word", nil, 9, seenPod("a", "", "u1", 5), "u1", "5", false},
		{"an undecided write changes nothing", undecidedOnly, 9, seenPod("a", "", "u1", 5), "u1", "5", false},
		{"an undecided create is not shown", undecidedOnly, 9, nil, "", "", false},
		{"the store is newer", knows("u1", 5, nil), 9, seenPod("a", "", "u1", 7), "u1", "7", false},
		{"the store is as new", knows("u1", 5, nil), 9, seenPod("a", "", "u1", 5), "u1", "5", false},
		{"the store's item is older", knows("u1", 5, nil), 9, seenPod("a", "", "u1", 4), "u1", "5", false},
		{"not stored and the store is behind", knows("u1", 5, nil), 4, nil, "u1", "5", false},
		{"not stored and the store has seen it", knows("u1", 5, nil), 5, nil, "", "", false},
		{"an earlier holder of the name is stored", knows("u2", 5, nil), 4, seenPod("a", "", "u1", 3), "u2", "5", false},
		{"a later holder of the name is stored", knows("u1", 5, nil), 7, seenPod("a", "", "u2", 7), "u2", "7", false},
		{"gone and still stored", knows("u1", 5, gone), 4, seenPod("a", "", "u1", 4), "", "", false},
		{"gone and stored at a later version", knows("u1", 5, gone), 6, seenPod("a", "", "u1", 6), "", "", false},
		{"gone and not stored", knows("u1", 5, gone), 4, nil, "", "", false},
		{"gone with an earlier holder stored", knows("u2", 5, gone), 4, seenPod("a", "", "u1", 3), "", "", false},
		{"gone with a later holder stored", knows("u1", 5, gone), 7, seenPod("a", "", "u2", 7), "u2", "7", false},
		{"dying and stored without it", knows("u1", 5, dying), 6, seenPod("a", "", "u1", 6), "u1", "6", true},
		{"dying and not yet stored", knows("u1", 5, dying), 4, nil, "u1", "5", true},
		{"dying and the store is past it", knows("u1", 5, dying), 5, nil, "", "", false},
		{"dying with an earlier holder stored", knows("u2", 5, dying), 4, seenPod("a", "", "u1", 3), "u2", "5", true},
		{"dying with a later holder stored", knows("u1", 5, dying), 7, seenPod("a", "", "u2", 7), "u2", "7", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := join(c.entry, c.store, c.stored, c.stored != nil)
			if ok != (c.uid != "") {
				t.Fatalf("found %v, want %q", ok, c.uid)
			}
			if ok && (string(got.UID) != c.uid || got.ResourceVersion != c.rv || got.DeletionTimestamp != nil != c.terminating) {
				t.Errorf("got %s at %s (terminating: %v), want %s at %s", got.UID, got.ResourceVersion, got.DeletionTimestamp != nil, c.uid, c.rv)
			}
		})
	}
}

func TestSettledBy(t *testing.T) {
	create := attempt[*corev1.Pod]{Attempt: Attempt[*corev1.Pod]{Verb: VerbCreate}, recorded: 3}
	patch := attempt[*corev1.Pod]{Attempt: Attempt[*corev1.Pod]{Verb: VerbPatch}, uid: "u2", rv: 5, recorded: 3}
	remove := attempt[*corev1.Pod]{Attempt: Attempt[*corev1.Pod]{Verb: VerbDelete}, uid: "u2", rv: 5, recorded: 3}
	removeAny := remove
	removeAny.anyVersion = true
	for _, c := range []struct {
		name    string
		attempt attempt[*corev1.Pod]
		saw     sight
		want    bool
	}{
		{"a create by a read that began later", create, sight{uid: "u9", rv: 9, began: 3}, true},
		{"a create by a read that began before", create, sight{uid: "u9", rv: 9, began: 2}, false},
		{"a create by the store", create, sight{uid: "u9", rv: 9}, false},
		{"a patch by its own version", patch, sight{uid: "u2", rv: 5, began: 9}, false},
		{"a patch by a later version in the store", patch, sight{uid: "u2", rv: 6}, true},
		{"a patch by an older version", patch, sight{uid: "u2", rv: 4, began: 9}, false},
		{"a patch by an earlier holder of the name", patch, sight{uid: "u1", rv: 3, began: 9}, false},
		{"a patch by a later holder of the name", patch, sight{uid: "u3", rv: 8}, true},
		{"a delete by a later version", remove, sight{uid: "u2", rv: 6}, true},
		{"a delete by its own version", remove, sight{uid: "u2", rv: 5}, false},
		{"a delete by its object terminating", remove, sight{uid: "u2", rv: 5, terminating: true}, true},
		{"a delete by an earlier holder terminating", remove, sight{uid: "u1", rv: 3, terminating: true}, false},
		{"a delete of any version by a later version", removeAny, sight{uid: "u2", rv: 6}, false},
		{"a delete of any version by its object terminating", removeAny, sight{uid: "u2", rv: 6, terminating: true}, true},
		{"a delete of any version by a later holder", removeAny, sight{uid: "u3", rv: 8}, true},
		{"a delete of any version by an earlier holder", removeAny, sight{uid: "u1", rv: 3}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.attempt.settledBy(c.saw); got != c.want {
				t.Errorf("settled: %v, want %v", got, c.want)
			}
		})
	}
	if create.settledByAbsence(9) || patch.settledByAbsence(2) || !patch.settledByAbsence(3) {
		t.Error("absence settles writes to existing objects that were undecided when the read began, and no others")
	}
}

func TestExplainedBy(t *testing.T) {
	waiting := func(a attempt[*corev1.Pod]) func(*entry[*corev1.Pod]) {
		return func(e *entry[*corev1.Pod]) { e.unknown = append(e.unknown, a) }
	}
	patch := attempt[*corev1.Pod]{Attempt: Attempt[*corev1.Pod]{Verb: VerbPatch}, uid: "u2", rv: 5, recorded: 1}
	terminating := seenPod("a", "", "u2", 6)
	terminating.DeletionTimestamp = &dyingAt
	for _, c := range []struct {
		name   string
		entry  *entry[*corev1.Pod]
		store  uint64
		stored *corev1.Pod
		want   bool
	}{
		{"the store is behind", knows("u2", 5, nil), 4, seenPod("a", "", "u2", 4), false},
		{"the store shows the version", knows("u2", 5, nil), 5, seenPod("a", "", "u2", 5), true},
		{"the store shows a later one", knows("u2", 5, nil), 7, seenPod("a", "", "u2", 7), true},
		{"the store shows that it ended", knows("u2", 5, nil), 5, nil, true},
		{"the store shows a later holder", knows("u2", 5, nil), 7, seenPod("a", "", "u3", 7), true},
		{"gone and still stored", knows("u2", 5, gone), 9, seenPod("a", "", "u2", 5), false},
		{"gone and not stored any more", knows("u2", 5, gone), 9, nil, true},
		{"gone and not stored yet", knows("u2", 5, gone), 4, nil, false},
		{"dying and stored without it", knows("u2", 5, dying), 6, seenPod("a", "", "u2", 6), false},
		{"dying and stored with it", knows("u2", 5, dying), 6, terminating, true},
		{"dying and not stored any more", knows("u2", 5, dying), 9, nil, true},
		{"an undecided patch the store settles", knows("u2", 5, waiting(patch)), 6, seenPod("a", "", "u2", 6), true},
		{"an undecided patch the store does not settle", knows("u2", 5, waiting(patch)), 5, seenPod("a", "", "u2", 5), false},
		{"an undecided patch on what is not stored", knows("u2", 5, waiting(patch)), 9, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.entry.explainedBy(c.store, c.stored, c.stored != nil); got != c.want {
				t.Errorf("explained: %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatIsGoneStaysGone(t *testing.T) {
	e := knows("u1", 5, gone)
	e.show(seenPod("a", "one", "u1", 6))
	if !e.gone || e.rv != 5 {
		t.Errorf("a late reply brought back %v", e.obj)
	}
	e.show(seenPod("a", "one", "u2", 7))
	if e.gone || e.uid != "u2" {
		t.Error("the next holder of the name is not shown")
	}
}

func TestOverlayIndexFollowsItsEntries(t *testing.T) {
	o := newOverlay(byOwner)
	has := func(owner string, want bool) {
		t.Helper()
		if got := o.byIndex[indexValue{"owner", owner}].Has(keyOf("a")); got != want {
			t.Errorf("under %s: %v, want %v", owner, got, want)
		}
	}
	patch := attempt[*corev1.Pod]{Attempt: Attempt[*corev1.Pod]{Verb: VerbPatch, Base: pod("a", "one"), Intended: pod("a", "two")}}
	e := knows("u1", 5, nil)
	o.set(keyOf("a"), e)
	has("one", true)

	moved := *e
	moved.obj = seenPod("a", "three", "u1", 6)
	moved.unknown = o.withAttempt(nil, patch)
	o.set(keyOf("a"), &moved)
	has("one", true)
	has("two", true)
	has("three", true)

	ended := moved
	ended.unknown = nil
	ended.end("u1", 6)
	o.set(keyOf("a"), &ended)
	has("one", false)
	has("two", false)
	has("three", false)

	o.set(keyOf("a"), &entry[*corev1.Pod]{})
	if len(o.entries) != 0 || len(o.byIndex) != 0 || o.removals != 1 {
		t.Errorf("left: %v, %v, %d removals", o.entries, o.byIndex, o.removals)
	}
}

func TestVersionOfWhatIsNoIntegerIsOldest(t *testing.T) {
	for s, want := range map[string]uint64{"": 0, "abc": 0, "-1": 0, "7": 7, "18446744073709551615": 1<<64 - 1} {
		if got := version(s); got != want {
			t.Errorf("%q is %d, want %d", s, got, want)
		}
	}
}
