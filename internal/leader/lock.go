// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseName is the name of the Lease that controllers of this API elect their leader
// by. Every implementation takes the same one, so that two never act at once.
const LeaseName = "a3317529.agent-sandbox.x-k8s.io"

// AgentRuntimeLeaseName is that of operators of AgentRuntimes that run no Sandboxes.
const AgentRuntimeLeaseName = "b7c4ae34.rossoctl.dev"

// namespaceFile is where a pod finds its own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace of the pod this process runs in.
func Namespace() (string, error) {
	contents, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "", fmt.Errorf("find the namespace of this pod: %w", err)
	}
	return strings.TrimSpace(string(contents)), nil
}

// NewLock returns the Lease of that name in namespace as client-go's leader election takes it.
// Renewing it opens the fence, and giving it up closes the fence first. One request
// takes at most timeout.
func NewLock(config *rest.Config, namespace, name string, timeout time.Duration, fence *Fence) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = timeout
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return fence.Watch(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}), nil
}

// Watch returns lock with its renewals told to the fence.
func (f *Fence) Watch(lock resourcelock.Interface) resourcelock.Interface {
	return &watched{Interface: lock, fence: f}
}

// watched is a lock that opens and closes a fence.
type watched struct {
	resourcelock.Interface
	fence *Fence
}

// Create implements resourcelock.Interface.
func (w *watched) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return w.write(ctx, record, w.Interface.Create)
}

// Update implements resourcelock.Interface.
func (w *watched) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return w.write(ctx, record, w.Interface.Update)
}

func (w *watched) write(ctx context.Context, record resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != w.Identity() {
		w.fence.shut() // before the request: others may lead from the moment it lands
		return send(ctx, record)
	}
	began := w.fence.clock.Now()
	if err := send(ctx, record); err != nil {
		return err
	}
	w.fence.open(began)
	return nil
}
