// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// clients are the people who claim sandboxes. They see what the API server tells them.
type clients struct {
	stage *stage

	mu      sync.Mutex
	told    map[types.UID]extensions.ClaimedSandbox // by claim
	answers map[types.UID]string                    // by claim: ready, or why not
	living  map[string]bool                         // claims that were not released, by name
	count   int
	changed chan struct{}
}

// ready is the answer a client hopes for.
const ready = "Ready"

func newClients(s *stage) *clients {
	c := &clients{
		stage: s, told: map[types.UID]extensions.ClaimedSandbox{}, answers: map[types.UID]string{},
		living: map[string]bool{}, changed: make(chan struct{}),
	}
	options := func(raw metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Namespace: s.namespace, Raw: &raw}
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := &extensions.SandboxClaimList{}
			return list, s.List(ctx, list, options(raw))
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return s.Watch(ctx, &extensions.SandboxClaimList{}, options(raw))
		},
	}, &extensions.SandboxClaim{}, 0, nil)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.hear(obj.(*extensions.SandboxClaim)) },
		UpdateFunc: func(_, obj any) { c.hear(obj.(*extensions.SandboxClaim)) },
	})
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	s.Cleanup(func() { stop(); running.Wait() })
	return c
}

// hear is told of a claim's states, in the order they had.
func (c *clients) hear(claim *extensions.SandboxClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := claim.Status.Sandbox
	if was, told := c.told[claim.UID]; told && (was.Name != is.Name || was.UID != is.UID) {
		c.stage.Errorf("the client of claim %s was told %s (%s), and then %q (%s)", claim.Name, was.Name, was.UID, is.Name, is.UID)
	}
	if is.UID != "" {
		c.told[claim.UID] = is
	}
	if condition := apimeta.FindStatusCondition(claim.Status.Conditions, agents.ConditionReady); condition != nil {
		c.answers[claim.UID] = condition.Reason
		if condition.Status == metav1.ConditionTrue {
			c.answers[claim.UID] = ready
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// burst makes claims at once, each of which is somebody's.
func (c *clients) burst(ctx context.Context, b burst) {
	var all sync.WaitGroup
	for i := range b.claims {
		all.Go(func() {
			claim := &extensions.SandboxClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.stage.namespace, Name: fmt.Sprintf("%s-%03d", b.name, i)},
				Spec:       extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: b.pool}},
			}
			want := ready
			if i == b.refused {
				claim.Spec.Env = []extensions.EnvVar{{Name: "A", Value: "1"}}
				want = extensions.ReasonEnvVarsInjectionRejected
			}
			if err := c.use(ctx, claim, want, i%b.release == 0); err != nil {
				c.stage.Errorf("the client of claim %s: %v", claim.Name, err)
			}
		})
	}
	all.Wait()
}

// use is what one client does.
func (c *clients) use(ctx context.Context, claim *extensions.SandboxClaim, want string, release bool) error {
	name := claim.Name
	c.mu.Lock()
	c.count++
	c.living[name] = true
	c.mu.Unlock()
	err := c.stage.insist(ctx, func(ctx context.Context) error {
		err := c.stage.Create(ctx, claim.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			err = nil // an earlier request was carried out
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create it: %w", err)
	}
	if claim, err = c.get(ctx, name); err != nil {
		return err
	}
	if err := c.answer(ctx, claim.UID, want); err != nil {
		return err
	}
	if want == ready {
		if err := c.look(ctx, name); err != nil {
			return err
		}
	}
	if release {
		return c.release(ctx, name)
	}
	return nil
}

func (c *clients) get(ctx context.Context, name string) (*extensions.SandboxClaim, error) {
	claim := &extensions.SandboxClaim{}
	err := c.stage.insist(ctx, func(ctx context.Context) error {
		return c.stage.Get(ctx, client.ObjectKey{Namespace: c.stage.namespace, Name: name}, claim)
	})
	return claim, err
}

// answer waits for one.
func (c *clients) answer(ctx context.Context, uid types.UID, want string) error {
	for {
		c.mu.Lock()
		is, changed := c.answers[uid], c.changed
		c.mu.Unlock()
		if is == want {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("it is not %s but %q", want, is)
		}
	}
}

// look uses the Sandbox that a claim names.
func (c *clients) look(ctx context.Context, name string) error {
	claim, err := c.get(ctx, name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	told := c.told[claim.UID]
	c.mu.Unlock()
	if is := claim.Status.Sandbox; is.UID != told.UID || is.Name != told.Name {
		return fmt.Errorf("it was told %s (%s) and reads %q (%s)", told.Name, told.UID, is.Name, is.UID)
	}
	sandbox, gone := &agents.Sandbox{}, false
	err = c.stage.insist(ctx, func(ctx context.Context) error {
		err := c.stage.Get(ctx, client.ObjectKey{Namespace: c.stage.namespace, Name: told.Name}, sandbox)
		gone = apierrors.IsNotFound(err)
		return client.IgnoreNotFound(err)
	})
	switch {
	case err != nil:
		return err
	case gone:
		return fmt.Errorf("it is told %s, which does not exist", told.Name)
	case sandbox.UID != told.UID || !control.IsControlledBy(sandbox, claim.UID):
		return fmt.Errorf("it is told %s (%s), which is %s and belongs to %s", told.Name, told.UID, sandbox.UID, control.ControllerUID(sandbox))
	}
	return nil
}

func (c *clients) release(ctx context.Context, name string) error {
	err := c.stage.insist(ctx, func(ctx context.Context) error {
		return client.IgnoreNotFound(c.stage.Delete(ctx, &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.stage.namespace, Name: name}}))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.living, name)
	return err
}

func (c *clients) releaseAll(ctx context.Context) {
	c.mu.Lock()
	var names []string
	for name := range c.living {
		names = append(names, name)
	}
	c.mu.Unlock()
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, c.release(ctx, name))
	}
	c.stage.must(failed)
}

// compare holds what clients were told against what the store had.
func (c *clients) compare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for claim, told := range c.told {
		if is, bound := c.stage.seen.BoundTo(claim); !bound || is.UID != told.UID || is.Name != told.Name {
			c.stage.Errorf("the client of claim %s was told %s (%s); the claim was bound to %q (%s)", claim, told.Name, told.UID, is.Name, is.UID)
		}
	}
}

// kept is how many claims there are.
func (c *clients) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.living)
}

// made is how many claims there ever were.
func (c *clients) made() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
