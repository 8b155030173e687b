// SPDX-License-Identifier: Apache-2.0

package localcluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berthdev/berth/internal/localcluster"
)

// One node serves all of these, because starting it is what takes long.
func TestANode(t *testing.T) {
	if problem := localcluster.NodeProblem(); problem != "" {
		t.Skip("skipped: " + problem)
	}
	// Not in a directory for temporary files: a node has one of its own in its place.
	parent, err := localcluster.DefaultDir("tests")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		t.Fatal(err)
	}
	before := machine(t, dir)
	var cluster *localcluster.Cluster
	t.Run("starts", func(t *testing.T) {
		var err error
		cluster, err = localcluster.Start(t.Context(), localcluster.Options{
			Name: "node-test", Dir: dir, Mode: localcluster.Node, EndWithStarter: true,
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if cluster == nil {
		t.FailNow()
	}
	node := runningNode{cluster}
	t.Run("runs a pod whose logs and commands go through the API server", node.runsPods)
	t.Run("lets pods reach Services, and the API server by its Service", node.servesServices)
	t.Run("binds a volume claim that names no class", node.bindsVolumes)
	t.Run("runs an image made of a program as an unprivileged user", node.runsProgramImages)
	t.Run("runs its pods again after all its processes were killed", node.survivesKill)

	inside := namespaceOf(t, cluster)
	if err := cluster.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v", err)
	}
	t.Run("leaves nothing behind when it is stopped", func(t *testing.T) {
		after := machine(t, dir)
		for what, was := range before {
			if is := after[what]; is != was {
				t.Errorf("%s were:\n%s\nand are:\n%s", what, was, is)
			}
		}
		if left := processesIn(t, inside); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		if _, err := os.Stat(cluster.Dir()); !os.IsNotExist(err) {
			t.Errorf("the directory is left: %v", err)
		}
	})
}

type runningNode struct{ *localcluster.Cluster }

func (n runningNode) runsPods(t *testing.T) {
	n.run(t, "speaks", localcluster.BusyboxImage, "echo spoken; exec sleep 3600")
	if out := n.kubectl(t, "logs", "speaks"); out != "spoken\n" {
		t.Errorf("the log is %q", out)
	}
	if out := n.kubectl(t, "exec", "speaks", "--", "sh", "-c", "echo $((6*7))"); out != "42\n" {
		t.Errorf("the command printed %q", out)
	}
}

func (n runningNode) servesServices(t *testing.T) {
	n.run(t, "server", localcluster.BusyboxImage, "mkdir /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www")
	n.run(t, "client", localcluster.SandboxImage, "exec sleep 3600")
	service, err := clientOf(t, n.Cluster).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"name": "server"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fetch := "until wget -q -O- http://" + service.Spec.ClusterIP + "; do sleep 1; done"
	if out := n.kubectl(t, "exec", "client", "--", "sh", "-c", fetch); !strings.HasSuffix(out, "served\n") {
		t.Errorf("another pod got %q", out)
	}
	// By name, and the client's search list makes the short one enough.
	byName := n.kubectl(t, "exec", "client", "--", "wget", "-q", "-O-", "http://server")
	if byName != "served\n" {
		t.Errorf("by name another pod got %q", byName)
	}
	// From within the pod that serves: the address is translated to its own.
	if out := n.kubectl(t, "exec", "server", "--", "sh", "-c", fetch); !strings.HasSuffix(out, "served\n") {
		t.Errorf("the pod itself got %q", out)
	}
	n.kubectl(t, "exec", "client", "--", "sh", "-c", "nc -w 10 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT < /dev/null")
}

func (n runningNode) bindsVolumes(t *testing.T) {
	client := clientOf(t, n.Cluster).CoreV1()
	_, err := client.PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf("stores", localcluster.BusyboxImage, "echo kept > /data/file; exec sleep 3600")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	if _, err := client.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, clientOf(t, n.Cluster), pod.Name, isReady)
	if _, err := os.Stat("/tmp/hostpath_pv"); !os.IsNotExist(err) {
		t.Errorf("the volume lies on this machine's /tmp, not the node's: %v", err)
	}
}

func (n runningNode) runsProgramImages(t *testing.T) {
	binaries, err := localcluster.Build(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	image, err := localcluster.NewProgramImage("ghcr.io/berthdev/test:dev", "program", binaries.Pause)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Import(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	pod := podOf("program", image.Reference, "")
	unprivileged := true
	pod.Spec.Containers[0].Command = nil
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &unprivileged}
	client := clientOf(t, n.Cluster)
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, isReady)
}

func (n runningNode) survivesKill(t *testing.T) {
	before := awaitPod(t, clientOf(t, n.Cluster), "speaks", isReady).Status.ContainerStatuses[0].ContainerID
	if err := n.Part("node").Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := localcluster.Start(t.Context(), localcluster.Options{
		Name: n.Name(), Dir: n.Dir(), Mode: localcluster.Node, EndWithStarter: true,
	}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, clientOf(t, n.Cluster), "speaks", func(pod *corev1.Pod) bool {
		return isReady(pod) && pod.Status.ContainerStatuses[0].ContainerID != before
	})
}

func podOf(name, image, command string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image, Command: []string{"sh", "-c", command}}}},
	}
}

func (n runningNode) run(t *testing.T, name, image, command string) {
	t.Helper()
	client := clientOf(t, n.Cluster)
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), podOf(name, image, command), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, name, isReady)
}

func (n runningNode) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), n.Kubectl(), append([]string{"--kubeconfig", n.Kubeconfig()}, arguments...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// machine describes what a node must not change for good.
func machine(t *testing.T, dir string) map[string]string {
	t.Helper()
	state := map[string]string{}
	for what, command := range map[string]string{
		// Other clusters come and go meanwhile; this one's own device and groups are looked for by name.
		"network devices":          "ls /sys/class/net | grep -vE '^berth'",
		"network namespaces":       "ip netns list",
		"mounts":                   "cut -d' ' -f4- /proc/self/mountinfo",
		"firewall rules":           "iptables-save | grep -v '^#'",
		"files of container tools": "ls -d /run/containerd /run/netns /run/xtables.lock /var/lib/containerd /var/lib/cni /var/lib/kubelet /var/log/pods /var/log/containers /etc/cni /tmp/hostpath_pv",
	} {
		out, _ := exec.Command("sh", "-c", command+" 2>/dev/null").Output() // ls and grep fail when they find nothing
		state[what] = string(out)
	}
	state["this cluster's device and control groups"] = strings.Join(ownTraces(t, dir), "\n")
	return state
}

// ownTraces finds what is named after the test's cluster outside its directory.
func ownTraces(t *testing.T, dir string) []string {
	t.Helper()
	hash := localcluster.ShortHash(dir)
	var traces []string
	for _, pattern := range []string{"/sys/class/net/*" + hash, "/sys/fs/cgroup/*" + hash, "/sys/fs/cgroup/*/*" + hash} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, found...)
	}
	return traces
}

// namespaceOf names the process namespace of a node.
func namespaceOf(t *testing.T, cluster *localcluster.Cluster) string {
	t.Helper()
	name, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(cluster.Part("node").PID()), "ns/pid"))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// processesIn finds the processes of a process namespace.
func processesIn(t *testing.T, namespace string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range all {
		if name, err := os.Readlink(file); err == nil && name == namespace {
			found = append(found, file)
		}
	}
	return found
}
