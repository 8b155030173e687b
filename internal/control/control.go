// SPDX-License-Identifier: Apache-2.0

// Package control declares what a controller is to the program that runs it, so
// that the manager and the simulator run the very same ones.
//
// A controller is given everything that makes a run differ from another: the clock,
// the random suffixes, the way to run calls in parallel, and its views. It starts no
// goroutine and reads no clock of its own.
package control

import (
	"context"
	"errors"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// MaxSteps is how many observe-decide-apply rounds one pass may take. A pass that
// needs more is not converging and is retried with backoff.
const MaxSteps = 8

// ErrNoProgress is returned by a pass that took MaxSteps without coming to rest.
var ErrNoProgress = errors.New("no rest after the steps one pass may take; retrying with backoff")

// Controller reconciles one kind of object.
type Controller interface {
	// Name names the controller in logs and metrics, such as "sandbox".
	Name() string
	// Watches says which changes wake it, the changes of its own kind included.
	Watches() []Watch
	Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error)
}

// Watch says who reconciles when an object of one kind changes. It looks at the
// objects only to choose whom to enqueue, never to decide what to do.
type Watch struct {
	// Object is an empty object of the watched kind.
	Object client.Object
	// Enqueue returns whom to enqueue when an object changes from before to after.
	// before is nil for a create, and for every object when a watch starts; after is
	// nil for a delete. Objects are shared and must not be modified.
	Enqueue func(before, after client.Object) []reconcile.Request
}

// Group runs calls side by side: in parallel in the manager, one after another in
// the simulator.
type Group interface {
	// Each calls do for 0 to n-1, waits for all, and returns their errors joined.
	Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error
}

// Environment is what every controller is given besides its views.
type Environment struct {
	Clock clock.PassiveClock
	// Suffix returns a random name suffix of five characters, valid in a DNS label.
	Suffix func() string
	Group  Group
	// Wake enqueues requests with the named controller, for a wait that ends inside a
	// controller and not with an event of the API server.
	Wake func(controller string, requests ...reconcile.Request)
	// NewLock returns a lock that a controller may hold while it makes requests. A
	// lock that is held across none is an ordinary mutex.
	NewLock func() sync.Locker
	// Events records events. They are asynchronous and may be dropped.
	Events events.EventRecorder
}

// IsControlledBy reports whether the controller of obj is the object with the given
// UID. Ownership is a UID; names, labels and annotations are no evidence.
func IsControlledBy(obj client.Object, uid types.UID) bool {
	return uid != "" && ControllerUID(obj) == uid
}

// ControllerUID returns the UID of the controller of obj, or nothing.
func ControllerUID(obj client.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return ref.UID
	}
	return ""
}

// ControllerOf returns the controller reference of obj if it is of the given group
// and kind, in whatever version, else nil.
func ControllerOf(obj client.Object, group, kind string) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kind {
		return nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Group != group {
		return nil
	}
	return ref
}

// Request returns the request for one object.
func Request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// MemberName returns prefix, a dash and suffix, with prefix cut so that the name is
// a DNS label of at most 63 characters.
func MemberName(prefix, suffix string) string {
	const maxLabel = 63
	prefix = strings.ReplaceAll(prefix, ".", "-") // a label has no dots
	if room := maxLabel - 1 - len(suffix); len(prefix) > room {
		prefix = strings.TrimRight(prefix[:room], "-")
	}
	return prefix + "-" + suffix
}
