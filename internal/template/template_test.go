// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

var update = flag.Bool("update", false, "write the golden files anew")

var deleting = ptr.To(metav1.Unix(0, 0))

func newTemplate(edits ...func(*extensions.SandboxTemplate)) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "python", UID: "uid-1",
		Labels: map[string]string{agents.LabelTemplateRefHash: agents.NameHash("python")},
	}}
	for _, edit := range edits {
		edit(t)
	}
	return t
}

func withRules(t *extensions.SandboxTemplate) {
	t.Spec.NetworkPolicy = &extensions.NetworkPolicySpec{
		Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(443))}}}},
	}
}

func unmanaged(t *extensions.SandboxTemplate) {
	t.Spec.NetworkPolicyManagement = extensions.NetworkPolicyUnmanaged
}

func policyOf(t *extensions.SandboxTemplate, edits ...func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	policy := Policy(t)
	policy.UID = "policy-uid"
	for _, edit := range edits {
		edit(policy)
	}
	return policy
}

func foreign(p *networkingv1.NetworkPolicy)     { p.Annotations = nil }
func terminating(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = deleting }

func TestPolicyIsRenderedAsWritten(t *testing.T) {
	cases := map[string]*extensions.SandboxTemplate{
		"default": newTemplate(),
		"rules":   newTemplate(withRules),
	}
	for name, template := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(Policy(template))
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("policy is rendered as\n%s\nwant\n%s", got, want)
			}
			if template.Spec.NetworkPolicy != nil && template.Spec.NetworkPolicy.Egress[0].Ports[0].Protocol != nil {
				t.Error("the template was modified")
			}
		})
	}
}

func TestPolicyNamesAreValidAndDistinct(t *testing.T) {
	if got := PolicyName("python"); got != "python-network-policy" {
		t.Errorf("short name became %s", got)
	}
	long := strings.Repeat("a", 252)
	a, b := PolicyName(long+"a"), PolicyName(long+"b")
	if len(a) > maxObjectName || a == b {
		t.Errorf("long names became %s and %s", a, b)
	}
	if got := ByPolicyName(PolicyName("python")); got != "python" {
		t.Errorf("the policy of python is said to be of %q", got)
	}
}

func TestStateOf(t *testing.T) {
	cases := map[string]struct {
		existing *networkingv1.NetworkPolicy
		template *extensions.SandboxTemplate
		want     PolicyState
	}{
		"none is missing":                            {nil, newTemplate(), PolicyMissing},
		"none is right where none is wanted":         {nil, newTemplate(unmanaged), PolicyCurrent},
		"the rendered one is current":                {policyOf(newTemplate()), newTemplate(), PolicyCurrent},
		"ports without a protocol do not drift":      {policyOf(newTemplate(withRules)), newTemplate(withRules), PolicyCurrent},
		"other rules are drift":                      {policyOf(newTemplate()), newTemplate(withRules), PolicyDrifted},
		"a predecessor's is drift":                   {policyOf(newTemplate()), newTemplate(func(t *extensions.SandboxTemplate) { t.UID = "uid-2" }), PolicyDrifted},
		"one without our annotations is foreign":     {policyOf(newTemplate(), foreign), newTemplate(), PolicyForeign},
		"one of another template is foreign":         {policyOf(newTemplate(func(t *extensions.SandboxTemplate) { t.Name = "other" })), newTemplate(), PolicyForeign},
		"one that the template controls is taken":    {policyOf(newTemplate(), foreign, controlledBy("uid-1")), newTemplate(), PolicyDrifted},
		"one that a predecessor controls is foreign": {policyOf(newTemplate(), foreign, controlledBy("uid-0")), newTemplate(), PolicyForeign},
		"one on its way out is waited for":           {policyOf(newTemplate(), terminating), newTemplate(), PolicyTerminating},
		"ours is unwanted when unmanaged":            {policyOf(newTemplate()), newTemplate(unmanaged), PolicyUnwanted},
		"a foreign one is left alone when unmanaged": {policyOf(newTemplate(), foreign), newTemplate(unmanaged), PolicyCurrent},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := StateOf(c.existing, c.template); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func controlledBy(uid types.UID) func(*networkingv1.NetworkPolicy) {
	return func(p *networkingv1.NetworkPolicy) {
		p.OwnerReferences = []metav1.OwnerReference{{UID: uid, Controller: ptr.To(true)}, {UID: "other"}}
	}
}

func TestPolicyPatchMakesAnyPolicyCurrent(t *testing.T) {
	cases := map[string]*networkingv1.NetworkPolicy{
		"other rules":                policyOf(newTemplate(withRules)),
		"a predecessor's":            policyOf(newTemplate(func(t *extensions.SandboxTemplate) { t.UID = "uid-0" })),
		"the template's as an owner": policyOf(newTemplate(), foreign, controlledBy("uid-1")),
		"a wider selector": policyOf(newTemplate(), func(p *networkingv1.NetworkPolicy) {
			p.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}),
	}
	for name, existing := range cases {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(existing)
			if err != nil {
				t.Fatal(err)
			}
			body, err := json.Marshal(PolicyPatch(existing, newTemplate()))
			if err != nil {
				t.Fatal(err)
			}
			merged, err := jsonpatch.MergePatch(before, body)
			if err != nil {
				t.Fatal(err)
			}
			var after networkingv1.NetworkPolicy
			if err := json.Unmarshal(merged, &after); err != nil {
				t.Fatal(err)
			}
			if got := StateOf(&after, newTemplate()); got != PolicyCurrent {
				t.Errorf("after patch %s it is %s", body, got)
			}
			for _, owner := range after.OwnerReferences {
				if owner.UID != "other" {
					t.Errorf("after patch %s it has the owner %s", body, owner.UID)
				}
			}
			if len(existing.OwnerReferences) == 2 && len(after.OwnerReferences) != 1 {
				t.Errorf("after patch %s it has the owners %v", body, after.OwnerReferences)
			}
			if !equality.Semantic.DeepEqual(after.Spec, policySpec(newTemplate())) {
				t.Errorf("after patch %s the spec is %+v", body, after.Spec)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	key := types.NamespacedName{Namespace: "team", Name: "python"}
	cases := map[string]struct {
		seen observed
		want step
	}{
		"a template without label gets it first": {
			observed{Template: newTemplate(func(t *extensions.SandboxTemplate) { t.Labels = nil })}, label{},
		},
		"then its policy is created":            {observed{Template: newTemplate()}, createPolicy{}},
		"a policy that drifted is patched":      {observed{Template: newTemplate(), Policy: policyOf(newTemplate(withRules))}, patchPolicy{}},
		"a policy as it should be is left":      {observed{Template: newTemplate(), Policy: policyOf(newTemplate())}, rest{}},
		"a policy on its way out is waited for": {observed{Template: newTemplate(), Policy: policyOf(newTemplate(), terminating)}, rest{}},
		"an unwanted policy is deleted":         {observed{Template: newTemplate(unmanaged), Policy: policyOf(newTemplate())}, deletePolicy{}},
		"a foreign policy is reported":          {observed{Template: newTemplate(), Policy: policyOf(newTemplate(), foreign)}, warn{}},
		"a template being deleted is left alone": {
			observed{Template: newTemplate(func(t *extensions.SandboxTemplate) { t.DeletionTimestamp = deleting; t.Labels = nil })}, rest{},
		},
		"nothing is left of a template":                    {observed{}, rest{}},
		"a left-over policy of Sandboxes in use stays":     {observed{Policy: policyOf(newTemplate()), InUse: true, AbsenceProved: true}, rest{}},
		"a left-over policy stays until absence is proved": {observed{Policy: policyOf(newTemplate())}, rest{}},
		"a left-over policy goes after the last Sandbox":   {observed{Policy: policyOf(newTemplate()), AbsenceProved: true}, deletePolicy{}},
		"a left-over policy is deleted once":               {observed{Policy: policyOf(newTemplate(), terminating), AbsenceProved: true}, rest{}},
		"a foreign policy outlives the template":           {observed{Policy: policyOf(newTemplate(), foreign), AbsenceProved: true}, rest{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.seen.Key = key
			if got := decide(c.seen); reflect.TypeOf(got) != reflect.TypeOf(c.want) {
				t.Errorf("got %q, want a %T", got, c.want)
			}
		})
	}
}

func TestWatches(t *testing.T) {
	sandbox := func(template string) *agents.Sandbox {
		s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}}
		if template != "" {
			s.Annotations = map[string]string{agents.AnnotationTemplateRef: template}
		}
		return s
	}
	python := []reconcile.Request{control.Request("team", "python")}
	cases := map[string]struct {
		enqueue       func(before, after client.Object) []reconcile.Request
		before, after client.Object
		want          []reconcile.Request
	}{
		"a new Sandbox wakes nobody":                             {forSandbox, nil, sandbox("python"), nil},
		"a Sandbox that goes wakes its template":                 {forSandbox, sandbox("python"), nil, python},
		"a Sandbox of no template wakes nobody":                  {forSandbox, sandbox(""), nil, nil},
		"a Sandbox that changes wakes nobody":                    {forSandbox, sandbox("python"), sandbox("python"), nil},
		"a Sandbox that leaves its template wakes it":            {forSandbox, sandbox("python"), sandbox("other"), python},
		"a policy wakes its template":                            {forPolicy, nil, policyOf(newTemplate()), python},
		"a foreign policy wakes the template in whose way it is": {forPolicy, policyOf(newTemplate(), foreign), nil, python},
		"an unrelated policy wakes nobody":                       {forPolicy, nil, policyOf(newTemplate(), foreign, func(p *networkingv1.NetworkPolicy) { p.Name = "x" }), nil},
		"a policy whose labels change wakes nobody": {forPolicy, policyOf(newTemplate()), policyOf(newTemplate(), func(p *networkingv1.NetworkPolicy) {
			p.Labels = map[string]string{"a": "b"}
		}), nil},
		"a policy that is robbed of its annotations wakes its template": {forPolicy, policyOf(newTemplate()), policyOf(newTemplate(), foreign), python},
		"a template wakes itself": {forTemplate, newTemplate(), nil, python},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.enqueue(c.before, c.after)
			if len(got) != len(c.want) || len(got) == 1 && got[0] != c.want[0] {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
