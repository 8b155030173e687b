// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// volumesVerdict is what is to be done about the PersistentVolumeClaims.
type volumesVerdict struct {
	next    step
	problem string
}

// decideVolumes: every volumeClaimTemplate has a claim that the Sandbox owns, in every
// mode. A claim that exists is never changed. The first that cannot be had ends it: the
// templates after it wait.
func decideVolumes(seen observed) volumesVerdict {
	s := seen.sandbox
	if refused := seen.pass.refused(aboutVolumes); refused != nil {
		return volumesVerdict{problem: refused.err.Error()}
	}
	var create createVolumeClaims
	var adopt adoptVolumeClaims
	var v volumesVerdict
	for i, template := range s.Spec.VolumeClaimTemplates {
		claim := seen.volumeClaims[i]
		if claim == nil {
			create.claims = append(create.claims, renderVolumeClaim(s, template))
			continue
		}
		if v.problem = volumeProblem(s, claim); v.problem != "" {
			break
		}
		if relate(s, claim) == adoptable {
			adopt.claims = append(adopt.claims, claim)
			adopt.patches = append(adopt.patches, consistent.Patch{"metadata": map[string]any{"ownerReferences": ownersWith(s, claim)}})
		}
	}
	switch {
	case len(create.claims) > 0:
		v.next = create
	case len(adopt.claims) > 0:
		v.next = adopt
	}
	return v
}

func volumeProblem(s *agents.Sandbox, claim *corev1.PersistentVolumeClaim) string {
	switch relate(s, claim) {
	case foreign:
		return otherOwner(agents.MessagePVCOtherOwnerFormat, s, claim)
	case unowned:
		return fmt.Sprintf(agents.MessageCannotAdoptFormat, "PVC", claim.Name)
	default:
		return ""
	}
}
