// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestExplain(t *testing.T) {
	waiting := func(reason string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}}}
	}
	gated := unschedulable()
	gated.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	initialising := waiting("PodInitializing")
	initialising.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	cases := map[string]struct {
		member func(*agents.Sandbox)
		pods   []corev1.Pod
		want   string // part of it; "" is unexplained
	}{
		"no node":                                          {notReady, []corev1.Pod{unschedulable()}, "0/1 nodes are available"},
		"a scheduling gate":                                {notReady, []corev1.Pod{gated}, "SchedulingGated"},
		"an image being pulled":                            {notReady, []corev1.Pod{waiting("ContainerCreating")}, "ContainerCreating"},
		"an image that is not there":                       {notReady, []corev1.Pod{waiting("ImagePullBackOff")}, "ImagePullBackOff"},
		"an init container at work":                        {notReady, []corev1.Pod{initialising}, "init container init is running"},
		"a kubelet that is busy":                           {notReady, []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}}, "node n1"},
		"a crash loop is no reason":                        {notReady, []corev1.Pod{waiting("CrashLoopBackOff")}, ""},
		"ready and not said so":                            {notReady, []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}, "its pod is ready"},
		"running and not Ready":                            {notReady, []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}, ""},
		"a pod on its way out":                             {notReady, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.NewTime(now))}}}, "terminating"},
		"a pod that is refused":                            {notReadyFor(agents.ReasonReconcilerError), nil, "said ReconcilerError"},
		"two pods":                                         {notReadyFor(agents.ReasonMultiplePods), []corev1.Pod{{}, {}}, "said MultiplePods"},
		"a Sandbox nobody looked at whose pod has no node": {func(*agents.Sandbox) {}, []corev1.Pod{unschedulable()}, "0/1 nodes are available"},
		"a Sandbox nobody looked at whose pod runs":        {func(*agents.Sandbox) {}, []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}, "not been looked at"},
		"a Sandbox nobody looked at":                       {func(*agents.Sandbox) {}, nil, "not been looked at"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var list []*corev1.Pod
			for i := range c.pods {
				list = append(list, &c.pods[i])
			}
			got := explain(member("x", "new", time.Hour, c.member), list)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
