// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// target is what a person names: a claim, or a sandbox.
type target struct {
	sandbox bool
	name    string
}

// String is how commands take it.
func (t target) String() string {
	if t.sandbox {
		return "sandbox/" + t.name
	}
	return t.name
}

// parseTarget reads NAME, claim/NAME and sandbox/NAME, and the long forms of "-o name".
func parseTarget(text string) (target, error) {
	kind, name, slash := strings.Cut(text, "/")
	if !slash {
		kind, name = "claim", text
	}
	if name != "" {
		switch kind {
		case "claim", "sandboxclaim", "sandboxclaims", "sandboxclaim." + extensions.GroupName:
			return target{name: name}, nil
		case "sandbox", "sandboxes", "sandbox." + agents.GroupName:
			return target{sandbox: true, name: name}, nil
		}
	}
	return target{}, &problem{cause: fmt.Errorf("%q names neither a claim nor a sandbox", text),
		next: []string{"write CLAIM, claim/CLAIM or sandbox/SANDBOX"}}
}

// podOf finds the pod of a target. It is one that the target's Sandbox controls, proved by UIDs: names
// and annotations only say where to look.
func (p *program) podOf(ctx context.Context, c *cluster, t target) (*corev1.Pod, error) {
	sandbox, err := p.sandboxOf(ctx, c, t)
	if err != nil {
		return nil, err
	}
	ready := meta.FindStatusCondition(sandbox.Status.Conditions, agents.ConditionReady)
	if ready != nil && ready.Reason == agents.ReasonMultiplePods {
		return nil, &problem{cause: fmt.Errorf("which pod is sandbox %s's is not sure: %s", sandbox.Name, ready.Message),
			next: []string{"delete all of its pods but one: kubectl get pods -n " + c.namespace + " -l " + agents.LabelSandboxUID + "=" + string(sandbox.UID)}}
	}
	var foreign *corev1.Pod
	for _, name := range []string{sandbox.Annotations[agents.AnnotationPodName], sandbox.Name} {
		if name == "" {
			continue
		}
		pod := &corev1.Pod{}
		err := c.get(ctx, name, pod)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read pod %s: %w", name, err)
		}
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.UID == sandbox.UID {
			return pod, nil
		}
		foreign = pod
	}
	return nil, p.noPod(t, sandbox, foreign)
}

// noPod says why the sandbox of a target has no pod. foreign is a pod with the right name and another owner, or nil.
func (p *program) noPod(t target, sandbox *agents.Sandbox, foreign *corev1.Pod) error {
	list := p.command("ls") + " shows its state"
	if foreign != nil {
		return &problem{cause: fmt.Errorf("sandbox %s has no pod: the pod %s is not one of its own", sandbox.Name, foreign.Name),
			next: []string{"delete or rename that pod, so that the sandbox can have one", list}}
	}
	if !sandbox.Running() {
		return &problem{cause: fmt.Errorf("sandbox %s is suspended and has no pod", sandbox.Name),
			next: []string{p.command("resume", t.String()) + " starts it again"}}
	}
	return &problem{cause: fmt.Errorf("sandbox %s has no pod%s", sandbox.Name, because(sandbox.Status.Conditions)), next: []string{list}}
}

// sandboxOf finds the Sandbox of a target. For a claim it is the one that the claim is bound to and controls.
func (p *program) sandboxOf(ctx context.Context, c *cluster, t target) (*agents.Sandbox, error) {
	sandbox := &agents.Sandbox{}
	if t.sandbox {
		err := c.get(ctx, t.name, sandbox)
		if apierrors.IsNotFound(err) && !notServed(err) {
			return nil, p.missing("sandbox", t.name, c.namespace)
		}
		return sandbox, err
	}
	claim := &extensions.SandboxClaim{}
	err := c.get(ctx, t.name, claim)
	if apierrors.IsNotFound(err) && !notServed(err) {
		return nil, p.missing("claim", t.name, c.namespace)
	}
	if err != nil {
		return nil, err
	}
	bound := claim.Status.Sandbox
	if bound.Name == "" {
		return nil, p.notBound(claim)
	}
	err = c.get(ctx, bound.Name, sandbox)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil || bound.UID != "" && bound.UID != sandbox.UID {
		return nil, &problem{cause: fmt.Errorf("the sandbox %s of claim %s is gone%s", bound.Name, claim.Name, because(claim.Status.Conditions)),
			next: []string{p.command("release", claim.Name) + " gives the claim up", p.command("claim", poolWord(claim)) + " gets another sandbox"}}
	}
	if !metav1.IsControlledBy(sandbox, claim) {
		return nil, &problem{cause: fmt.Errorf("sandbox %s is not controlled by claim %s, whose status names it", sandbox.Name, claim.Name),
			next: []string{p.command("ls", "-o wide") + " shows what each sandbox belongs to"}}
	}
	return sandbox, nil
}

func (p *program) missing(kind, name, namespace string) error {
	return &problem{cause: fmt.Errorf("there is no %s %q in namespace %q", kind, name, namespace),
		next: []string{p.name + " ls -A shows all there are"}}
}

func (p *program) notBound(claim *extensions.SandboxClaim) error {
	seen := judge(claim)
	next := []string{p.command("ls") + " shows when it has one", p.command("release", claim.Name) + " gives it up"}
	if seen.failed {
		next[0] = seen.next
	}
	return &problem{cause: fmt.Errorf("claim %s has no sandbox yet: %s", claim.Name, seen), next: next}
}

// because is what the Ready condition says, to follow a sentence, or "".
func because(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, agents.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return " (" + outcome{reason: ready.Reason, message: ready.Message}.String() + ")"
}

// poolWord is the claim's pool for a suggested command.
func poolWord(claim *extensions.SandboxClaim) string {
	if pool := claim.PoolName(); pool != "" {
		return pool
	}
	return "POOL"
}
