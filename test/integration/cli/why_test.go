// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/claim"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/warmpool"
)

// living is a namespace of a cluster in which the controllers run, a scheduler, and nodes
// that pretend to run pods.
type living struct {
	*space
	cluster *localcluster.Cluster
	manager *managertest.Manager
	changes chan struct{} // tells that something changed that an answer may rest on
}

func newLiving(t *testing.T) *living {
	t.Helper()
	c := clustertest.ControlPlane(t, clustertest.WithScheduler())
	managertest.Install(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if err := c.FakeNodes(ctx, 1); err != nil {
		t.Fatal(err)
	}
	scheme := manager.Scheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader, err := client.NewWithWatch(clustertest.RESTConfig(t, c, "test"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &living{space: &space{WithWatch: reader, t: t, ctx: ctx, name: "why"}, cluster: c, changes: make(chan struct{}, 1)}
	w.must(w.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.EventList{}, &networkingv1.NetworkPolicyList{},
		&agents.SandboxList{}, &extensions.SandboxClaimList{}, &extensions.SandboxWarmPoolList{}, &extensions.SandboxTemplateList{},
	} {
		w.follow(list, w.name)
	}
	w.follow(&coordinationv1.LeaseList{}, deploy.Namespace)
	pods, err := manager.WholePods(clustertest.RESTConfig(t, c, "controller"))
	w.must(err)
	w.manager = managertest.Start(t, c, managertest.Options{LeaderElection: true, Controllers: []manager.Controller{
		{Events: "sandbox-controller", New: func(env control.Environment, views kinds.Views) control.Controller {
			return sandbox.New(env, views, sandbox.Options{WholePods: pods})
		}},
		{Events: "sandboxtemplate-controller", New: func(env control.Environment, views kinds.Views) control.Controller {
			return template.New(env, views)
		}},
		{Events: "sandboxwarmpool-controller", New: func(env control.Environment, views kinds.Views) control.Controller {
			return warmpool.New(env, views, warmpool.Options{})
		}},
		{Events: "sandboxclaim-controller", New: func(env control.Environment, views kinds.Views) control.Controller {
			return claim.New(env, views, claim.Options{})
		}},
	}})
	return w
}

// follow counts what happens to the objects of a list as a change.
func (w *living) follow(list client.ObjectList, namespace string) {
	w.t.Helper()
	events, err := w.Watch(w.ctx, list, client.InNamespace(namespace))
	w.must(err)
	go func() {
		for range events.ResultChan() {
			select {
			case w.changes <- struct{}{}:
			default:
			}
		}
	}()
}

// why asks, again after every change, until the answer has this exit code and these texts.
func (w *living) why(what string, code int, texts ...string) string {
	w.t.Helper()
	for {
		var out, problems bytes.Buffer
		got := cli.Run(w.ctx, []string{"berth", "--kubeconfig", w.cluster.Kubeconfig(), "-n", w.name, "why", what},
			genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems})
		text := out.String() + problems.String()
		missing := ""
		for _, part := range texts {
			if !strings.Contains(text, part) {
				missing = part
			}
		}
		if got == code && missing == "" {
			w.t.Logf("berth why %s\n%s", what, text)
			return text
		}
		select {
		case <-w.changes:
		case <-w.ctx.Done():
			w.t.Fatalf("why %s ends with %d, want %d, and does not say %q, but\n%s", what, got, code, missing, text)
		}
	}
}

func (w *living) make(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		obj.SetNamespace(w.name)
		w.must(w.Create(w.ctx, obj))
	}
}

// patch sends a merge patch.
func (w *living) patch(obj client.Object, body string) {
	w.t.Helper()
	w.must(w.Patch(w.ctx, obj, client.RawPatch("application/merge-patch+json", []byte(body))))
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func templateOf(name string, edits ...func(*corev1.PodSpec)) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: named(name), Spec: extensions.SandboxTemplateSpec{SandboxBlueprint: podTemplate()}}
	for _, edit := range edits {
		edit(&t.Spec.PodTemplate.Spec)
	}
	return t
}

func poolOf(name, template string, replicas int32) *extensions.SandboxWarmPool {
	return &extensions.SandboxWarmPool{ObjectMeta: named(name),
		Spec: extensions.SandboxWarmPoolSpec{Replicas: &replicas, TemplateRef: extensions.SandboxTemplateRef{Name: template}}}
}

func claimOn(name, pool string, edits ...func(*extensions.SandboxClaim)) *extensions.SandboxClaim {
	c := &extensions.SandboxClaim{ObjectMeta: named(name), Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: pool}}}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// With the controllers at work, why agrees with them on what is well: it foresees no
// write. And it finds the cause of what is not.
func TestWhyAgreesWithTheControllers(t *testing.T) {
	w := newLiving(t)
	const settled = "nothing, until something that it watches changes"

	w.make(templateOf("good"), poolOf("good", "good", 1))
	w.why("pool/good", 0, "pool/good is full: 1 of 1 members are ready", settled)
	w.why("template/good", 0, "is as it should be", "pool/good makes its members from it: 1 of 1", settled)
	var members agents.SandboxList
	w.must(w.List(w.ctx, &members, client.InNamespace(w.name)))
	member := &members.Items[0]
	w.why("sandbox/"+member.Name, 0, "is Ready", `It belongs to SandboxWarmPool "good"`, settled)

	w.make(claimOn("served", "good"))
	w.why("served", 0, "is Ready with sandbox/"+member.Name, "(Adopted)", settled)
	w.why("sandbox/"+member.Name, 0, `It belongs to SandboxClaim "served"`, settled)
	w.must(w.Delete(w.ctx, member))
	w.why("claim/served", 3, "sandbox/"+member.Name+", which it was given, is gone", "berth release", "sandboxLost")

	w.make(templateOf("huge", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"nowhere": "x"} }), poolOf("huge", "huge", 1))
	w.why("pool/huge", 3, "no node takes it (Unschedulable)", "FailedScheduling")
	w.make(claimOn("patient", "huge"))
	w.why("patient", 3, "(WaitingForMember)", "meant for this claim; no claim waits before it", "no node takes it (Unschedulable)", "FailedScheduling", settled)
	w.make(claimOn("late", "huge"))
	w.why("late", 3, "It has sandbox/late (Created)", "sandbox/late: Pod late: no node takes it")

	w.make(poolOf("empty", "missing", 1), claimOn("astray", "empty"), claimOn("lost", "nowhere"))
	w.why("pool/empty", 3, "template/missing does not exist", `create the SandboxTemplate "missing"`)
	w.why("astray", 3, "(TemplateNotFound)", settled)
	w.why("lost", 3, "(WarmPoolNotFound)", "there are the pools")
	w.why("template/missing", 3, "does not exist, and is named by pool/empty")

	w.make(claimOn("varied", "good", func(c *extensions.SandboxClaim) { c.Spec.Env = []extensions.EnvVar{{Name: "A", Value: "b"}} }),
		claimOn("labelled", "good", func(c *extensions.SandboxClaim) {
			c.Spec.AdditionalPodMetadata.Labels = map[string]string{"kubernetes.io/x": "y"}
		}))
	w.why("varied", 3, "(EnvVarsInjectionRejected)", "spec.envVarsInjectionPolicy", settled)
	w.why("labelled", 3, "(InvalidMetadata)", "labels[kubernetes.io/x]", settled)

	w.whyOfOneSandbox(settled)
	w.why("claim/none", 1, `there is no claim "none" in namespace "why"`, "served")
	w.why("node/x", 1, "names no claim, sandbox, pool, template or agentruntime")

	w.manager.Stop(t)
	w.make(claimOn("alone", "good"))
	w.why("alone", 3, "No controller runs: the last one gave up the Lease", "kubectl get deployments,pods -n agent-sandbox-system", "adopt Sandbox")
}

// whyOfOneSandbox takes a Sandbox through drift, a second pod, a pod that is held, suspension and expiry.
func (w *living) whyOfOneSandbox(settled string) {
	w.t.Helper()
	box := &agents.Sandbox{ObjectMeta: named("box"), Spec: agents.SandboxSpec{SandboxBlueprint: podTemplate()}}
	w.make(box)
	w.why("sandbox/box", 0, "is Ready", "It belongs to no claim and no pool", settled)
	w.patch(box, `{"spec":{"podTemplate":{"spec":{"containers":[{"name":"work","image":"other"}]}}}}`)
	w.why("sandbox/box", 3, "its pod is not what its podTemplate says now", "image", "kubectl delete pod", settled)

	pod := &corev1.Pod{}
	w.must(w.Get(w.ctx, client.ObjectKey{Namespace: w.name, Name: "box"}, pod))
	second := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "box-2", OwnerReferences: pod.OwnerReferences}, Spec: corev1.PodSpec{Containers: pod.Spec.Containers[:1]}}
	second.Spec.Containers[0].VolumeMounts = nil
	w.make(second)
	w.why("sandbox/box", 3, "(MultiplePods)", "find out which of the pods holds the work (box, box-2)", settled)
	w.must(w.Delete(w.ctx, second, &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	w.why("sandbox/box", 3, "its pod is not what its podTemplate says now")

	w.patch(pod, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	w.must(w.Delete(w.ctx, pod))
	w.why("sandbox/box", 2, "the pod box is terminating, and the next one waits for it", "its grace period ends at")
	w.patch(pod, `{"metadata":{"finalizers":null}}`)
	w.why("sandbox/box", 0, "is Ready", settled)

	w.patch(box, `{"spec":{"operatingMode":"Suspended"}}`)
	w.why("sandbox/box", 0, "(SandboxSuspended)", "berth resume", settled)
	w.patch(box, `{"spec":{"operatingMode":"Running","shutdownTime":"2020-01-01T00:00:00Z"}}`)
	w.why("sandbox/box", 0, "(SandboxExpired)", "It expires at 2020-01-01T00:00:00Z", settled)
}

func TestWhyWritesJSON(t *testing.T) {
	s := newSpace(t)
	s.makeClaim("one")
	got := s.run("why", "claim/one", "-o", "json")
	var report struct {
		Kind, Name, Verdict string
		Sees, Next, Advice  []string
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatalf("%v\n%s%s", err, got.out, got.err)
	}
	if report.Kind != "claim" || report.Name != "one" || report.Verdict != "Underway" || got.code != 2 || len(report.Sees) == 0 || len(report.Next) == 0 {
		t.Errorf("exit code %d, and the report is\n%s", got.code, got.out)
	}
	s.run("why", "claim/one", "-o", "xml").expect(t, 1, `there is no output format "xml"`)
	denied := s.run("why", "claim/one", "--as", "nobody")
	denied.expect(t, 1, "forbidden", "ask an administrator")
}
