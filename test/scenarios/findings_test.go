// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

const (
	// team is the namespace of the agents that an operator configures.
	team = "team1"
	// configHash is the annotation by which the operator wants pods to follow their
	// configuration.
	configHash = "rossoctl.io/config-hash"
)

// stamp is the command that writes the operator's annotation into a pod template.
func stamp(sandbox, hash string) string {
	return fmt.Sprintf("kubectl patch sandbox %s -n %s \\\n  --type merge -p '{\"spec\":{\"podTemplate\":{\"metadata\":{\"annotations\":{%q:%q}}}}}'",
		sandbox, team, configHash, hash)
}

// scale is the command that suspends or resumes as the operator does.
func scale(sandbox string, replicas int) string {
	return fmt.Sprintf("kubectl patch sandbox %s -n %s \\\n  --type merge -p '{\"spec\":{\"replicas\":%d}}'", sandbox, team, replicas)
}

const showOutdated = `kubectl get sandbox %s -n team1 \
  -o jsonpath='{range .status.conditions[?(@.type=="PodOutdated")]}{.type}={.status} {.reason}: {.message}{end}{"\n"}current {.status.currentRevision}{"\n"}update  {.status.updateRevision}{"\n"}'`

// templateChange: the pod template of a Sandbox changes, and its pod runs.
func templateChange(t *testing.T, stage *stage) {
	const name = "weather-service-500"
	s := newStory(t, stage, team, "A new pod template and a pod that runs")
	s.tell("An agent runs in a Sandbox. An operator keeps a hash of the agent's configuration in the pod template.")
	first := s.sandbox(name, map[string]string{configHash: "one"})
	s.run("kubectl get sandbox,pod -n team1")

	s.tell("The configuration changes, and the operator writes the new hash, as it does for Deployments.")
	s.run(stamp(name, "two"))
	s.elsewhere("a Deployment would roll. Of this Sandbox the pod runs on as it was, and nothing says so.")
	s.until("the Sandbox says that its pod is outdated", func() bool {
		return s.now().isTrue(name, agents.ConditionPodOutdated) && s.now().pods[name].Annotations[configHash] == "two"
	})
	s.run(fmt.Sprintf(showOutdated, name))
	now := s.now().pods[name]
	s.verdict(now.UID == first.UID, "the pod was not disturbed: an agent may be at work in it")
	s.verdict(now.Annotations[configHash] == "two", "the annotation has reached the running pod")
	s.verdict(s.now().reason(name, agents.ConditionPodOutdated) == agents.ReasonMetadataAppliedInPlace,
		"PodOutdated says that its processes may not know of it, and the two revisions differ")

	s.tell("A change of the pod's spec cannot reach a running pod. What differs is named.")
	s.run("kubectl patch sandbox " + name + " -n team1 \\\n  --type json -p '[{\"op\":\"add\",\"path\":\"/spec/podTemplate/spec/containers/0/env\",\"value\":[{\"name\":\"MODEL\",\"value\":\"large\"}]}]'")
	s.until("the Sandbox says that the spec differs", func() bool {
		return s.now().reason(name, agents.ConditionPodOutdated) == agents.ReasonSpecChanged
	})
	s.run(fmt.Sprintf(showOutdated, name))

	s.tell("Whoever knows that the agent is idle deletes the pod. The next one is of the new template.")
	s.run("kubectl delete pod " + name + " -n team1")
	second := s.readyPod(name, first)
	s.until("the Sandbox says that its pod is up to date", func() bool {
		return s.now().reason(name, agents.ConditionPodOutdated) == agents.ReasonUpToDate
	})
	s.verdict(s.run("kubectl exec "+name+" -n team1 -- sh -c 'echo $MODEL'") == "large", "the new pod has the new template")

	s.tell("Or the Sandbox is told to roll as a Deployment does, for changes of annotations too.")
	s.run("kubectl patch sandbox " + name + " -n team1 \\\n  --type merge -p '{\"spec\":{\"updateStrategy\":{\"type\":\"Recreate\"}}}'")
	s.run(stamp(name, "three"))
	third := s.readyPod(name, second)
	s.verdict(third.Annotations[configHash] == "three", "a new pod came by itself, with the new hash")
	s.quietly()
}

// stuckLoop: the pod of a Sandbox goes, and the annotation that names it stays.
func stuckLoop(t *testing.T, stage *stage) {
	const name = "weather-service-1000"
	s := newStory(t, stage, team, "A Sandbox whose pod is gone")
	first := s.sandbox(name, nil)
	s.tell("A healthy Sandbox: its pod has its name, and the annotation says so.")
	s.run("kubectl get sandbox " + name + " -n team1")
	s.run("kubectl get sandbox " + name + " -n team1 -o jsonpath='{.metadata.annotations}'")

	s.tell("It is scaled to 0, which deletes the pod, and back to 1.")
	s.run(scale(name, 0))
	s.podGone(first)
	s.run(scale(name, 1))
	s.elsewhere("the controller looks for the pod that the annotation names, does not find it, and retries that forever: %q.", "pod in annotation get failed")
	second := s.readyPod(name, first)
	s.run("kubectl get sandbox,pod -n team1")
	s.verdict(second.UID != first.UID, "a new pod came, with nobody clearing anything")

	s.tell("Elsewhere this command is the cure. Here it has nothing to cure, and must do no harm.")
	s.run("kubectl annotate sandbox " + name + " -n team1 \\\n  agents.x-k8s.io/pod-name-")
	s.tell("Worse than stale: the annotation names a pod that never was, and then the pod goes by another hand.")
	s.run("kubectl annotate sandbox " + name + " -n team1 --overwrite \\\n  agents.x-k8s.io/pod-name=weather-service-of-yesterday")
	s.verdict(s.now().pods[name] != nil && s.now().pods[name].UID == second.UID, "the pod runs on, whatever the annotation says")
	s.run("kubectl delete pod " + name + " -n team1")
	third := s.readyPod(name, second)
	s.run("kubectl get sandbox,pod -n team1")
	s.verdict(third.UID != second.UID, "a pod that is deleted is replaced: it is found by its owner's UID, and by nothing else")

	s.tell("The annotation is an output for clients.")
	s.verdict(s.run("kubectl get sandbox "+name+" -n team1 -o jsonpath='{.metadata.annotations.agents\\.x-k8s\\.io/pod-name}'") == name,
		"it names the pod again")
	s.quietly()
}

// lostRestart: an operator restarts a pod by way of replicas, and the controller lags.
func lostRestart(t *testing.T, stage *stage) {
	const name = "weather-service-2000"
	s := newStory(t, stage, team, "An operator's restart, and a controller that lags")
	first := s.sandbox(name, map[string]string{configHash: "one"})
	s.tell("T0  The operator scales the Sandbox to 0.  T1  The controller deletes the pod.")
	s.run(scale(name, 0))
	s.until("the pod is being deleted", func() bool {
		now := s.now().pods[name]
		return now == nil || now.DeletionTimestamp != nil
	})
	s.tell("From here on the controller hears nothing of Sandboxes: its cache keeps replicas 0 and the old annotation.")
	s.proxy.HoldWatches("sandboxes")
	s.tell("T2  The operator clears the annotation.  T4  It writes the new hash and scales back to 1.")
	s.run("kubectl annotate sandbox " + name + " -n team1 \\\n  agents.x-k8s.io/pod-name-")
	s.run(stamp(name, "two"))
	s.run(scale(name, 1))
	s.podGone(first)
	s.tell("T5  The pod is gone, and the controller hears of it all at last.")
	s.proxy.ReleaseWatches("sandboxes")
	s.elsewhere("it has put the old annotation back or reads it from its cache, and loops in an error. There is no pod, and the operator shows the agent as active.")
	second := s.readyPod(name, first)
	s.run("kubectl get sandbox,pod -n team1")
	s.verdict(second.Annotations[configHash] == "two", "the restart took place, with the new hash")

	s.tell("The other way to lose a restart: 0 and 1 follow so closely that the controller only ever hears of the 1.")
	s.proxy.HoldWatches("sandboxes")
	s.run(stamp(name, "three"))
	s.run(scale(name, 0))
	s.run(scale(name, 1))
	s.verdict(s.proxy.DropWatches("sandboxes") > 0, "the controller's watch is cut; it lists anew, and 0 is nowhere in the list")
	s.proxy.ReleaseWatches("sandboxes")
	s.elsewhere("nothing tells this from a restart that took place.")
	s.until("the Sandbox says that its pod is outdated", func() bool { return s.now().isTrue(name, agents.ConditionPodOutdated) })
	s.run(fmt.Sprintf(showOutdated, name))
	now := s.now().pods[name]
	s.verdict(now != nil && now.UID == second.UID, "the pod is still the same, and PodOutdated says that it is of an older template")
	s.tell("A restart that cannot get lost deletes the pod. It is the operator's one write, and no controller has to see a state in between.")
	s.run("kubectl delete pod " + name + " -n team1")
	third := s.readyPod(name, second)
	s.verdict(third.Annotations[configHash] == "three", "the new pod has the new hash")
	s.refusedOnly()
}
