// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var nodes = []string{"n0", "n1"}

// kubelet lets something happen to a pod or a node.
func (w *world) kubelet(run *Run) {
	if run.faulty && run.choices.Chance(4*run.focus.oneIll) {
		n := run.choices.Pick(len(nodes))
		w.dead[n] = !w.dead[n]
		run.note("node %s: dead is %v", nodes[n], w.dead[n])
		return
	}
	if work := w.podWork(run, !run.choices.Chance(run.focus.oneIll)); len(work) > 0 {
		work[run.choices.Pick(len(work))]()
	}
}

// podWork is what can happen to pods next: to those that are well the expected, to
// others something else.
func (w *world) podWork(run *Run, well bool) []func() {
	var work []func()
	for _, obj := range run.server.peek("pods") {
		pod := obj.(*corev1.Pod)
		key := client.ObjectKeyFromObject(pod)
		edit := func(what string, change func(*corev1.Pod)) {
			work = append(work, func() {
				run.note("kubelet: pod %s %s", pod.Name, what)
				run.server.EditStatus("pods", key, func(obj client.Object) { change(obj.(*corev1.Pod)) })
			})
		}
		ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		switch node := w.nodeOf(pod); {
		case pod.Spec.NodeName != "" && w.dead[node]:
			if isReady(pod) {
				edit("is on a dead node", func(p *corev1.Pod) { setReady(run, p, false) })
			}
		case pod.DeletionTimestamp != nil:
			if pod.Spec.NodeName != "" {
				work = append(work, func() {
					run.note("kubelet: pod %s is gone", pod.Name)
					run.server.Finish("pods", key)
				})
			}
		case ended:
		case pod.Spec.NodeName == "":
			n := run.world.aliveNode()
			if n >= 0 {
				edit("is scheduled", func(p *corev1.Pod) { p.Spec.NodeName = nodes[n] })
			}
		case !well:
			edit("fails", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				setReady(run, p, false)
			})
			edit("succeeds", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodSucceeded
				setReady(run, p, false)
			})
			if isReady(pod) {
				edit("is not ready", func(p *corev1.Pod) { setReady(run, p, false) })
			}
		case !isReady(pod):
			edit("is ready", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodRunning
				p.Status.PodIP = "10.0.0.1"
				p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
				setReady(run, p, true)
			})
		}
	}
	return work
}

func (w *world) nodeOf(pod *corev1.Pod) int {
	if pod.Spec.NodeName == nodes[1] {
		return 1
	}
	return 0
}

func (w *world) aliveNode() int {
	for n := range nodes {
		if !w.dead[n] {
			return n
		}
	}
	return -1
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func setReady(run *Run, pod *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: run.server.seconds(0)}}
}
