// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/demo"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
)

// TestBerthOnRealPods installs Berth on a node with real pods and uses it as people do:
// the demo, twice, and then the commands that suspend and resume a Sandbox whose
// container takes its time to stop.
func TestBerthOnRealPods(t *testing.T) {
	log.SetLogger(logr.Discard())
	cluster := clustertest.Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), cliPatience)
	defer cancel()

	for range 2 {
		var out bytes.Buffer
		options := demo.Options{Kubeconfig: cluster.Kubeconfig(), Local: cluster, Out: &out, Progress: localcluster.NewPlainProgress(&out)}
		if err := demo.Run(ctx, options); err != nil {
			t.Fatalf("the demo: %v\n%s", err, out.String())
		}
		hello := regexp.MustCompile(`(?m)^  Hello from (\S+):`).FindStringSubmatch(out.String())
		if len(hello) != 2 || !strings.Contains(out.String(), "sandbox "+hello[1]+", which waited in the pool") {
			t.Errorf("the command did not run in the pod of the claimed Sandbox:\n%s", out.String())
		}
		if warm := strings.Count(out.String(), "which waited in the pool"); warm != 2 || !strings.Contains(out.String(), "3/3 ready") {
			t.Errorf("%d of 2 claims were served from a full pool:\n%s", warm, out.String())
		}
	}

	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	slowStop(ctx, t, cluster, c)
	logsNoErrors(ctx, t, c)
}

// slowStop scales a Sandbox to 0 and back at once. Its container needs twenty seconds to
// stop: the next pod starts when that one is gone, and not before.
func slowStop(ctx context.Context, t *testing.T, cluster *localcluster.Cluster, c client.WithWatch) {
	t.Helper()
	const name = "weather-service-1000"
	sandbox := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: agents.SandboxSpec{SandboxBlueprint: agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](20),
			Containers: []corev1.Container{{
				Name: "agent", Image: localcluster.BusyboxImage,
				// It does not listen to the signal to stop and is killed when the grace period ends.
				Command: []string{"sh", "-c", "trap '' TERM; while :; do sleep 1; done"},
			}},
		}}}},
	}
	if err := c.Create(ctx, sandbox); err != nil {
		t.Fatal(err)
	}
	pods, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	first := runningPod(t, pods, name, "")
	for _, patch := range []string{`{"spec":{"replicas":0}}`, `{"spec":{"replicas":1}}`} {
		kubectl(ctx, t, cluster, "patch", "sandbox", name, "-n", "default", "--type", "merge", "-p", patch)
	}
	second := runningPod(t, pods, name, first)
	if second == first {
		t.Error("the pod was not replaced")
	}
}

// runningPod waits until a pod of that name, other than the one with the UID not, is
// ready, and returns its UID. Never may a pod be there while another is.
func runningPod(t *testing.T, pods watch.Interface, name string, not string) string {
	t.Helper()
	alive := not
	for change := range pods.ResultChan() {
		pod, ok := change.Object.(*corev1.Pod)
		if !ok || pod.Name != name {
			continue
		}
		uid := string(pod.UID)
		switch {
		case change.Type == watch.Deleted:
			alive = ""
			continue
		case alive != "" && alive != uid:
			t.Errorf("pod %s is there before %s is gone", uid, alive)
		}
		alive = uid
		if uid == not || pod.DeletionTimestamp != nil {
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return uid
			}
		}
	}
	t.Fatalf("no pod of Sandbox %s became ready", name)
	return ""
}

func kubectl(ctx context.Context, t *testing.T, cluster *localcluster.Cluster, args ...string) {
	t.Helper()
	command := exec.CommandContext(ctx, cluster.Kubectl(), append([]string{"--kubeconfig", cluster.Kubeconfig()}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// logsNoErrors checks that the controller's pod has not restarted and that no Sandbox
// is in an error.
func logsNoErrors(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(deploy.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				t.Errorf("container %s of pod %s has restarted %d times", status.Name, pod.Name, status.RestartCount)
			}
		}
	}
	var sandboxes agents.SandboxList
	if err := c.List(ctx, &sandboxes); err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes.Items {
		for _, condition := range s.Status.Conditions {
			if condition.Reason == agents.ReasonReconcilerError {
				t.Errorf("Sandbox %s: %s", s.Name, fmt.Sprint(condition))
			}
		}
	}
}
