// SPDX-License-Identifier: Apache-2.0

package warmpool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/warmpool"
)

// as returns a client with the rights of a user in the namespace.
func (s *stage) as(user string, rules ...rbacv1.PolicyRule) client.Client {
	s.t.Helper()
	if err := rbacv1.AddToScheme(s.client.Scheme()); err != nil {
		s.t.Fatal(err)
	}
	s.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user}, Rules: rules})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	config := clustertest.RESTConfig(s.t, cluster, user)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// eventually repeats what the server may not have taken up yet, such as a right or a
// policy.
func (s *stage) eventually(what string, try func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestWhoMayCreateSandboxesCannotPlantOne(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.filled(1, extensions.WarmPoolOnReplenish)
	template := s.template("python", "")
	if err := s.client.Get(s.ctx, keyOf(template), template); err != nil {
		t.Fatal(err)
	}
	sandboxes := rbacv1.PolicyRule{APIGroups: []string{agents.GroupVersion.Group}, Resources: []string{"sandboxes"}, Verbs: []string{"*"}}
	finalizers := rbacv1.PolicyRule{APIGroups: []string{extensions.GroupVersion.Group}, Resources: []string{"sandboxwarmpools/finalizers"}, Verbs: []string{"update"}}
	evil := s.as("somebody-"+s.namespace, sandboxes)
	other := s.as("another-controller-"+s.namespace, sandboxes, finalizers)

	serial := 0
	planted := func(edits ...func(*agents.Sandbox)) *agents.Sandbox {
		serial++
		one := blueprint.Member(pool, template, fmt.Sprintf("planted-%d", serial))
		one.Spec.PodTemplate.Spec.Containers[0].Image = "evil"
		for _, edit := range edits {
			edit(one)
		}
		return one
	}
	as := func(apiVersion, kind string) func(*agents.Sandbox) {
		return func(s *agents.Sandbox) { s.OwnerReferences[0].APIVersion, s.OwnerReferences[0].Kind = apiVersion, kind }
	}
	free := func(s *agents.Sandbox) { s.OwnerReferences = nil }
	s.eventually("a Sandbox of nobody's is created", func() error { return evil.Create(s.ctx, planted(free)) })
	s.eventually("planting is refused", func() error {
		err := evil.Create(s.ctx, planted(), client.DryRunAll)
		if err == nil {
			return fmt.Errorf("it was not")
		}
		return nil
	})

	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "as its controller only from who may update sandbox") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a member", evil.Create(s.ctx, planted()))
	refused("a member at an older version", evil.Create(s.ctx, planted(as("extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool"))))
	refused("a claim's Sandbox", evil.Create(s.ctx, planted(as(extensions.GroupVersion.String(), "SandboxClaim"))))
	refused("a claim's Sandbox by who has a right on pools", other.Create(s.ctx, planted(as(extensions.GroupVersion.String(), "SandboxClaim"))))

	theirs := planted(free)
	if err := evil.Create(s.ctx, theirs); err != nil {
		t.Fatal(err)
	}
	refused("a Sandbox that becomes a member", patch(s.ctx, evil, theirs, "", map[string]any{"metadata": map[string]any{"ownerReferences": planted().OwnerReferences}}))

	// Of another kind with the pool's UID it is no member.
	disguised := planted(as("v1", "ConfigMap"))
	if err := evil.Create(s.ctx, disguised); err != nil {
		t.Fatal(err)
	}
	// What is no new reference is not looked at, nor is one that is taken away.
	member := s.members(pool)[0]
	if err := patch(s.ctx, evil, &member, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}); err != nil {
		t.Errorf("an edit of a member: %v", err)
	}
	s.patch(pool, "", map[string]any{"spec": map[string]any{"replicas": 2}})
	s.await(pool, "grew", full(2))
	members := s.members(pool)
	if len(members) != 3 { // the two, and what only says so
		t.Errorf("the pool made members beside %s", describe(members))
	}
	for _, one := range members {
		if image(one) == "evil" && one.Name != disguised.Name {
			t.Errorf("member %s was planted", one.Name)
		}
	}
	if !s.exists(disguised) || disguised.DeletionTimestamp != nil {
		t.Error("the Sandbox that is no member was deleted")
	}
	if err := patch(s.ctx, evil, &member, "", map[string]any{"metadata": map[string]any{"ownerReferences": nil}}); err != nil {
		t.Errorf("a reference that is taken away: %v", err)
	}
	// Another name of a service account, and backups, have the right.
	s.patch(pool, "", map[string]any{"spec": map[string]any{"replicas": 0}})
	s.await(pool, "is empty", full(0))
	s.eventually("a controller of another name makes a member", func() error { return other.Create(s.ctx, planted(), client.DryRunAll) })
}
