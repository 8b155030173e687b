// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

const (
	namespace = "sim"
	// foreign marks objects of somebody else, which nobody here may touch.
	foreign = "example.com/foreign"
	// stamp is what another controller writes into podTemplates.
	stamp = "rossoctl.io/config-hash"
)

// world is everything around the replicas: users, nodes, the garbage collector,
// another controller, quotas.
type world struct {
	templates, pools []string
	claims           int // how many claims were ever made
	sandboxes        int // how many Sandboxes users ever made
	stamps           int
	bestowed         int
	edits            int
	dead             [2]bool // nodes
	podQuota         bool
	sandboxQuota     bool
	judged           []judgement
	agents           agentWorld
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

// populate makes what is there before the replicas start.
func (w *world) populate(run *Run) {
	pick := run.choices.Pick
	for n := range 1 + pick(run.focus.templates) {
		w.templates = append(w.templates, fmt.Sprintf("t%d", n))
		w.createTemplate(run, w.templates[n])
	}
	if run.focus.pools > 0 {
		for n := range 1 + pick(run.focus.pools) {
			w.pools = append(w.pools, fmt.Sprintf("p%d", n))
			w.createPool(run, w.pools[n])
		}
	}
	if run.focus.sandboxes > 0 && pick(3) == 2 {
		w.createSandbox(run)
	}
	if run.focus.claims > 3 && pick(4) == 3 {
		w.createForeign(run)
	}
}

// firstClaims makes the first claims: at once, or when pools are full.
func (w *world) firstClaims(run *Run) {
	if run.focus.stocked && run.choices.Pick(3) > 0 {
		run.rest(time.Minute)
	}
	for range 1 + run.choices.Pick(min(3, run.focus.claims)) {
		w.createClaim(run)
	}
}

func (w *world) createTemplate(run *Run, name string) {
	t := &extensions.SandboxTemplate{ObjectMeta: named(name)}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: fmt.Sprintf("image:%d", w.edits)}}
	w.edits++
	switch run.choices.Pick(8) {
	case 6:
		t.Spec.PodFailureAction = agents.PodFailureReplace
	case 7:
		t.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
	case 5:
		t.Spec.NetworkPolicyManagement = extensions.NetworkPolicyUnmanaged
	case 4:
		t.Spec.Service = ptr.To(true)
	}
	if run.choices.Pick(3) == 2 {
		t.Spec.EnvVarsInjectionPolicy = extensions.EnvVarsInjectionAllowed
	}
	w.create(run, "sandboxtemplates", t)
}

func (w *world) createPool(run *Run, name string) {
	p := &extensions.SandboxWarmPool{ObjectMeta: named(name)}
	p.Spec.Replicas = ptr.To(int32(1 + run.choices.Pick(3)))
	if run.focus.stocked {
		*p.Spec.Replicas++
	}
	p.Spec.TemplateRef.Name = w.templates[run.choices.Pick(len(w.templates))]
	p.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: w.strategy(run)}
	w.create(run, "sandboxwarmpools", p)
}

// strategy is one that a pool may have.
func (w *world) strategy(run *Run) extensions.SandboxWarmPoolUpdateStrategyType {
	if only := run.focus.strategy; only != "" {
		return only
	}
	return []extensions.SandboxWarmPoolUpdateStrategyType{
		extensions.WarmPoolOnReplenish, extensions.WarmPoolRecreate, extensions.WarmPoolRollingUpdate,
	}[run.choices.Pick(3)]
}

func (w *world) createSandbox(run *Run) {
	if run.focus.sandboxes == 0 {
		return
	}
	w.createSandboxNamed(run, fmt.Sprintf("s%d", w.sandboxes%run.focus.sandboxes))
	w.sandboxes++
}

func (w *world) createSandboxNamed(run *Run, name string) {
	s := &agents.Sandbox{ObjectMeta: named(name)}
	s.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	switch run.choices.Pick(6) {
	case 5:
		s.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
	case 4:
		s.Spec.PodFailureAction = agents.PodFailureReplace
	case 3:
		s.Spec.Service = ptr.To(true)
	}
	w.create(run, "sandboxes", s)
}

// createForeign puts something of somebody else where a claim's Sandbox will want to
// put its own.
func (w *world) createForeign(run *Run) {
	meta := named(fmt.Sprintf("c%d", run.choices.Pick(4)))
	meta.Labels = map[string]string{foreign: "true"}
	switch run.choices.Pick(3) {
	case 0:
		w.create(run, "pods", &corev1.Pod{ObjectMeta: meta})
	case 1:
		w.create(run, "services", &corev1.Service{ObjectMeta: meta})
	case 2:
		s := &agents.Sandbox{ObjectMeta: meta}
		s.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
		w.create(run, "sandboxes", s)
	}
}

func (w *world) createClaim(run *Run) {
	w.createClaimNamed(run, fmt.Sprintf("c%d", w.claims%run.focus.claims))
	w.claims++
}

// createClaimNamed makes a claim of one of the forms that there are. The first takes
// from a pool and asks for nothing.
func (w *world) createClaimNamed(run *Run, name string) {
	pick := run.choices.Pick
	c := &extensions.SandboxClaim{ObjectMeta: named(name)}
	pool, t := "p0", w.templates[pick(len(w.templates))]
	if len(w.pools) > 0 {
		pool = w.pools[pick(len(w.pools))]
	}
	form := pick(8)
	if len(w.pools) == 0 {
		form = 5
	}
	switch form {
	default:
		c.Spec.WarmPoolRef = &extensions.SandboxWarmPoolRef{Name: pool}
	case 5:
		c.Spec.TemplateRef = &extensions.SandboxTemplateRef{Name: t}
	case 6:
		c.Spec.TemplateRef = &extensions.SandboxTemplateRef{Name: t}
		c.Spec.WarmPool = ptr.To(extensions.WarmPoolChoiceNone)
	case 7:
		c.Spec.TemplateRef = &extensions.SandboxTemplateRef{Name: t}
		c.Spec.WarmPool = &pool
	}
	c.Spec.Lifecycle = &extensions.ClaimLifecycle{}
	switch pick(12) {
	case 5:
		c.Spec.Env = []extensions.EnvVar{{Name: "KEY", Value: "value"}}
	case 6:
		c.Spec.Lifecycle.ShutdownTime = ptr.To(run.server.seconds(int64(pick(60))))
		c.Spec.Lifecycle.ShutdownPolicy = []extensions.ClaimShutdownPolicy{
			extensions.ClaimShutdownRetain, extensions.ClaimShutdownDelete, extensions.ClaimShutdownDeleteForeground,
		}[pick(3)]
	case 7:
		c.Spec.Lifecycle.BindDeadlineSeconds = ptr.To(int32(1 + pick(20)))
	case 8, 9:
		c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/team": "a"}
	case 10:
		c.Spec.Lifecycle.SandboxLost = extensions.SandboxLostReplace
	case 11:
		c.Spec.Lifecycle.TTLSecondsAfterFinished = ptr.To(int32(pick(60)))
	}
	w.create(run, "sandboxclaims", c)
}

// create makes an object as a user.
func (w *world) create(run *Run, resource string, obj client.Object) {
	if _, err := run.server.Create(resource, obj); err == nil {
		run.note("user: create %s %s", resource, obj.GetName())
	}
}

// actions are what everybody but the replicas can do next.
func (w *world) actions(run *Run) {
	run.may(run.focus.kubelet, func() { w.kubelet(run) })
	run.may(40, func() { w.collect(run) })
	if run.public != nil {
		run.public.actions()
	}
}

// calm ends what is wrong with nodes and quotas.
func (w *world) calm(run *Run) {
	w.dead = [2]bool{}
	w.podQuota, w.sandboxQuota = false, false
	run.note("nodes and quotas are well")
}

// settle does all that everybody but the replicas has to do, and reports whether there
// was anything.
func (w *world) settle(run *Run) bool {
	busy := false
	for {
		work := w.podWork(run, true)
		if len(work) == 0 {
			break
		}
		work[0]()
		busy = true
	}
	for w.collectAll(run) {
		busy = true
	}
	if run.public != nil {
		busy = run.public.settle() || busy
	}
	return busy
}
