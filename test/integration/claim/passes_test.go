// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// passes counts the passes of the controller of claims.
type passes struct {
	server client.Reader

	mu    sync.Mutex
	count map[types.NamespacedName]int
	// binding is which of its passes gave a claim its Sandbox.
	binding map[types.NamespacedName]int
}

func newPasses(server client.Reader) *passes {
	return &passes{server: server, count: map[types.NamespacedName]int{}, binding: map[types.NamespacedName]int{}}
}

func (p *passes) of(key types.NamespacedName) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[key]
}

func (p *passes) untilBound(key types.NamespacedName) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.binding[key]
}

func (p *passes) begin(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[key]++
}

// end looks whether the claim has its Sandbox now. One claim has one pass at a time.
func (p *passes) end(ctx context.Context, key types.NamespacedName) {
	if p.untilBound(key) > 0 {
		return
	}
	var c extensions.SandboxClaim
	if err := p.server.Get(ctx, key, &c); err != nil || c.Status.Sandbox.Name == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.binding[key] = p.count[key]
}

// counted counts its passes.
type counted struct {
	control.Controller
	passes *passes
}

func (c *counted) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c.passes.begin(req.NamespacedName)
	defer c.passes.end(ctx, req.NamespacedName)
	return c.Controller.Reconcile(ctx, req)
}
