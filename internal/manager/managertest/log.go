// SPDX-License-Identifier: Apache-2.0

package managertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// logger prints to standard error with "go test -v", and nothing without. It outlives
// the test, as goroutines of a manager that was killed may.
func logger(t testing.TB) logr.Logger {
	print := func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }
	if !testing.Verbose() {
		print = func(string, string) {}
	}
	return funcr.New(print, funcr.Options{LogTimestamp: true}).WithName(t.Name())
}
