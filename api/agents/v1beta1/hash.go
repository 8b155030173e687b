// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"fmt"
	"hash/fnv"
)

// NameHash gives the 8 hexadecimal digits that stand for a name, or for other
// text, in labels: FNV-1a, 32 bits. Two names can share a hash, so it finds
// candidates and never proves anything.
func NameHash(text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // a hash never fails to write
	return fmt.Sprintf("%08x", h.Sum32())
}
