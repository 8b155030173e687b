// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"github.com/berthdev/berth/internal/kinds"
)

// Mutation is a known bug of the field, put back for the proof that the invariants
// notice. The zero value is none.
type Mutation string

// mutated returns the views as the named controller gets them.
func (run *Run) mutated(controller string, views kinds.Views) kinds.Views { return views }
