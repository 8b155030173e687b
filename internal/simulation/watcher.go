// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// watcher holds the invariants. It sees every change on the server, which no replica
// does, and remembers what there was.
type watcher struct {
	run     *Run
	overlap overlap
	// bestowed are Sandboxes that a user gave to a claim.
	bestowed map[types.UID]bool
	// tried is what the first pass had seen that tried to adopt each Sandbox. An adoption
	// whose outcome is unknown is repeated, whatever became of the pod.
	tried map[client.ObjectKey]uint64
	// triedMaking is what the first pass had seen of pools that tried to make a Sandbox for
	// each claim: the same Sandbox, until it is known that there is one.
	triedMaking map[types.UID]uint64
	budget      budget
	// named counts the writes that only name members a claim passed over.
	named int
	// echoes are the objects whose status was last written by somebody who does not
	// lead: it looks like the leader's own writing.
	echoes map[thing]bool
	// made is when something of each name was made last.
	made     map[thing]time.Time
	evidence evidence
	claims   map[types.UID]*claimRecord
	pods     map[types.UID]bool   // were ever a Sandbox's
	owners   map[types.UID]bool   // Sandboxes that ever had a pod
	stamps   map[types.UID]string // of another controller, by Sandbox
	// Every state of those that there ever was, by name; nil is absence.
	pools, templates, claimed map[string][]client.Object
	since                     map[string][]uint64 // since which version, by resource and name
	agents                    *agentWatcher       // nil unless the run is about AgentRuntimes
}

type claimRecord struct {
	created uint64
	mine    map[types.UID]bool // Sandboxes that were ever the claim's
}

func (w *watcher) begin(run *Run) {
	*w = watcher{
		run: run, claims: map[types.UID]*claimRecord{}, pods: map[types.UID]bool{}, owners: map[types.UID]bool{}, stamps: map[types.UID]string{},
		echoes: map[thing]bool{}, bestowed: map[types.UID]bool{}, tried: map[client.ObjectKey]uint64{},
		triedMaking: map[types.UID]uint64{}, made: map[thing]time.Time{}, evidence: evidence{},
		pools: map[string][]client.Object{}, templates: map[string][]client.Object{}, claimed: map[string][]client.Object{}, since: map[string][]uint64{},
	}
	if run.settings.World == Agents {
		w.agents = newAgentWatcher(w)
	}
}

// changed is told of every change on the server; before and after must not be
// modified.
func (w *watcher) changed(resource string, before, after client.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	// A Sandbox of somebody else is one all the same.
	if w.run.writer != nil && obj.GetLabels()[foreign] != "" && w.run.writer.controller != "sandbox" {
		w.run.fail(foreignObjects, "%s wrote to %s %s", w.run.writer, resource, obj.GetName())
	}
	if before == nil {
		w.made[thing{resource, client.ObjectKeyFromObject(obj)}] = w.run.clock.Now()
	}
	if w.run.writer == nil {
		w.budget.causes++
	}
	w.echoed(resource, before, after)
	if w.agents != nil {
		w.agents.changed(resource, before, after)
	}
	switch resource {
	case "pods":
		w.evidence.changed(w.run, asPod(before), asPod(after))
		w.podChanged(asPod(before), asPod(after))
	case "sandboxes":
		w.sandboxChanged(asSandbox(before), asSandbox(after))
	case "sandboxclaims":
		w.remember(w.claimed, resource, obj.GetName(), after)
		w.claimChanged(asClaim(before), asClaim(after))
	case "sandboxwarmpools":
		w.remember(w.pools, resource, obj.GetName(), after)
	case "sandboxtemplates":
		w.remember(w.templates, resource, obj.GetName(), after)
	}
}

func (w *watcher) remember(states map[string][]client.Object, resource, name string, after client.Object) {
	states[name] = append(states[name], after)
	w.since[resource+"/"+name] = append(w.since[resource+"/"+name], w.run.server.version)
}

// statesSince returns the states an object had at some time since a version; nil among
// them is absence.
func (w *watcher) statesSince(states map[string][]client.Object, resource, name string, version uint64) []client.Object {
	since := w.since[resource+"/"+name]
	at := len(since)
	for at > 0 && since[at-1] > version {
		at--
	}
	var found []client.Object
	if at == 0 {
		found = append(found, nil) // it did not exist yet
	} else {
		at--
	}
	return append(found, states[name][at:]...)
}

func (w *watcher) podChanged(before, after *corev1.Pod) {
	run := w.run
	if run.writer != nil && before != nil && before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil) && !w.pods[before.UID] {
		run.fail(ownPods, "%s deleted pod %s, which was never a Sandbox's", run.writer, before.Name)
	}
	if after == nil {
		return
	}
	owner := control.ControllerUID(after)
	if owner == "" {
		return
	}
	w.pods[after.UID], w.owners[owner] = true, true
	if after.DeletionTimestamp != nil {
		return
	}
	if before != nil && control.ControllerUID(before) == owner && before.DeletionTimestamp == nil {
		return
	}
	live := 0
	for _, obj := range run.server.peek("pods") {
		if obj.GetDeletionTimestamp() == nil && control.ControllerUID(obj) == owner {
			live++
		}
	}
	if live > 1 {
		run.fail(onePod, "Sandbox %s has %d live pods", owner, live)
	}
}

// echoed remembers whose status was written by somebody who does not lead.
func (w *watcher) echoed(resource string, before, after client.Object) {
	if after == nil {
		return
	}
	if at := (thing{resource, client.ObjectKeyFromObject(after)}); w.run.writer != nil {
		delete(w.echoes, at)
		if before != nil && !w.run.writer.leads(w.run) {
			w.echoes[at] = true
		}
	}
}

// thing is an object, whatever its UID.
type thing struct {
	resource string
	key      client.ObjectKey
}

func asPod(obj client.Object) *corev1.Pod {
	pod, _ := obj.(*corev1.Pod)
	return pod
}

func asSandbox(obj client.Object) *agents.Sandbox {
	s, _ := obj.(*agents.Sandbox)
	return s
}

func asClaim(obj client.Object) *extensions.SandboxClaim {
	c, _ := obj.(*extensions.SandboxClaim)
	return c
}

func asPool(obj client.Object) *extensions.SandboxWarmPool {
	p, _ := obj.(*extensions.SandboxWarmPool)
	return p
}

func asTemplate(obj client.Object) *extensions.SandboxTemplate {
	t, _ := obj.(*extensions.SandboxTemplate)
	return t
}
