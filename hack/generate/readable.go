// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"k8s.io/utils/ptr"
)

const (
	// quantity is a Kubernetes quantity as clients read it. controller-gen's own pattern
	// allows fractions in the exponent, which they refuse, and exponents of any length,
	// which take them for ever to work out.
	quantity       = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	quantityLength = 64

	// moment is what RFC 3339 and clients agree on and the server's format date-time does
	// not insist on: capital letters, and zones that exist.
	moment = `^[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
)

// keepReadable closes the gaps between what a schema accepts and what clients can hold.
// One object in such a gap ends every list of its kind, for all clients and namespaces.
func keepReadable(at *schema, _ []string) {
	switch {
	case at.XIntOrString && at.Pattern != "":
		at.Pattern, at.MaxLength = quantity, ptr.To[int64](quantityLength)
	case at.XIntOrString:
		at.Minimum, at.Maximum = ptr.To[float64](math.MinInt32), ptr.To[float64](math.MaxInt32)
	case at.Format == "date-time":
		at.Pattern = moment
	}
}
