// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/consistent"
)

// agents is what is around the controller of AgentRuntimes.
type agentWorld struct {
	runtimes int // how many were ever made
	values   int // how many values ConfigMaps ever had
	notes    int
	limit    int
	jitter   time.Duration
}

// populateAgents makes what is there before the replicas start.
func (w *world) populateAgents(run *Run) {
	pick, f := run.choices.Pick, run.focus
	if f.agents.maker == publicController || f.agents.maker == anyMaker && pick(2) == 1 {
		run.public = newPublic(run)
	}
	w.agents.limit = f.agents.limit
	if w.agents.limit == 0 {
		w.agents.limit = pick(3)
	}
	w.agents.jitter = []time.Duration{0, 0, 20 * time.Second}[pick(3)]
	if f.templates > 0 && run.public == nil {
		w.templates, w.pools = []string{"t0"}, []string{"p0"}
		w.createTemplate(run, "t0")
		w.createPool(run, "p0")
		w.createClaim(run)
	}
	for range pick(3) {
		editConfig(w, run)
	}
	for range f.sandboxes {
		replaceTarget(w, run)
	}
	for range 1 + pick(f.agents.runtimes) {
		addRuntime(w, run)
	}
}

// agentOptions are those of the controller of AgentRuntimes.
func (r *replica) agentOptions() agentruntime.Options {
	w := r.run.world.agents
	return agentruntime.Options{
		MaxConcurrentRestarts: w.limit, MaxConcurrentRestartsInCluster: w.limit, RestartJitter: w.jitter, Lister: lists{r},
	}
}

// lists are a replica's lists of what the server has.
type lists struct{ replica *replica }

// ListPods implements agentruntime.Lister.
func (l lists) ListPods(_ context.Context, namespace, selector string) ([]*corev1.Pod, error) {
	return list[*corev1.Pod](l.replica, "pods", namespace, selector)
}

// ListConfigMaps implements agentruntime.Lister.
func (l lists) ListConfigMaps(_ context.Context, namespace, selector string) ([]*corev1.ConfigMap, error) {
	return list[*corev1.ConfigMap](l.replica, "configmaps", namespace, selector)
}

// list is a quorum read of those objects of a namespace that have a label.
func list[T client.Object](r *replica, resource, namespace, selector string) ([]T, error) {
	var found []T
	label, value, _ := strings.Cut(selector, "=")
	_, err := r.send(call{"list", resource, client.ObjectKey{Namespace: namespace, Name: "all"}}, func() (client.Object, error) {
		found = nil
		for _, obj := range r.run.server.List(resource) {
			if obj.GetNamespace() == namespace && obj.GetLabels()[label] == value {
				found = append(found, obj.(T))
			}
		}
		return nil, nil
	})
	return found, err
}

// target is one of the workloads that AgentRuntimes may name: one that users make, one of
// a claim, or one that there is, a pool's for instance.
func (w *world) target(run *Run) string {
	there := run.server.peek("sandboxes")
	n := run.choices.Pick(run.focus.sandboxes + min(run.focus.claims, 2) + min(len(there), 3))
	switch {
	case n < run.focus.sandboxes:
		return fmt.Sprintf("s%d", n)
	case run.public == nil && n < run.focus.sandboxes+min(run.focus.claims, 2):
		return fmt.Sprintf("c%d", n-run.focus.sandboxes)
	case len(there) > 0:
		return there[run.choices.Pick(len(there))].GetName()
	default:
		return "s0"
	}
}

// createTarget makes a Sandbox for an AgentRuntime, some with the configuration already,
// some suspended.
func (w *world) createTarget(run *Run, name string) {
	s := &agents.Sandbox{ObjectMeta: named(name)}
	s.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	switch run.choices.Pick(8) {
	case 7:
		if run.public == nil {
			s.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
		}
	case 6:
		if run.public == nil {
			s.Spec.PodFailureAction = agents.PodFailureReplace
		}
	case 5:
		s.Spec.OperatingMode = agents.OperatingModeSuspended
	case 4, 3:
		hash := run.watch.agents.desired()
		s.Labels = map[string]string{runtimes.LabelType: string(runtimes.RuntimeTypeAgent)}
		s.Spec.PodTemplate.Metadata.Labels = map[string]string{runtimes.LabelType: string(runtimes.RuntimeTypeAgent)}
		s.Spec.PodTemplate.Metadata.Annotations = map[string]string{runtimes.AnnotationConfigHash: hash, runtimes.AnnotationMTLSMode: string(runtimes.MTLSPermissive)}
	}
	w.create(run, "sandboxes", s)
}

func (w *world) createRuntime(run *Run, name string) {
	a := &runtimes.AgentRuntime{ObjectMeta: named(name)}
	a.Spec.Type = runtimes.RuntimeTypeAgent
	a.Spec.MTLSMode = runtimes.MTLSPermissive
	a.Spec.TargetRef = runtimes.TargetReference{
		APIVersion: agents.GroupName + "/" + []string{"v1beta1", "v1alpha1"}[run.choices.Pick(2)], Kind: agents.SandboxKind, Name: w.target(run),
	}
	w.create(run, "agentruntimes", a)
}

// places are where configuration is.
var places = []struct {
	namespace, name, key string
	labels               map[string]string
}{
	{namespace, "defaults", "value", map[string]string{runtimes.LabelDefaults: runtimes.DefaultsTrue}},
	{runtimes.DefaultOperatorNamespace, runtimes.ConfigMapPlatform, "config.yaml", nil},
	{runtimes.DefaultOperatorNamespace, runtimes.ConfigMapFeatureGates, "feature-gates.yaml", nil},
	{namespace, runtimes.ConfigMapAuthBridgeRuntime, runtimes.ConfigMapAuthBridgeRuntimeKey, nil},
	{namespace, "more-defaults", "more", map[string]string{runtimes.LabelDefaults: runtimes.DefaultsTrue}},
}

// editConfig writes, or now and then deletes, one of the ConfigMaps that there may be.
// Values come back now and then.
func editConfig(w *world, run *Run) {
	at := places[run.choices.Pick(len(places))]
	key := client.ObjectKey{Namespace: at.namespace, Name: at.name}
	exists := run.server.tables["configmaps"].objects[key] != nil
	value := fmt.Sprintf("v%d", w.agents.values)
	switch run.choices.Pick(8) {
	case 7:
		if exists {
			run.note("user: delete ConfigMap %s", at.name)
			_, _, _ = run.server.Delete("configmaps", key, consistent.DeleteCondition{})
			return
		}
	case 6:
		value = "v0"
	default:
		w.agents.values++
	}
	if exists {
		run.note("user: write %s to ConfigMap %s", value, at.name)
		_ = run.server.Edit("configmaps", key, func(obj client.Object) { obj.(*corev1.ConfigMap).Data = map[string]string{at.key: value} })
		return
	}
	w.create(run, "configmaps", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, Name: at.name, Labels: at.labels}, Data: map[string]string{at.key: value},
	})
}
