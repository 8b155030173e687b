// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cli

// onResize: these systems do not tell.
func onResize() (changed <-chan struct{}, stop func()) {
	return nil, func() {}
}
