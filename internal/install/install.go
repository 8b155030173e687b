// SPDX-License-Identifier: Apache-2.0

// Package install brings Berth to a cluster: its definitions, its admission policies and its controller.
package install

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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
)

// buildAnnotation on the controller's pod says which build it runs. A tag that is built
// anew would not restart it.
const buildAnnotation = "berth.dev/build"

const (
	// limit is for all of it but building an image: something that takes longer does not come.
	limit = 5 * time.Minute
	// answerLimit is for one request that explains a failure.
	answerLimit = 10 * time.Second
)

// Options say where to install what.
type Options struct {
	// Config is for an administrator of the cluster.
	Config *rest.Config
	// Local is a cluster that takes images, which gets the controller's, built from the checkout that this
	// process runs in. Without it the cluster pulls Image.
	Local *localcluster.Cluster
	// Image is the controller's; empty is the one in the manifests.
	Image string
	// Progress is told of long steps; nil is silent.
	Progress *localcluster.Progress
}

// installation is one run.
type installation struct {
	Options
	client client.WithWatch
}

// Berth installs what is missing on the cluster, and returns when the controller is available. Installing
// again is harmless, and brings the controller of this build. It is ErrNoImage when the cluster cannot
// pull the controller's image.
func Berth(ctx context.Context, options Options) error {
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	c, err := client.NewWithWatch(options.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	d := &installation{Options: options, client: c}
	build, err := d.image(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	step := d.Progress.Step("Installing definitions and admission policies, and waiting until they are in effect")
	if err := step.Done(deploy.Install(ctx, d.Config)); err != nil {
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
	if err := deploy.Apply(ctx, d.Config, deploy.Namespace, objects); err != nil {
		return step.Done(err)
	}
	return step.Done(d.available(ctx, step))
}

// image builds the controller's image for a local cluster and gives it to it. It
// returns what tells one build from another.
func (d *installation) image(ctx context.Context) (build string, err error) {
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

func (d *installation) buildImage(ctx context.Context) (string, localcluster.Image, error) {
	root, err := localcluster.Repository()
	if err != nil {
		return "", localcluster.Image{}, err
	}
	scratch, err := os.MkdirTemp("", "berth-install-")
	if err != nil {
		return "", localcluster.Image{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	program := filepath.Join(scratch, "berth-controller")
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./cmd/berth-controller")
	command.Dir = root
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
func (d *installation) adjust(objects []*unstructured.Unstructured, build string) error {
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
func (d *installation) available(ctx context.Context, step *localcluster.Step) error {
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
	err = untilAvailable(ctx, changes, step)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), ErrNoImage):
		return fmt.Errorf("%w%s\n%s", ErrNoImage, d.why(ctx), imageAdvice)
	case err != nil:
		return fmt.Errorf("%w%s", err, d.why(ctx))
	}
	return nil
}

// untilAvailable watches the controller's Deployment until all of its pods are of this build and ready.
func untilAvailable(ctx context.Context, changes watch.Interface, step *localcluster.Step) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the controller is not available", ctx.Err())
		case change, ok := <-changes.ResultChan():
			if !ok {
				return errors.New("the server ended the watch: the controller is not available")
			}
			deployment, ok := change.Object.(*appsv1.Deployment)
			if !ok || change.Type == watch.Deleted {
				return fmt.Errorf("the Deployment is gone, or cannot be watched: %v", change.Type)
			}
			status, want := deployment.Status, *deployment.Spec.Replicas
			step.Detail("%d of %d ready", status.ReadyReplicas, want)
			current := status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == status.Replicas
			if current && status.AvailableReplicas >= want {
				return nil
			}
		}
	}
}

// why says what the controller's pods wait for.
func (d *installation) why(ctx context.Context) string {
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

func (d *installation) log(ctx context.Context, pod string) string {
	logs, err := kubernetes.NewForConfig(d.Config)
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
