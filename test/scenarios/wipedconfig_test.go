// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// wipedConfig: a claim owns the Sandbox into whose pod template an operator writes.
func wipedConfig(t *testing.T, stage *stage) {
	const name = "weather-service-5000"
	s := newStory(t, stage, team, "An operator's configuration in a Sandbox that a claim owns")
	s.makeNamespace()
	s.claimOfTemplate(name)
	s.tell("A claim of a template gets a Sandbox made for it, of its name.")
	s.until("the claim is Ready", func() bool { return s.now().ready(name) })
	first := s.now().pods[name]
	s.run("kubectl get sandboxclaim,sandbox -n team1")

	s.tell("The operator writes its hash and a label of its own into the Sandbox's pod template.")
	_, mark := s.requests(s.ctx, t, 0)
	s.run(stamp(name, "one"))
	s.run("kubectl patch sandbox " + name + " -n team1 \\\n  --type merge -p '{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{\"rossoctl.io/agent\":\"weather\"}}}}}'")
	s.elsewhere("the claim's controller copies the template over it within seconds, the operator writes again, and so on without end.")

	s.tell("Give the claim's controller every reason to write: the template changes, the claim wants a label of its own on the pod, and the controller starts anew.")
	s.run("kubectl patch sandboxtemplate weather-service -n team1 \\\n  --type merge -p '{\"spec\":{\"podTemplate\":{\"metadata\":{\"annotations\":{\"reviewed\":\"today\"}}}}}'")
	s.run("kubectl patch sandboxclaim " + name + " -n team1 \\\n  --type merge -p '{\"spec\":{\"additionalPodMetadata\":{\"labels\":{\"sandbox.users.io/tenant\":\"blue\"}}}}'")
	s.until("the claim's own label is in the Sandbox", func() bool {
		return s.now().sandboxes[name].Spec.PodTemplate.Metadata.Labels["sandbox.users.io/tenant"] == "blue"
	})
	s.controller.restart(t)
	s.run("kubectl patch sandboxclaim " + name + " -n team1 \\\n  --type merge -p '{\"spec\":{\"additionalPodMetadata\":{\"labels\":{\"sandbox.users.io/tenant\":\"green\"}}}}'")
	s.until("the claim's changed label is on the pod", func() bool {
		return s.now().pods[name].Labels["sandbox.users.io/tenant"] == "green" && s.now().isTrue(name, agents.ConditionReady)
	})
	annotations := s.run("kubectl get sandbox " + name + " -n team1 \\\n  -o jsonpath='{.spec.podTemplate.metadata.annotations}'")
	s.verdict(strings.Contains(annotations, `"rossoctl.io/config-hash":"one"`), "the hash is still there, where elsewhere this shows nothing")
	metadata := s.now().sandboxes[name].Spec.PodTemplate.Metadata
	s.verdict(metadata.Labels["rossoctl.io/agent"] == "weather" && metadata.Labels["sandbox.users.io/tenant"] == "green",
		"the operator's label and the claim's stand side by side: each writes its own keys only")
	requests, _ := s.requests(s.ctx, t, mark)
	writes := 0
	s.tell("What the controllers wrote to the Sandbox meanwhile, its status aside:")
	for _, r := range requests {
		if r.Writes() && r.Resource == "sandboxes" && r.Subresource == "" && r.Name == name {
			s.show(r.String())
			// The controller may have been stopped before it had the answer to one that landed.
			if r.Code == http.StatusOK || r.Code == http.StatusGatewayTimeout {
				writes++
			}
		}
	}
	s.verdict(writes == 2, "that is one write for each value of the claim's label, and none over what the operator wrote")

	s.tell("A restart in two phases, in which the claim may not meddle.")
	s.run(scale(name, 0))
	s.until("the claim has noticed that its Sandbox is suspended", func() bool {
		return s.now().isTrue(name, agents.ConditionSuspended) && !s.now().ready(name)
	})
	sandbox := s.now().sandboxes[name]
	s.verdict(sandbox.Spec.Replicas != nil && *sandbox.Spec.Replicas == 0, "the claim's controller has seen it and left replicas at 0")
	s.run(scale(name, 1))
	second := s.readyPod(name, first)
	s.until("the claim is Ready again", func() bool { return s.now().ready(name) })
	s.verdict(second.Annotations[configHash] == "one" && second.Labels["rossoctl.io/agent"] == "weather",
		"the new pod carries what the operator wrote, and the claim is Ready again")
	s.quietly()
}

// claimOfTemplate makes a claim that names a template, and the template.
func (s *story) claimOfTemplate(name string) {
	s.Helper()
	template := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "weather-service"}}
	template.Spec.PodTemplate = agents.PodTemplate{Spec: idle()}
	s.must(s.client.Create(s.ctx, template))
	claim := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
	claim.Spec.TemplateRef = &extensions.SandboxTemplateRef{Name: template.Name}
	s.must(s.client.Create(s.ctx, claim))
}
