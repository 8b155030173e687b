// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// outcome is what a claim's status says to somebody who waits for it.
type outcome struct {
	// ready: the claim has a sandbox, and the sandbox is Ready.
	ready bool
	// failed: the claim does not become Ready unless somebody changes something; next says what.
	failed bool
	next   string
	// reason and message are of the condition that says why the claim is not Ready. Both are empty
	// while the controller has said nothing.
	reason, message string

	// outdated: the reason was found before what it misses was made, and is no news.
	outdated bool
	// again is how long it takes until it may be ready without any change that can be watched.
	again time.Duration
	// pod and container are those whose last end is the reason, if there are such.
	pod, container string
}

// String is the reason and the message, for people.
func (o outcome) String() string {
	switch {
	case o.reason == "":
		return "the controller has not said anything about it"
	case o.message == "":
		return o.reason
	default:
		return o.reason + ": " + o.message
	}
}

// judge reads a claim's status.
func judge(claim *extensions.SandboxClaim) outcome {
	conditions := claim.Status.Conditions
	// Where the pool is missing counts on whichever condition says so.
	for _, condition := range conditions {
		if condition.Reason == extensions.ReasonWarmPoolNotFound {
			return failed(condition, fmt.Sprintf("create the SandboxWarmPool %q in namespace %q, and the claim goes on; or claim from another pool",
				claim.PoolName(), claim.Namespace))
		}
	}
	ready := meta.FindStatusCondition(conditions, agents.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionTrue && claim.Status.Sandbox.Name != "" {
		return outcome{ready: true, reason: ready.Reason, message: ready.Message}
	}
	if ready != nil && ready.Status == metav1.ConditionFalse {
		if next, known := remedy(claim, ready.Reason); known {
			return failed(*ready, next)
		}
	}
	if finished := meta.FindStatusCondition(conditions, agents.ConditionFinished); finished != nil && finished.Status == metav1.ConditionTrue {
		return failed(*finished, "see why the pod ended before it was Ready: kubectl logs -n "+claim.Namespace+" "+claim.Status.Sandbox.Name)
	}
	bound := meta.FindStatusCondition(conditions, extensions.ConditionBound)
	for _, condition := range []*metav1.Condition{bound, ready} {
		if condition != nil && condition.Status != metav1.ConditionTrue {
			return outcome{reason: condition.Reason, message: condition.Message}
		}
	}
	return outcome{}
}

func failed(condition metav1.Condition, next string) outcome {
	return outcome{failed: true, next: next, reason: condition.Reason, message: condition.Message}
}

// remedy says what a person can do when a claim is not Ready for a reason that waiting does not mend.
// These reasons are those at which the public client libraries stop waiting, and Berth's own.
func remedy(claim *extensions.SandboxClaim, reason string) (next string, known bool) {
	switch reason {
	case extensions.ReasonTemplateNotFound:
		if template := claim.TemplateName(); template != "" {
			return fmt.Sprintf("create the SandboxTemplate %q in namespace %q, and the claim goes on", template, claim.Namespace), true
		}
		return fmt.Sprintf("create the SandboxTemplate that the pool %q names, and the claim goes on", claim.PoolName()), true
	case extensions.ReasonInvalidMetadata:
		return "claim again with other spec.additionalPodMetadata; the message says which key is not allowed", true
	case extensions.ReasonEnvVarsInjectionRejected:
		return "claim again without spec.env, or allow it in the template: spec.envVarsInjectionPolicy", true
	case extensions.ReasonVolumeClaimTemplatesError:
		return "claim again without spec.volumeClaimTemplates, or allow them in the template: spec.volumeClaimTemplatesPolicy", true
	case extensions.ReasonClaimExpired, agents.ReasonSandboxExpired:
		return "claim again; with a later shutdown time if that is what ended it", true
	case extensions.ReasonBindDeadlineExceeded:
		return fmt.Sprintf("claim again when the pool %q has ready members, or raise its spec.replicas", claim.PoolName()), true
	}
	return "", false
}
