// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// slowNodes: pods of a pool wait for a node for longer than members may take to be ready.
func slowNodes(t *testing.T, stage *stage) {
	const waiting, broken = "waits-for-a-node", "never-ready"
	s := newStory(t, stage, article, "Warm pods that wait for a node")
	s.tell("The controller with the article's two flags, set so short that one need not wait for minutes.")
	s.show("--sandbox-warm-pool-readiness-grace-period=3s")
	s.show("--sandbox-warm-pool-unschedulable-recheck-interval=1s")
	s.controller.restart(t, "--sandbox-warm-pool-readiness-grace-period=3s", "--sandbox-warm-pool-unschedulable-recheck-interval=1s")
	t.Cleanup(func() { s.controller.restart(t) })

	s.tell("A pool whose pods want a node that does not exist, as if an autoscaler had yet to bring it.")
	spec := idle()
	spec.NodeSelector = map[string]string{"accelerator": "yes"}
	s.poolOf(waiting, spec)
	s.until("the pods are unschedulable", func() bool {
		held := 0
		for _, pod := range s.now().pods {
			if reasonOfPod(pod, corev1.PodScheduled) == corev1.PodReasonUnschedulable {
				held++
			}
		}
		return held == 2
	})
	s.run("kubectl get sandboxwarmpool,pod -n agent-sandboxes")
	before := s.membersOf(waiting)

	s.tell("And one whose pods run and never become ready, which nothing explains. It is younger.")
	spec = idle()
	spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
	s.poolOf(broken, spec)
	s.until("both its members have been made", func() bool { return len(s.membersOf(broken)) == 2 })
	first := s.membersOf(broken)
	s.elsewhere("the grace period ends for both, and the pods that wait for a node are deleted and made anew as long as it does not come: work for everybody, and a place lost in every queue.")
	s.until("members that nothing explains are replaced", func() bool {
		for uid := range s.membersOf(broken) {
			if !first[uid] {
				return true
			}
		}
		return false
	})
	s.run("kubectl get sandboxwarmpool,pod -n agent-sandboxes")
	s.verdict(true, "the members that are not ready for no reason are replaced when their grace period ends")
	s.verdict(maps.Equal(s.membersOf(waiting), before), "those that wait for a node, which are older, are the same as before")
	s.run("kubectl get sandboxwarmpool " + waiting + " -n agent-sandboxes \\\n  -o jsonpath='{range .status.conditions[?(@.type==\"Progressing\")]}{.type}={.status} {.reason}: {.message}{end}'")

	s.tell("The node comes: this one gets the label.")
	s.run("kubectl label node --all accelerator=yes")
	s.fullPool(waiting)
	s.run("kubectl get sandboxwarmpool " + waiting + " -n agent-sandboxes")
	s.verdict(maps.Equal(s.membersOf(waiting), before), "the very pods that waited are ready")
	s.run("kubectl label node --all accelerator-")
}

// poolOf makes a template and a pool of two.
func (s *story) poolOf(name string, spec corev1.PodSpec) {
	s.Helper()
	s.makeNamespace()
	template := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	template.Spec.PodTemplate = agents.PodTemplate{Spec: spec}
	s.must(s.client.Create(s.ctx, template))
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	pool.Spec = extensions.SandboxWarmPoolSpec{Replicas: ptr.To[int32](2), TemplateRef: extensions.SandboxTemplateRef{Name: name}}
	s.must(s.client.Create(s.ctx, pool))
}

// membersOf are the UIDs of a pool's Sandboxes.
func (s *story) membersOf(pool string) map[types.UID]bool {
	members := map[types.UID]bool{}
	for _, sandbox := range s.now().sandboxes {
		if p := s.now().pools[pool]; p != nil && owner(sandbox) == string(p.UID) {
			members[sandbox.UID] = true
		}
	}
	return members
}

func reasonOfPod(pod *corev1.Pod, kind corev1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}
