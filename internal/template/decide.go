// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// A step is the one thing to do next.
type step interface {
	fmt.Stringer
	isStep()
}

type (
	// label puts the hash of the template's name on the template.
	label struct{}
	// createPolicy creates the template's NetworkPolicy.
	createPolicy struct{}
	// patchPolicy makes the NetworkPolicy what the template says.
	patchPolicy struct{}
	// deletePolicy deletes the NetworkPolicy.
	deletePolicy struct{ why string }
	// warn tells people that the template's pods are not isolated, once.
	warn struct{ note string }
	// rest waits for the next event.
	rest struct{ why string }
)

func (label) isStep()        {}
func (createPolicy) isStep() {}
func (patchPolicy) isStep()  {}
func (deletePolicy) isStep() {}
func (warn) isStep()         {}
func (rest) isStep()         {}

func (label) String() string          { return "put the hash of its name on the template" }
func (createPolicy) String() string   { return "create the template's NetworkPolicy" }
func (patchPolicy) String() string    { return "make the NetworkPolicy what the template says" }
func (d deletePolicy) String() string { return "delete the NetworkPolicy: " + d.why }
func (w warn) String() string         { return "warn: " + w.note }
func (r rest) String() string         { return "rest: " + r.why }

// decide returns the one thing to do next.
func decide(seen observed) step {
	if seen.Template == nil {
		return decideLeftOver(seen)
	}
	t := seen.Template
	if t.DeletionTimestamp != nil {
		return rest{"the template is being deleted"}
	}
	if t.Labels[agents.LabelTemplateRefHash] != agents.NameHash(t.Name) {
		return label{}
	}
	switch StateOf(seen.Policy, t) {
	case PolicyMissing:
		return createPolicy{}
	case PolicyDrifted:
		return patchPolicy{}
	case PolicyUnwanted:
		return deletePolicy{"the template wants none"}
	case PolicyTerminating:
		return rest{"the NetworkPolicy is being deleted, and is made anew when it is gone"}
	case PolicyForeign:
		return warn{fmt.Sprintf("NetworkPolicy %q was not made for this template and is left alone; "+
			"no Sandbox is made from the template until it is renamed or deleted", seen.Policy.Name)}
	default:
		return rest{"the template is as it should be"}
	}
}

// decideLeftOver decides about the NetworkPolicy of a template that is gone: it stays
// as long as any Sandbox was made from the template.
func decideLeftOver(seen observed) step {
	switch {
	case seen.Policy == nil || !isPolicyOf(seen.Policy, seen.Key.Name):
		return rest{"there is no such template, and no NetworkPolicy of it"}
	case seen.Policy.DeletionTimestamp != nil:
		return rest{"the NetworkPolicy is being deleted"}
	case seen.InUse:
		return rest{"the template is gone, and Sandboxes made from it are not"}
	case !seen.AbsenceProved:
		return rest{"the template may only be missing from the cache"}
	default:
		return deletePolicy{"the template and all Sandboxes made from it are gone"}
	}
}
