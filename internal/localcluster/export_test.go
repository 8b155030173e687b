// SPDX-License-Identifier: Apache-2.0

package localcluster

// ShortHash is what names of a cluster's devices and control groups end with.
var ShortHash = shortHash
