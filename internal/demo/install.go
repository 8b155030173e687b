// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
)

// buildAnnotation on the controller's pod says which build it runs. A tag that is built
// anew would not restart it.
const buildAnnotation = "berth.dev/build"

// install brings definitions, policies and the controller to the cluster.
func (d *demo) install(ctx context.Context) error {
	build, err := d.image(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	step := d.Progress.Step("Installing definitions and admission policies, and waiting until they are in effect")
	if err := step.Done(deploy.Install(ctx, d.config)); err != nil {
		return err
	}
	objects, err := deploy.Controller()
	if err != nil {
		return err
	}
	if err := d.adjust(objects, build); err != nil {
		return err
	}
	step = d.Progress.Step("Starting the controller in namespace " + deploy.Namespace)
	if err := deploy.Apply(ctx, d.config, deploy.Namespace, objects); err != nil {
		return step.Done(err)
	}
	return step.Done(d.available(ctx, step))
}

// image builds the controller's image for a local cluster and gives it to it. It
// returns what tells one build from another.
func (d *demo) image(ctx context.Context) (build string, err error) {
	if d.Local == nil {
		return "", nil
	}
	step := d.Progress.Step("Building the controller's image")
	build, image, err := d.buildImage(ctx)
	if step.Done(err) != nil {
		return "", err
	}
	return build, d.Local.Import(ctx, image)
}

func (d *demo) buildImage(ctx context.Context) (string, localcluster.Image, error) {
	scratch, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return "", localcluster.Image{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	program := filepath.Join(scratch, "berth-controller")
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./cmd/berth-controller")
	command.Dir = d.root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if said, err := command.CombinedOutput(); err != nil {
		return "", localcluster.Image{}, fmt.Errorf("build the controller: %w\n%s", err, said)
	}
	contents, err := os.ReadFile(program)
	if err != nil {
		return "", localcluster.Image{}, err
	}
	sum := sha256.Sum256(contents)
	image, err := localcluster.NewProgramImage(deploy.ControllerImage, "berth-controller", program)
	return hex.EncodeToString(sum[:8]), image, err
}

// adjust sets the image, and the build that the image is of.
func (d *demo) adjust(objects []*unstructured.Unstructured, build string) error {
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if build != "" {
			if err := unstructured.SetNestedField(object.Object, build, "spec", "template", "metadata", "annotations", buildAnnotation); err != nil {
				return err
			}
		}
		if d.Image == "" {
			return nil
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return err
		}
		containers[0].(map[string]any)["image"] = d.Image
		return unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers")
	}
	return nil
}

// available waits until the controller of this build runs and is ready.
func (d *demo) available(ctx context.Context, step *localcluster.Step) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if err := d.pulled(ctx, giveUp); err != nil {
		return err
	}
	changes, err := d.client.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(deploy.Namespace),
		client.MatchingFields{"metadata.name": deploy.ControllerName})
	if err != nil {
		return err
	}
	defer changes.Stop()
	err = follow(ctx, changes, func(object client.Object) (bool, string) {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok {
			return false, "the Deployment is gone"
		}
		status := deployment.Status
		step.Detail("%d of %d ready", status.ReadyReplicas, *deployment.Spec.Replicas)
		current := status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == status.Replicas
		return current && status.AvailableReplicas >= *deployment.Spec.Replicas, "the controller is not available"
	})
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errNoImage):
		return fmt.Errorf("%w%s\n%s", errNoImage, d.why(ctx), imageAdvice)
	case err != nil:
		return fmt.Errorf("%w%s", err, d.why(ctx))
	}
	return nil
}

// why says what the controller's pods wait for.
func (d *demo) why(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	pods := &corev1.PodList{}
	if err := d.client.List(ctx, pods, controllerPods()...); err != nil {
		return ""
	}
	said := ""
	for i := range pods.Items {
		pod := &pods.Items[i]
		if isReady(pod) {
			continue // one of a former version, which runs on until the next one does
		}
		said += fmt.Sprintf("\npod %s is %s", pod.Name, pod.Status.Phase)
		for _, container := range pod.Status.ContainerStatuses {
			if waits := container.State.Waiting; waits != nil {
				said += fmt.Sprintf(": %s: %s", waits.Reason, waits.Message)
			}
		}
		if log := strings.TrimSpace(d.log(ctx, pod.Name)); log != "" {
			said += "\n" + log
		}
	}
	return said
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

func (d *demo) log(ctx context.Context, pod string) string {
	logs, err := kubernetes.NewForConfig(d.config)
	if err != nil {
		return ""
	}
	lines := int64(10)
	said, err := logs.CoreV1().Pods(deploy.Namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
	if err != nil {
		return ""
	}
	return string(said)
}
