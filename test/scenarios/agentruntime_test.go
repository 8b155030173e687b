// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	agentruntimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// stubborn is a container that does not listen when it is told to end: it is killed when
// twenty seconds are over.
func stubborn() corev1.PodSpec {
	pod := idle()
	pod.TerminationGracePeriodSeconds = ptr.To[int64](20)
	pod.Containers[0].Command = []string{"sh", "-c", "trap '' TERM; while :; do sleep 1; done"}
	return pod
}

// attach is the command that makes an AgentRuntime for a Sandbox.
func attach(sandbox string) string {
	return fmt.Sprintf(`kubectl apply -f - <<'END'
apiVersion: agent.rossoctl.dev/v1alpha1
kind: AgentRuntime
metadata:
  name: %[1]s
  namespace: %[2]s
spec:
  type: agent
  targetRef: {apiVersion: agents.x-k8s.io/v1beta1, kind: Sandbox, name: %[1]s}
END`, sandbox, team)
}

const (
	makeDefaults = `kubectl apply -f - <<'END'
apiVersion: v1
kind: ConfigMap
metadata:
  name: defaults
  namespace: team1
  labels: {rossoctl.io/defaults: "true"}
data: {model: small}
END`
	editDefaults = `kubectl patch configmap defaults -n team1 --type merge -p '{"data":{"model":%q}}'`
	showRuntimes = "kubectl get agentruntimes -n team1"
	showApplied  = `kubectl get agentruntime %s -n team1 \
  -o jsonpath='{.status.configuredPods} configured, {.status.pods.total} in all, applied {.status.appliedConfigHash}{"\n"}'`
)

// configured waits until an AgentRuntime is Active with one pod of a new hash, and returns
// the hash and the pod.
func (s *story) configured(name, not string, former *corev1.Pod) (hash string, pod *corev1.Pod) {
	s.Helper()
	pod = s.readyPod(name, former)
	s.until("AgentRuntime "+name+" is Active with the new pod", func() bool { return s.now().configured(name, 1, not) })
	return s.now().runtimes[name].Status.AppliedConfigHash, pod
}

// slowStop: an agent's container takes twenty seconds to stop, and its Sandbox is restarted
// by hand and by its AgentRuntime.
func slowStop(t *testing.T, stage *stage) {
	const name = "weather-service-1000"
	s := newStory(t, stage, team, "An agent that takes twenty seconds to stop")
	first := s.sandboxOf(name, stubborn(), nil)
	s.tell("An agent runs, and nobody has configured it. It gets a configuration.")
	s.run(makeDefaults)
	s.run(attach(name))
	s.elsewhere("the running pod is shown the labels in place and counts as configured, though it was made before: no sidecar was put into it, and none will be.")
	s.until("the AgentRuntime waits for its pod", func() bool {
		a := s.now().runtimes[name]
		return a != nil && a.Status.RolloutStartTime != nil
	})
	s.run(showRuntimes)
	one, second := s.configured(name, "", first)
	s.run(showRuntimes)
	s.verdict(second.UID != first.UID && second.Annotations[configHash] == one, "the pod was replaced, once the old one had ended, and the new one was made with the configuration")

	s.tell("Now the commands of the report, as they are written there. The second patch comes while the old pod is still running.")
	s.run("kubectl get sandbox " + name + " -n " + team)
	s.run(scale(name, 0))
	s.run(scale(name, 1))
	s.elsewhere("the pod that is on its way out is taken for the new one. When it is gone the controller looks for it by name, for ever, and the agent is shown as active.")
	s.until("the old pod is on its way out", func() bool {
		now := s.now().pods[name]
		return now == nil || now.UID != second.UID || now.DeletionTimestamp != nil
	})
	s.run("kubectl get sandbox,pod,agentruntime -n team1")
	_, third := s.configured(name, "", second)
	s.run("kubectl get sandbox,pod,agentruntime -n team1")
	s.verdict(third.UID != second.UID && third.Annotations[configHash] == one, "a new pod came when the old one had ended, with its configuration, and nobody cleared anything")
	s.tell("The cure from elsewhere has nothing to cure.")
	s.run("kubectl annotate sandbox " + name + " -n " + team + " \\\n  agents.x-k8s.io/pod-name-")

	s.tell("The configuration changes. The operator restarts the agent by itself.")
	s.run(fmt.Sprintf(editDefaults, "large"))
	s.elsewhere("the operator scales to 0 and back in two steps. If the second comes too early, the pod runs on with the old configuration, and counts as configured.")
	two, fourth := s.configured(name, one, third)
	s.run(fmt.Sprintf(showApplied, name))
	s.verdict(fourth.Annotations[configHash] == two && two != one, "the pod was replaced and the new one was made with the new hash")
	s.verdict(s.now().sandboxes[name].Running(), "nothing was scaled: the pod was deleted by its UID")

	s.tell("Somebody suspends the agent, and the configuration changes meanwhile.")
	s.run(scale(name, 0))
	s.podGone(fourth)
	s.until("the Sandbox says that it is suspended", func() bool { return s.now().isTrue(name, agents.ConditionSuspended) })
	s.run(fmt.Sprintf(editDefaults, "huge"))
	s.until("the new configuration is on the Sandbox", func() bool { return s.now().configured(name, 0, two) })
	s.run("kubectl get sandbox,pod,agentruntime -n team1")
	s.elsewhere("the restart ends with replicas 1, whatever they were: the agent runs again, and somebody pays for it.")
	s.verdict(!s.now().sandboxes[name].Running() && s.now().pods[name] == nil, "it is suspended as before")
	s.run(scale(name, 1))
	three, fifth := s.configured(name, two, fourth)
	s.verdict(fifth.Annotations[configHash] == three, "the pod that comes when it is resumed is made with the new configuration at once")
	s.quietly()
}

// claimedAgent: an AgentRuntime configures a Sandbox that a claim owns.
func claimedAgent(t *testing.T, stage *stage) {
	const name = "weather-service-5000"
	s := newStory(t, stage, team, "An AgentRuntime and a claim")
	s.makeNamespace()
	s.claimOfTemplate(name)
	s.until("the claim is Ready", func() bool { return s.now().ready(name) })
	first := s.now().pods[name]
	s.tell("A claim owns a Sandbox. An AgentRuntime points to the Sandbox.")
	_, mark := s.requests(s.ctx, t, 0)
	logged := s.controller.log.length()
	s.run(makeDefaults)
	s.run(attach(name))
	one, second := s.configured(name, "", first)
	s.run("kubectl get sandboxclaim,sandbox,agentruntime -n " + team)
	s.elsewhere("the claim's controller wipes the hash within seconds, the operator writes it again, and so on without end.")

	s.tell("The template changes, the claim wants a label on its pod, and the controllers start anew.")
	s.run("kubectl patch sandboxtemplate weather-service -n team1 \\\n  --type merge -p '{\"spec\":{\"podTemplate\":{\"metadata\":{\"annotations\":{\"reviewed\":\"today\"}}}}}'")
	s.run("kubectl patch sandboxclaim " + name + " -n team1 \\\n  --type merge -p '{\"spec\":{\"additionalPodMetadata\":{\"labels\":{\"sandbox.users.io/tenant\":\"blue\"}}}}'")
	s.until("the claim's label is on the pod", func() bool {
		pod := s.now().pods[name]
		return pod != nil && pod.Labels["sandbox.users.io/tenant"] == "blue"
	})
	s.controller.restart(t)
	s.run(fmt.Sprintf(editDefaults, "large"))
	two, third := s.configured(name, one, second)
	annotations := s.run("kubectl get sandbox " + name + " -n team1 \\\n  -o jsonpath='{.spec.podTemplate.metadata.annotations}'")
	s.verdict(strings.Contains(annotations, two), "the hash is there, where elsewhere this shows nothing")
	s.verdict(third.Annotations[configHash] == two && third.Labels["sandbox.users.io/tenant"] == "blue", "the new pod was made with the configuration and with the claim's label")
	s.until("the claim is Ready again", func() bool { return s.now().ready(name) })

	requests, _ := s.requests(s.ctx, t, mark)
	writes := 0
	s.tell("What AgentRuntimes wrote to the Sandbox meanwhile:")
	for _, r := range requests {
		if r.Writes() && r.Resource == "sandboxes" && r.Name == name && strings.HasSuffix(r.UserAgent, "/agentruntime") {
			s.show(r.String())
			if r.Code == http.StatusOK {
				writes++
			}
		}
	}
	s.verdict(writes == 2, "one write for each configuration")
	s.verdict(s.controller.log.count(logged, "Configuring the workload") <= writes+1, "and the controller's log says no more than that")
	conflict := meta.IsStatusConditionTrue(s.now().runtimes[name].Status.Conditions, agentruntimes.ConditionConfigConflict)
	s.verdict(!conflict, "nobody is in anybody's way")
	s.refusedOnly()
}
