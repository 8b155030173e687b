// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/simulation"
)

// limit is for a server to do what it does by itself.
const limit = 2 * time.Minute

// actual is one namespace of a real API server.
type actual struct {
	client.WithWatch
	ctx   context.Context
	space string
}

// connect returns a client of a real API server.
func connect(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, agents.AddToScheme, extensions.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	connected, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

// newReal makes a namespace.
func newReal(t *testing.T, connected client.WithWatch, n int) *actual {
	t.Helper()
	r := &actual{connected, t.Context(), fmt.Sprintf("%s-%d", space, n)}
	if err := r.Create(r.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.space}}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.space, Name: "default"}}
	if err := r.Create(r.ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return r
}

func (r *actual) create(obj client.Object) error {
	obj.SetNamespace(r.space)
	return r.Create(r.ctx, obj)
}

func (r *actual) get(obj client.Object) error {
	return r.Get(r.ctx, client.ObjectKeyFromObject(obj), obj)
}

func (r *actual) update(obj client.Object, subresource string) error {
	if subresource != "" {
		return r.SubResource(subresource).Update(r.ctx, obj)
	}
	return r.Update(r.ctx, obj)
}

func (r *actual) patch(obj client.Object, kind types.PatchType, subresource, body string) error {
	patch := client.RawPatch(kind, []byte(body))
	if subresource != "" {
		return r.SubResource(subresource).Patch(r.ctx, obj, patch)
	}
	return r.Patch(r.ctx, obj, patch)
}

func (r *actual) apply(obj client.Object, manager string, force bool, body string) error {
	obj.SetNamespace(r.space)
	options := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	return r.Patch(r.ctx, obj, client.RawPatch(types.ApplyPatchType, []byte(body)), options...)
}

func (r *actual) remove(obj client.Object, asked simulation.Deletion) error {
	options := &client.DeleteOptions{GracePeriodSeconds: asked.Grace}
	if asked.UID != "" || asked.ResourceVersion != "" {
		options.Preconditions = &metav1.Preconditions{}
	}
	if asked.UID != "" {
		options.Preconditions.UID = &asked.UID
	}
	if asked.ResourceVersion != "" {
		options.Preconditions.ResourceVersion = &asked.ResourceVersion
	}
	if asked.Propagation != "" {
		options.PropagationPolicy = &asked.Propagation
	}
	return r.Delete(r.ctx, obj, options)
}

// listOf is an empty list of the kind of an object.
func (r *actual) listOf(like client.Object) client.ObjectList {
	return map[string]client.ObjectList{
		"sandboxes": &agents.SandboxList{}, "sandboxtemplates": &extensions.SandboxTemplateList{}, "pods": &corev1.PodList{},
		"sandboxwarmpools": &extensions.SandboxWarmPoolList{}, "sandboxclaims": &extensions.SandboxClaimList{},
	}[kindOf(like)]
}

func (r *actual) list(like client.Object, labelled, field string) ([]string, error) {
	which, err := selection(labelled, field)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	kind, err := r.GroupVersionKindFor(r.listOf(like))
	if err != nil {
		return nil, err
	}
	list.SetGroupVersionKind(kind)
	err = r.List(r.ctx, list, client.InNamespace(r.space), client.MatchingLabelsSelector{Selector: which.Labels}, client.MatchingFieldsSelector{Selector: which.Fields})
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, err
}

// observe watches a kind until stop is true of an event.
func (r *actual) observe(like client.Object, since string, labelled labels.Selector, stop func(watch.Event) bool) error {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	watching, err := r.Watch(ctx, r.listOf(like), client.InNamespace(r.space), client.MatchingLabelsSelector{Selector: labelled},
		client.MatchingFieldsSelector{Selector: fields.Everything()}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
	if err != nil {
		return err
	}
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-watching.ResultChan():
			if !ok || event.Type == watch.Error {
				return fmt.Errorf("the watch ended: %v", event.Object)
			}
			if stop(event) {
				return nil
			}
		}
	}
}

func (r *actual) watch(since, last client.Object, labelled string) ([]string, error) {
	which, err := selection(labelled, "")
	if err != nil {
		return nil, err
	}
	var events []string
	err = r.observe(since, since.GetResourceVersion(), which.Labels, func(event watch.Event) bool {
		obj := event.Object.(client.Object)
		if obj.GetName() == last.GetName() {
			return true
		}
		events = append(events, fmt.Sprintf("%s %s", event.Type, obj.GetName()))
		return false
	})
	return events, err
}

func (r *actual) await(like client.Object, holds func() bool) error {
	list := r.listOf(like)
	if err := r.List(r.ctx, list, client.InNamespace(r.space)); err != nil {
		return err
	}
	if holds() {
		return nil
	}
	return r.observe(like, list.GetResourceVersion(), labels.Everything(), func(watch.Event) bool { return holds() })
}

func (r *actual) bind(pod *corev1.Pod) error {
	return r.SubResource("binding").Create(r.ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})
}

func (r *actual) exhaust() error {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: r.space, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	if err := r.Create(r.ctx, quota); err != nil {
		return err
	}
	watching, err := r.Watch(r.ctx, &corev1.ResourceQuotaList{}, client.InNamespace(r.space))
	if err != nil {
		return err
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if seen, ok := event.Object.(*corev1.ResourceQuota); ok && len(seen.Status.Hard) > 0 {
			return nil
		}
	}
	return r.ctx.Err()
}
