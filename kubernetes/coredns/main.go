// SPDX-License-Identifier: Apache-2.0

// Command coredns answers the names of a cluster's Services and pods. It has only the plugins for that.
// It is a program of its own because its flags would become flags of every other part.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/berthdev/berth/kubernetes/internal/tether"
)

func main() {
	tether.Tie()
	coremain.Run()
}
