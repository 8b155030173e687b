// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/deploy"
)

// ErrNoImage says what to do about an image that the cluster cannot pull.
var ErrNoImage = errors.New("the cluster cannot pull the controller's image")

const imageAdvice = `"make image" builds it into bin/berth-controller.tar. Load that into the cluster's nodes, for example with
  kind load image-archive bin/berth-controller.tar
  ctr -n k8s.io images import bin/berth-controller.tar
and run "make demo" again; or push it to a registry of yours, under a name of your choice, and run
  BERTH_IMAGE=registry.example.com/berth-controller:dev make demo`

// controllerPods selects the controller's pods.
func controllerPods() []client.ListOption {
	return []client.ListOption{client.InNamespace(deploy.Namespace), client.MatchingLabels{"app": deploy.ControllerName}}
}

// pulled watches until a pod of the controller cannot get the image, and then gives up on what waits for it.
// Pods that a former run left in this state are deleted first: their next attempt may be minutes away.
func (d *installation) pulled(ctx context.Context, giveUp context.CancelCauseFunc) error {
	pods := &corev1.PodList{}
	if err := d.client.List(ctx, pods, controllerPods()...); err != nil {
		return err
	}
	former := sets.New[types.UID]() // the watch may begin with what they were before they were deleted
	for i := range pods.Items {
		if lacksImage(&pods.Items[i]) {
			former.Insert(pods.Items[i].UID)
			if err := client.IgnoreNotFound(d.client.Delete(ctx, &pods.Items[i])); err != nil {
				return fmt.Errorf("delete pod %s, which has no image: %w", pods.Items[i].Name, err)
			}
		}
	}
	changes, err := d.client.Watch(ctx, pods, controllerPods()...)
	if err != nil {
		return err
	}
	go func() {
		defer changes.Stop()
		for change := range changes.ResultChan() {
			pod, ok := change.Object.(*corev1.Pod)
			if ok && change.Type != watch.Deleted && !former.Has(pod.UID) && lacksImage(pod) {
				giveUp(ErrNoImage)
				return
			}
		}
	}()
	return nil
}

// lacksImage says whether a pod has tried to pull an image and failed, or need not try.
func lacksImage(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		waits := status.State.Waiting
		return waits != nil && slices.Contains([]string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}, waits.Reason)
	})
}
