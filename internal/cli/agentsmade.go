// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/launch"
)

// objectWord is an object as commands write it.
func objectWord(obj client.Object) string {
	kind := "object"
	switch obj.(type) {
	case *api.AgentRuntime:
		kind = "agentruntime"
	case *agents.Sandbox:
		kind = "sandbox"
	case *appsv1.Deployment:
		kind = "deployment"
	case *appsv1.StatefulSet:
		kind = "statefulset"
	case *corev1.Service:
		kind = "service"
	case *corev1.ServiceAccount:
		kind = "serviceaccount"
	case *corev1.PersistentVolumeClaim:
		kind = "persistentvolumeclaim"
	case *corev1.Pod:
		kind = "pod"
	}
	return kind + "/" + obj.GetName()
}

// madeLists are lists of all kinds that are made for an agent, in the order in which they are removed:
// what runs first, so that nothing is restarted on the way, and last what finds the others.
func madeLists() []client.ObjectList {
	return []client.ObjectList{
		&agents.SandboxList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&corev1.PersistentVolumeClaimList{}, &api.AgentRuntimeList{},
	}
}

// madeFor lists the objects that were made for an agent, in the order in which they are removed, and what
// could not be read.
func (c *cluster) madeFor(ctx context.Context, name string) (made []client.Object, unread []error) {
	for _, list := range madeLists() {
		err := c.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels{launch.LabelAgent: name})
		if notServed(err) {
			continue // and so there are none
		}
		if err != nil {
			unread = append(unread, err)
			continue
		}
		items, err := itemsOf(list)
		if err != nil {
			unread = append(unread, err)
		}
		made = append(made, items...)
	}
	return made, unread
}

// deleteObject deletes an object as it was seen, and not a later one of its name. It is false if it was
// gone.
func (c *cluster) deleteObject(ctx context.Context, obj client.Object) (bool, error) {
	// The answer is awaited even if a person gives up meanwhile: it says what was done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

// patchObject merges a patch into an object as it was seen, and not into a later one of its name.
func (p *program) patchObject(ctx context.Context, c *cluster, obj client.Object, patch map[string]any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	what := objectWord(obj)
	body, err := conditionalPatch(obj.GetUID(), patch)
	if err != nil {
		return err
	}
	switch err := c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body)); {
	case apierrors.IsNotFound(err) && !notServed(err), apierrors.IsConflict(err):
		return &problem{cause: fmt.Errorf("%s was deleted meanwhile", what), next: []string{p.command("agents ls") + " shows what there is"}}
	case err != nil && !refused(err):
		return &problem{cause: fmt.Errorf("change %s: %w; whether it was done is not known", what, err), next: []string{p.command("agents ls") + " shows its state"}}
	case err != nil:
		return fmt.Errorf("change %s: %w", what, err)
	}
	return nil
}

// conditionalPatch is the body of a patch that is only for the object with the UID.
func conditionalPatch(uid types.UID, patch map[string]any) ([]byte, error) {
	whole := maps.Clone(patch)
	metadata, _ := whole["metadata"].(map[string]any)
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = uid
	whole["metadata"] = metadata
	return json.Marshal(whole)
}
