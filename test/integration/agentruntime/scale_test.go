// SPDX-License-Identifier: Apache-2.0

package agentruntime_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/localcluster"
)

const (
	// fleet is how many AgentRuntimes one edit is about, and atOnce how many of them may
	// have their pods replaced at a time.
	fleet  = 500
	atOnce = 10
	// writesEach is what one AgentRuntime may cost to roll out, events aside: the stamps and
	// the deletion; and a status when it waits, begins, is stamped, is seen by its workload's
	// controller and is done, and with every change of a pod in between, of which several
	// go into one on a busy machine. A conflict is one more. writesOnAverage is without bad luck.
	writesEach, writesOnAverage = 12, 9
	// readsEach are reads of the configuration: four ConfigMaps and a list, when it begins
	// and when it is stamped.
	readsEach = 10
	// eventsEach tell of the pod that was deleted, and that it is done.
	eventsEach = 2
	// clients work for the test at once.
	clients = 4
)

// TestOneEditReplacesAFewPodsAtATime edits the configuration of all agents of a namespace.
// No pod becomes ready before as many wait as may be replaced at a time, so that the limit
// is reached again and again, and anybody who oversteps it is seen.
func TestOneEditReplacesAFewPodsAtATime(t *testing.T) {
	s := newStage(t, false, func(o *agentruntime.Options) { o.MaxConcurrentRestarts = atOnce })
	k := newSlowKubelet(s)
	s.statefulSets()
	s.create(s.defaults("one"))
	names := make([]string, fleet)
	for i := range names {
		names[i] = fmt.Sprintf("agent-%03d", i)
	}
	// They have the configuration before they have pods: nothing has to be replaced yet.
	s.forEach(names, func(ctx context.Context, i int, name string) error {
		agent, runtime := s.stopped(i, name)
		if err := s.client.Create(ctx, agent); err != nil {
			return err
		}
		return s.client.Create(ctx, runtime)
	})
	first := s.awaitAll(names, func(a *api.AgentRuntime) bool { return a.Status.Phase == api.PhaseActive })
	s.forEach(names, func(ctx context.Context, i int, name string) error {
		agent, _ := s.stopped(i, name)
		return s.client.Patch(ctx, agent, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)))
	})
	s.awaitAll(names, configured)
	if made := k.begin(atOnce); made != fleet {
		t.Fatalf("%d pods were made for %d agents that have their configuration before", made, fleet)
	}

	_, mark, err := cluster.Requests(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	edit := client.RawPatch(types.MergePatchType, []byte(`{"data":{"value":"two"}}`))
	if err := s.client.Patch(t.Context(), s.defaults("one"), edit); err != nil {
		t.Fatal(err)
	}
	s.awaitAll(names, func(a *api.AgentRuntime) bool {
		return configured(a) && a.Status.AppliedConfigHash != first.Status.AppliedConfigHash
	})
	requests, _, err := cluster.Requests(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	made, down := k.end()
	if made != 2*fleet {
		t.Errorf("%d pods were made for %d agents and 2 configurations", made, fleet)
	}
	if down != atOnce {
		t.Errorf("%d agents were without a ready pod at once, and %d may be", down, atOnce)
	}
	s.costs(requests, names)
}

// stopped is an agent that has no pod, and its AgentRuntime. One in ten runs in a Sandbox;
// writing those costs the server much more.
func (s *stage) stopped(i int, name string) (client.Object, *api.AgentRuntime) {
	if i%10 == 0 {
		box := s.sandbox(name)
		box.Spec.Replicas = ptr.To[int32](0)
		return box, s.runtime(name, "agents.x-k8s.io/v1beta1", "Sandbox")
	}
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.sandbox(name).Spec.PodTemplate.Spec},
	}}
	return set, s.runtime(name, "apps/v1", "StatefulSet")
}

// costs checks what the controller of AgentRuntimes asked of the server.
func (s *stage) costs(requests []localcluster.Request, names []string) {
	s.t.Helper()
	writes, reads, events := map[string]int{}, 0, 0
	kinds := map[string]int{}
	for _, r := range requests {
		told := r.Resource == "events" && r.UserAgent == s.t.Name()
		if !told && r.UserAgent != s.manager.UserAgent("agentruntime") && r.UserAgent != listsAgent+"/lists" {
			continue
		}
		kinds[r.Verb+" "+path.Join(r.Resource, r.Subresource)]++
		switch {
		case told:
			events++
		case r.Writes():
			writes[strings.TrimSuffix(r.Name, "-0")]++ // a StatefulSet's pod is its own
		default:
			reads++
		}
	}
	most, total := 0, 0
	for _, name := range names {
		most, total = max(most, writes[name]), total+writes[name]
	}
	s.t.Logf("for each of %d: %.2f writes and at most %d, %.2f reads, %.2f events: %v", fleet,
		float64(total)/fleet, most, float64(reads)/fleet, float64(events)/fleet, kinds)
	if most > writesEach || total > writesOnAverage*fleet {
		s.t.Errorf("%d writes, and %d for one AgentRuntime: %d of each and %d of one are enough", total, most, writesOnAverage, writesEach)
	}
	if reads > readsEach*fleet || events == 0 || events > eventsEach*fleet {
		s.t.Errorf("%d reads and %d events, and %d and %d of each AgentRuntime are enough", reads, events, readsEach, eventsEach)
	}
}

// forEach does something for all names, a few at a time.
func (s *stage) forEach(names []string, do func(ctx context.Context, i int, name string) error) {
	s.t.Helper()
	next := make(chan int)
	failed := make(chan error, len(names))
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for i := range next {
				if err := do(s.t.Context(), i, names[i]); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	work.Wait()
	close(failed)
	if err := <-failed; err != nil {
		s.t.Fatal(err)
	}
}

// awaitAll waits until all AgentRuntimes are as wanted, and returns one of them.
func (s *stage) awaitAll(names []string, ok func(*api.AgentRuntime) bool) *api.AgentRuntime {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), fleetLimit)
	defer cancel()
	are := map[string]*api.AgentRuntime{}
	s.follow(ctx, &api.AgentRuntimeList{}, func(obj client.Object, gone bool) {
		a := obj.(*api.AgentRuntime)
		delete(are, a.Name)
		if !gone && ok(a) {
			are[a.Name] = a
		}
		if len(are) == len(names) {
			cancel()
		}
	})
	if len(are) != len(names) {
		s.t.Fatalf("%d of %d AgentRuntimes are as they should be", len(are), len(names))
	}
	return are[names[0]]
}
