// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Lists lists what the views have no list of, as the server has it now.
type Lists struct{ core coreclient.CoreV1Interface }

// NewLists returns lists over a connection of their own.
func NewLists(server *rest.Config) (*Lists, error) {
	connection, err := ownConnection(server, "lists", requestTimeout)
	if err != nil {
		return nil, err
	}
	core, err := coreclient.NewForConfigAndClient(server, connection)
	if err != nil {
		return nil, err
	}
	return &Lists{core}, nil
}

// ListPods implements agentruntime.Lister.
func (l *Lists) ListPods(ctx context.Context, namespace, labelSelector string) ([]*corev1.Pod, error) {
	list, err := l.core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelSelector}) // a quorum read, as it names no version
	if err != nil {
		return nil, err
	}
	return pointers(list.Items), nil
}

// ListConfigMaps implements agentruntime.Lister.
func (l *Lists) ListConfigMaps(ctx context.Context, namespace, labelSelector string) ([]*corev1.ConfigMap, error) {
	list, err := l.core.ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelSelector})
	if err != nil {
		return nil, err
	}
	return pointers(list.Items), nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// Serves reports whether the server has a kind now.
func Serves(server *rest.Config, kind schema.GroupVersionKind) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(server)
	if err != nil {
		return false, err
	}
	found, err := client.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, explained(err)
	}
	for i := range found.APIResources {
		if found.APIResources[i].Kind == kind.Kind {
			return true, nil
		}
	}
	return false, nil
}
