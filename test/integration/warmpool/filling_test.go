// SPDX-License-Identifier: Apache-2.0

package warmpool_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/warmpool"
)

func TestAPoolIsFilledWithOneCreateForEachMember(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	var pool *extensions.SandboxWarmPool
	begin := time.Now()
	requests := s.manager.Requests(t, "warmpool", func() { pool = s.filled(20, extensions.WarmPoolOnReplenish) })
	seconds := int(time.Since(begin)/time.Second) + 1
	writes := clustertest.Writes(requests)
	if writes["create sandboxes"] != 20 || writes["create networkpolicies"] != 1 {
		t.Errorf("wrote %v, want 20 Sandboxes and one NetworkPolicy", writes)
	}
	// At most one a second, and one more for each change of what the pool does.
	if most := seconds + 2; writes["patch sandboxwarmpools/status"] > most {
		t.Errorf("wrote the status %d times in %d seconds", writes["patch sandboxwarmpools/status"], seconds)
	}
	if len(writes) != 3 {
		t.Errorf("wrote %v", writes)
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: template.PolicyName("python")}}
	if !s.exists(policy) {
		t.Fatal("the template has no NetworkPolicy")
	}
	for _, member := range s.members(pool) {
		if member.CreationTimestamp.Before(&policy.CreationTimestamp) {
			t.Errorf("member %s is older than its NetworkPolicy", member.Name)
		}
		if !strings.HasPrefix(member.Name, "fast-") || member.Annotations[agents.AnnotationPodName] != member.Name {
			t.Errorf("member %s says that its pod is %q", member.Name, member.Annotations[agents.AnnotationPodName])
		}
	}
	if want := "agents.x-k8s.io/warm-pool-sandbox=" + agents.NameHash("fast"); pool.Status.Selector != want {
		t.Errorf("selector %q, want %q", pool.Status.Selector, want)
	}
	for _, condition := range []string{extensions.ConditionAvailable, extensions.ConditionTemplateResolved} {
		if !meta.IsStatusConditionTrue(pool.Status.Conditions, condition) {
			t.Errorf("condition %s is not True", condition)
		}
	}
}

func TestAMemberThatIsAdoptedIsReplacedByOne(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.filled(3, extensions.WarmPoolOnReplenish)
	adopted := s.members(pool)[1]
	requests := s.manager.Requests(t, "warmpool", func() {
		s.patch(&adopted, "", map[string]any{"metadata": map[string]any{
			"ownerReferences": []metav1.OwnerReference{{APIVersion: extensions.GroupVersion.String(), Kind: "SandboxClaim", Name: "c", UID: "claim-uid", Controller: new(true)}},
		}})
		s.awaitMembers(pool, "three others", func(members []agents.Sandbox) bool {
			return len(members) == 3 && !slices.ContainsFunc(members, func(m agents.Sandbox) bool { return m.Name == adopted.Name })
		})
		s.await(pool, "is full again", full(3))
	})
	writes := clustertest.Writes(requests)
	if writes["create sandboxes"] != 1 || writes["patch sandboxwarmpools/status"] > 3 {
		t.Errorf("wrote %v, want one Sandbox and at most three times the status", writes)
	}
	if !s.exists(&adopted) {
		t.Error("the adopted Sandbox is gone")
	}
}

func TestAFullPoolIsLeftAlone(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.filled(3, extensions.WarmPoolRecreate)
	member := s.members(pool)[0]
	requests := s.manager.Requests(t, "warmpool", func() {
		s.patch(&member, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{agents.LabelTemplateHash: "00000000"}}})
		s.patch(pool, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
		// Another pool that is filled shows that the events before it were handled.
		other := s.pool(1, extensions.WarmPoolOnReplenish)
		other.Name = "other"
		s.create(other)
		s.await(other, "is full", full(1))
	})
	for _, request := range requests {
		if request.Name == pool.Name || request.Name == member.Name {
			t.Errorf("request about a pool at rest: %s", request)
		}
	}
}

func TestAPoolIsNeverAboveItsReplicas(t *testing.T) {
	s := newStage(t, warmpool.Options{MaxBatchSize: 2})
	pool := s.filled(3, extensions.WarmPoolOnReplenish)
	scale := func(replicas int32) {
		s.patch(pool, "", map[string]any{"spec": map[string]any{"replicas": replicas}})
	}
	scale(7)
	s.await(pool, "grew", full(7))
	if most := s.player.mostOf(pool.UID); most != 7 {
		t.Errorf("there were %d members at a time, want 7", most)
	}
	// The members that go down take their time, and the pool grows again meanwhile.
	gone := make(chan struct{})
	s.player.set(func(p *player) { p.lingered = gone })
	unready := s.members(pool)[0]
	s.patch(&unready, "status", statusPatch(agents.ConditionReady, metav1.ConditionFalse, agents.ReasonDependenciesNotReady))
	s.await(pool, "has one that is not Ready", func(p *extensions.SandboxWarmPool) bool { return p.Status.ReadyReplicas == 6 })
	scale(4)
	s.await(pool, "shrank", func(p *extensions.SandboxWarmPool) bool { return p.Status.Replicas == 4 })
	if s.exists(&unready); unready.DeletionTimestamp == nil {
		t.Error("the member that is not Ready was kept")
	}
	scale(7)
	s.await(pool, "waits for those that leave", func(p *extensions.SandboxWarmPool) bool {
		return p.Status.ObservedGeneration == p.Generation && p.Status.Replicas == 4 || p.Status.Replicas > 4
	})
	close(gone)
	s.await(pool, "grew again", full(7))
	if most := s.player.mostOf(pool.UID); most != 7 {
		t.Errorf("there were %d members at a time, want 7", most)
	}
	scale(0)
	s.await(pool, "is empty", full(0))
}

func TestAMemberThatFailsOrIsSuspendedIsReplaced(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.filled(3, extensions.WarmPoolOnReplenish)
	before := s.members(pool)
	s.patch(&before[0], "status", statusPatch(agents.ConditionFinished, metav1.ConditionTrue, agents.ReasonPodFailed))
	s.patch(&before[1], "", map[string]any{"spec": map[string]any{"operatingMode": "Suspended"}})
	s.awaitMembers(pool, "replaced", func(members []agents.Sandbox) bool {
		return len(members) == 3 && !slices.ContainsFunc(members, func(m agents.Sandbox) bool { return m.Name == before[0].Name || m.Name == before[1].Name })
	})
	if most := s.player.mostOf(pool.UID); most != 3 {
		t.Errorf("there were %d members at a time, want 3", most)
	}
	if kept := before[2]; !s.exists(&kept) {
		t.Error("the third member was not kept")
	}
}

func TestAQuotaEndsInAConditionAndFewRequests(t *testing.T) {
	const resourceName = "count/sandboxes.agents.x-k8s.io"
	s := newStage(t, warmpool.Options{MaxBatchSize: 10})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "few"}}
	hard := func(n string) corev1.ResourceList { return corev1.ResourceList{resourceName: resource.MustParse(n)} }
	quota.Spec.Hard = hard("2")
	s.create(quota)
	quota.Status.Hard, quota.Status.Used = hard("2"), hard("0") // nobody else counts here
	if err := s.client.Status().Update(s.ctx, quota); err != nil {
		t.Fatal(err)
	}
	s.create(s.template("python", "old"))
	pool := s.pool(40, extensions.WarmPoolOnReplenish)
	requests := s.manager.Requests(t, "warmpool", func() {
		s.create(pool)
		pool = s.await(pool, "says that creations are refused", progressing(extensions.ReasonCreateRefused))
	})
	creates := 0
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "sandboxes" {
			creates++
		}
	}
	if creates > 12 {
		t.Errorf("%d creates for a quota that allows two", creates)
	}
	message := meta.FindStatusCondition(pool.Status.Conditions, extensions.ConditionProgressing).Message
	if !strings.Contains(message, "exceeded quota: few") || strings.Contains(message, "fast-") {
		t.Errorf("the condition says %q", message)
	}
	if !meta.IsStatusConditionFalse(pool.Status.Conditions, extensions.ConditionAvailable) {
		t.Error("the pool says that it is available")
	}
	quota.Status.Hard = hard("100")
	if err := s.client.Get(s.ctx, keyOf(quota), quota); err != nil {
		t.Fatal(err)
	}
	quota.Spec.Hard, quota.Status.Hard = hard("100"), hard("100")
	if err := s.client.Status().Update(s.ctx, quota); err != nil {
		t.Fatal(err)
	}
	s.await(pool, "is full", full(40))
}

func TestATemplateThatIsMissingIsSaidAndWaitedFor(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.pool(2, extensions.WarmPoolOnReplenish)
	requests := s.manager.Requests(t, "warmpool", func() {
		s.create(pool)
		pool = s.await(pool, "misses its template", func(p *extensions.SandboxWarmPool) bool {
			return meta.IsStatusConditionFalse(p.Status.Conditions, extensions.ConditionTemplateResolved)
		})
	})
	resolved := meta.FindStatusCondition(pool.Status.Conditions, extensions.ConditionTemplateResolved)
	if resolved.Reason != extensions.ReasonTemplateNotFound || resolved.Message != `SandboxTemplate "python" not found` {
		t.Errorf("the condition says %s: %s", resolved.Reason, resolved.Message)
	}
	if writes := clustertest.Writes(requests); len(writes) != 1 || writes["patch sandboxwarmpools/status"] != 1 {
		t.Errorf("wrote %v, want one status", writes)
	}
	s.create(s.template("python", "old"))
	s.await(pool, "is full", full(2))
}
