// SPDX-License-Identifier: Apache-2.0

package consistent

// Peek implements Kind. It makes no request: an undecided write shows as the object
// was before it.
func (v *View[T]) Peek(index, value string) []T { return v.list(index, value, v.keysBy(index, value)) }
