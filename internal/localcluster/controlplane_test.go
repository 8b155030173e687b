// SPDX-License-Identifier: Apache-2.0

package localcluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// generous is for things that take seconds on a machine at rest.
const generous = 3 * time.Minute

// One control plane serves all of these, because starting it is what takes long.
func TestAControlPlane(t *testing.T) {
	running := runningControlPlane{clustertest.ControlPlane(t, clustertest.WithAudit())}
	t.Run("serves the version it was built from, and takes pods without service accounts", running.serves)
	t.Run("is not changed by being started again", running.startsOnce)
	t.Run("counts answered requests exactly", running.countsRequests)
	t.Run("has a single part killed and started", running.restartsAPart)
	t.Run("is repaired by a start after its parts were killed", running.isRepaired)
}

type runningControlPlane struct{ *localcluster.Cluster }

func (r runningControlPlane) serves(t *testing.T) {
	client := clientOf(t, r.Cluster)
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != localcluster.KubernetesVersion {
		t.Errorf("the server says it is %s, want %s", version.GitVersion, localcluster.KubernetesVersion)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("a pod without a service account is refused: %v", err)
	}
}

func (r runningControlPlane) startsOnce(t *testing.T) {
	before := r.Status()
	again, err := localcluster.Start(t.Context(), localcluster.Options{Dir: r.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	if after := again.Status(); !slices.Equal(before, after) {
		t.Errorf("parts were %v and are %v", before, after)
	}
}

func (r runningControlPlane) isRepaired(t *testing.T) {
	client := clientOf(t, r.Cluster)
	const kept = "kept"
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: kept}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{localcluster.APIServer, localcluster.Etcd} {
		if err := r.Part(name).Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.Part(name).Running() {
			t.Fatalf("%s runs after it was killed", name)
		}
	}
	// A starter that ended knows nothing; the next one works from the files alone.
	repaired, err := localcluster.Start(t.Context(), localcluster.Options{Dir: r.Dir(), EndWithStarter: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(t, repaired).CoreV1().ConfigMaps("default").Get(t.Context(), kept, metav1.GetOptions{}); err != nil {
		t.Errorf("what was stored before is gone: %v", err)
	}
}

func (r runningControlPlane) restartsAPart(t *testing.T) {
	server := r.Part(localcluster.APIServer)
	before := server.PID()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := server.PID(); after == 0 || after == before {
		t.Errorf("the API server was process %d and is %d", before, after)
	}
	if _, err := clientOf(t, r.Cluster).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAPartThatCannotStartIsNamedWithTheEndOfItsLog(t *testing.T) {
	dir := t.TempDir()
	_, err := localcluster.Start(t.Context(), localcluster.Options{Dir: dir, APIServerFlags: []string{"--no-such-flag"}})
	if cluster, missing := localcluster.Open(dir); missing == nil {
		defer cluster.Stop(context.WithoutCancel(t.Context()))
	}
	if err == nil || !strings.Contains(err.Error(), localcluster.APIServer) || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("the error is %v", err)
	}
}

func TestAStoppedClusterLeavesNothing(t *testing.T) {
	dir := t.TempDir() + "/cluster"
	if _, err := localcluster.Start(t.Context(), localcluster.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	// Stopped by somebody who finds only its directory, without the record of one process.
	if err := os.Remove(dir + "/processes/" + localcluster.Etcd + ".json"); err != nil {
		t.Fatal(err)
	}
	cluster, err := localcluster.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{dir, dir + ".lock"} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
	if out, _ := exec.Command("ps", "axww").Output(); strings.Contains(string(out), dir) {
		t.Errorf("a process is left: %s", out)
	}
}

func (r runningControlPlane) countsRequests(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(clustertest.RESTConfig(t, r.Cluster, "counted"))
	requests := clustertest.Requests(t, r.Cluster, "counted", func() {
		for _, name := range []string{"a", "b", "c"} {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
		if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	if len(requests) != 5 {
		t.Errorf("five requests were sent, and these counted: %v", requests)
	}
	writes := clustertest.Writes(requests)
	if writes["create configmaps"] != 3 || writes["delete configmaps"] != 1 || len(writes) != 2 {
		t.Errorf("writes are %v", writes)
	}
}

func TestPodsOnFakeNodesDoWhatTheirAnnotationsSay(t *testing.T) {
	cluster := clustertest.ControlPlane(t, clustertest.WithScheduler())
	if err := cluster.FakeNodes(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, cluster)
	t.Run("pods that come at once get addresses of their own", func(t *testing.T) {
		const count = 20
		for i := range count {
			pod := podOf(fmt.Sprintf("crowd-%d", i), "i", "")
			if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		addresses := map[string]bool{}
		for i := range count {
			addresses[awaitPod(t, client, fmt.Sprintf("crowd-%d", i), isReady).Status.PodIP] = true
		}
		if len(addresses) != count {
			t.Errorf("%d pods have %d addresses", count, len(addresses))
		}
	})
	t.Run("a pod stays as long as it is asked to after its deletion", func(t *testing.T) {
		pod := podOf("slow", "i", "")
		pod.Annotations = map[string]string{localcluster.FakeStopDelay: "2s"}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitPod(t, client, pod.Name, isReady)
		began := time.Now()
		if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitPod(t, client, pod.Name, nil)
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("it was gone after %s", took)
		}
	})
	cases := map[string]struct {
		outcome string
		want    func(*corev1.Pod) bool
	}{
		"ready":     {"", func(p *corev1.Pod) bool { return isReady(p) && p.Status.PodIP != "" }},
		"failed":    {localcluster.OutcomeFailed, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }},
		"succeeded": {localcluster.OutcomeSucceeded, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }},
	}
	for name, is := range cases {
		t.Run("a pod becomes "+name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}
			if is.outcome != "" {
				pod.Annotations[localcluster.FakeOutcome] = is.outcome
			}
			pod, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			awaitPod(t, client, pod.Name, is.want)
			if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitPod(t, client, pod.Name, nil)
		})
	}
}

func clientOf(t testing.TB, cluster *localcluster.Cluster) *kubernetes.Clientset {
	t.Helper()
	return kubernetes.NewForConfigOrDie(clustertest.RESTConfig(t, cluster, "test"))
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// awaitPod watches a pod of namespace default until it is as wanted, or gone if want is nil.
func awaitPod(t testing.TB, client kubernetes.Interface, name string, want func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "default",
		fields.OneTermEqualSelector(metav1.ObjectNameField, name))
	var last *corev1.Pod
	gone := func(store cache.Store) (bool, error) { return want == nil && len(store.List()) == 0, nil }
	_, err := toolswatch.UntilWithSync(ctx, pods, &corev1.Pod{}, gone, func(event watch.Event) (bool, error) {
		last = event.Object.(*corev1.Pod)
		if want == nil {
			return event.Type == watch.Deleted, nil
		}
		return want(last), nil
	})
	if err != nil {
		t.Fatalf("wait for pod %s: %v; it is %+v", name, err, last)
	}
	return last
}
