// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// process names one process for good. A pid alone does not: it may belong to another process later.
type process struct {
	PID int `json:"pid"`
	// Started is when the process began, in the words of the operating system.
	Started string `json:"started"`
}

// identify reads who has a pid now.
func identify(pid int) (process, error) {
	started, err := startOf(pid)
	return process{PID: pid, Started: started}, err
}

// alive says whether the process still runs. A zombie does not.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	started, err := startOf(p.PID)
	return err == nil && started == p.Started
}

// kill ends the process at once and returns when it is gone.
func (p process) kill(ctx context.Context) error {
	if p.PID <= 0 {
		return nil
	}
	// The handle is taken before the identity is checked, so that it cannot name a later process.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", p.PID, err)
	}
	if !p.alive() {
		return nil
	}
	if err := handle.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	return wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return !p.alive(), nil
	})
}

// readProcess reads a process from a file; a missing file is a process that is not alive.
func readProcess(file string) (process, error) {
	var p process
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", file, err)
	}
	return p, nil
}

// writeFile replaces a file in one step, so that a reader never sees half of it.
func writeFile(file string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".writing-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		os.Remove(temporary.Name())
	}
	return err
}

func writeJSON(file string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(file, append(data, '\n'), 0o600)
}

// lastLines returns the end of a log, for an error that has to explain itself.
func lastLines(file string, count int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// lock takes a lock that is shared by all processes of this machine and given up when this one ends. If
// another has it, waiting says so.
func lock(ctx context.Context, file string, waiting func() *Step) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	var held *os.File
	take := func(context.Context) (taken bool, err error) {
		held, taken, err = tryLock(file)
		return taken, err
	}
	taken, err := take(ctx)
	if !taken && err == nil {
		step := waiting()
		err = step.Done(wait.PollUntilContextCancel(ctx, 50*time.Millisecond, false, take))
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return func() { held.Close() }, nil
}

// tryLock takes a lock unless another has it.
func tryLock(file string) (held *os.File, taken bool, err error) {
	held, err = os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && isStill(held, file) {
		return held, true, nil
	}
	held.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return nil, false, err
}

// isStill says whether an open file is the one that has the name now. Who stops a cluster removes its
// lock, and a lock on a removed file keeps nobody out.
func isStill(held *os.File, file string) bool {
	has, err := held.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(file)
	return err == nil && os.SameFile(has, named)
}
