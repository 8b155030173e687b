// SPDX-License-Identifier: Apache-2.0

// Package template_test runs the controller of templates against a real API server.
package template_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/template"
)

// limit is for something that happens at once to have happened on a slow machine.
const limit = time.Minute

var (
	cluster   *localcluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit()))
}

type stage struct {
	t         *testing.T
	client    client.WithWatch
	namespace string
	manager   *managertest.Manager
}

func newStage(t *testing.T) *stage {
	t.Helper()
	installed.Do(func() { managertest.Install(t, cluster) })
	scheme := manager.Scheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "template-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, client: c, namespace: ns.Name}
	s.manager = managertest.Start(t, cluster, managertest.Options{Controllers: []manager.Controller{{
		Events: "sandboxtemplate-controller",
		New:    func(env control.Environment, views kinds.Views) control.Controller { return template.New(env, views) },
	}}})
	return s
}

func (s *stage) template(name string) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox:1.36"}}
	return t
}

func (s *stage) policy(template string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: template + "-network-policy"}}
}

func (s *stage) create(obj client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), obj); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) delete(obj client.Object) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), obj); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) patch(obj client.Object, body any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Patch(s.t.Context(), obj, client.RawPatch(types.MergePatchType, text)); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until the object is as it should be; is gets false while there is none.
func await[T client.Object](s *stage, list client.ObjectList, obj T, what string, is func(obj T, there bool) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	w, err := s.client.Watch(ctx, list, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	for {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		if client.IgnoreNotFound(err) != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if is(obj, err == nil) {
			return
		}
		if _, ok := <-w.ResultChan(); !ok {
			s.t.Fatalf("%T %s never %s", obj, obj.GetName(), what)
		}
	}
}

func (s *stage) awaitPolicy(policy *networkingv1.NetworkPolicy, what string, is func(*networkingv1.NetworkPolicy, bool) bool) {
	s.t.Helper()
	await(s, &networkingv1.NetworkPolicyList{}, policy, what, is)
}

func there(_ *networkingv1.NetworkPolicy, there bool) bool  { return there }
func isGone(_ *networkingv1.NetworkPolicy, there bool) bool { return !there }

// settle returns when the controller has handled all that happened before: it handles
// objects one by one.
func (s *stage) settle() {
	s.t.Helper()
	one := s.template("")
	one.GenerateName = "settle-"
	s.create(one)
	s.awaitPolicy(s.policy(one.Name), "was made", there)
}

func TestATemplateHasItsLabelAndItsPolicy(t *testing.T) {
	s := newStage(t)
	one, policy := s.template("python"), s.policy("python")
	requests := s.manager.Requests(t, "template", func() {
		s.create(one)
		s.awaitPolicy(policy, "was made", there)
		s.settle()
	})
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(one), one); err != nil {
		t.Fatal(err)
	}
	if one.Labels[agents.LabelTemplateRefHash] != agents.NameHash("python") {
		t.Errorf("labels %v", one.Labels)
	}
	if len(policy.OwnerReferences) != 0 || policy.Annotations[agents.AnnotationTemplateUID] != string(one.UID) {
		t.Errorf("the policy has owners %v and annotations %v", policy.OwnerReferences, policy.Annotations)
	}
	if writes := clustertest.Writes(requests); writes["patch sandboxtemplates"] != 2 || writes["create networkpolicies"] != 2 || len(writes) != 2 {
		t.Errorf("two templates took %v", writes)
	}
}

func TestAPolicyIsBroughtBackToWhatTheTemplateSays(t *testing.T) {
	s := newStage(t)
	one, policy := s.template("python"), s.policy("python")
	one.Spec.NetworkPolicy = &extensions.NetworkPolicySpec{
		// The server fills in the protocol, which is no drift.
		Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(443))}}}},
	}
	s.create(one)
	s.awaitPolicy(policy, "was made", there)
	s.patch(policy, map[string]any{"spec": map[string]any{
		"ingress": []any{map[string]any{}}, "podSelector": map[string]any{"matchLabels": map[string]any{"other": "yes"}},
	}})
	s.awaitPolicy(policy, "was brought back", func(p *networkingv1.NetworkPolicy, there bool) bool {
		return there && template.StateOf(p, one) == template.PolicyCurrent
	})
	s.patch(one, map[string]any{"spec": map[string]any{"networkPolicy": nil}})
	s.awaitPolicy(policy, "followed the template", func(p *networkingv1.NetworkPolicy, there bool) bool {
		return there && template.StateOf(p, one) == template.PolicyCurrent
	})
	s.delete(policy)
	s.awaitPolicy(policy, "was made again", there)
	s.patch(one, map[string]any{"spec": map[string]any{"networkPolicyManagement": "Unmanaged"}})
	s.awaitPolicy(policy, "went", isGone)
}

func TestAPolicyOutlivesItsTemplateAsLongAsSandboxesDo(t *testing.T) {
	s := newStage(t)
	one, policy := s.template("python"), s.policy("python")
	s.create(one)
	s.awaitPolicy(policy, "was made", there)
	sandbox := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "a", Annotations: map[string]string{agents.AnnotationTemplateRef: "python"},
	}}
	sandbox.Spec.PodTemplate = one.Spec.PodTemplate
	s.create(sandbox)
	s.delete(one)
	s.settle()
	s.awaitPolicy(policy, "stayed", there)

	// A template of the same name takes the policy over.
	again := s.template("python")
	s.create(again)
	s.awaitPolicy(policy, "was taken over", func(p *networkingv1.NetworkPolicy, there bool) bool {
		return there && p.Annotations[agents.AnnotationTemplateUID] == string(again.UID)
	})
	s.delete(again)
	s.settle()
	s.awaitPolicy(policy, "stayed", there)
	s.delete(sandbox)
	s.awaitPolicy(policy, "went with the last Sandbox", isGone)
}

func TestAPolicyGoesWithATemplateNobodyUses(t *testing.T) {
	s := newStage(t)
	one, policy := s.template("python"), s.policy("python")
	s.create(one)
	s.awaitPolicy(policy, "was made", there)
	s.delete(one)
	s.awaitPolicy(policy, "went", isGone)
}

func TestATemplateThatGoesWhileNobodyLooksLeavesNoPolicy(t *testing.T) {
	s := newStage(t)
	one, policy := s.template("python"), s.policy("python")
	s.create(one)
	s.awaitPolicy(policy, "was made", there)
	s.manager.Stop(t)
	s.delete(one)
	s.manager.Restart(t)
	s.awaitPolicy(policy, "went", isGone)
}

func TestSomebodyElsesPolicyIsLeftAloneAndReportedOnce(t *testing.T) {
	s := newStage(t)
	policy := s.policy("python")
	policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	s.create(policy)
	one := s.template("python")
	s.create(one)
	s.settle()
	s.patch(policy, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}})
	made := policy.ResourceVersion
	s.settle()
	await(s, &eventsv1.EventList{}, policy, "was reported", func(_ *networkingv1.NetworkPolicy, there bool) bool {
		return there && s.warnings() > 0
	})
	if policy.ResourceVersion != made {
		t.Error("somebody else's policy was written")
	}
	if n := s.warnings(); n != 1 {
		t.Errorf("it was reported %d times", n)
	}
	s.delete(policy)
	s.awaitPolicy(policy, "was made when the name was free", func(p *networkingv1.NetworkPolicy, there bool) bool {
		return there && p.Annotations[agents.AnnotationTemplateUID] == string(one.UID)
	})
}

// warnings counts the warnings about policies in the namespace.
func (s *stage) warnings() int {
	s.t.Helper()
	var list eventsv1.EventList
	if err := s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, e := range list.Items {
		if e.Reason == template.EventNetworkPolicyRefused && e.Type == corev1.EventTypeWarning {
			n++
		}
	}
	return n
}

func TestRulesThatTheServerRefusesAreReportedAndNotRepeated(t *testing.T) {
	s := newStage(t)
	one := s.template("python")
	one.Spec.NetworkPolicy = &extensions.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{
		{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "nonsense"}}}},
	}}
	requests := s.manager.Requests(t, "template", func() {
		s.create(one)
		s.settle()
		await(s, &eventsv1.EventList{}, one, "was reported", func(*extensions.SandboxTemplate, bool) bool { return s.warnings() > 0 })
		s.settle()
	})
	creates := 0
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "networkpolicies" && r.Code >= 400 {
			creates++
		}
	}
	if creates == 0 || creates > 2 {
		t.Errorf("the refused policy was sent %d times", creates)
	}
	s.patch(one, map[string]any{"spec": map[string]any{"networkPolicy": nil}})
	s.awaitPolicy(s.policy("python"), "was made from the corrected rules", there)
}
