// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/claim"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

func TestTimesAreWrittenToClaimsWhenAsked(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	w.manager.Stop(t)
	metrics := claim.NewMetrics()
	controllers := append(w.controllers(), manager.Controller{Events: "sandboxclaim-controller", Workers: 5, New: func(env control.Environment, views kinds.Views) control.Controller {
		return claim.New(env, views, claim.Options{Metrics: metrics, AnnotateTimes: true})
	}})
	w.manager = managertest.Start(t, cluster, managertest.Options{Controllers: slices.Delete(controllers, 3, 4)})
	writes := w.writes(func() {
		w.claim("task", "python")
		await(w, &extensions.SandboxClaimList{}, "the claim to say when it was Ready", func(c *extensions.SandboxClaim) bool {
			seen, ready := c.Annotations[agents.AnnotationControllerFirstObservedAt], c.Annotations[agents.AnnotationClaimFirstReadyAt]
			from, err := time.Parse(time.RFC3339Nano, seen)
			if err != nil {
				return false
			}
			to, err := time.Parse(time.RFC3339Nano, ready)
			return err == nil && !to.Before(from) && isReadyNow(c)
		})
		w.full("python", 1)
	})
	if writes["patch sandboxclaims"] != 1 || writes["patch sandboxclaims/status"] != 1 {
		t.Errorf("writes: %v", writes)
	}
	if n, err := testutil.GatherAndCount(registryOf(metrics)); err != nil || n != 2 { // how many, and how long
		t.Errorf("%d metrics have values, %v", n, err)
	}
}

func registryOf(metrics *claim.Metrics) *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	return registry
}
