// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/launch"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workload"
)

// agentSpace is a namespace for agents.
type agentSpace struct {
	*space
	all client.WithWatch
}

func newAgentSpace(t *testing.T) *agentSpace {
	t.Helper()
	s := newSpace(t)
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "agents-test"), client.Options{Scheme: manager.Scheme()})
	s.must(err)
	return &agentSpace{space: s, all: c}
}

// in is the same namespace for a subtest.
func (s *agentSpace) in(t *testing.T) *agentSpace { return &agentSpace{s.space.in(t), s.all} }

// controllers runs those of AgentRuntimes and of Sandboxes, and plays that of Deployments and the kubelet.
func (s *agentSpace) controllers() *podWatch {
	s.t.Helper()
	managertest.Install(s.t, cluster)
	lists, err := manager.NewLists(clustertest.RESTConfig(s.t, cluster, "agents-lists"))
	s.must(err)
	managertest.Start(s.t, cluster, managertest.Options{AgentRuntimes: true, Controllers: []manager.Controller{
		{Events: "agentruntime-controller", Workers: 2, New: func(env control.Environment, views kinds.Views) control.Controller {
			return agentruntime.New(env, views, agentruntime.Options{Lister: lists})
		}},
		{Events: "sandbox-controller", Workers: 2, New: func(env control.Environment, views kinds.Views) control.Controller {
			return sandbox.New(env, views, sandbox.Options{})
		}},
	}})
	s.play(&appsv1.DeploymentList{}, func(obj client.Object) map[string]any {
		d := obj.(*appsv1.Deployment)
		if d.Status.ObservedGeneration == d.Generation {
			return nil
		}
		return map[string]any{"observedGeneration": d.Generation, "replicas": *d.Spec.Replicas, "updatedReplicas": *d.Spec.Replicas, "readyReplicas": *d.Spec.Replicas, "availableReplicas": *d.Spec.Replicas}
	})
	pods := &podWatch{}
	s.play(&corev1.PodList{}, func(obj client.Object) map[string]any {
		p := obj.(*corev1.Pod)
		if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			return nil
		}
		pods.add(p)
		return map[string]any{"phase": "Running", "podIP": "10.0.0.1", "podIPs": []any{map[string]any{"ip": "10.0.0.1"}}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	})
	return pods
}

// play answers each change of the objects of a kind with a status, until the test ends.
func (s *agentSpace) play(list client.ObjectList, status func(client.Object) map[string]any) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := s.all.Watch(ctx, list, client.InNamespace(s.name))
	s.must(err)
	var work sync.WaitGroup
	work.Go(func() {
		for event := range w.ResultChan() {
			obj, ok := event.Object.(client.Object)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			if next := status(obj); next != nil {
				text, _ := json.Marshal(map[string]any{"status": next})
				_ = s.all.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, text)) // it may be gone again
			}
		}
	})
	s.t.Cleanup(func() { w.Stop(); cancel(); work.Wait() })
}

// podWatch are the pods that there were, as they were first seen.
type podWatch struct {
	mu   sync.Mutex
	pods []*corev1.Pod
}

func (w *podWatch) add(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.pods, func(had *corev1.Pod) bool { return had.UID == p.UID }) {
		w.pods = append(w.pods, p.DeepCopy())
	}
}

func (w *podWatch) seen() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pods)
}

func (s *agentSpace) runtime(name string) *api.AgentRuntime {
	s.t.Helper()
	a := &api.AgentRuntime{}
	s.must(s.all.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: name}, a))
	return a
}

// left are the objects that there are of an agent. Nobody is here who lets volumes go whose deletion was asked for.
func (s *agentSpace) left(name string) []string {
	s.t.Helper()
	var left []string
	for _, list := range []client.ObjectList{&api.AgentRuntimeList{}, &agents.SandboxList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{},
		&corev1.ServiceList{}, &corev1.ServiceAccountList{}, &corev1.PersistentVolumeClaimList{}} {
		s.must(s.all.List(s.ctx, list, client.InNamespace(s.name), client.MatchingLabels{launch.LabelAgent: name}))
		text, err := json.Marshal(list)
		s.must(err)
		var found struct {
			Items []struct {
				Metadata struct {
					Name              string
					DeletionTimestamp *string
				}
			}
		}
		s.must(json.Unmarshal(text, &found))
		kind := strings.TrimSuffix(fmt.Sprintf("%T", list)[strings.LastIndex(fmt.Sprintf("%T", list), ".")+1:], "List")
		for _, item := range found.Items {
			if kind != "PersistentVolumeClaim" || item.Metadata.DeletionTimestamp == nil {
				left = append(left, kind+"/"+item.Metadata.Name)
			}
		}
	}
	return left
}

func (s *agentSpace) expectLeft(name string, want ...string) {
	s.t.Helper()
	if left := s.left(name); !slices.Equal(left, want) {
		s.t.Errorf("of agent %s there is %q, want %q", name, left, want)
	}
}

// says checks standard output too.
func (r result) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out, text) {
			t.Errorf("standard output does not say %q, but\n%s", text, r.out)
		}
	}
}

func TestAnAgentsFirstPodHasItsConfiguration(t *testing.T) {
	s := newAgentSpace(t)
	defaults := &corev1.ConfigMap{ObjectMeta: s.meta("mine"), Data: map[string]string{"value": "1"}}
	defaults.Labels = map[string]string{api.LabelDefaults: api.DefaultsTrue}
	s.must(s.all.Create(s.ctx, defaults))
	pods := s.controllers()

	r := s.run("agents", "run", "web", "--image", "busybox:1.37", "--env", "A=b", "--storage", "1Gi", "--", "sleep", "9")
	r.expect(t, 0, "Agent web is Ready")
	r.says(t, "agentruntime/web created", "serviceaccount/web created", "persistentvolumeclaim/web-data created", "service/web created", "sandbox/web created", "sandbox/web started")
	if strings.Index(r.out, "sandbox/web created") > strings.Index(r.out, "sandbox/web started") {
		t.Errorf("it was started before it was there:\n%s", r.out)
	}
	s.expectLeft("web", "AgentRuntime/web", "Sandbox/web", "Service/web", "ServiceAccount/web", "PersistentVolumeClaim/web-data")
	a := s.runtime("web")
	seen := pods.seen()
	if len(seen) != 1 || seen[0].Annotations[api.AnnotationConfigHash] != a.Status.DesiredConfigHash || seen[0].Labels[api.LabelType] != "agent" || a.Status.DesiredConfigHash == "" {
		t.Fatalf("the configuration is %q, and the pods were %v", a.Status.DesiredConfigHash, seen)
	}
	pod := seen[0].Spec
	if security := pod.SecurityContext; !*security.RunAsNonRoot || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "web" {
		t.Errorf("the pod's security is %+v", security)
	}
	if security := pod.Containers[0].SecurityContext; *security.AllowPrivilegeEscalation || !slices.Contains(security.Capabilities.Drop, "ALL") {
		t.Errorf("the container's security is %+v", security)
	}

	s.run("agents", "ls").says(t, "web", "sandbox/web", "Ready", "1/1")
	s.run("agents", "get", "art/web").says(t, "State:", "Ready", "RolloutComplete", "persistentvolumeclaim/web-data")
	if name := s.run("agents", "get", "web", "-o", "name").out; name != "agentruntime.agent.rossoctl.dev/web\n" {
		t.Errorf("its name is %q", name)
	}
	s.run("agents", "wait", "web").expect(t, 0, "Agent web is Ready")
	s.run("agents", "run", "web", "--image", "x").expect(t, 1, `there is an agent "web"`, "agents rm", "web removes it")
	s.expectLeft("web", "AgentRuntime/web", "Sandbox/web", "Service/web", "ServiceAccount/web", "PersistentVolumeClaim/web-data")

	t.Run("restart deletes the pod and no other", func(t *testing.T) {
		s := s.in(t)
		r := s.run("agents", "restart", "web")
		r.expect(t, 0, "Agent web is Ready")
		r.says(t, "sandbox/web restarted: pod web deleted")
		if n := len(pods.seen()); n != 2 {
			t.Errorf("there were %d pods, want 2", n)
		}
	})
	t.Run("suspended, it has no pod, and restart leaves it so", func(t *testing.T) {
		s := s.in(t)
		s.run("agents", "suspend", "web").says(t, "sandbox/web suspended")
		s.run("agents", "restart", "web").says(t, "stays so")
		s.run("agents", "wait", "web").expect(t, 1, "Suspended", "resume", "starts it")
		s.run("agents", "logs", "web").expect(t, 1, "is suspended and has no pod", "resume")
		s.run("agents", "ls").says(t, "Suspended")
		if n := len(pods.seen()); n != 2 {
			t.Errorf("there were %d pods, want 2", n)
		}
	})
	t.Run("a new configuration reaches it before its next pod", func(t *testing.T) {
		s := s.in(t)
		defaults.Data["value"] = "2"
		s.must(s.all.Update(s.ctx, defaults))
		s.awaitRuntime("web", func(now *api.AgentRuntime) bool {
			return now.Status.AppliedConfigHash != a.Status.AppliedConfigHash && now.Status.Phase == api.PhaseActive
		})
		r := s.run("agents", "resume", "web")
		r.expect(t, 0, "Agent web is Ready")
		seen := pods.seen()
		if last := seen[len(seen)-1]; len(seen) != 3 || last.Annotations[api.AnnotationConfigHash] != s.runtime("web").Status.DesiredConfigHash {
			t.Errorf("the last of %d pods has %v", len(seen), last.Annotations)
		}
	})
	t.Run("why says that nothing is wrong", func(t *testing.T) {
		s := s.in(t)
		r := s.run("why", "art/web")
		r.expect(t, 0)
		r.says(t, "agentruntime/web is Ready", "was made with it")
	})
	t.Run("rm removes all but the volume, and the volume when told", func(t *testing.T) {
		s := s.in(t)
		r := s.run("agents", "rm", "web")
		r.expect(t, 0)
		r.says(t, "sandbox/web deleted", "service/web deleted", "serviceaccount/web deleted", "persistentvolumeclaim/web-data kept", "agentruntime/web deleted")
		s.awaitGone("web")
		s.expectLeft("web", "PersistentVolumeClaim/web-data")
		s.run("agents", "rm", "web").expect(t, 1, `there is no agent "web"`, "only its volume is left")
		s.run("agents", "rm", "web", "--delete-volumes").says(t, "persistentvolumeclaim/web-data deleted")
		s.run("agents", "wait", "web").expect(t, 1, `there is no agent "web"`)
	})
}

// awaitRuntime returns once an AgentRuntime is as wanted.
func (s *agentSpace) awaitRuntime(name string, ok func(*api.AgentRuntime) bool) {
	s.t.Helper()
	w, err := s.all.Watch(s.ctx, &api.AgentRuntimeList{}, client.InNamespace(s.name))
	s.must(err)
	defer w.Stop()
	for event := range w.ResultChan() {
		if a, is := event.Object.(*api.AgentRuntime); is && a.Name == name && ok(a) {
			return
		}
	}
	s.t.Fatalf("AgentRuntime %s did not come to that", name)
}

func (s *agentSpace) awaitGone(name string) {
	s.t.Helper()
	w, err := s.all.Watch(s.ctx, &api.AgentRuntimeList{}, client.InNamespace(s.name))
	s.must(err)
	defer w.Stop()
	for {
		a := &api.AgentRuntime{}
		if err := s.all.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: name}, a); client.IgnoreNotFound(err) == nil && err != nil {
			return
		}
		if _, ok := <-w.ResultChan(); !ok {
			s.t.Fatalf("AgentRuntime %s does not go", name)
		}
	}
}

func TestAnAgentInADeployment(t *testing.T) {
	s := newAgentSpace(t)
	s.controllers()
	deployment := func() *appsv1.Deployment {
		d := &appsv1.Deployment{}
		s.must(s.all.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "web"}, d))
		return d
	}
	r := s.run("agents", "run", "web", "--image", "busybox:1.37", "--kind", "deployment", "--type", "tool", "--detach", "-o", "name")
	r.expect(t, 0, "deployment/web created", "deployment/web started")
	if want := "agentruntime.agent.rossoctl.dev/web\nserviceaccount/web\nservice/web\ndeployment.apps/web\n"; r.out != want {
		t.Errorf("standard output is %q, want %q", r.out, want)
	}
	d := deployment()
	if *d.Spec.Replicas != 1 || d.Spec.Template.Annotations[api.AnnotationConfigHash] == "" || d.Spec.Template.Labels[api.LabelType] != "tool" {
		t.Errorf("it has %d replicas, and its template %v %v", *d.Spec.Replicas, d.Spec.Template.Labels, d.Spec.Template.Annotations)
	}
	s.must(s.all.Patch(s.ctx, d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))))
	s.run("agents", "suspend", "web").says(t, "deployment/web suspended")
	if d = deployment(); *d.Spec.Replicas != 0 || d.Annotations[launch.AnnotationReplicas] != "3" {
		t.Errorf("suspended, it has %d replicas and keeps %q", *d.Spec.Replicas, d.Annotations[launch.AnnotationReplicas])
	}
	s.run("agents", "resume", "web", "--detach").says(t, "deployment/web resumed")
	if d = deployment(); *d.Spec.Replicas != 3 || d.Annotations[launch.AnnotationReplicas] != "" {
		t.Errorf("resumed, it has %d replicas and keeps %q", *d.Spec.Replicas, d.Annotations[launch.AnnotationReplicas])
	}
	s.run("agents", "restart", "web", "--detach").says(t, "deployment/web restarted")
	if d = deployment(); d.Spec.Template.Annotations[launch.AnnotationRestartedAt] == "" || d.Spec.Template.Annotations[api.AnnotationConfigHash] == "" {
		t.Errorf("restarted, its template has %v", d.Spec.Template.Annotations)
	}
	s.run("agents", "rm", "web", "nobody", "--wait").expect(t, 1, `there is no agent "nobody"`)
	s.awaitGone("web")
	s.expectLeft("web")
}

func TestAnAgentThatCannotBeMadeLeavesNothing(t *testing.T) {
	s := newAgentSpace(t)
	foreign := &corev1.Service{ObjectMeta: s.meta("web"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	s.must(s.all.Create(s.ctx, foreign))
	r := s.run("agents", "run", "web", "--image", "x", "--storage", "1Gi")
	r.expect(t, 1, "there is a service/web", "nothing that this call made is left", "choose another name")
	r.says(t, "agentruntime/web removed again", "serviceaccount/web removed again", "persistentvolumeclaim/web-data removed again")
	s.expectLeft("web")
	s.must(s.all.Get(s.ctx, client.ObjectKeyFromObject(foreign), foreign))
	s.run("agents", "rm", "web").expect(t, 1, "nothing that was made for it")
	s.must(s.all.Get(s.ctx, client.ObjectKeyFromObject(foreign), foreign))
}

func TestAnAgentThatNobodyConfiguresIsNotStarted(t *testing.T) {
	s := newAgentSpace(t)
	r := s.run("agents", "run", "web", "--image", "x", "--timeout", "1s")
	r.expect(t, 1, "agent web is not configured after 1s", "see that a controller of AgentRuntimes runs", "resume", "rm")
	box := &agents.Sandbox{}
	s.must(s.all.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "web"}, box))
	if box.Running() {
		t.Error("it runs")
	}
	s.run("agents", "ls").says(t, "Suspended")
	s.run("agents", "rm", "web").expect(t, 0)
	s.expectLeft("web")
}

func TestCtrlCRemovesAnAgentThatWasNotStarted(t *testing.T) {
	s := newAgentSpace(t)
	ctx, interrupt := context.WithCancel(s.ctx)
	running := s.start(ctx, strings.NewReader(""), "agents", "run", "web", "--image", "x")
	running.out.await(s.space, "sandbox/web created")
	interrupt()
	r := running.wait()
	r.expect(t, 130, "interrupted; nothing that this call made is left")
	r.says(t, "sandbox/web removed again", "agentruntime/web removed again")
	s.expectLeft("web")
}

// TestWhateverARunThatWasKilledLeftIsRemoved is about every point at which a run can be killed.
func TestWhateverARunThatWasKilledLeftIsRemoved(t *testing.T) {
	s := newAgentSpace(t)
	spec := launch.Spec{Namespace: s.name, Name: "web", Kind: workload.Sandbox, Type: api.RuntimeTypeAgent, MTLS: api.MTLSPermissive, Image: "x", Port: 8000, ServicePort: 80,
		CPU: resource.MustParse("1"), Memory: resource.MustParse("1Gi"), Storage: resource.MustParse("1Gi"), Mount: "/data", RunAsUser: ptr.To[int64](1)}
	for n := range len(spec.Objects()) {
		spec.Name = fmt.Sprintf("web-%d", n)
		objects := spec.Objects()[:n+1]
		for i, obj := range objects {
			if i > 0 {
				launch.Own(obj, objects[0].(*api.AgentRuntime))
			}
			s.must(s.all.Create(s.ctx, obj))
		}
		s.run("agents", "rm", spec.Name, "--delete-volumes").expect(t, 0)
		s.expectLeft(spec.Name)
	}
}

func TestResumeGoesOnWithARunThatWasKilled(t *testing.T) {
	s := newAgentSpace(t)
	pods := s.controllers()
	spec := launch.Spec{Namespace: s.name, Name: "web", Kind: workload.Sandbox, Type: api.RuntimeTypeAgent, MTLS: api.MTLSPermissive, Image: "busybox:1.37", Port: 8000, ServicePort: 80,
		CPU: resource.MustParse("1"), Memory: resource.MustParse("1Gi"), Mount: "/data"}
	for _, obj := range spec.Objects() {
		s.must(s.all.Create(s.ctx, obj))
	}
	r := s.run("agents", "resume", "web")
	r.expect(t, 0, "Agent web is Ready")
	seen := pods.seen()
	if hash := s.runtime("web").Status.DesiredConfigHash; len(seen) != 1 || seen[0].Annotations[api.AnnotationConfigHash] != hash {
		t.Errorf("the configuration is %s, and the pods were %v", hash, seen)
	}
}

func TestAnAgentThatOthersMadeKeepsItsWorkload(t *testing.T) {
	s := newAgentSpace(t)
	box := &agents.Sandbox{ObjectMeta: s.meta("box")}
	box.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "x"}}
	s.must(s.all.Create(s.ctx, box))
	s.must(s.all.Create(s.ctx, &api.AgentRuntime{ObjectMeta: s.meta("web"), Spec: api.AgentRuntimeSpec{Type: api.RuntimeTypeAgent,
		TargetRef: api.TargetReference{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: "box"}}}))
	r := s.run("agents", "rm", "web")
	r.expect(t, 0)
	r.says(t, "agentruntime/web deleted", "sandbox/box kept")
	s.must(s.all.Get(s.ctx, client.ObjectKeyFromObject(box), box))
	s.run("agents", "rm", "web").expect(t, 1, `there is no agent "web"`)
}
