// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/history"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/manager"
)

// kind is a kind of fault. It lasts between two times.
type kind struct {
	name        string
	least, most time.Duration
	happen      func(context.Context, *stage, event)
}

const paused = "leader paused past its lease"

// kinds are what goes wrong. A delay is shorter than the time between the end of a
// leader's term and the beginning of the next, as the assumptions of the fence have it.
var kinds = []kind{
	{paused, manager.LeaseDuration + 3*time.Second, manager.LeaseDuration + 9*time.Second, pauseLeader},
	{"leader killed", 0, 0, func(_ context.Context, s *stage, _ event) { s.leader().Crash() }},
	{"both replicas killed", 0, 0, func(_ context.Context, s *stage, _ event) { s.sides[0].Crash(); s.sides[1].Crash() }},
	{"API server restarted", 0, 3 * time.Second, restart(localcluster.APIServer)},
	{"etcd restarted", 0, 2 * time.Second, restart(localcluster.Etcd)},
	{"node agent restarted", 0, 6 * time.Second, restart(localcluster.Kwok)},
	{"controller manager restarted", 0, 4 * time.Second, restart(localcluster.ControllerManager)},
	{"watches delayed", time.Second, 12 * time.Second, delayWatches},
	{"watch events dropped", 0, 8 * time.Second, dropWatches},
	{"connections cut", 0, 0, func(_ context.Context, s *stage, e event) { s.some(e).proxy.CutConnections() }},
	{"requests delayed", 3 * time.Second, 9 * time.Second, delayRequests},
	{"replies lost", 0, 0, func(_ context.Context, s *stage, e event) { s.some(e).proxy.LoseReplies(1 + int(e.dice>>4%4)) }},
	{"template edited", 0, 0, editTemplate},
	{"pool scaled", 0, 0, scalePool},
	{"Sandboxes stamped by another controller", 0, 0, stampSandboxes},
}

// some is the leader's side, or the other one in one case of four.
func (s *stage) some(e event) *side {
	leader := int(s.leading.Load())
	if e.dice%4 == 0 {
		leader = 1 - leader
	}
	return s.sides[leader]
}

// pauseLeader lets another take over. In two cases of three the leader is paused with
// requests on their way that never arrive: awake again, it learns that they failed, and
// may not repeat them.
func pauseLeader(ctx context.Context, s *stage, e event) {
	leader := s.leader()
	if e.dice%3 > 0 {
		leader.proxy.Delay(time.Minute)
		after(ctx, time.Duration(200+e.dice%600)*time.Millisecond)
	}
	leader.Pause()
	if e.dice%3 > 0 {
		leader.proxy.CutConnections()
		leader.proxy.Delay(0)
	}
	after(ctx, e.lasts)
	leader.Resume()
}

// restart restarts a part of the cluster, which is away for a while.
func restart(part string) func(context.Context, *stage, event) {
	return func(ctx context.Context, s *stage, e event) {
		s.parts.Lock()
		defer s.parts.Unlock()
		if err := cluster.Part(part).Kill(ctx); err != nil {
			s.Error(err)
		}
		after(ctx, e.lasts)
		if err := cluster.Part(part).Start(ctx); err != nil {
			s.Error(err)
		}
		s.startAll(ctx)
	}
}

// startAll starts what ended because something else was away, as kubelets do.
func (s *stage) startAll(ctx context.Context) {
	for _, part := range cluster.Status() {
		if part.PID == 0 {
			if err := cluster.Part(part.Name).Start(ctx); err != nil {
				s.Error(err)
			}
		}
	}
}

// revive ends whatever goes wrong.
func (s *stage) revive(ctx context.Context) {
	for _, side := range s.sides {
		side.Resume()
		side.proxy.ReleaseWatches()
		side.proxy.Delay(0)
		side.proxy.LoseReplies(0)
	}
	s.parts.Lock()
	defer s.parts.Unlock()
	s.startAll(ctx)
}

// resources chooses some of those that the controllers watch.
func (e event) resources() []string {
	var chosen []string
	for i, resource := range []string{"pods", "sandboxes", "sandboxclaims", "sandboxwarmpools", "sandboxtemplates"} {
		if e.dice>>(8+i)&1 == 1 {
			chosen = append(chosen, resource)
		}
	}
	return chosen // none is all
}

func delayWatches(ctx context.Context, s *stage, e event) {
	proxy := s.some(e).proxy
	proxy.HoldWatches(e.resources()...)
	after(ctx, e.lasts)
	proxy.ReleaseWatches(e.resources()...)
}

func dropWatches(ctx context.Context, s *stage, e event) {
	proxy := s.some(e).proxy
	proxy.HoldWatches(e.resources()...)
	after(ctx, e.lasts)
	proxy.DropWatches(e.resources()...)
	proxy.ReleaseWatches(e.resources()...)
}

func delayRequests(ctx context.Context, s *stage, e event) {
	const most = 2000
	proxy := s.some(e).proxy
	proxy.Delay(time.Duration(e.dice%most) * time.Millisecond)
	after(ctx, e.lasts)
	proxy.Delay(0)
}

// person does what a person does: until the server has heard it.
func (s *stage) person(ctx context.Context, request func(context.Context) error) {
	if err := s.insist(ctx, request); err != nil {
		s.Error(err)
	}
}

func (e event) pool() string { return []string{"shared", "strict", "rolling"}[e.dice%3] }

func merge(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

func editTemplate(ctx context.Context, s *stage, e event) {
	t := &extensions.SandboxTemplate{}
	t.Namespace, t.Name = s.namespace, e.pool()
	patch := merge(`{"spec":{"podTemplate":{"spec":{"containers":[{"name":"main","image":%q,"command":["sleep","3600"]}]}}}}`, image(int(e.dice)))
	s.person(ctx, func(ctx context.Context) error { return s.Patch(ctx, t, patch) })
}

func scalePool(ctx context.Context, s *stage, e event) {
	p := &extensions.SandboxWarmPool{}
	p.Namespace, p.Name = s.namespace, e.pool()
	s.person(ctx, func(ctx context.Context) error {
		return s.Patch(ctx, p, merge(`{"spec":{"replicas":%d}}`, 2+e.dice>>4%7))
	})
}

// stampSandboxes annotates podTemplates, as a controller does that is not Berth's.
func stampSandboxes(ctx context.Context, s *stage, e event) {
	s.person(ctx, func(ctx context.Context) error {
		list := &agents.SandboxList{}
		if err := s.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for sandbox := range slices.Values(list.Items) {
			if sandbox.UID[0]%4 != byte(e.dice%4) || sandbox.Spec.PodTemplate.Metadata.Annotations[history.ForeignKey] != "" {
				continue
			}
			patch := merge(`{"spec":{"podTemplate":{"metadata":{"annotations":{%q:"%d"}}}}}`, history.ForeignKey, e.dice)
			if err := client.IgnoreNotFound(s.Patch(ctx, &sandbox, patch)); err != nil {
				return err
			}
		}
		return nil
	})
}
