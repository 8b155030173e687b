// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

// Mutation is a known bug of the field, put back for the proof that the invariants
// notice. The zero value is none. Each stands between the controllers and their views
// or the server: the controllers themselves are those of production.
type Mutation string

// The mutations.
const (
	NoOverlay              Mutation = "reads do not show one's own writes"
	ItemBeforeVersion      Mutation = "the item is read before the store's version"
	StoreBeforeEntry       Mutation = "the store is read before the overlay's entry"
	AdoptUnconditionally   Mutation = "a member is adopted whatever it has become"
	BindUnconditionally    Mutation = "a claim is bound whatever it has become"
	SecondCandidate        Mutation = "after an unknown outcome another member is adopted"
	SurplusBeforeBinding   Mutation = "surplus is deleted before the status names the winner"
	DeleteMembersByUID     Mutation = "a pool deletes whatever its member has become"
	TerminatingIsCurrent   Mutation = "a terminating pod counts as live"
	TrustPodName           Mutation = "the pod that an annotation names is the Sandbox's"
	OwnerByName            Mutation = "owners are compared by name"
	OwnerByVersion         Mutation = "owners are compared by apiVersion"
	ForgetTerminating      Mutation = "a pool forgets its terminating members"
	ForgetInFlight         Mutation = "a pool forgets creates with an unknown outcome"
	NoBlueprintCheck       Mutation = "a member is adopted whatever its blueprint"
	ReplacePodTemplate     Mutation = "a claim replaces the whole podTemplate"
	AlreadyExistsIsFailure Mutation = "AlreadyExists counts as a refusal"
	AbsenceFromCache       Mutation = "absence is taken from the cache"
)

// Mutations are all of them.
func Mutations() []Mutation {
	return []Mutation{
		NoOverlay, ItemBeforeVersion, StoreBeforeEntry, AdoptUnconditionally, BindUnconditionally, SecondCandidate,
		SurplusBeforeBinding, DeleteMembersByUID, TerminatingIsCurrent, TrustPodName, OwnerByName, OwnerByVersion,
		ForgetTerminating, ForgetInFlight, NoBlueprintCheck, ReplacePodTemplate, AlreadyExistsIsFailure, AbsenceFromCache,
	}
}

// controller names the one controller that has the bug; empty is all.
func (m Mutation) controller() string {
	switch m {
	case SecondCandidate, SurplusBeforeBinding, NoBlueprintCheck:
		return "claim"
	case DeleteMembersByUID, ForgetTerminating, ForgetInFlight:
		return "warmpool"
	case TrustPodName, OwnerByName:
		return "sandbox"
	default:
		return ""
	}
}

// mutated returns the views as the named controller of a replica gets them.
func (r *replica) mutated(controller string, views kinds.Views) kinds.Views {
	m := r.run.settings.Mutation
	if controller == "agentruntime" {
		return r.mutatedAgents(views)
	}
	if only := m.controller(); only != "" && only != controller {
		return views
	}
	switch m {
	case SecondCandidate:
		views.Sandboxes = &fickle{Kind: views.Sandboxes, given: map[types.NamespacedName]bool{}}
	case SurplusBeforeBinding:
		views.Sandboxes = &hasty{views.Sandboxes, r}
	case DeleteMembersByUID:
		views.Sandboxes = &careless{views.Sandboxes}
	case ForgetTerminating:
		views.Sandboxes = &forgetful{views.Sandboxes}
	case ForgetInFlight:
		views.Sandboxes = &unaware{views.Sandboxes}
	case NoBlueprintCheck:
		views.WarmPools = &lenient{views.WarmPools}
	case AbsenceFromCache:
		views.WarmPools = &cached[*extensions.SandboxWarmPool]{views.WarmPools}
		views.Templates = &cached[*extensions.SandboxTemplate]{views.Templates}
		views.Sandboxes = &cached[*agents.Sandbox]{views.Sandboxes}
	case TerminatingIsCurrent:
		views.Pods = &undying{views.Pods}
	case TrustPodName, OwnerByName:
		views.Pods = &misled{views.Pods, r, m}
	case OwnerByVersion:
		views.Pods = &literal[*corev1.Pod]{views.Pods}
		views.Sandboxes = &literal[*agents.Sandbox]{views.Sandboxes}
	}
	return views
}

func (run *Run) mutatedError(err error) error {
	if run.settings.Mutation == AlreadyExistsIsFailure && apierrors.IsAlreadyExists(err) {
		return apierrors.NewForbidden(run.server.tables["sandboxes"].resource, "", err)
	}
	return err
}

func (run *Run) mutatedPatch(resource, subresource string, body []byte) []byte {
	m := run.settings.Mutation
	if m != AdoptUnconditionally && m != BindUnconditionally && m != ReplacePodTemplate {
		return body
	}
	var patch map[string]any
	if json.Unmarshal(body, &patch) != nil {
		return body
	}
	metadata, _ := patch["metadata"].(map[string]any)
	_, adopts := metadata["ownerReferences"]
	switch {
	case m == AdoptUnconditionally && resource == "sandboxes" && adopts, m == BindUnconditionally && resource == "sandboxclaims" && subresource == "status":
		delete(metadata, "resourceVersion")
	case m == ReplacePodTemplate && resource == "sandboxes" && adopts:
		patch["spec"] = map[string]any{"podTemplate": map[string]any{"metadata": nil}}
	}
	changed, err := json.Marshal(patch)
	if err != nil {
		return body
	}
	return changed
}

// snapshot is a store as it was.
type snapshot struct {
	items   map[types.NamespacedName]client.Object
	version uint64
}

// freeze shows the current task the items of now, and the version if it is not 0,
// until the next freeze.
func (i *informer) freeze(version uint64) {
	if i.replica.current == nil {
		return
	}
	if i.frozen == nil {
		i.frozen = map[*task]snapshot{}
	}
	i.frozen[i.replica.current] = snapshot{maps.Clone(i.items), version}
}

func (i *informer) thaw() { delete(i.frozen, i.replica.current) }

// NoticedBy are the rules that a mutation breaks. A run that fails for another reason
// proves nothing about it.
func (m Mutation) NoticedBy() []string {
	if rules, ok := agentsNotice()[m]; ok {
		return rules
	}
	return map[Mutation][]string{
		NoOverlay:              {poolSize, onePerClaim},
		ItemBeforeVersion:      {poolSize, onePerClaim},
		StoreBeforeEntry:       {poolSize, onePerClaim},
		AdoptUnconditionally:   {membersOnly, onePerClaim},
		BindUnconditionally:    {bindingLasts, claimTruth},
		SecondCandidate:        {onePerClaim},
		SurplusBeforeBinding:   {surplusLater, boundLives, bindingLasts},
		DeleteMembersByUID:     {poolDeletesMembers, boundLives},
		TerminatingIsCurrent:   {ownLivePod, readyOnly},
		TrustPodName:           {ownLivePod, ownPods},
		OwnerByName:            {ownLivePod, ownPods},
		OwnerByVersion:         {poolSize, onePerClaim, sandboxPod, sandboxTruth},
		ForgetTerminating:      {poolSize},
		ForgetInFlight:         {poolSize},
		NoBlueprintCheck:       {freshBlueprint},
		ReplacePodTemplate:     {foreignKeys, specLeftAlone},
		AlreadyExistsIsFailure: {poolSize, onePerClaim},
		AbsenceFromCache:       {absenceProved},
	}[m]
}
