// SPDX-License-Identifier: Apache-2.0

package managertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// logger prints to standard error with "go test -v", and nothing without. It outlives
// the test, as goroutines of a manager that was killed may.
func logger(t testing.TB) logr.Logger {
	print := func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }
	if !testing.Verbose() {
		print = func(string, string) {}
	}
	own := funcr.New(print, funcr.Options{LogTimestamp: true})
	log.SetLogger(own) // for what is told no other; the first one counts
	return own.WithName(t.Name())
}
