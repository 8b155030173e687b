// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// What a pod on a fake node does is asked for by annotations of the pod. Without any it becomes Running
// and Ready with an IP at once, and goes at once when it is deleted.
const (
	// FakeOutcome is what becomes of the pod: OutcomePending, OutcomeFailed or OutcomeSucceeded. It may be
	// set to one of the last two on a running pod.
	FakeOutcome = "fake.berth.dev/outcome"
	// FakeStartDelay is how long the pod stays Pending, as a Go duration.
	FakeStartDelay = "fake.berth.dev/start-delay"
	// FakeStopDelay is how long the pod takes to go after it was deleted, as a Go duration.
	FakeStopDelay = "fake.berth.dev/stop-delay"

	OutcomePending   = "Pending"
	OutcomeFailed    = "Failed"
	OutcomeSucceeded = "Succeeded"
)

const (
	fakeNodeAnnotation = "kwok.x-k8s.io/node"
	fakeNodeRole       = "fake"
	fakePods           = "10.128.0.0/9"
	podsPerFakeNode    = "10000"
)

//go:embed fakenodes.yaml
var fakeNodeStages []byte

// FakeNodes adds nodes named fake-0 to fake-(count-1) to a control plane that has a scheduler, and what
// plays the kubelet for them; see FakeOutcome. It returns when the nodes are Ready and free of taints.
func (c *Cluster) FakeNodes(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if !slices.Contains(c.config.Parts, Kwok) {
		if err := writeFile(c.fakeNodeConfig(), fakeNodeStages, 0o644); err != nil {
			return err
		}
		c.config.Parts = append(c.config.Parts, Kwok)
		if err := writeJSON(c.configFile(), c.config); err != nil {
			return err
		}
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for i := range count {
		node := fakeNode(fmt.Sprintf("fake-%d", i))
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create a fake node: %w", err)
		}
	}
	if err := c.Part(Kwok).Start(ctx); err != nil {
		return err
	}
	for i := range count {
		if err := awaitNode(ctx, client, fmt.Sprintf("fake-%d", i)); err != nil {
			return err
		}
	}
	return runAlone(ctx, client)
}

// runAlone runs and removes one pod. kwok begins to count addresses with its first pod, and would begin twice,
// and give out some twice, if the first two came at once.
func runAlone(ctx context.Context, client kubernetes.Interface) error {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first-fake-pod"},
		Spec:       corev1.PodSpec{NodeName: "fake-0", Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("run a first fake pod: %w", err)
	}
	until := func(done func(*corev1.Pod, error) bool) error {
		return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			return done(pods.Get(ctx, pod.Name, metav1.GetOptions{})), nil
		})
	}
	if err := until(func(pod *corev1.Pod, err error) bool { return err == nil && pod.Status.PodIP != "" }); err != nil {
		return fmt.Errorf("wait for a first fake pod: %w", err)
	}
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the first fake pod: %w", err)
	}
	return until(func(_ *corev1.Pod, err error) bool { return apierrors.IsNotFound(err) })
}

func fakeNode(name string) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10000"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		corev1.ResourcePods:             resource.MustParse(podsPerFakeNode),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{fakeNodeAnnotation: fakeNodeRole},
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				"type": "kwok",
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

// awaitNode waits until pods can be scheduled to a node.
func awaitNode(ctx context.Context, client kubernetes.Interface, name string) error {
	state := "it does not exist"
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			state = err.Error()
			return false, nil //nolint:nilerr // a node that is not there yet is waited for
		}
		state = "it is not Ready"
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				state = "it is not Ready: " + condition.Message
			}
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				state = fmt.Sprintf("it has taints %v", node.Spec.Taints)
				return len(node.Spec.Taints) == 0, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for node %s: %s: %w", name, state, err)
	}
	return nil
}

func (c *Cluster) fakeNodeConfig() string { return filepath.Join(c.dir, "fakenodes.yaml") }

func (c *Cluster) kwokArgs() []string {
	return []string{
		"--kubeconfig=" + c.clientConfig(Kwok),
		"--config=" + c.fakeNodeConfig(),
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + fakeNodeAnnotation + "=" + fakeNodeRole,
		"--cidr=" + fakePods,
		"--node-ip=" + c.config.Address,
		"--node-lease-duration-seconds=40",
		"--server-address=" + c.address(Kwok),
	}
}

func (c *Cluster) kwokReady(ctx context.Context) error {
	return get(ctx, http.DefaultClient, "http://"+c.address(Kwok)+"/healthz")
}
