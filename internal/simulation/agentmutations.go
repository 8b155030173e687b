// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/workload"
)

// The mutations of the controller of AgentRuntimes.
const (
	StampThenRecord    Mutation = "the hash is written first, and what has to be restarted later"
	TrustPodAnnotation Mutation = "the annotation on a pod says what it was made from"
	MarkTooEarly       Mutation = "pods are written down before the stamps were seen"
	RestartAnyPod      Mutation = "pods that came later are restarted too"
	UnannouncedRestart Mutation = "that a restart begins is kept in memory"
	UnlimitedRestarts  Mutation = "restarts of others are not counted"
	UnreadableIsEmpty  Mutation = "a ConfigMap that cannot be read counts as none"
	ForgetPodName      Mutation = "a restart takes the pod's name off the Sandbox"
	StampPools         Mutation = "members of pools are stamped"
	BelieveCachedPods  Mutation = "pods that only a cache shows count as configured"
	DeletePodsByName   Mutation = "a restart deletes whatever has the pod's name"
)

// AgentMutations are those of the world of AgentRuntimes.
func AgentMutations() []Mutation {
	return []Mutation{
		StampThenRecord, TrustPodAnnotation, MarkTooEarly, RestartAnyPod,
		UnannouncedRestart, UnlimitedRestarts, UnreadableIsEmpty, ForgetPodName, StampPools,
		BelieveCachedPods, DeletePodsByName,
	}
}

// agentsNotice are the rules that the mutations of the controller of AgentRuntimes break.
func agentsNotice() map[Mutation][]string {
	return map[Mutation][]string{
		StampThenRecord:    {trueStatus, runtimeTruth},
		TrustPodAnnotation: {trueStatus, runtimeTruth},
		MarkTooEarly:       {trueStatus, runtimeTruth},
		RestartAnyPod:      {onlyOutdated},
		UnannouncedRestart: {saidFirst},
		UnlimitedRestarts:  {fewAtOnce},
		UnreadableIsEmpty:  {trueConfig},
		ForgetPodName:      {othersKeys},
		StampPools:         {poolsUnstamped},
		BelieveCachedPods:  {trueStatus},
		DeletePodsByName:   {onlyOutdated},
	}
}

// mutatedAgents returns the views as the controller of AgentRuntimes gets them.
func (r *replica) mutatedAgents(views kinds.Views) kinds.Views {
	boxes := func(alter func(*agents.Sandbox)) *altered { return &altered{views.Sandboxes, alter} }
	switch r.run.settings.Mutation {
	case StampThenRecord:
		views.Sandboxes = &inTwoWrites{boxes(func(s *agents.Sandbox) {
			if is := stampsOf(s); is.ConfigHash != "" && recordOn(s).Stamps != is {
				setRecord(s, workload.Record{Runtime: r.holder(s), Stamps: is, Generation: s.Generation, Observed: true})
			}
		})}
	case TrustPodAnnotation:
		views.Sandboxes = boxes(func(s *agents.Sandbox) {
			record := recordOn(s)
			for _, pod := range r.podsOf(s) {
				if record.Stamps == stampsOf(s) && stampsOn(pod.GetLabels(), pod.GetAnnotations()) == record.Stamps {
					record.Observed = true
					record.Pods = slices.DeleteFunc(record.Pods, func(uid types.UID) bool { return uid == pod.GetUID() })
					setRecord(s, record)
				}
			}
		})
	case MarkTooEarly:
		views.Sandboxes = boxes(func(s *agents.Sandbox) {
			for i := range s.Status.Conditions {
				s.Status.Conditions[i].ObservedGeneration = s.Generation
			}
		})
	case RestartAnyPod:
		views.Sandboxes = boxes(func(s *agents.Sandbox) {
			if record := recordOn(s); record.Observed {
				for _, pod := range r.podsOf(s) {
					record.Pods = append(record.Pods, pod.GetUID())
				}
				setRecord(s, record)
			}
		})
	case StampPools:
		views.Sandboxes = boxes(func(s *agents.Sandbox) { s.OwnerReferences = nil })
	default:
		views = r.mutatedAroundAgents(views)
	}
	return views
}

// mutatedAroundAgents are the mutations that show Sandboxes as they are.
func (r *replica) mutatedAroundAgents(views kinds.Views) kinds.Views {
	switch r.run.settings.Mutation {
	case UnannouncedRestart:
		views.AgentRuntimes = &silent{views.AgentRuntimes, map[types.UID]string{}}
	case UnlimitedRestarts:
		views.AgentRuntimes = &boundless{views.AgentRuntimes}
	case UnreadableIsEmpty:
		views.ConfigMaps = &hopeful{views.ConfigMaps}
	case ForgetPodName:
		views.Pods = &meddling{views.Pods, views.Sandboxes}
	case BelieveCachedPods:
		views.Pods = &believing{views.Pods}
	}
	return views
}

// holder is the AgentRuntime that has a Sandbox.
func (r *replica) holder(s *agents.Sandbox) types.UID {
	found := slices.DeleteFunc(r.informerOf("agentruntimes").sorted(), func(obj client.Object) bool {
		return obj.(*runtimes.AgentRuntime).Spec.TargetRef.Name != s.Name || obj.GetDeletionTimestamp() != nil
	})
	if len(found) == 0 {
		return ""
	}
	return slices.MinFunc(found, func(a, b client.Object) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.GetName(), b.GetName()))
	}).GetUID()
}

func (r *replica) podsOf(s *agents.Sandbox) []client.Object {
	return slices.DeleteFunc(r.informerOf("pods").sorted(), func(obj client.Object) bool { return !control.IsControlledBy(obj, s.UID) })
}
