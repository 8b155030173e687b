// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestAProcessIsNotTakenForALaterOneWithItsPID(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.alive() {
		t.Error("this process is said to have ended")
	}
	earlier := process{PID: self.PID, Started: self.Started + "0"}
	if earlier.alive() {
		t.Error("a process that began at another time is taken for this one")
	}
	if err := earlier.kill(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKillReturnsWhenTheProcessIsGone(t *testing.T) {
	command := exec.Command("sleep", "3600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	started, err := identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := started.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if started.alive() {
		t.Error("it runs") // it may not have been collected by its parent yet, and does not count all the same
	}
	_ = command.Wait()
}

func TestALockKeepsOthersOutUntilItIsGivenUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	silent := func() *Step { return nil }
	unlock, err := lock(t.Context(), file, silent)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := lock(short, file, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a lock that is held was taken: %v", err)
	}
	// Whoever stops a cluster removes the file while others may wait for it.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	unlock()
	again, err := lock(t.Context(), file, silent)
	if err != nil {
		t.Fatal(err)
	}
	defer again()
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the lock that was taken is not the one others look for: %v", err)
	}
}
