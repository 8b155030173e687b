// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/control"
)

// ForeignKey is an annotation that tests set on the podTemplate of a Sandbox, as another
// controller would. Berth is to leave it there.
const ForeignKey = "another.example.com/stamp"

// watcher holds the invariants. It remembers what there was.
type watcher struct {
	State

	records   map[types.UID]*record
	boundBy   map[types.UID]types.UID // by Sandbox, the claim, for ever
	pods      map[types.UID]bool      // were ever a Sandbox's
	served    map[types.UID]bool      // Sandboxes that ever had a Ready pod
	limits    map[types.UID]int       // how many members each pool was ever allowed
	poolsWere map[string][]version[extensions.SandboxWarmPool]
	templWere map[string][]version[extensions.SandboxTemplate]
	revision  int64
	steps     int
	wrong     []string
}

// record is what is remembered of a claim.
type record struct {
	created int64
	mine    map[types.UID]bool // Sandboxes that were ever the claim's
	bound   extensions.ClaimedSandbox
}

func newWatcher() *watcher {
	return &watcher{
		State:   newState(),
		records: map[types.UID]*record{}, boundBy: map[types.UID]types.UID{}, pods: map[types.UID]bool{},
		served: map[types.UID]bool{}, limits: map[types.UID]int{},
		poolsWere: map[string][]version[extensions.SandboxWarmPool]{}, templWere: map[string][]version[extensions.SandboxTemplate]{},
	}
}

// change is told of every change, in the order in which they happened; obj is nil if the
// object is gone.
func (w *watcher) change(revision int64, resource, name string, obj client.Object) {
	w.revision = revision
	switch resource {
	case pods:
		after, _ := obj.(*corev1.Pod)
		w.podChanged(put(w.Pods, name, after), after)
	case sandboxes:
		after, _ := obj.(*agents.Sandbox)
		w.sandboxChanged(put(w.Sandboxes, name, after), after)
	case claims:
		after, _ := obj.(*extensions.SandboxClaim)
		w.claimChanged(put(w.Claims, name, after), after)
	case pools:
		after, _ := obj.(*extensions.SandboxWarmPool)
		put(w.Pools, name, after)
		w.poolsWere[name] = append(w.poolsWere[name], version[extensions.SandboxWarmPool]{since: revision, obj: after})
		if after != nil {
			w.limits[after.UID] = max(w.limits[after.UID], int(after.DesiredReplicas()))
		}
	case templates:
		after, _ := obj.(*extensions.SandboxTemplate)
		put(w.Templates, name, after)
		w.templWere[name] = append(w.templWere[name], version[extensions.SandboxTemplate]{since: revision, obj: after})
	}
}

func (w *watcher) fail(rule, format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf("%s: revision %d: %s", rule, w.revision, fmt.Sprintf(format, args...)))
}

func (w *watcher) podChanged(before, after *corev1.Pod) {
	if before != nil && before.DeletionTimestamp == nil && !w.pods[before.UID] && (after == nil || after.DeletionTimestamp != nil) {
		w.fail("only its own pods are deleted", "pod %s was deleted, which was never a Sandbox's", before.Name)
	}
	if after == nil {
		return
	}
	if before == nil {
		w.steps++
	}
	owner := control.ControllerOf(after, agents.GroupName, agents.SandboxKind)
	if owner == nil {
		return
	}
	w.pods[after.UID] = true
	if serves(after) {
		w.served[owner.UID] = true
	}
	var live []string
	for _, pod := range w.ownPods(owner.UID) {
		if pod.DeletionTimestamp == nil {
			live = append(live, pod.Name)
		}
	}
	if len(live) > 1 {
		w.fail("one live pod per Sandbox", "Sandbox %s has the live pods %v", owner.Name, live)
	}
}

func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *watcher) sandboxChanged(before, after *agents.Sandbox) {
	if before != nil {
		w.notDeleted(before, after)
	}
	if after == nil {
		return
	}
	if before != nil {
		w.foreignKey(before, after)
	}
	owner := control.ControllerUID(after)
	switch {
	case before == nil:
		w.steps++
		w.members(after)
	case control.ControllerUID(before) == owner:
		return
	default:
		w.steps++
		if control.ControllerOf(before, extensions.GroupName, extensions.SandboxClaimKind) != nil {
			w.fail("a claim's Sandbox stays its own", "Sandbox %s was claim %s's and is %s's", after.Name, control.ControllerUID(before), owner)
		}
	}
	if record := w.records[owner]; record != nil {
		record.mine[after.UID] = true
		w.atMostOne(owner)
		if before == nil {
			w.madeFor(record, after)
		} else {
			w.adopted(record, before, after)
		}
	}
}

// notDeleted: nobody deletes a Sandbox that a claim is bound to. What goes on with the
// claim is its own.
func (w *watcher) notDeleted(before, after *agents.Sandbox) {
	if before.DeletionTimestamp != nil || after != nil && after.DeletionTimestamp == nil {
		return
	}
	for _, c := range w.Claims {
		if c.Status.Sandbox.UID != before.UID || c.DeletionTimestamp != nil || !control.IsControlledBy(before, c.UID) {
			continue
		}
		if ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady); ready == nil || ready.Reason != extensions.ReasonClaimExpired {
			w.fail("a bound Sandbox is not deleted", "Sandbox %s was deleted, to which claim %s is bound", before.Name, c.Name)
		}
	}
}

func (w *watcher) foreignKey(before, after *agents.Sandbox) {
	was, there := before.Spec.PodTemplate.Metadata.Annotations[ForeignKey]
	if is := after.Spec.PodTemplate.Metadata.Annotations[ForeignKey]; before.UID == after.UID && there && is != was {
		w.fail("foreign keys survive", "another controller's annotation on Sandbox %s was %q and is %q", after.Name, was, is)
	}
}

// members: a pool never has more than its replicas, those that are going included.
func (w *watcher) members(made *agents.Sandbox) {
	pool := control.ControllerOf(made, extensions.GroupName, extensions.SandboxWarmPoolKind)
	if pool == nil {
		return
	}
	if members := len(w.ownSandboxes(pool.UID)); members > w.limits[pool.UID] {
		w.fail("a pool has no more members than replicas", "pool %s has %d members and never had more than %d replicas",
			pool.Name, members, w.limits[pool.UID])
	}
}

// atMostOne: a claim controls one Sandbox.
func (w *watcher) atMostOne(claim types.UID) {
	var live []string
	for _, s := range w.ownSandboxes(claim) {
		if s.DeletionTimestamp == nil {
			live = append(live, s.Name)
		}
	}
	if len(live) > 1 {
		w.fail("one Sandbox per claim", "claim %s controls %v", claim, live)
	}
}

// adopted looks at an adoption of a pool's member.
func (w *watcher) adopted(claim *record, before, after *agents.Sandbox) {
	pool := control.ControllerOf(before, extensions.GroupName, extensions.SandboxWarmPoolKind)
	switch {
	case pool == nil:
		w.fail("only members are adopted", "Sandbox %s was adopted, which was no pool's", after.Name)
	case before.DeletionTimestamp != nil:
		w.fail("only members are adopted", "Sandbox %s was adopted, which is being deleted", after.Name)
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		w.fail("adoption leaves the spec alone", "the spec of Sandbox %s changed", after.Name)
	case !blueprint.Intact(before):
		w.fail("only members are adopted", "Sandbox %s was adopted, which is suspended or has an end", after.Name)
	case !w.served[after.UID]:
		w.fail("only members that are ready are adopted", "Sandbox %s was adopted, which never had a pod that served", after.Name)
	case w.forbidden(claim, pool.Name, func(t *extensions.SandboxTemplate) bool { return blueprint.Matches(before, t) }):
		w.fail("no claim gets an older blueprint under Recreate",
			"Sandbox %s was adopted, which was of an older blueprint before the claim was created", after.Name)
	}
}

// madeFor looks at a Sandbox that was made for a claim.
func (w *watcher) madeFor(record *record, s *agents.Sandbox) {
	claim := w.Claims[s.Name]
	if claim == nil || !control.IsControlledBy(s, claim.UID) || claim.PoolName() == "" {
		return
	}
	if slices.Contains(since(w.poolsWere[claim.PoolName()], record.created), nil) {
		return // a template of the claim's own may have taken the pool's place
	}
	image := func(spec corev1.PodSpec) string { return spec.Containers[0].Image }
	made := image(s.Spec.PodTemplate.Spec)
	if w.forbidden(record, claim.PoolName(), func(t *extensions.SandboxTemplate) bool { return image(t.Spec.PodTemplate.Spec) == made }) {
		w.fail("no claim gets an older blueprint under Recreate",
			"Sandbox %s was made with %s, which was older before the claim was created", s.Name, made)
	}
}

// forbidden reports whether a claim may not get a Sandbox of a blueprint: at all times
// since the claim was created its pool was under Recreate, and the template another.
func (w *watcher) forbidden(claim *record, pool string, matches func(*extensions.SandboxTemplate) bool) bool {
	for _, p := range since(w.poolsWere[pool], claim.created) {
		if p == nil {
			continue
		}
		if p.UpdateStrategyType() != extensions.WarmPoolRecreate {
			return false
		}
		for _, t := range since(w.templWere[p.Spec.TemplateRef.Name], claim.created) {
			if t != nil && matches(t) {
				return false
			}
		}
	}
	return true
}

func (w *watcher) claimChanged(before, after *extensions.SandboxClaim) {
	if after == nil {
		return
	}
	claim := w.records[after.UID]
	if claim == nil {
		claim = &record{created: w.revision, mine: map[types.UID]bool{}}
		w.records[after.UID] = claim
	}
	w.binding(claim, after)
	if before != nil && before.UID == after.UID {
		w.notFound(claim, before, after)
	}
}

// binding: a claim is bound once, to a Sandbox of its own that is bound to no other.
func (w *watcher) binding(claim *record, after *extensions.SandboxClaim) {
	was, is := claim.bound, after.Status.Sandbox
	switch {
	case was.UID != "" && (is.Name != was.Name || is.UID != was.UID):
		w.fail("a binding lasts", "claim %s was bound to %s (%s) and is bound to %q (%s)", after.Name, was.Name, was.UID, is.Name, is.UID)
	case was.UID != "" || is.UID == "":
		return
	}
	if !claim.mine[is.UID] {
		w.fail("a claim is bound to its own", "claim %s is bound to Sandbox %s (%s), which was never the claim's", after.Name, is.Name, is.UID)
	}
	if other, taken := w.boundBy[is.UID]; taken && other != after.UID {
		w.fail("a Sandbox is bound to one claim", "Sandbox %s was bound to claim %s and is bound to %s, named %s", is.Name, other, after.UID, after.Name)
	}
	claim.bound, w.boundBy[is.UID] = is, after.UID
	w.steps++
}

// notFound: a claim says that its pool or template does not exist only if that was so.
func (w *watcher) notFound(claim *record, before, after *extensions.SandboxClaim) {
	is := readyReason(after)
	if readyReason(before) == is {
		return
	}
	switch is {
	case extensions.ReasonWarmPoolNotFound:
		if !slices.Contains(since(w.poolsWere[after.PoolName()], claim.created), nil) {
			w.fail("absence is proved", "claim %s says that its pool does not exist, which it always did", after.Name)
		}
	case extensions.ReasonTemplateNotFound:
		names := []string{after.TemplateName()}
		for _, p := range since(w.poolsWere[after.PoolName()], claim.created) {
			if p != nil {
				names = append(names, p.Spec.TemplateRef.Name)
			}
		}
		for _, name := range names {
			if name != "" && slices.Contains(since(w.templWere[name], claim.created), nil) {
				return
			}
		}
		w.fail("absence is proved", "claim %s says that its template does not exist, which it always did", after.Name)
	}
}

func readyReason(c *extensions.SandboxClaim) string {
	if ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}
