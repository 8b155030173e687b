// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// onResize gives a channel that has something after the terminal's size has changed.
func onResize() (changed <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	out := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-signals:
				select {
				case out <- struct{}{}:
				default: // one change is waiting already, and the size is read after it
				}
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(ended) }
}
