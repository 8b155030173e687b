// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// longestSocket is the longest file, below a cluster's directory, that a node listens on.
	longestSocket = "root/run/containerd/containerd.sock.ttrpc"
	// socketLimit is how many bytes the kernel allows for the address of a socket, see unix(7).
	socketLimit = 107
)

// CheckName says why a cluster cannot have a name. It names directories, and Up's sockets must fit below them.
func CheckName(name string) error {
	dir, err := DefaultDir("")
	if err != nil {
		return err
	}
	longest := min(socketLimit-len(dir+"/"+"/"+longestSocket), validation.DNS1123LabelMaxLength)
	if longest < len(DefaultName) { // no name is short enough, so that is not the fault of this one
		longest = validation.DNS1123LabelMaxLength
	}
	if len(name) > longest {
		return fmt.Errorf("it is longer than %d characters", longest)
	}
	return checkCharacters(name, longest)
}

// checkCharacters says why no cluster can have a name, in whichever directory.
func checkCharacters(name string, longest int) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("it is not a name of up to %d lower-case letters, digits and dashes, with no dash first or last", longest)
	}
	return nil
}
