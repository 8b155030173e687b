// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// model is what a correct view may show, told from the server's history and from
// this process's own writes and reads.
//
// For each key there is a floor: the newest version that an own write made, or that
// the view showed. The view must show the key as it was at that version or later.
type model struct {
	*bench
	random *rand.Rand
	depth  int // of steps that run while the reply to another is under way

	floor map[types.NamespacedName]uint64
	// unsure is the floor before that of a create of unknown outcome that landed and was
	// not shown yet: a read that finds nothing does not prove that it is over.
	unsure map[types.NamespacedName]uint64
	known  map[types.NamespacedName]sets.Set[types.UID] // shown, or written to
	gone   sets.Set[types.UID]                          // proved absent to the view
	dying  sets.Set[types.UID]                          // own deletes that landed
	late   []lateCreate
	op     *landing // of the own write under way
	count  map[string]int
	// acted are versions that were shown, and may have been acted on, since when nobody
	// was told of the key in a way that compares with them.
	acted map[types.NamespacedName]sets.Set[uint64]
}

type landing struct {
	verb Verb
	change
}

// lateCreate is a create that has not landed and whose caller was told so.
type lateCreate struct {
	key   types.NamespacedName
	owner string
	since uint64 // server version
	at    time.Time
}

var modelOwners = []string{"one", "two", "three"}

func modelKeys() []types.NamespacedName {
	return []types.NamespacedName{keyOf("a"), keyOf("b"), keyOf("c"), keyOf("d"), keyOf("e")}
}

// TestRandomHistories runs own writes with every fault, foreign writes, a held-back
// informer, sweeps and late replies in a random order, and checks every read.
func TestRandomHistories(t *testing.T) {
	steps, seeds := 2000, 40
	if testing.Short() {
		seeds = 4
	}
	total := map[string]int{}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			withInformer(t, func(b *bench) {
				m := newModel(b, uint64(seed))
				for range steps {
					m.step()
				}
				m.converge()
				for what, n := range m.count {
					total[what] += n
				}
			})
		})
	}
	// The run is worth something only if it went everywhere.
	for _, what := range []string{"undecided", "gone", "acknowledged", "landed late", "shown terminating", "shown", "absent", "nested", "entries swept", "lagging", "relists", "told to look"} {
		if total[what] < seeds/4 {
			t.Errorf("%q happened %d times only", what, total[what])
		}
	}
}

func newModel(b *bench, seed uint64) *model {
	m := &model{
		acted: map[types.NamespacedName]sets.Set[uint64]{},
		bench: b, random: rand.New(rand.NewPCG(seed, 1)),
		floor: map[types.NamespacedName]uint64{}, unsure: map[types.NamespacedName]uint64{}, known: map[types.NamespacedName]sets.Set[types.UID]{},
		gone: sets.New[types.UID](), dying: sets.New[types.UID](), count: map[string]int{},
	}
	for _, key := range modelKeys() {
		m.known[key], m.acted[key] = sets.New[types.UID](), sets.New[uint64]()
	}
	b.wire.handle(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, _ any) { m.compared(before.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj
			}
			m.ended(obj.(*corev1.Pod))
		},
	})
	b.view.vanished = m.ended
	b.view.lookAgain = func(now *corev1.Pod) {
		m.count["told to look"]++
		m.acted[client.ObjectKeyFromObject(now)].Clear()
	}
	b.server.landed = func(verb Verb, c change) {
		if m.op != nil {
			*m.op = landing{verb, c}
		}
	}
	b.server.fault = func(Verb, types.NamespacedName) fault {
		if m.random.IntN(3) > 0 {
			return fine
		}
		return []fault{lostReply, unavailable, delayed, resent}[m.random.IntN(4)]
	}
	b.server.replying = func(string, types.NamespacedName) {
		if m.depth < 2 && m.random.IntN(4) == 0 {
			m.count["nested"]++
			m.step()
		}
	}
	return m
}

func pick[E any](m *model, from []E) E { return from[m.random.IntN(len(from))] }

func (m *model) step() {
	m.depth++
	defer func() { m.depth-- }()
	key := pick(m, modelKeys())
	switch n := m.random.IntN(100); {
	case n < 14:
		m.create(key)
	case n < 28:
		m.patch(key)
	case n < 38:
		m.delete(key)
	case n < 48:
		m.foreign(key)
	case n < 68:
		m.wire.deliver(1 + m.random.IntN(3))
	case n < 70:
		m.wire.bookmark()
	case n < 72:
		m.count["relists"]++
		m.wire.relist(m.wire.sent + m.random.Uint64N(m.server.latest()-m.wire.sent+1))
	case n < 77:
		before := m.view.Lag().Entries
		m.sweep()
		m.count["entries swept"] += max(0, before-m.view.Lag().Entries)
	case n < 81:
		m.landLate()
	case n < 82:
		m.later(time.Duration(m.random.IntN(40)) * time.Second)
	case n < 83 && m.depth == 1:
		m.agreement()
	case n < 87:
		m.live(key)
	case n < 93:
		m.list(pick(m, modelOwners))
	default:
		m.look(key)
	}
}

// own runs an own write and learns from its outcome.
func (m *model) own(verb Verb, key types.NamespacedName, base *corev1.Pod, write func() (*corev1.Pod, error)) {
	op, outer := &landing{}, m.op
	m.op = op
	reply, err := write()
	m.op = outer
	var undecided *UndecidedError
	switch {
	case err == nil && verb == VerbDelete:
		m.count["acknowledged"]++
		m.dying.Insert(base.UID)
	case err == nil:
		m.count["acknowledged"]++
		m.raise(key, reply.UID, version(reply.ResourceVersion))
	case errors.Is(err, ErrGone):
		m.count["gone"]++
		m.gone.Insert(base.UID)
	case errors.As(err, &undecided):
		m.count["undecided"]++
		m.learn(op)
	case errors.Is(err, ErrLagging):
		m.count["lagging"]++
	default:
		m.Fatalf("%s %s: %v", verb, key, err)
	}
}

// learn takes a write of unknown outcome that landed as one the view must show.
func (m *model) learn(op *landing) {
	switch {
	case op.pod == nil: // did not land
	case op.verb == VerbDelete:
		m.dying.Insert(op.pod.UID)
	case op.verb == VerbCreate:
		key := client.ObjectKeyFromObject(op.pod)
		if _, ok := m.unsure[key]; !ok {
			m.unsure[key] = m.floor[key]
		}
		m.floor[key] = max(m.floor[key], op.version)
	default:
		m.raise(client.ObjectKeyFromObject(op.pod), op.pod.UID, op.version)
	}
}

func (m *model) raise(key types.NamespacedName, uid types.UID, version uint64) {
	m.floor[key] = max(m.floor[key], version)
	m.known[key].Insert(uid)
	delete(m.unsure, key)
}

func (m *model) create(key types.NamespacedName) {
	owner := pick(m, modelOwners)
	p := pod(key.Name, owner)
	if m.random.IntN(2) == 0 {
		p = finalized(p)
	}
	queued := len(m.server.late)
	m.own(VerbCreate, key, nil, func() (*corev1.Pod, error) { return m.view.Create(ctx, p) })
	if len(m.server.late) == queued+1 && m.server.now(key) == nil {
		m.late = append(m.late, lateCreate{key, owner, m.server.latest(), m.clock.Now()})
	}
}

func (m *model) patch(key types.NamespacedName) {
	base := m.look(key)
	if base == nil {
		return
	}
	p := label("owner", pick(m, modelOwners))
	if m.random.IntN(3) == 0 {
		p = label("n", fmt.Sprint(m.random.IntN(5)))
	}
	m.own(VerbPatch, key, base, func() (*corev1.Pod, error) { return m.view.Patch(ctx, base, p) })
}

func (m *model) delete(key types.NamespacedName) {
	base := m.look(key)
	if base == nil {
		return
	}
	when := Precondition{AnyVersion: m.random.IntN(2) == 0}
	m.own(VerbDelete, key, base, func() (*corev1.Pod, error) { return nil, m.view.Delete(ctx, base, when) })
}

func (m *model) foreign(key types.NamespacedName) {
	switch now := m.server.now(key); {
	case now == nil:
		m.server.add(pod(key.Name, pick(m, modelOwners)))
	case now.DeletionTimestamp != nil || m.random.IntN(3) == 0:
		m.server.remove(key)
	default:
		m.server.edit(key, func(p *corev1.Pod) { p.Labels["owner"] = pick(m, modelOwners) })
	}
}

// landLate lets one delayed request land. The view owes it to its callers only if it
// still lists it: what had the name meanwhile has settled it, and it is a stranger's.
func (m *model) landLate() {
	if len(m.server.late) == 0 {
		return
	}
	op, outer := &landing{}, m.op
	m.op = op
	m.server.landOne(m.random.IntN(len(m.server.late)))
	m.op = outer
	if op.pod == nil {
		return
	}
	m.count["landed late"]++
	e, _ := m.view.entry(client.ObjectKeyFromObject(op.pod))
	if e != nil && slices.ContainsFunc(e.unknown, func(a attempt[*corev1.Pod]) bool { return a.Verb == op.verb }) {
		m.learn(op)
	} else if op.verb != VerbCreate && e == nil {
		m.Fatalf("a late %s of %s landed and was not undecided any more", op.verb, op.pod.Name)
	}
}

// compared says that an event compared before with what came after.
func (m *model) compared(before *corev1.Pod) {
	m.acted[client.ObjectKeyFromObject(before)].Delete(version(before.ResourceVersion))
}

// ended says that an event or the view told of an end: every version up to it is of the past.
func (m *model) ended(last *corev1.Pod) {
	acted := m.acted[client.ObjectKeyFromObject(last)]
	for v := range acted {
		if v <= version(last.ResourceVersion) {
			acted.Delete(v)
		}
	}
}

// look reads a key and checks what is shown.
func (m *model) look(key types.NamespacedName) *corev1.Pod {
	check := m.expect(key)
	got, ok, err := m.view.Get(ctx, key)
	if err != nil {
		m.Fatal(err)
	}
	check(got, ok)
	return got
}

func (m *model) live(key types.NamespacedName) {
	known := m.known[key].Clone()
	check := m.expect(key)
	got, ok, err := m.view.Live(ctx, key)
	if err != nil {
		m.Fatal(err)
	}
	check(got, ok)
	if !ok {
		m.gone = m.gone.Union(known)
	}
}

func (m *model) list(owner string) []*corev1.Pod {
	checks := map[types.NamespacedName]func(*corev1.Pod, bool){}
	for _, key := range modelKeys() {
		checks[key] = m.expect(key)
	}
	late := slices.Clone(m.late)
	found, err := m.view.By(ctx, "owner", owner)
	if err != nil {
		m.Fatal(err)
	}
	for _, p := range found {
		if p.Labels["owner"] != owner {
			m.Fatalf("%s of %s is listed under %s", p.Name, p.Labels["owner"], owner)
		}
		checks[client.ObjectKeyFromObject(p)](p, true)
	}
	m.listsLate(owner, late)
	return found
}

// listsLate checks that creates that may still land are listed as undecided.
func (m *model) listsLate(owner string, late []lateCreate) {
	var listed []string
	for _, a := range m.view.Undecided("owner", owner) {
		if a.Verb == VerbCreate {
			listed = append(listed, a.Intended.Name)
		}
	}
	for _, l := range late {
		taken := slices.ContainsFunc(m.server.since(l.since), func(c change) bool { return client.ObjectKeyFromObject(c.pod) == l.key })
		if !taken && l.owner == owner && m.clock.Since(l.at) <= forgetAfter && !slices.Contains(listed, l.key.Name) {
			m.Fatalf("the create of %s may still land and is not listed: %v", l.key, listed)
		}
	}
}

// expect returns the check of a read of key that starts now.
func (m *model) expect(key types.NamespacedName) func(*corev1.Pod, bool) {
	floor, gone, dying := m.floor[key], m.gone.Clone(), m.dying.Clone()
	sure, unsure := m.unsure[key]
	return func(got *corev1.Pod, ok bool) {
		m.Helper()
		if !ok {
			m.count["absent"]++
			if !unsure {
				sure = floor
			}
			if _, ok := m.unsure[key]; ok {
				m.floor[key] = 0
				delete(m.unsure, key)
			}
			m.floor[key] = max(m.floor[key], m.endAfter(key, sure))
			return
		}
		m.count["shown"]++
		rv := version(got.ResourceVersion)
		switch {
		case rv < floor:
			m.Fatalf("%s is shown at %d, was known at %d", key, rv, floor)
		case gone.Has(got.UID):
			m.Fatalf("%s is shown as %s, which was known to be gone", key, got.UID)
		case dying.Has(got.UID) && got.DeletionTimestamp == nil:
			m.Fatalf("%s is shown alive, its delete had been accepted", key)
		}
		m.authentic(key, got)
		m.raise(key, got.UID, rv)
		m.acted[key].Insert(rv)
	}
}

// endAfter returns the first version after floor at which the key was absent.
func (m *model) endAfter(key types.NamespacedName, floor uint64) uint64 {
	m.Helper()
	if floor == 0 {
		return 0
	}
	for _, c := range m.server.since(floor - 1) {
		if c.kind == watch.Deleted && client.ObjectKeyFromObject(c.pod) == key {
			return c.version
		}
	}
	m.Fatalf("%s is absent, and was never deleted since it was known at %d", key, floor)
	return 0
}

// authentic checks that the object is one the server had, unless for the deletion
// timestamp of an accepted delete.
func (m *model) authentic(key types.NamespacedName, got *corev1.Pod) {
	m.Helper()
	for _, c := range m.server.since(version(got.ResourceVersion) - 1)[:1] {
		want := slim(c.pod.DeepCopy())
		if got.DeletionTimestamp != nil && want.DeletionTimestamp == nil {
			m.count["shown terminating"]++
			if !m.dying.Has(got.UID) {
				m.Fatalf("%s is shown as terminating, nobody deleted it", key)
			}
			want.DeletionTimestamp = got.DeletionTimestamp
		}
		if !equality.Semantic.DeepEqual(got, want) {
			m.Fatalf("%s is shown as %v, the server had %v", key, got, want)
		}
	}
}

// agreement checks that lists and single reads say the same.
func (m *model) agreement() {
	replying := m.server.replying
	m.server.replying = nil
	defer func() { m.server.replying = replying }()
	want := map[string][]string{}
	for _, key := range modelKeys() {
		if got := m.look(key); got != nil {
			want[got.Labels["owner"]] = append(want[got.Labels["owner"]], got.Name)
		}
	}
	for _, owner := range modelOwners {
		got := names(m.list(owner))
		slices.Sort(got)
		if !slices.Equal(got, want[owner]) {
			m.Fatalf("%s owns %v by its list, %v by single reads", owner, got, want[owner])
		}
	}
}

// converge lets everything happen that still can, and checks that the view is the
// server's state and that nothing is left behind.
func (m *model) converge() {
	m.server.replying, m.server.fault = nil, nil
	for len(m.server.late) > 0 {
		m.landLate()
	}
	m.agreement()
	m.wire.deliverAll()
	m.later(forgetAfter + time.Second)
	m.sweep()
	m.sweep()
	m.entries(0)
	for _, key := range modelKeys() {
		if now := m.server.now(key); now != nil {
			m.acted[key].Delete(version(now.ResourceVersion))
			m.shows(now)
		} else {
			m.absent(key.Name)
		}
		if left := m.acted[key]; left.Len() > 0 {
			m.Errorf("nobody was told to look at %s again, of which versions %v were shown", key.Name, sets.List(left))
		}
	}
}
