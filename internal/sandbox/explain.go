// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/mergepatch"
)

// Explain says what the next pass does about a Sandbox, and why. It writes nothing.
func (r *Reconciler) Explain(ctx context.Context, key types.NamespacedName) (control.Explanation, error) {
	seen, err := r.observe(ctx, key, pass{})
	if err != nil || seen.sandbox == nil {
		return control.Explanation{}, err
	}
	now := r.env.Clock.Now()
	seen.settings = told(seen)
	e := control.Explanation{Found: true, Sees: sights(seen)}
	for range control.MaxSteps {
		switch next := decide(seen, now).(type) {
		case confirmPodGone, readPod: // a read
			if err := r.apply(ctx, seen, next, &seen.pass); err != nil {
				return e, err
			}
			if _, asked := next.(confirmPodGone); asked && !seen.pass.podGone {
				return e, fmt.Errorf("the pod %s came back while it was looked at; look again", key.Name)
			}
			continue
		case writeStatus:
			after, err := withPatch(seen.sandbox, next.patch)
			if err != nil {
				return e, err
			}
			e.Next = append(e.Next, control.StatusWrite(seen.sandbox.Status.Conditions, after.Status.Conditions))
			seen.sandbox = after
			continue
		case rest:
			e.Rest(missing(seen, next.why), next.until)
		default:
			e.Next = append(e.Next, next.String())
		}
		e.Conditions = seen.sandbox.Status.Conditions
		return e, nil
	}
	return e, control.ErrNoProgress
}

// missing is why the controller waits, or nothing if the Sandbox is what it should be.
func missing(seen observed, why string) string {
	ready := condition(seen.sandbox.Status, agents.ConditionReady)
	switch {
	case ready.Status == metav1.ConditionTrue,
		ready.Reason == agents.ReasonSandboxSuspended && isTrue(seen.sandbox, agents.ConditionSuspended),
		ready.Reason == agents.ReasonSandboxExpired && len(seen.pods) == 0,
		ready.Reason == agents.ReasonPodSucceeded:
		return ""
	default:
		return why
	}
}

// told is what the Sandbox and its pods tell of the settings of the controller that
// keeps them. It may have been started with others than this process knows of.
func told(seen observed) settings {
	s, set := seen.sandbox, seen.settings
	if domain, ok := strings.CutPrefix(s.Status.ServiceFQDN, s.Name+"."+s.Namespace+".svc."); ok {
		set.clusterDomain = domain
	}
	for _, pod := range seen.pods {
		_, may := pod.Annotations[agents.AnnotationSafeToEvict]
		if _, pooled := pod.Labels[agents.LabelWarmPool]; pooled && !may {
			set.warmPoolEviction = false
		}
	}
	return set
}

// withPatch is the Sandbox after a patch.
func withPatch(s *agents.Sandbox, patch consistent.Patch) (*agents.Sandbox, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	after, _, err := new(mergepatch.Merger).Apply(s, body)
	if err != nil {
		return nil, err
	}
	return after.(*agents.Sandbox), nil
}

// sights are what was observed, in words.
func sights(seen observed) []string {
	s := seen.sandbox
	list := []string{mode(s) + owner(s)}
	if at := shutdownTime(s); !at.IsZero() {
		list = append(list, "It expires at "+at.UTC().Format(time.RFC3339)+".")
	}
	for _, pod := range seen.pods {
		list = append(list, podSight(pod))
	}
	if len(seen.pods) == 0 {
		list = append(list, "It owns no pod.")
	}
	if pod := seen.namesake; pod != nil {
		whose := "nobody controls it"
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			whose = fmt.Sprintf("%s %q controls it", ref.Kind, ref.Name)
		}
		list = append(list, fmt.Sprintf("The pod %s has its name and is not its own: %s.", pod.Name, whose))
	}
	for i, template := range s.Spec.VolumeClaimTemplates {
		name := agents.PersistentVolumeClaimName(template.Metadata.Name, s.Name)
		if claim := seen.volumeClaims[i]; claim == nil {
			list = append(list, "There is no PersistentVolumeClaim "+name+" yet.")
		} else {
			list = append(list, fmt.Sprintf("PersistentVolumeClaim %s is %s.", name, claim.Status.Phase))
		}
	}
	if s.Spec.Service != nil && *s.Spec.Service && seen.service == nil {
		list = append(list, "There is no Service "+s.Name+" yet.")
	}
	return list
}

func mode(s *agents.Sandbox) string {
	switch {
	case s.DeletionTimestamp != nil:
		return "It is being deleted"
	case s.Running():
		return "It should run"
	default:
		return "It is suspended and should not run"
	}
}

func owner(s *agents.Sandbox) string {
	if ref := metav1.GetControllerOfNoCopy(s); ref != nil {
		return fmt.Sprintf(". It belongs to %s %q.", ref.Kind, ref.Name)
	}
	return ". It belongs to no claim and no pool."
}

func podSight(pod *corev1.Pod) string {
	words := []string{"Pod " + pod.Name + " is its own"}
	if pod.DeletionTimestamp != nil {
		words = append(words, "is terminating")
	} else {
		words = append(words, "phase "+string(pod.Status.Phase))
		if c := podCondition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
			words = append(words, "Ready")
		}
	}
	if pod.Spec.NodeName != "" {
		words = append(words, "on node "+pod.Spec.NodeName)
	}
	return strings.Join(words, ", ") + "."
}
