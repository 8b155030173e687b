// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/simulation"
)

const space = "conformance"

// simulated is the server of the simulator.
type simulated struct{ *simulation.Server }

func newSimulated() *simulated {
	return &simulated{simulation.NewBerthServer(simulation.NewClock())}
}

// kindOf is the resource of an object, of the kinds that operations are about.
func kindOf(obj client.Object) string {
	return map[string]string{
		"*v1beta1.Sandbox": "sandboxes", "*v1beta1.SandboxTemplate": "sandboxtemplates", "*v1beta1.SandboxWarmPool": "sandboxwarmpools",
		"*v1beta1.SandboxClaim": "sandboxclaims", "*v1.Pod": "pods",
	}[reflect.TypeOf(obj).String()]
}

func at(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: space, Name: obj.GetName()}
}

// take writes a reply into the object of the request.
func take(into, reply client.Object, err error) error {
	if err == nil && reply != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(reply.DeepCopyObject()).Elem())
	}
	return err
}

func (s *simulated) create(obj client.Object) error {
	obj.SetNamespace(space)
	reply, err := s.Create(kindOf(obj), obj)
	return take(obj, reply, err)
}

func (s *simulated) get(obj client.Object) error {
	reply, err := s.Get(kindOf(obj), at(obj))
	return take(obj, reply, err)
}

func (s *simulated) update(obj client.Object, subresource string) error {
	reply, err := s.Update(kindOf(obj), subresource, obj)
	return take(obj, reply, err)
}

func (s *simulated) patch(obj client.Object, kind types.PatchType, subresource, body string) error {
	patch := s.Patch
	if kind == types.JSONPatchType {
		patch = s.PatchJSON
	}
	reply, err := patch(kindOf(obj), at(obj), subresource, []byte(body))
	return take(obj, reply, err)
}

func (s *simulated) apply(obj client.Object, manager string, force bool, body string) error {
	reply, err := s.Apply(kindOf(obj), at(obj), manager, force, []byte(body))
	return take(obj, reply, err)
}

func (s *simulated) remove(obj client.Object, asked simulation.Deletion) error {
	_, _, err := s.Remove(kindOf(obj), at(obj), asked)
	return err
}

func (s *simulated) list(like client.Object, labelled, field string) ([]string, error) {
	which, err := selection(labelled, field)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, obj := range s.Select(kindOf(like), which) {
		names = append(names, obj.GetName())
	}
	return names, nil
}

func selection(labelled, field string) (simulation.Selection, error) {
	byLabel, err := labels.Parse(labelled)
	if err != nil {
		return simulation.Selection{}, err
	}
	byField, err := fields.ParseSelector(field)
	return simulation.Selection{Labels: byLabel, Fields: byField}, err
}

func (s *simulated) watch(since, last client.Object, labelled string) ([]string, error) {
	which, err := selection(labelled, "")
	if err != nil {
		return nil, err
	}
	after, err := strconv.ParseUint(since.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, err
	}
	var events []string
	for _, event := range s.Watch(kindOf(since), which, after) {
		obj := event.Object.(client.Object)
		if obj.GetName() == last.GetName() {
			return events, nil
		}
		events = append(events, fmt.Sprintf("%s %s", event.Type, obj.GetName()))
	}
	return nil, errors.New("the last event is missing")
}

func (s *simulated) bind(pod *corev1.Pod) error {
	s.EditStatus("pods", at(pod), func(obj client.Object) { obj.(*corev1.Pod).Spec.NodeName = "node" })
	return nil
}

func (s *simulated) exhaust() error {
	s.Exhaust("pods", true)
	return nil
}

func (s *simulated) await(_ client.Object, holds func() bool) error {
	for busy := true; busy; {
		busy = s.Collect()
	}
	if !holds() {
		return errors.New("the garbage collector has nothing to do any more")
	}
	return nil
}
