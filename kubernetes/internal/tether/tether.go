// SPDX-License-Identifier: Apache-2.0

// Package tether ends a program when the one that started it is gone, however that one ended.
package tether

import (
	"os"
	"syscall"
)

// Variable is the environment variable that says the program is tethered.
const Variable = "BERTH_TETHER"

// descriptor is the first one that os/exec passes on besides standard input, output and error. The
// starter keeps the other end of the pipe open and never writes, so reading ends when it ends.
const descriptor = 3

// Tie ends the program when its starter ends, if the starter asked for that.
func Tie() {
	if os.Getenv(Variable) == "" {
		return
	}
	syscall.CloseOnExec(descriptor)
	starter := os.NewFile(descriptor, "tether")
	go func() {
		_, _ = starter.Read(make([]byte, 1))
		os.Exit(1)
	}()
}
