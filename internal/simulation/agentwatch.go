// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/workload"
)

// agentWatcher holds the invariants about AgentRuntimes. What a pod was made from it
// knows from when the pod was made; nothing rests on what the controller says.
//
// A pass may act on what it has seen when it began. So what is held against it has to
// have been so at all times since.
type agentWatcher struct {
	run     *Run
	all     *watcher
	origins map[types.UID]origin
	// pods are all pods of each Sandbox, at each time.
	pods                map[types.UID][]podsThen
	sandboxes, runtimes map[string][]client.Object // every state, by name; nil is absence
	stamped             map[types.UID][]stampedAt
	config              []configThen
	// contested are Sandboxes on which somebody else set one of the controller's keys.
	contested map[types.UID]bool
	// wiped is when somebody else last changed the stamps of each Sandbox.
	wiped map[string]uint64
	// shared are AgentRuntimes that had a target which another one named meanwhile.
	shared map[types.UID]bool
}

// origin is what a pod was made from.
type origin struct {
	stamps workload.Stamps
	// template is all of the template that counts.
	template string
	// generation is the Sandbox's, if the public controller made the pod, and version is
	// that of when it did.
	generation int64
	version    uint64
}

// podsThen are the pods of a Sandbox since a version.
type podsThen struct {
	since uint64
	pods  []*corev1.Pod
}

// stampedAt says which stamps a Sandbox has since a generation of it, and since which
// version it is written down that its controller has seen them.
type stampedAt struct {
	generation int64
	stamps     workload.Stamps
	told       uint64
}

func newAgentWatcher(all *watcher) *agentWatcher {
	return &agentWatcher{
		run: all.run, all: all, origins: map[types.UID]origin{}, pods: map[types.UID][]podsThen{},
		sandboxes: map[string][]client.Object{}, runtimes: map[string][]client.Object{}, stamped: map[types.UID][]stampedAt{},
		contested: map[types.UID]bool{}, shared: map[types.UID]bool{}, wiped: map[string]uint64{}, config: []configThen{{maps: map[types.NamespacedName]*corev1.ConfigMap{}}},
	}
}

func (w *agentWatcher) changed(resource string, before, after client.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	ours := w.run.writer != nil && w.run.writer.controller == "agentruntime"
	w.all.budget.causes += w.rolloutsDue(resource, before, obj) * causesPerRollout
	switch resource {
	case "pods":
		w.podChanged(asPod(before), asPod(after), ours)
	case "sandboxes":
		w.all.remember(w.sandboxes, resource, obj.GetName(), after)
		w.sandboxChanged(asSandbox(before), asSandbox(after), ours)
	case "agentruntimes":
		w.all.remember(w.runtimes, resource, obj.GetName(), after)
		w.share()
		if before, after := asRuntime(before), asRuntime(after); ours && before != nil && after != nil && !reflect.DeepEqual(before.Status, after.Status) {
			w.said(before, after)
		}
	case "configmaps":
		w.configChanged(obj, after)
	}
}

// causesPerRollout is what a rollout counts beside the change that gave rise to it: it
// takes eight writes of the controller's own, and others as its pod comes and goes.
const causesPerRollout = 4

// rolloutsDue is how many rollouts a change gives rise to: one of the configuration to all
// that there are, one of an AgentRuntime, or a new target, to its own.
func (w *agentWatcher) rolloutsDue(resource string, before, obj client.Object) int {
	all := w.run.server.peek("agentruntimes")
	switch {
	case resource == "configmaps":
		return len(all)
	case resource == "agentruntimes" && w.run.writer == nil:
		return 1
	case resource == "sandboxes" && before == nil && slices.ContainsFunc(all, func(a client.Object) bool { return asRuntime(a).Spec.TargetRef.Name == obj.GetName() }):
		return 1
	default:
		return 0
	}
}

func asRuntime(obj client.Object) *runtimes.AgentRuntime {
	a, _ := obj.(*runtimes.AgentRuntime)
	return a
}

func (w *agentWatcher) podChanged(before, after *corev1.Pod, ours bool) {
	pod := after
	if pod == nil {
		pod = before
	}
	if before == nil {
		w.origins[after.UID] = w.originOf(after)
	}
	if owner := control.ControllerUID(pod); owner != "" {
		then := podsThen{since: w.run.server.version}
		for _, obj := range w.run.server.peek("pods") {
			if control.IsControlledBy(obj, owner) {
				then.pods = append(then.pods, obj.(*corev1.Pod))
			}
		}
		w.pods[owner] = append(w.pods[owner], then)
	}
	if ours && before != nil && before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil) {
		w.deleted(before)
	}
}

func (w *agentWatcher) originOf(p *corev1.Pod) origin {
	o := origin{stamps: stampsOn(p.Labels, p.Annotations)}
	o.template = templateText(
		onlyKeys(p.Labels, p.Annotations[agents.AnnotationPropagatedLabels]),
		onlyKeys(p.Annotations, p.Annotations[agents.AnnotationPropagatedAnnotations]), p.Spec)
	if w.run.public != nil {
		o.generation, o.version = w.run.public.making, w.run.server.version
	}
	return o
}

func stampsOn(labels, annotations map[string]string) workload.Stamps {
	return workload.Stamps{Type: labels[runtimes.LabelType], ConfigHash: annotations[runtimes.AnnotationConfigHash], MTLSMode: annotations[runtimes.AnnotationMTLSMode]}
}

func stampsOf(s *agents.Sandbox) workload.Stamps {
	return stampsOn(s.Spec.PodTemplate.Metadata.Labels, s.Spec.PodTemplate.Metadata.Annotations)
}

func onlyKeys(of map[string]string, listed string) map[string]string {
	keys := strings.Split(listed, ",")
	kept := maps.Clone(of)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !slices.Contains(keys, key) })
	return kept
}

func templateText(labels, annotations map[string]string, spec corev1.PodSpec) string {
	labels, annotations = maps.Clone(labels), maps.Clone(annotations)
	system := func(key, _ string) bool { return agents.IsSystemKey(key) }
	maps.DeleteFunc(labels, system)
	maps.DeleteFunc(annotations, system)
	image := ""
	if len(spec.Containers) > 0 {
		image = spec.Containers[0].Image
	}
	text, err := json.Marshal([]any{keyed(labels), keyed(annotations), image})
	if err != nil {
		panic("a template has no JSON form: " + err.Error())
	}
	return string(text)
}

func keyed(of map[string]string) map[string]string {
	if of == nil {
		return map[string]string{}
	}
	return of
}

// deleted holds that a pod that was made with what the Sandbox has is left alone, and that
// others are deleted only while a status says so.
func (w *agentWatcher) deleted(pod *corev1.Pod) {
	ref, seen := control.ControllerOf(pod, agents.GroupName, agents.SandboxKind), w.run.writer.seen
	if ref == nil {
		w.run.fail(onlyOutdated, "%s deleted pod %s, which is no Sandbox's", w.run.writer, pod.Name)
		return
	}
	outdated := func(obj client.Object) bool {
		s := sandboxWith(ref.UID, obj)
		return s != nil && w.outdated(pod, s)
	}
	if !slices.ContainsFunc(w.all.statesSince(w.sandboxes, "sandboxes", ref.Name, seen.sandboxes), outdated) {
		w.run.fail(onlyOutdated, "%s deleted pod %s, which was made with what the Sandbox has", w.run.writer, pod.Name)
	}
	if !w.saidToRoll(ref.Name) {
		w.run.fail(saidFirst, "%s deleted pod %s, and no status says that pods are being replaced", w.run.writer, pod.Name)
	}
}

// outdated reports whether a pod was made before the Sandbox, as it was, had the stamps
// that it has. Where revisions are compared, all of the template counts. Of the public
// controller nobody can know what it has seen before it says so, and which pods came later
// before those that there are were written down: one that it made in between may be taken
// for an older one.
func (w *agentWatcher) outdated(pod *corev1.Pod, s *agents.Sandbox) bool {
	made := w.origins[pod.UID]
	if w.run.public == nil {
		return made.template != templateText(s.Spec.PodTemplate.Metadata.Labels, s.Spec.PodTemplate.Metadata.Annotations, s.Spec.PodTemplate.Spec)
	}
	var since stampedAt
	for _, at := range w.stamped[s.UID] {
		if at.generation > s.Generation {
			return made.generation < since.generation || made.generation < at.generation && (since.told == 0 || made.version < since.told)
		}
		since = at
	}
	return made.generation < since.generation || since.told == 0 || made.version < since.told
}

// refused reports whether an AgentRuntime says that its target could not be written to:
// what was refused is tried before the status says that it begins.
func refused(a *runtimes.AgentRuntime) bool {
	ready := apimeta.FindStatusCondition(a.Status.Conditions, runtimes.ConditionReady)
	return ready != nil && ready.Reason == runtimes.ReasonConfigApplyError
}

// saidToRoll reports whether any AgentRuntime said, since the writer's pass began, that
// the pods of a Sandbox are being replaced.
func (w *agentWatcher) saidToRoll(name string) bool {
	if w.all.overlap.on {
		return true // another leader may have said the opposite
	}
	for runtime := range w.runtimes {
		for _, obj := range w.all.statesSince(w.runtimes, "agentruntimes", runtime, w.run.writer.seen.began) {
			a := asRuntime(obj)
			if a == nil {
				continue
			}
			had := a.Status.Target
			// One that is deleted leaves what it names too: it may have taken that over.
			leaves := (had == nil || a.DeletionTimestamp != nil) && a.Spec.TargetRef.Name == name
			if (leaves || had != nil && had.Name == name) && (a.Status.RolloutStartTime != nil || refused(a)) {
				return true
			}
		}
	}
	return false
}

func (w *agentWatcher) sandboxChanged(before, after *agents.Sandbox, ours bool) {
	if after == nil {
		return
	}
	is := stampsOf(after)
	if known := w.stamped[after.UID]; len(known) == 0 || known[len(known)-1].stamps != is {
		if !ours {
			w.wiped[after.Name] = w.run.server.version
		}
		w.stamped[after.UID] = append(known, stampedAt{generation: after.Generation, stamps: is})
	}
	record, last := recordOn(after), &w.stamped[after.UID][len(w.stamped[after.UID])-1]
	if last.told == 0 && record.Observed && record.Stamps == last.stamps {
		last.told = w.run.server.version
	}
	if before == nil && is != (workload.Stamps{}) {
		w.contested[after.UID] = true
	}
	if ours && before != nil {
		w.written(before, after)
	}
}

// written holds that the controller changes nothing but its own keys, and stamps what may
// be stamped with what the configuration is, once that was said.
func (w *agentWatcher) written(before, after *agents.Sandbox) {
	is := stampsOf(after)
	if !reflect.DeepEqual(others(before), others(after)) {
		w.run.fail(othersKeys, "%s changed more of Sandbox %s than its own keys", w.run.writer, after.Name)
	}
	if was := stampsOf(before); is.ConfigHash == was.ConfigHash || is.ConfigHash == "" {
		return
	}
	switch {
	case control.ControllerOf(before, extensions.GroupName, extensions.SandboxWarmPoolKind) != nil:
		w.run.fail(poolsUnstamped, "%s stamped Sandbox %s, which is a pool's", w.run.writer, after.Name)
	case !w.was(is.ConfigHash, w.run.writer.seen.began):
		w.run.fail(trueConfig, "%s stamped Sandbox %s with %.12s, which the configuration was at no time since the pass began", w.run.writer, after.Name, is.ConfigHash)
	case !w.saidToRoll(after.Name) && !slices.ContainsFunc(w.podsSince(after.UID, w.run.writer.seen.pods), nothingRuns):
		w.run.fail(saidFirst, "%s stamped Sandbox %s, which runs, and no status says that pods are being replaced", w.run.writer, after.Name)
	}
}

func nothingRuns(pods []*corev1.Pod) bool { return !slices.ContainsFunc(pods, isLive) }

func isLive(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && !isFinished(p) }

func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// others is all of a Sandbox but for the controller's own keys and what the server counts.
func others(s *agents.Sandbox) *agents.Sandbox {
	rest := s.DeepCopy()
	rest.ResourceVersion, rest.Generation, rest.ManagedFields, rest.Status = "", 0, nil, agents.SandboxStatus{}
	template := &rest.Spec.PodTemplate.Metadata
	for _, of := range []*map[string]string{&rest.Labels, &rest.Annotations, &template.Labels, &template.Annotations} {
		for _, key := range ownKeys {
			delete(*of, key)
		}
		if len(*of) == 0 {
			*of = nil
		}
	}
	return rest
}

// podsSince are the pods of a Sandbox, as they were at each time since a version.
func (w *agentWatcher) podsSince(sandbox types.UID, version uint64) [][]*corev1.Pod {
	known := w.pods[sandbox]
	var found [][]*corev1.Pod
	for at := len(known) - 1; at >= 0; at-- {
		found = append(found, known[at].pods)
		if known[at].since <= version {
			return found
		}
	}
	return append(found, nil) // there was none yet
}
