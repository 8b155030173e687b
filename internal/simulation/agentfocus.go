// SPDX-License-Identifier: Apache-2.0

package simulation

// maker is who makes the pods of Sandboxes.
type maker int

const (
	anyMaker maker = iota
	berth
	publicController
)

// agentFocus is what a run about AgentRuntimes is about, besides.
type agentFocus struct {
	// maker is who makes the pods of Sandboxes.
	maker maker
	// runtimes is how many AgentRuntimes there are at most.
	runtimes int
	// limit is how many may roll out at once; 0 is any number of them.
	limit int
	// laggard: the public controller's caches lag behind for long.
	laggard bool
}

// pace is how readily the public controller's caches are brought up to date.
func (f agentFocus) pace() int {
	if f.laggard {
		return 8
	}
	return 60
}

// allAgents is the large world.
func allAgents() focus {
	return focus{
		name: "agents and everything around them", replicas: 2, templates: 1, pools: 1, claims: 2, sandboxes: 2, agents: agentFocus{runtimes: 4},
		deeds: deeds(
			times(6, editConfig), times(3, suspend, addRuntime), times(2, dropRuntime, wipeStamps, dropPod, pauseRuntime, editRuntime, retarget, onBerth(makeClaim)),
			times(1, forgetPodName, noteSomething, contest, replaceTarget, dropSandbox, remakeTarget, onBerth(dropClaim), onBerth(scalePool), onBerth(editTemplate)),
		),
		users: 20, kubelet: 60, arrival: 30, upheaval: 1, notices: 10, oneFault: 12, fates: anyFate(), oneIll: 20, oneStop: 24,
	}
}

// agentFoci are the small worlds.
func agentFoci() []focus {
	unknown := []fate{isLate, losesItsReply, isSentTwice, isLate, losesItsReply, isSentTwice, isLost, conflicts}
	return []focus{
		{
			name: "restarts beside the public controller", replicas: 1, sandboxes: 1, agents: agentFocus{maker: publicController, runtimes: 1, laggard: true},
			deeds: deeds(times(6, editConfig), times(1, suspend, dropPod, noteSomething, editRuntime, replaceTarget)),
			users: 20, kubelet: 40, arrival: 8, upheaval: 0, notices: 10, oneFault: 8, fates: anyFate(), oneIll: 60, oneStop: 24,
		},
		{
			name: "suspended while its pod is replaced", replicas: 1, sandboxes: 1, agents: agentFocus{maker: anyMaker, runtimes: 1, laggard: true},
			deeds: deeds(times(4, suspend), times(3, editConfig), times(2, forgetPodName), times(1, dropPod, pauseRuntime)),
			users: 40, kubelet: 12, arrival: 8, upheaval: 0, notices: 10, oneFault: 12, fates: anyFate(), oneIll: 60, oneStop: 24,
		},
		{
			name: "crashes between two writes", replicas: 2, sandboxes: 1, agents: agentFocus{maker: anyMaker, runtimes: 2},
			deeds: deeds(times(5, editConfig), times(1, addRuntime, dropRuntime, suspend, editRuntime)),
			users: 20, kubelet: 60, arrival: 8, upheaval: 6, notices: 2, oneFault: 8, fates: unknown, oneIll: 60, oneStop: 24, unfenced: true,
		},
		{
			name: "restarts that arrive late", replicas: 1, sandboxes: 1, agents: agentFocus{maker: anyMaker, runtimes: 1},
			deeds: deeds(times(4, editConfig), times(3, dropPod), times(1, suspend)),
			users: 30, kubelet: 80, arrival: 3, upheaval: 0, notices: 10, oneFault: 4, fates: []fate{isLate, isLate, losesItsReply}, oneIll: 60, oneStop: 24,
		},
		{
			name: "many rollouts and few at a time", replicas: 1, sandboxes: 4, agents: agentFocus{maker: anyMaker, runtimes: 4, limit: 1},
			deeds: deeds(times(5, editConfig), times(1, pauseRuntime, suspend, dropPod, dropRuntime, addRuntime)),
			users: 12, kubelet: 60, arrival: 6, upheaval: 0, notices: 10, oneFault: 6, fates: unknown, oneIll: 60, oneStop: 24,
		},
		{
			name: "AgentRuntimes that come, go and change their minds", replicas: 1, sandboxes: 2, agents: agentFocus{maker: anyMaker, runtimes: 3},
			deeds: deeds(times(4, addRuntime, dropRuntime, retarget), times(2, editConfig, remakeTarget), times(1, dropSandbox, replaceTarget, editRuntime, suspend)),
			users: 30, kubelet: 60, arrival: 8, upheaval: 0, notices: 10, oneFault: 10, fates: unknown, oneIll: 60, oneStop: 24,
		},
		{
			name: "others who write to the same Sandbox", replicas: 1, sandboxes: 2, agents: agentFocus{maker: anyMaker, runtimes: 2},
			deeds: deeds(times(3, wipeStamps, editConfig), times(2, contest, noteSomething, suspend), times(1, forgetPodName, dropRuntime, addRuntime)),
			users: 20, kubelet: 60, arrival: 8, upheaval: 0, notices: 10, oneFault: 12, fates: anyFate(), oneIll: 60, oneStop: 24,
		},
		{
			name: "Sandboxes of pools and claims", replicas: 1, templates: 1, pools: 1, claims: 3, agents: agentFocus{maker: berth, runtimes: 3},
			deeds: deeds(times(3, makeClaim, retarget, editConfig), times(1, dropClaim, changeClaim, scalePool, editTemplate, suspend, addRuntime, dropRuntime)),
			users: 20, kubelet: 80, arrival: 8, upheaval: 0, notices: 10, oneFault: 16, fates: anyFate(), oneIll: 60, oneStop: 24,
		},
	}
}
