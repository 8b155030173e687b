// SPDX-License-Identifier: Apache-2.0

package simulation

// The rules that hold after every change.
const (
	onePod             = "one live pod per Sandbox"
	ownPods            = "only its own pods are deleted"
	ownLivePod         = "only its own live pod makes a Sandbox Ready"
	bindingLasts       = "a binding lasts"
	boundToOwn         = "a claim is bound to its own"
	boundLives         = "a bound Sandbox is not deleted"
	onePerClaim        = "one Sandbox per claim"
	membersOnly        = "only members are adopted"
	readyOnly          = "only members that are ready are adopted"
	specLeftAlone      = "adoption leaves the spec alone"
	freshBlueprint     = "no claim gets an older blueprint under Recreate"
	poolSize           = "a pool has no more members than replicas"
	surplusLater       = "surplus goes once the status names another"
	poolDeletesMembers = "a pool deletes only its members"
	absenceProved      = "absence is proved"
	foreignKeys        = "foreign keys survive"
	foreignObjects     = "foreign objects are left alone"
	noIdleWrites       = "no write changes nothing"
	noPanic            = "panic"
)

// The rules about AgentRuntimes that hold after every change.
const (
	onlyOutdated   = "a restart is not done twice"
	saidFirst      = "a restart is announced first"
	othersKeys     = "a restart touches nothing of others"
	poolsUnstamped = "a pool's Sandbox is not stamped"
	trueConfig     = "what is stamped is the configuration"
	trueStatus     = "no pod from before the stamps counts"
	fewAtOnce      = "no more roll out at once than may"
)

// The rules that hold once a run was left alone.
const (
	comesToRest     = "comes to rest"
	nothingOrphaned = "nothing is orphaned"
	deletedGoes     = "what is deleted goes"
	sandboxSays     = "every Sandbox has a status"
	sandboxPod      = "a Sandbox has its pod"
	sandboxTruth    = "a Sandbox says how it is"
	claimSays       = "every claim has a status"
	claimTruth      = "a claim is bound or says why not"
	poolFull        = "pools are full"
	poolCurrent     = "pools are up to date"
	poolTruth       = "a pool says how it is"
	templatePolicy  = "a template has its NetworkPolicy"
	policyGoes      = "a NetworkPolicy goes with the last Sandbox"
	withinBudget    = "writes have causes"
	noWrites        = "no writes at rest"
	runtimeSays     = "every AgentRuntime has a status"
	runtimeTruth    = "a restart is not lost"
	nothingLeft     = "nothing is left of an AgentRuntime that is gone"
)
