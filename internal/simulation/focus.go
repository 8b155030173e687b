// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// focus is what a run is about. A small world in which few things happen over and over
// finds more than a large one in which everything happens now and then, so half of the
// runs are of a small one.
type focus struct {
	name string
	// replicas is how many processes there are.
	replicas int
	// templates, pools, claims and sandboxes are how many there are at most. Sandboxes
	// are those that users make themselves. Claims and Sandboxes take their names in turns.
	templates, pools, claims, sandboxes int
	// stocked: pools have several members, and are full when the first claims come.
	stocked bool
	// strategy of the pools; none is any.
	strategy extensions.SandboxWarmPoolUpdateStrategyType
	// deeds are what users do, the likelier the more often it is listed.
	deeds []deed
	// users, kubelet, requests and upheaval are how likely it is that users do something,
	// something happens to a pod, a late request arrives, a process fails.
	users, kubelet, arrival, upheaval int
	// notices is how soon a process that was paused goes on, and then notices that it has
	// lost the lease.
	notices int
	// oneFault is that one request in so many meets a fault, of those listed.
	oneFault int
	// oneIll is that one thing in so many that happens to a pod is bad.
	oneIll int
	fates  []fate
	// oneStop is that one read in so many is interrupted between its parts.
	oneStop int
	// sweeps: a view is often swept right after its informer has moved.
	sweeps bool
	// unfenced: old leaders write on.
	unfenced bool

	// agents is more about a world of AgentRuntimes.
	agents agentFocus
}

// everything is the large world.
func everything() focus {
	return focus{
		name: "everything", replicas: 2, templates: 2, pools: 2, claims: 6, sandboxes: 3, deeds: everyday(),
		users: 30, kubelet: 80, arrival: 30, upheaval: 1, notices: 10, oneFault: 12, fates: anyFate(), oneIll: 10, oneStop: 24,
	}
}

func anyFate() []fate {
	return []fate{arrives, conflicts, isLost, isLate, losesItsReply, isSentTwice, isThrottled}
}

// foci are the small worlds.
func foci() []focus {
	unknown := []fate{isLate, losesItsReply, isSentTwice, isLate, losesItsReply, isSentTwice, isLost, conflicts}
	return []focus{
		{
			name: "claims whose requests fail", replicas: 1, templates: 1, pools: 1, claims: 4, stocked: true,
			deeds: deeds(times(4, makeClaim), times(3, dropClaim), times(1, dropSandbox, suspend, changeClaim, scalePool, dropPod, bestow)),
			users: 30, kubelet: 80, arrival: 8, upheaval: 0, oneFault: 4, fates: unknown, oneIll: 60, oneStop: 24,
		},
		{
			name: "requests that arrive late", replicas: 1, templates: 1, pools: 1, claims: 2, stocked: true,
			deeds: deeds(times(4, suspend), times(2, makeClaim, dropSandbox), times(1, dropClaim, remake, changeClaim)),
			users: 60, kubelet: 80, arrival: 3, upheaval: 0, oneFault: 5, fates: []fate{isLate, isLate, losesItsReply}, oneIll: 60, oneStop: 24,
		},
		{
			name: "templates that are edited", replicas: 1, templates: 2, pools: 1, claims: 3, stocked: true, strategy: extensions.WarmPoolRecreate,
			deeds: deeds(times(4, makeClaim, editTemplate), times(2, dropClaim), times(1, switchPool, revertTemplate, dropTemplate, replace)),
			users: 60, kubelet: 80, arrival: 30, upheaval: 0, oneFault: 20, fates: anyFate(), oneIll: 60, oneStop: 24,
		},
		{
			name: "names that are used again", replicas: 1, templates: 1, pools: 0, claims: 1, sandboxes: 1,
			deeds: deeds(times(4, remake, suspend), times(2, dropPod, forge, olden, replace, makeClaim), times(1, strip, dropSandbox, stampSandbox, dropService)),
			users: 60, kubelet: 30, arrival: 30, upheaval: 0, oneFault: 12, fates: anyFate(), oneIll: 10, oneStop: 24,
		},
		{
			name: "pools that are resized", replicas: 1, templates: 1, pools: 1, claims: 1,
			deeds: deeds(times(5, scalePool), times(3, dropSandbox), times(2, editTemplate, dropPod, olden), times(1, makeClaim, dropClaim, remake, strip)),
			users: 40, kubelet: 30, arrival: 8, upheaval: 0, oneFault: 4, fates: unknown, oneIll: 60, oneStop: 24,
		},
		{
			name: "leaders that come and go", replicas: 2, templates: 1, pools: 1, claims: 5, stocked: true,
			deeds: deeds(times(4, makeClaim), times(2, dropClaim), times(1, scalePool, bestow)),
			users: 60, kubelet: 80, arrival: 8, upheaval: 3, notices: 2, oneFault: 10, fates: unknown, oneIll: 60, oneStop: 24, unfenced: true,
		},
		{
			name: "reads that are interrupted", replicas: 1, templates: 1, pools: 1, claims: 2, sandboxes: 1, stocked: true,
			deeds: deeds(times(3, scalePool, dropSandbox), times(1, makeClaim, dropClaim, suspend, dropPod)),
			users: 30, kubelet: 80, arrival: 30, upheaval: 0, oneFault: 30, fates: anyFate(), oneIll: 60, oneStop: 8, sweeps: true,
		},
	}
}

// chooseFocus decides what the run is about.
func (run *Run) chooseFocus() {
	small, large := foci(), everything()
	if run.settings.World == Agents {
		small, large = agentFoci(), allAgents()
	}
	run.focus = large
	if n := run.choices.Pick(2 * len(small)); n >= len(small) {
		run.focus = small[n-len(small)]
	}
	run.note("a run about %s", run.focus.name)
}

// matters is the controller whose passes are worth pausing in.
func (f focus) matters() string {
	if f.agents.runtimes > 0 {
		return "agentruntime"
	}
	return "claim"
}

// fate returns what becomes of the next request.
func (run *Run) fate() fate {
	if !run.faulty || !run.choices.Chance(run.focus.oneFault) {
		return arrives
	}
	run.watch.budget.causes++
	return run.focus.fates[run.choices.Pick(len(run.focus.fates))]
}
