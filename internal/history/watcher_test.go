// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
)

// world is a history that a test makes up.
type world struct{ *watcher }

// put makes or changes an object.
func (w world) put(obj client.Object) {
	w.change(w.revision+1, resourceOf(obj), obj.GetName(), obj.DeepCopyObject().(client.Object))
}

func (w world) gone(obj client.Object) { w.change(w.revision+1, resourceOf(obj), obj.GetName(), nil) }

func (w world) going(obj client.Object) {
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetDeletionTimestamp(ptr.To(metav1.Now()))
	w.put(obj)
}

func resourceOf(obj client.Object) string {
	switch obj.(type) {
	case *corev1.Pod:
		return pods
	case *agents.Sandbox:
		return sandboxes
	case *extensions.SandboxClaim:
		return claims
	case *extensions.SandboxWarmPool:
		return pools
	default:
		return templates
	}
}

func owner(apiVersion, kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name + "-uid"), Controller: ptr.To(true)}}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid"), Generation: 1}
}

func aTemplate(image string) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: meta("t")}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return t
}

func aPool(strategy extensions.SandboxWarmPoolUpdateStrategyType) *extensions.SandboxWarmPool {
	p := &extensions.SandboxWarmPool{ObjectMeta: meta("p")}
	p.Spec.Replicas, p.Spec.TemplateRef.Name = ptr.To[int32](1), "t"
	p.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: strategy}
	return p
}

func aMember(name string) *agents.Sandbox {
	s := blueprint.Member(aPool(extensions.WarmPoolRecreate), aTemplate("one"), name)
	s.ObjectMeta.UID, s.ObjectMeta.Generation = types.UID(name+"-uid"), 1
	return s
}

func ownedBy(s *agents.Sandbox, claim string) *agents.Sandbox {
	s = s.DeepCopy()
	s.OwnerReferences = owner(extensions.GroupVersion.String(), extensions.SandboxClaimKind, claim)
	return s
}

func stamped(s *agents.Sandbox) *agents.Sandbox {
	s = s.DeepCopy()
	s.Spec.PodTemplate.Metadata.Annotations = map[string]string{ForeignKey: "1"}
	return s
}

func aClaim(name string) *extensions.SandboxClaim {
	c := &extensions.SandboxClaim{ObjectMeta: meta(name)}
	c.Spec.WarmPoolRef = &extensions.SandboxWarmPoolRef{Name: "p"}
	return c
}

func bound(c *extensions.SandboxClaim, sandbox string) *extensions.SandboxClaim {
	c = c.DeepCopy()
	c.Status.Sandbox = extensions.ClaimedSandbox{Name: sandbox, UID: types.UID(sandbox + "-uid")}
	return c
}

func saying(c *extensions.SandboxClaim, reason string) *extensions.SandboxClaim {
	c = c.DeepCopy()
	c.Status.Conditions = []metav1.Condition{{Type: agents.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}
	return c
}

func aPod(name, sandbox string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(name)}
	if sandbox != "" {
		pod.OwnerReferences = owner(agents.GroupVersion.String(), agents.SandboxKind, sandbox)
	}
	pod.Status = corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	return pod
}

// begun is a pool with a member that serves, and a claim.
func begun(strategy extensions.SandboxWarmPoolUpdateStrategyType) world {
	w := world{newWatcher()}
	w.put(aTemplate("one"))
	w.put(aPool(strategy))
	w.put(aMember("m"))
	w.put(aPod("m", "m"))
	w.put(aClaim("c"))
	return w
}

func TestWhatMayNeverHappenIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(world)
		rule    string // "" if it may happen
	}{
		{"a claim adopts a member, is bound, and both go", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(bound(aClaim("c"), "m"))
			w.gone(aClaim("c"))
			w.going(ownedBy(aMember("m"), "c"))
			w.going(aPod("m", "m"))
		}, ""},
		{"a Sandbox gets a second live pod", func(w world) { w.put(aPod("other", "m")) }, "one live pod per Sandbox"},
		{"a Sandbox gets a pod while the last is going", func(w world) {
			w.going(aPod("m", "m"))
			w.put(aPod("other", "m"))
		}, ""},
		{"somebody else's pod is deleted", func(w world) {
			w.put(aPod("alien", ""))
			w.going(aPod("alien", ""))
		}, "only its own pods are deleted"},
		{"somebody else's pod is gone", func(w world) {
			w.put(aPod("alien", ""))
			w.gone(aPod("alien", ""))
		}, "only its own pods are deleted"},
		{"a claim is bound to another Sandbox", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(bound(aClaim("c"), "m"))
			w.put(bound(aClaim("c"), "n"))
		}, "a binding lasts"},
		{"a binding is taken back", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(bound(aClaim("c"), "m"))
			w.put(aClaim("c"))
		}, "a binding lasts"},
		{"a claim is bound to a Sandbox that was never its own", func(w world) { w.put(bound(aClaim("c"), "m")) }, "a claim is bound to its own"},
		{"two claims are bound to one Sandbox", func(w world) {
			w.put(aClaim("d"))
			w.put(ownedBy(aMember("m"), "c"))
			w.put(bound(aClaim("c"), "m"))
			w.put(bound(aClaim("d"), "m"))
		}, "a Sandbox is bound to one claim"},
		{"a Sandbox goes from one claim to another", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(ownedBy(aMember("m"), "d"))
		}, "a claim's Sandbox stays its own"},
		{"a claim gets a second Sandbox", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(ownedBy(aMember("n"), "c"))
		}, "one Sandbox per claim"},
		{"a pool gets one member too many", func(w world) { w.put(aMember("n")) }, "a pool has no more members than replicas"},
		{"a pool gets one member too many while another is going", func(w world) {
			w.going(aMember("m"))
			w.put(aMember("n"))
		}, "a pool has no more members than replicas"},
		{"a pool replaces a member that was adopted", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(aMember("n"))
		}, ""},
		{"a bound Sandbox is deleted", func(w world) {
			w.put(ownedBy(aMember("m"), "c"))
			w.put(bound(aClaim("c"), "m"))
			w.going(ownedBy(aMember("m"), "c"))
		}, "a bound Sandbox is not deleted"},
		{"another controller's annotation is lost", func(w world) {
			w.put(stamped(aMember("m")))
			w.put(aMember("m"))
		}, "foreign keys survive"},
		{"an adoption changes the spec", func(w world) {
			w.put(stamped(ownedBy(aMember("m"), "c")))
		}, "adoption leaves the spec alone"},
		{"a member that is going is adopted", func(w world) {
			w.going(aMember("m"))
			w.going(ownedBy(aMember("m"), "c"))
		}, "only members are adopted"},
		{"a Sandbox of nobody is adopted", func(w world) {
			s := aMember("n")
			s.OwnerReferences = nil
			w.put(s)
			w.put(ownedBy(aMember("n"), "c"))
		}, "only members are adopted"},
		{"a member whose pod never served is adopted", func(w world) {
			w.gone(aMember("m"))
			w.put(aMember("n"))
			w.put(ownedBy(aMember("n"), "c"))
		}, "only members that are ready are adopted"},
		{"a claim gets a member older than itself under Recreate", func(w world) {
			w.put(aTemplate("two"))
			w.put(aClaim("late"))
			w.put(ownedBy(aMember("m"), "late"))
		}, "no claim gets an older blueprint under Recreate"},
		{"a claim from before an edit gets a member from before it", func(w world) {
			w.put(aTemplate("two"))
			w.put(ownedBy(aMember("m"), "c"))
		}, ""},
		{"a Sandbox is made for a claim from an older template", func(w world) {
			w.put(aTemplate("two"))
			w.put(aClaim("late"))
			w.put(ownedBy(aMember("late"), "late"))
		}, "no claim gets an older blueprint under Recreate"},
		{"a claim says wrongly that its pool does not exist", func(w world) {
			w.put(saying(aClaim("c"), extensions.ReasonWarmPoolNotFound))
		}, "absence is proved"},
		{"a claim says that its pool does not exist, which was so", func(w world) {
			w.gone(aPool(extensions.WarmPoolRecreate))
			w.put(aPool(extensions.WarmPoolRecreate))
			w.put(saying(aClaim("c"), extensions.ReasonWarmPoolNotFound))
		}, ""},
		{"a claim says wrongly that its template does not exist", func(w world) {
			w.put(saying(aClaim("c"), extensions.ReasonTemplateNotFound))
		}, "absence is proved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := begun(extensions.WarmPoolRecreate)
			if len(w.wrong) > 0 {
				t.Fatal(w.wrong)
			}
			c.happens(w)
			switch {
			case c.rule == "" && len(w.wrong) > 0:
				t.Errorf("this is wrong: %v", w.wrong)
			case c.rule != "" && !strings.Contains(strings.Join(w.wrong, "\n"), c.rule+": "):
				t.Errorf("noticed %v, want %q", w.wrong, c.rule)
			}
		})
	}
}

func TestUnderOtherStrategiesClaimsGetOlderMembers(t *testing.T) {
	w := begun(extensions.WarmPoolOnReplenish)
	w.put(aTemplate("two"))
	w.put(aClaim("late"))
	w.put(ownedBy(aMember("m"), "late"))
	if len(w.wrong) > 0 {
		t.Error(w.wrong)
	}
}

func TestKeysOfTheStore(t *testing.T) {
	for key, want := range map[string][3]string{
		"/registry/pods/default/a":                        {"pods", "default", "a"},
		"/registry/agents.x-k8s.io/sandboxes/default/a":   {"sandboxes", "default", "a"},
		"/registry/namespaces/default":                    {},
		"/registry/apiextensions.k8s.io/definitions/of/a": {"definitions", "of", "a"},
	} {
		if resource, namespace, name := parse(key); [3]string{resource, namespace, name} != want {
			t.Errorf("%s is %q, %q, %q", key, resource, namespace, name)
		}
	}
}
