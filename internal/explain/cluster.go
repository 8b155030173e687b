// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/leader"
)

// nodeState is a node as a pod on it depends on it.
type nodeState struct {
	// known is false if the node could not be read.
	known bool
	// node is nil if there is none.
	node *corev1.Node
}

// trouble says what is wrong with the node, or nothing.
func (n nodeState) trouble(name string) string {
	switch {
	case !n.known || name == "":
		return ""
	case n.node == nil:
		return "node " + name + " does not exist any more"
	}
	for _, c := range n.node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("node %s is not Ready (%s)%s", name, c.Reason, after(c.Message))
		}
	}
	return ""
}

// nodeOf reads the node of a pod, once for all that are on it.
func (x *explainer) nodeOf(ctx context.Context, pod *corev1.Pod) nodeState {
	name := pod.Spec.NodeName
	if name == "" {
		return nodeState{}
	}
	state, known := x.nodes[name]
	if !known {
		state = readNode(ctx, x.reader, name)
		x.nodes[name] = state
	}
	return state
}

// readNode reads a node. People may not be allowed to.
func readNode(ctx context.Context, reader client.Reader, name string) nodeState {
	var node corev1.Node
	switch err := reader.Get(ctx, types.NamespacedName{Name: name}, &node); {
	case apierrors.IsNotFound(err):
		return nodeState{known: true}
	case err != nil:
		return nodeState{}
	}
	return nodeState{known: true, node: &node}
}

// skew is how much the clocks of the cluster and of this machine may differ.
const skew = 30 * time.Second

// controllerState is whether a controller is at work.
type controllerState struct {
	// absent is why none is, or empty if one is or it is not known.
	absent string
	// sure is false where one may run without an election.
	sure bool
	// unread is why it is not known, or nil.
	unread error
}

// leases are those that the controllers of a kind may elect their leader by.
func (x *explainer) leases(kind Kind) []types.NamespacedName {
	in := x.options.ControllerNamespace
	list := []types.NamespacedName{{Namespace: in, Name: leader.LeaseName}}
	if kind == AgentRuntime { // they may run without controllers of Sandboxes, and elsewhere
		list = append(list, types.NamespacedName{Namespace: in, Name: leader.AgentRuntimeLeaseName},
			types.NamespacedName{Namespace: x.operatorNamespace(), Name: leader.AgentRuntimeLeaseName})
	}
	return list
}

// anyAtWork is the state of the first of several Leases whose controllers are at work, or
// of the first of all.
func (x *explainer) anyAtWork(ctx context.Context, leases []types.NamespacedName) controllerState {
	var first controllerState
	for i, key := range leases {
		state := controllerAtWork(ctx, x.reader, key, x.options.Now)
		if state.absent == "" && state.unread == nil {
			return state
		}
		if i == 0 {
			first = state
		}
	}
	return first
}

// controllerAtWork looks at a Lease that controllers elect their leader by.
func controllerAtWork(ctx context.Context, reader client.Reader, key types.NamespacedName, now time.Time) controllerState {
	var lease coordinationv1.Lease
	err := reader.Get(ctx, key, &lease)
	name := fmt.Sprintf("Lease %s in namespace %s", key.Name, key.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return controllerState{absent: "no controller runs, or one without --leader-elect: there is no " + name}
	case err != nil:
		return controllerState{unread: fmt.Errorf("whether a controller runs: %w", err)}
	}
	spec := lease.Spec
	if ptr.Deref(spec.HolderIdentity, "") == "" {
		return controllerState{sure: true, absent: "no controller runs: the last one gave up the " + name}
	}
	if spec.RenewTime == nil {
		return controllerState{}
	}
	end := spec.RenewTime.Add(time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second)
	if now.After(end.Add(skew)) {
		return controllerState{sure: true, absent: fmt.Sprintf("no controller runs: %s held the %s, and has not renewed it since %s",
			*spec.HolderIdentity, name, clockTime(spec.RenewTime.Time))}
	}
	return controllerState{}
}
