// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestServiceByWhatIsAskedForAndWhoseItIs(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	nobody := func(s *corev1.Service) { s.OwnerReferences = nil; s.Labels = nil }
	willing := func(s *corev1.Service) {
		s.OwnerReferences, s.Labels = nil, map[string]string{agents.LabelAdoptable: "true"}
	}
	other := func(s *corev1.Service) { s.OwnerReferences[0].UID, s.OwnerReferences[0].Name = "else", "else" }
	mine := func(*corev1.Service) {}
	stale := func(s *corev1.Service) { s.Spec.Selector = map[string]string{"old": "1"} }
	ports := func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Name: "x", Port: 1}} }
	going := func(s *corev1.Service) { at := metav1.NewTime(testStart); s.DeletionTimestamp = &at }
	cases := map[string]struct {
		asked            *bool
		service          func(*corev1.Service)
		more             func(*observed)
		next             step
		problem          string
		required, exists bool
	}{
		"asked for, there is none":        {asked: yes, next: createService{}, required: true},
		"asked for and there":             {asked: yes, service: mine, required: true, exists: true},
		"asked for, of an older selector": {asked: yes, service: stale, next: patchService{}, required: true, exists: true},
		"asked for, with other ports":     {asked: yes, service: ports, next: patchService{}, required: true, exists: true},
		"asked for, nobody's and willing": {asked: yes, service: willing, next: patchService{}, required: true},
		"asked for, nobody's, with an address": {asked: yes, service: func(s *corev1.Service) { willing(s); s.Spec.ClusterIP = "10.0.0.1" }, required: true,
			problem: `cannot adopt service "box": ClusterIP is "10.0.0.1" (expected "None", field is immutable)`},
		"asked for, nobody's": {asked: yes, service: nobody, required: true,
			problem: `cannot adopt unowned service "box": ` + unlabelled},
		"asked for, another's": {asked: yes, service: other, required: true,
			problem: `service "box" is owned by Sandbox/else (UID: else), not by sandbox "box"`},
		"asked for, on its way out": {asked: yes, service: going, required: true},
		"asked for, and refused": {
			asked: yes, more: func(o *observed) { o.pass.refusals = []refusal{{subject: aboutService, err: errors.New("no")}} }, required: true,
			problem: "no",
		},
		"unset, there is none":            {},
		"unset and there":                 {service: mine, required: true, exists: true},
		"unset, of an older selector":     {service: stale, next: patchService{}, required: true, exists: true},
		"unset, ports are left alone":     {service: ports, required: true, exists: true},
		"unset, nobody's":                 {service: nobody},
		"unset, nobody's and willing":     {service: willing},
		"unset, another's is no business": {service: other},
		"unset, on its way out":           {service: going},
		"unwanted, there is none":         {asked: no},
		"unwanted and there":              {asked: no, service: mine, next: deleteService{}},
		"unwanted, nobody's":              {asked: no, service: nobody},
		"unwanted, another's":             {asked: no, service: other},
		"unwanted, on its way out":        {asked: no, service: going},
		"with two pods it is left alone": {
			asked: yes, more: func(o *observed) { o.pods = append(o.pods, newPod(o.sandbox), newPod(o.sandbox, named("b"))) }, required: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(func(s *agents.Sandbox) { s.Spec.Service = c.asked })
			seen := seenWith(s)
			if c.service != nil {
				seen.service = renderService(s, serviceSelector(s, nil))
				c.service(seen.service)
			}
			if c.more != nil {
				c.more(&seen)
			}
			v := decideService(seen, decidePod(seen, testStart))
			wantStep(t, v.next, c.next)
			if v.problem != c.problem || v.required != c.required || v.exists != c.exists {
				t.Errorf("got %+v, want %+v", v, c)
			}
		})
	}
}

func TestASelectorNeverMissesItsPod(t *testing.T) {
	s := newSandbox(withService(true))
	labelled := newPod(s)
	older := newPod(s, func(p *corev1.Pod) { delete(p.Labels, agents.LabelSandboxUID) })
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{"without a pod": {nil, 2}, "a labelled pod": {labelled, 2}, "an older pod": {older, 1}} {
		if got := serviceSelector(s, c.pod); len(got) != c.want {
			t.Errorf("%s: selector %v", name, got)
		}
	}
	// The pod is labelled first.
	seen := seenWith(s, older)
	seen.service = renderService(s, serviceSelector(s, older))
	wantStep(t, decide(seen, testStart), syncPod{})
	seen.pods[0] = labelled
	got := decide(seen, testStart)
	wantStep(t, got, patchService{})
	want := map[string]any{"spec": map[string]any{"selector": map[string]any{agents.LabelSandboxUID: "box-uid"}}}
	if patch := map[string]any(got.(patchService).patch); !reflect.DeepEqual(patch, want) {
		t.Errorf("patch %v, want %v", patch, want)
	}
}

func TestServicePorts(t *testing.T) {
	container := func(ports ...corev1.ContainerPort) corev1.Container { return corev1.Container{Ports: ports} }
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: protocol, TargetPort: intstr.FromInt32(number)}
	}
	const tcp, udp = corev1.ProtocolTCP, corev1.ProtocolUDP
	cases := map[string]struct {
		containers, init []corev1.Container
		want             []corev1.ServicePort
	}{
		"no ports make none": {containers: []corev1.Container{container()}},
		"sorted by number, then protocol": {
			containers: []corev1.Container{
				container(corev1.ContainerPort{ContainerPort: 90}, corev1.ContainerPort{ContainerPort: 80, Protocol: udp}, corev1.ContainerPort{ContainerPort: 80}),
			},
			want: []corev1.ServicePort{port("p-80-tcp", 80, tcp), port("p-80-udp", 80, udp), port("p-90-tcp", 90, tcp)},
		},
		"each once, by the first name given": {
			containers: []corev1.Container{
				container(corev1.ContainerPort{ContainerPort: 80}),
				container(corev1.ContainerPort{ContainerPort: 80, Name: "web"}, corev1.ContainerPort{ContainerPort: 80, Name: "other"}),
			},
			want: []corev1.ServicePort{port("web", 80, tcp)},
		},
		"a name that is taken goes to the lower port": {
			containers: []corev1.Container{container(corev1.ContainerPort{ContainerPort: 81, Name: "web"}), container(corev1.ContainerPort{ContainerPort: 80, Name: "web"})},
			want:       []corev1.ServicePort{port("web", 80, tcp), port("p-81-tcp", 81, tcp)},
		},
		"a made-up name that is taken is numbered": {
			containers: []corev1.Container{container(corev1.ContainerPort{ContainerPort: 80, Name: "p-81-tcp"}, corev1.ContainerPort{ContainerPort: 81})},
			want:       []corev1.ServicePort{port("p-81-tcp", 80, tcp), port("p-81-tcp-2", 81, tcp)},
		},
		"init containers count if they keep running": {
			init: []corev1.Container{
				container(corev1.ContainerPort{ContainerPort: 1}),
				{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{ContainerPort: 2}}},
			},
			want: []corev1.ServicePort{port("p-2-tcp", 2, tcp)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := servicePorts(&corev1.PodSpec{Containers: c.containers, InitContainers: c.init})
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
