// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/template"
)

func TestAClaimOfAnEmptyPoolGetsASandboxOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.unfilled("python", "python", 0)
	w.claim("task", "python", func(c *extensions.SandboxClaim) {
		c.Labels = map[string]string{agents.LabelCreatedBy: agents.CreatedByGoClient}
	})
	claim := w.ready("task")
	w.says(claim.Status.Conditions, "Bound", metav1.ConditionTrue, "Started", `Sandbox "task" was made for the claim and has been Ready`)
	w.event("task", corev1.EventTypeNormal, "SandboxProvisioned", `Created Sandbox "task"`)

	s, pod := w.sandbox("task"), w.pod("task")
	if claim.Status.Sandbox.Name != s.Name || claim.Status.Sandbox.UID != s.UID || !control.IsControlledBy(s, claim.UID) || !control.IsControlledBy(pod, s.UID) {
		t.Errorf("the claim is bound to %+v, and the Sandbox belongs to %v", claim.Status.Sandbox, s.OwnerReferences)
	}
	for key, want := range map[string]string{
		agents.LabelClaimUID: string(claim.UID), agents.LabelLaunchType: "cold", agents.LabelCreatedBy: "go-client",
		agents.LabelTemplateRefHash: agents.NameHash("python"),
	} {
		if s.Labels[key] != want {
			t.Errorf("label %s of the Sandbox is %q, want %q", key, s.Labels[key], want)
		}
	}
	if pod.Labels[agents.LabelClaimUID] != string(claim.UID) {
		t.Errorf("the pod's labels are %v", pod.Labels)
	}
	for key := range s.Spec.PodTemplate.Metadata.Labels {
		if agents.IsSystemKey(key) {
			t.Errorf("label %s is in the Sandbox's podTemplate", key)
		}
	}
}

func TestPodsOfClaimsAreClosedUnlessTheirTemplateSaysOtherwise(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.template("open", func(t *extensions.SandboxTemplate) {
		t.Spec.NetworkPolicyManagement = extensions.NetworkPolicyUnmanaged
		t.Spec.PodTemplate.Spec.AutomountServiceAccountToken = new(true)
	})
	w.unfilled("cold", "python", 0)
	w.pool("warm", "python", 1)
	w.unfilled("open", "open", 0)
	for _, pool := range []string{"cold", "warm", "open"} {
		w.claim(pool, pool)
		pod := w.pod(w.ready(pool).Status.Sandbox.Name)
		closed := pod.Spec.AutomountServiceAccountToken != nil && !*pod.Spec.AutomountServiceAccountToken &&
			pod.Spec.DNSPolicy == corev1.DNSNone && slices.Equal(pod.Spec.DNSConfig.Nameservers, []string{"8.8.8.8", "1.1.1.1"})
		if want := pool != "open"; closed != want {
			t.Errorf("the pod of claim %s is closed: %v, want %v: %+v", pool, closed, want, pod.Spec)
		}
	}
	var policies networkingv1.NetworkPolicyList
	w.must(w.List(w.Context(), &policies, inNamespace(w)))
	if len(policies.Items) != 1 || policies.Items[0].Name != template.PolicyName("python") {
		t.Errorf("there are %d policies", len(policies.Items))
	}
}

func TestTheNetworkPolicyIsThereBeforeTheFirstSandbox(t *testing.T) {
	w := newWorld(t)
	seen := w.follow(&networkingv1.NetworkPolicyList{}, &agents.SandboxList{})
	// Everything at once, so that all controllers may come first.
	w.unfilled("cold", "python", 0)
	w.unfilled("warm", "python", 2)
	w.claims("cold", names("cold", 5)...)
	w.claims("warm", names("warm", 5)...)
	w.template("python")
	for _, name := range append(names("cold", 5), names("warm", 5)...) {
		w.ready(name)
	}
	policy := seen.await(added[*networkingv1.NetworkPolicy](), "the policy").Object
	sandbox := seen.await(added[*agents.Sandbox](), "a Sandbox").Object
	if p, s := version(t, policy), version(t, sandbox); p > s {
		t.Errorf("the policy was created at %d, the first Sandbox at %d", p, s)
	}
}

func TestAClaimWaitsForWhatItsPoolIsMadeOf(t *testing.T) {
	for _, missing := range []struct {
		what, reason, message string
		there, appears        func(*world)
	}{
		{
			"the template", "TemplateNotFound", `SandboxTemplate "python" not found`,
			func(w *world) { w.unfilled("python", "python", 0) },
			func(w *world) { w.template("python") },
		},
		{
			"the pool", "WarmPoolNotFound", `SandboxWarmPool "python" not found`,
			func(w *world) { w.template("python") },
			func(w *world) { w.unfilled("python", "python", 0) },
		},
	} {
		t.Run(missing.what, func(t *testing.T) {
			w := newWorld(t)
			missing.there(w)
			w.claim("task", "python")
			waiting := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, missing.reason)
			w.says(waiting.Status.Conditions, "Ready", metav1.ConditionFalse, missing.reason, missing.message)
			w.says(waiting.Status.Conditions, "Bound", metav1.ConditionFalse, missing.reason, missing.message)
			if waiting.Status.Sandbox.Name != "" {
				t.Errorf("the claim names %q", waiting.Status.Sandbox.Name)
			}
			w.untouched(func() {
				// Another claim comes, waits for its end, and goes.
				w.template("other")
				w.unfilled("other", "other", 0)
				w.claim("other", "other")
				w.merge(w.ready("other"), lifecycle(map[string]any{"shutdownTime": inSeconds(1), "shutdownPolicy": "Delete"}))
				w.gone(&extensions.SandboxClaim{ObjectMeta: w.named("other")})
			}, "task")
			missing.appears(w)
			if bound := w.ready("task"); bound.Status.Sandbox.Name != "task" {
				t.Errorf("the claim is bound to %q", bound.Status.Sandbox.Name)
			}
		})
	}
}

func TestClaimsSayThatTheirPoolWentWhileTheyWaited(t *testing.T) {
	w := newWorld(t)
	w.template("slow", pending)
	pool := w.unfilled("slow", "slow", 3)
	await(w, &extensions.SandboxWarmPoolList{}, "three members", func(p *extensions.SandboxWarmPool) bool { return p.Status.Replicas == 3 })
	all := names("task", 3)
	w.claims("slow", all...)
	for _, name := range all {
		w.condition(name, extensions.ConditionBound, metav1.ConditionFalse, extensions.ReasonWaitingForMember)
	}
	w.must(w.Delete(w.Context(), pool))
	for _, name := range all {
		gone := w.condition(name, agents.ConditionReady, metav1.ConditionFalse, extensions.ReasonWarmPoolNotFound)
		w.says(gone.Status.Conditions, "Bound", metav1.ConditionFalse, "WarmPoolNotFound", `SandboxWarmPool "slow" not found`)
	}
	for _, s := range w.sandboxes() {
		w.gone(&agents.Sandbox{ObjectMeta: w.named(s.Name)})
	}
	// A pool of that name serves them.
	w.template("python")
	w.unfilled("slow", "python", 3)
	for _, name := range all {
		w.ready(name)
	}
}

func TestASandboxOfTheClaimsNameIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.unfilled("python", "python", 0)
	other := &agents.Sandbox{ObjectMeta: w.named("task")}
	other.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox:1.36"}}
	w.must(w.Create(w.Context(), other))

	w.claim("task", "python")
	taken := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, "SandboxNameTaken")
	message := `sandbox "task" is not controlled by claim "task". Please use a different claim name or delete the sandbox manually`
	w.says(taken.Status.Conditions, "Ready", metav1.ConditionFalse, "SandboxNameTaken", message)
	w.says(taken.Status.Conditions, "Bound", metav1.ConditionFalse, "SandboxNameTaken", message)
	if s := w.sandbox("task"); s.UID != other.UID || len(s.OwnerReferences) > 0 {
		t.Errorf("the other Sandbox is now %s, owned by %v", s.UID, s.OwnerReferences)
	}
	w.must(w.Delete(w.Context(), other))
	if bound := w.ready("task"); bound.Status.Sandbox.UID == other.UID || bound.Status.Sandbox.Name != "task" {
		t.Errorf("the claim is bound to %+v", bound.Status.Sandbox)
	}
}

func TestVariablesOfAClaim(t *testing.T) {
	w := newWorld(t)
	w.template("python", func(t *extensions.SandboxTemplate) {
		t.Spec.PodTemplate.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: "batch"}}
	})
	w.pool("python", "python", 1)
	for _, c := range []struct {
		name    string
		env     []extensions.EnvVar
		needs   extensions.EnvVarsInjectionPolicy
		message string
	}{
		{
			"adds", []extensions.EnvVar{{Name: "TOKEN", Value: "x"}}, extensions.EnvVarsInjectionAllowed,
			`spec.env: SandboxTemplate "python" does not allow it; set its spec.envVarsInjectionPolicy to Allowed or Overrides, or remove env from the claim`,
		},
		{
			"overrides", []extensions.EnvVar{{Name: "MODE", Value: "live"}}, extensions.EnvVarsInjectionOverrides,
			`spec.env: container "main" has a variable "MODE" already and SandboxTemplate "python" does not allow overriding it; it needs envVarsInjectionPolicy Overrides`,
		},
	} {
		w.claim(c.name, "python", func(claim *extensions.SandboxClaim) { claim.Spec.Env = c.env })
		refused := w.condition(c.name, agents.ConditionReady, metav1.ConditionFalse, "EnvVarsInjectionRejected")
		w.says(refused.Status.Conditions, "Ready", metav1.ConditionFalse, "EnvVarsInjectionRejected", c.message)

		// An edit of the template ends it.
		w.merge(&extensions.SandboxTemplate{ObjectMeta: w.named("python")}, spec(map[string]any{"envVarsInjectionPolicy": c.needs}))
		bound := w.ready(c.name)
		if bound.Status.Sandbox.Name != c.name {
			t.Errorf("claim %s got %q from the pool", c.name, bound.Status.Sandbox.Name)
		}
		env := w.pod(c.name).Spec.Containers[0].Env
		for _, want := range c.env {
			if !slices.Contains(env, corev1.EnvVar{Name: want.Name, Value: want.Value}) {
				t.Errorf("the pod of claim %s has %v, not %v", c.name, env, want)
			}
		}
		if names := len(slices.CompactFunc(env, func(a, b corev1.EnvVar) bool { return a.Name == b.Name })); names != len(env) {
			t.Errorf("a variable is there twice: %v", env)
		}
	}
	w.full("python", 1)
}

func TestVolumesOfAClaim(t *testing.T) {
	w := newWorld(t)
	w.volume("a")
	w.template("python")
	w.pool("python", "python", 1)
	w.claim("task", "python", func(c *extensions.SandboxClaim) { c.Spec.VolumeClaimTemplates = w.volumeClaims("a") })
	refused := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, "VolumeClaimTemplatesError")
	w.says(refused.Status.Conditions, "Ready", metav1.ConditionFalse, "VolumeClaimTemplatesError",
		`spec.volumeClaimTemplates: SandboxTemplate "python" does not allow them; set its spec.volumeClaimTemplatesPolicy to Allowed or Overrides, or remove them from the claim`)

	w.merge(&extensions.SandboxTemplate{ObjectMeta: w.named("python")}, spec(map[string]any{"volumeClaimTemplatesPolicy": "Allowed"}))
	if bound := w.ready("task"); bound.Status.Sandbox.Name != "task" {
		t.Errorf("the claim got %q from the pool", bound.Status.Sandbox.Name)
	}
	volumeClaim := &corev1.PersistentVolumeClaim{}
	w.must(w.Get(w.Context(), w.key("data-task"), volumeClaim))
	if !control.IsControlledBy(volumeClaim, w.sandbox("task").UID) || volumeClaim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the volume claim is %s and belongs to %v", volumeClaim.Status.Phase, volumeClaim.OwnerReferences)
	}
	if volumes := w.pod("task").Spec.Volumes; !slices.ContainsFunc(volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "data-task"
	}) {
		t.Errorf("the pod's volumes are %v", volumes)
	}
}

func TestMetadataOfAClaimReachesItsPod(t *testing.T) {
	w := newWorld(t)
	w.template("python", func(t *extensions.SandboxTemplate) { annotate(t, "owner", "platform") })
	w.pool("python", "python", 1)
	const team = "sandbox.users.io/team"
	var bound *extensions.SandboxClaim
	requests := w.requests(func() {
		w.claim("task", "python", func(c *extensions.SandboxClaim) {
			c.Spec.AdditionalPodMetadata = agents.PodMetadata{
				Labels:      map[string]string{team: "red"},
				Annotations: map[string]string{"note": "one", "owner": "user"},
			}
		})
		bound = w.ready("task")
		w.podHas(bound, map[string]string{team: "red"}, map[string]string{"note": "one", "owner": "platform"})
		w.full("python", 1)
	})
	patches := 0
	for _, r := range requests {
		if r.Resource == "sandboxes" && r.Verb == "patch" && r.Subresource == "" && r.Name == bound.Status.Sandbox.Name {
			patches++
		}
	}
	if patches != 2 || strings.HasPrefix(bound.Status.Sandbox.Name, "task") {
		t.Errorf("%d patches of Sandbox %q, want the adoption and one more of a pool's member", patches, bound.Status.Sandbox.Name)
	}
	w.says(bound.Status.Conditions, "MetadataConflict", metav1.ConditionTrue, "ForeignValue",
		"Another writer's value stands on annotation owner; remove it there, or the key from additionalPodMetadata")

	// The claim changes its mind about each key.
	metadata := func(labels, annotations map[string]any) map[string]any {
		return spec(map[string]any{"additionalPodMetadata": map[string]any{"labels": labels, "annotations": annotations}})
	}
	w.merge(bound, metadata(map[string]any{team: "blue"}, map[string]any{"note": nil, "owner": nil, "more": "two"}))
	w.podHas(bound, map[string]string{team: "blue"}, map[string]string{"note": "", "owner": "platform", "more": "two"})
	settled := await(w, &extensions.SandboxClaimList{}, "the conflict to be over", func(c *extensions.SandboxClaim) bool {
		return c.Name == "task" && findCondition(c.Status.Conditions, extensions.ConditionMetadataConflict) == nil && reasonOf(c) == agents.ReasonDependenciesReady
	})
	if settled.Status.Sandbox.UID != bound.Status.Sandbox.UID {
		t.Error("the claim has another Sandbox")
	}
	w.merge(bound, spec(map[string]any{"additionalPodMetadata": nil}))
	w.podHas(bound, map[string]string{team: ""}, map[string]string{"more": "", "owner": "platform"})
}

// podHas waits until the claim's pod has these labels and annotations; empty ones it
// must not have.
func (w *world) podHas(c *extensions.SandboxClaim, labels, annotations map[string]string) {
	w.Helper()
	has := func(is, want map[string]string) bool {
		for key, value := range want {
			if is[key] != value {
				return false
			}
		}
		return true
	}
	await(w, &corev1.PodList{}, fmt.Sprintf("labels %v and annotations %v", labels, annotations), func(p *corev1.Pod) bool {
		return p.Name == c.Status.Sandbox.Name && has(p.Labels, labels) && has(p.Annotations, annotations)
	})
}

func TestClaimsOfTheOldVersionNameTheirTemplate(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("a-small", "python", 1)
	w.pool("b-large", "python", 3)
	for _, c := range []struct {
		name string
		pool any
		from string
	}{
		{"none", "none", "none"},
		{"named", "a-small", "a-small-"},
		{"default", "default", "b-large-"}, // the pool with most ready members
		{"absent", nil, "b-large-"},
	} {
		claim := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "extensions.agents.x-k8s.io/v1alpha1", "kind": "SandboxClaim",
			"metadata": map[string]any{"namespace": w.namespace, "name": c.name},
			"spec":     map[string]any{"sandboxTemplateRef": map[string]any{"name": "python"}},
		}}
		if c.pool != nil {
			w.must(unstructured.SetNestedField(claim.Object, c.pool, "spec", "warmpool"))
		}
		w.must(w.Create(w.Context(), claim))
		if bound := w.ready(c.name).Status.Sandbox.Name; !strings.HasPrefix(bound, c.from) {
			t.Errorf("the claim with warmpool %v is bound to %q, want %s", c.pool, bound, c.from)
		}
		w.full("a-small", 1)
		w.full("b-large", 3)
	}
	// Of a template without pools a claim gets a Sandbox of its own.
	w.template("bare")
	for _, name := range []string{"bare-default", "bare-named"} {
		w.must(w.Create(w.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "extensions.agents.x-k8s.io/v1alpha1", "kind": "SandboxClaim",
			"metadata": map[string]any{"namespace": w.namespace, "name": name},
			"spec":     map[string]any{"sandboxTemplateRef": map[string]any{"name": "bare"}, "warmpool": strings.TrimPrefix(name, "bare-")},
		}}))
		if bound := w.ready(name).Status.Sandbox.Name; bound != name {
			t.Errorf("claim %s is bound to %q", name, bound)
		}
	}
}

// added matches the creation of an object of a kind.
func added[T any]() func(watch.Event) bool {
	return func(e watch.Event) bool {
		_, ok := e.Object.(T)
		return ok && e.Type == watch.Added
	}
}
