// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster"
)

func TestTheServerRefusesWhatCanNeverWorkAndSaysWhere(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("a", 64)
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}}
	sandbox := func(name string) *agents.Sandbox {
		s := &agents.Sandbox{ObjectMeta: w.named(name)}
		s.Spec.PodTemplate.Spec = pod
		return s
	}
	pool := func(replicas int32) *extensions.SandboxWarmPool {
		return &extensions.SandboxWarmPool{ObjectMeta: w.named("pool"), Spec: extensions.SandboxWarmPoolSpec{
			Replicas: ptr.To(replicas), TemplateRef: extensions.SandboxTemplateRef{Name: "python"},
		}}
	}
	twice := &extensions.SandboxTemplate{ObjectMeta: w.named("twice")}
	twice.Spec.PodTemplate.Spec.Containers = slices.Concat(pod.Containers, pod.Containers)
	for _, refused := range []struct {
		what  string
		obj   client.Object
		names string
	}{
		{"a Sandbox whose name no Service can have", sandbox(long), "metadata.name"},
		{"a claim whose name its Sandbox cannot have", w.newClaim(long, "python"), "metadata.name"},
		{"a claim of no pool and no template", w.newClaim("task", ""), "spec.warmPoolRef.name"},
		{"a pool with fewer than no members", pool(-1), "spec.replicas"},
		{"a template with two containers of one name", twice, "spec.podTemplate.spec.containers[1]"},
		{"a claim that waits for less than a second", w.newClaim("task", "python", func(c *extensions.SandboxClaim) {
			c.Spec.Lifecycle = &extensions.ClaimLifecycle{BindDeadlineSeconds: ptr.To(int32(0))}
		}), "spec.lifecycle.bindDeadlineSeconds"},
	} {
		if err := w.Create(w.Context(), refused.obj); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), refused.names) {
			t.Errorf("%s: %v; want a refusal that names %s", refused.what, err, refused.names)
		}
	}
	w.must(w.Create(w.Context(), sandbox(long[:63])))
	w.must(w.Create(w.Context(), w.newClaim(long[:62]+"b", "python")))
}

// quota limits how many objects of a kind the namespace may have, and waits until that
// is so.
func (w *world) quota(of corev1.ResourceName, most string) *corev1.ResourceQuota {
	w.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: w.named("few")}
	q.Spec.Hard = corev1.ResourceList{of: resource.MustParse(most)}
	w.must(w.Create(w.Context(), q))
	await(w, &corev1.ResourceQuotaList{}, "the quota to be counted", func(q *corev1.ResourceQuota) bool {
		_, counted := q.Status.Used[of]
		return counted
	})
	return q
}

func (w *world) raise(q *corev1.ResourceQuota, of corev1.ResourceName, most string) {
	w.Helper()
	w.merge(q, spec(map[string]any{"hard": map[string]any{string(of): most}}))
}

// creates counts the requests to create objects of a kind.
func creates(requests []localcluster.Request, plural string) int {
	n := 0
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == plural {
			n++
		}
	}
	return n
}

func TestAQuotaOfPodsIsToldOnEveryLevel(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	q := w.quota(corev1.ResourcePods, "1")
	requests := w.requests(func() {
		w.unfilled("python", "python", 2)
		w.unfilled("cold", "python", 0)
		w.claim("task", "cold")
		w.claim("other", "cold")
		w.claim("third", "cold")
		for _, name := range []string{"task", "other", "third"} {
			w.condition(name, extensions.ConditionBound, metav1.ConditionTrue, "")
		}
		// Of five Sandboxes four have no pod; those of claims say so on the claim.
		refused := await(w, &extensions.SandboxClaimList{}, "a claim to tell of the quota", func(c *extensions.SandboxClaim) bool {
			return strings.Contains(readyMessage(c.Status.Conditions), "exceeded quota: few")
		})
		if reason := reasonOf(refused); reason != agents.ReasonReconcilerError {
			t.Errorf("the claim's reason is %s", reason)
		}
		await(w, &agents.SandboxList{}, "a member to tell of the quota", func(s *agents.Sandbox) bool {
			return strings.HasPrefix(s.Name, "python-") && strings.Contains(readyMessage(s.Status.Conditions), "exceeded quota: few")
		})
	})
	// Each refusal is followed by a growing pause: about ten in the first five seconds.
	if n := creates(requests, "pods"); n > 5*25 {
		t.Errorf("%d pods were tried", n)
	}
	if n := creates(requests, "sandboxes"); n != 5 {
		t.Errorf("%d Sandboxes were made for a pool of two and three claims", n)
	}
	w.raise(q, corev1.ResourcePods, "100")
	for _, name := range []string{"task", "other", "third"} {
		w.ready(name)
	}
	w.full("python", 2)
}

func TestAQuotaOfSandboxesIsToldByPoolsAndClaims(t *testing.T) {
	const counted = "count/sandboxes.agents.x-k8s.io"
	w := newWorld(t)
	w.template("python")
	q := w.quota(counted, "0")
	requests := w.requests(func() {
		w.unfilled("python", "python", 3)
		w.unfilled("cold", "python", 0)
		refused := await(w, &extensions.SandboxWarmPoolList{}, "the pool to tell of the quota", func(p *extensions.SandboxWarmPool) bool {
			c := findCondition(p.Status.Conditions, extensions.ConditionProgressing)
			return p.Name == "python" && c != nil && c.Reason == extensions.ReasonCreateRefused
		})
		if message := findCondition(refused.Status.Conditions, extensions.ConditionProgressing).Message; !strings.Contains(message, "exceeded quota: few") {
			t.Errorf("the pool says %q", message)
		}
		w.claim("task", "cold")
		claim := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, "SandboxCreateRefused")
		if message := readyMessage(claim.Status.Conditions); !strings.HasPrefix(message, `Sandbox "task" was refused: `) || !strings.Contains(message, "exceeded quota: few") {
			t.Errorf("the claim says %q", message)
		}
		if bound := findCondition(claim.Status.Conditions, extensions.ConditionBound); bound.Status != metav1.ConditionFalse || bound.Reason != "SandboxCreateRefused" {
			t.Errorf("Bound is %+v", bound)
		}
	})
	if n := creates(requests, "sandboxes"); n > 30 {
		t.Errorf("%d Sandboxes were tried", n)
	}
	w.raise(q, counted, "100")
	w.ready("task")
	w.full("python", 3)
}

func TestAVolumeThatCannotBeHadIsToldByTheSandbox(t *testing.T) {
	w := newWorld(t)
	w.template("python", func(t *extensions.SandboxTemplate) {
		t.Spec.VolumeClaimTemplatesPolicy = extensions.VolumeClaimTemplatesAllowed
	})
	w.unfilled("python", "python", 0)
	w.claim("task", "python", func(c *extensions.SandboxClaim) { c.Spec.VolumeClaimTemplates = w.volumeClaims("late") })
	told := await(w, &agents.SandboxList{}, "the Sandbox to say that its pod is not scheduled", func(s *agents.Sandbox) bool {
		c := findCondition(s.Status.Conditions, "PodScheduled")
		return c != nil && c.Status == metav1.ConditionFalse
	})
	scheduled := findCondition(told.Status.Conditions, "PodScheduled")
	if scheduled.Reason != corev1.PodReasonUnschedulable || !strings.Contains(scheduled.Message, "PersistentVolumeClaim") {
		t.Errorf("PodScheduled is %s: %q", scheduled.Reason, scheduled.Message)
	}
	w.untouched(func() {
		w.unfilled("other", "python", 1)
		w.full("other", 1)
	}, "task")
	w.volume("late")
	w.ready("task")
}

func TestAPodThatTheServerRefusesIsToldAndNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.template("broken", func(t *extensions.SandboxTemplate) {
		t.Spec.PodTemplate.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "nowhere", MountPath: "/data"}}
	})
	requests := w.requests(func() {
		w.unfilled("broken", "broken", 2)
		w.unfilled("cold", "broken", 0)
		w.claim("task", "cold")
		told := await(w, &extensions.SandboxClaimList{}, "the claim to tell", func(c *extensions.SandboxClaim) bool {
			return strings.Contains(readyMessage(c.Status.Conditions), `spec.containers[0].volumeMounts[0].name: Not found: "nowhere"`)
		})
		if told.Status.Sandbox.Name != "task" {
			t.Errorf("the claim is bound to %q", told.Status.Sandbox.Name)
		}
		for _, s := range w.sandboxes() {
			await(w, &agents.SandboxList{}, "Sandbox "+s.Name+" to tell", func(one *agents.Sandbox) bool {
				return one.Name == s.Name && strings.Contains(readyMessage(one.Status.Conditions), `Not found: "nowhere"`)
			})
		}
		for n := range 3 {
			w.pass("task", n)
		}
	})
	if n := creates(requests, "pods"); n > 6 {
		t.Errorf("%d pods were tried for three Sandboxes", n)
	}
	w.untouched(func() {
		w.template("python")
		w.pool("python", "python", 1)
	}, "task", "broken")

	// A good template helps a claim that comes after it.
	w.merge(&extensions.SandboxTemplate{ObjectMeta: w.named("broken")}, map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
		"containers": []map[string]any{{"name": "main", "image": "busybox:1.36"}},
	}}}})
	w.claim("after", "cold")
	w.ready("after")
}

func TestMetadataThatClaimsMayNotSetIsRefusedUntilItIsMended(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	for n, given := range []agents.PodMetadata{
		{Labels: map[string]string{"app": "sandbox-router"}},
		{Labels: map[string]string{"kubernetes.io/team": "x"}},
		{Annotations: map[string]string{"agents.x-k8s.io/pod-name": "x"}},
	} {
		name := fmt.Sprintf("task-%d", n)
		w.claim(name, "python", func(c *extensions.SandboxClaim) { c.Spec.AdditionalPodMetadata = given })
		refused := w.condition(name, agents.ConditionReady, metav1.ConditionFalse, "InvalidMetadata")
		if message := readyMessage(refused.Status.Conditions); !strings.HasPrefix(message, "spec.additionalPodMetadata.") || refused.Status.Sandbox.Name != "" {
			t.Errorf("the claim says %q and has %+v", message, refused.Status.Sandbox)
		}
		w.merge(refused, spec(map[string]any{"additionalPodMetadata": nil}))
		w.ready(name)
	}
}

// readyMessage is the message of the Ready condition, if there is one.
func readyMessage(conditions []metav1.Condition) string {
	if ready := findCondition(conditions, agents.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}
