// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// tether makes processes end with this one, however it ends: they read from a pipe that only this process
// could write to, and read its end when this process is gone.
type tether struct {
	read *os.File
	// write is a bare descriptor: a file would be closed when nobody refers to it any more, and tests
	// forget clusters that they still use.
	write int
}

func newTether() (*tether, error) {
	// No process may be started between the making of the pipe and the marking of its ends.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	syscall.CloseOnExec(ends[0])
	syscall.CloseOnExec(ends[1])
	return &tether{read: os.NewFile(uintptr(ends[0]), "tether"), write: ends[1]}, nil
}

// tie makes a command end with this process, if there is a tether.
func (t *tether) tie(command *exec.Cmd) {
	if t != nil {
		command.ExtraFiles = []*os.File{t.read} // descriptor 3
		command.Env = append(command.Env, "BERTH_TETHER=1")
	}
}

// cut ends what is still tied.
func (t *tether) cut() {
	if t != nil && t.read.Close() == nil { // once: the number may be another file's afterwards
		_ = syscall.Close(t.write)
	}
}

// recordStarter notes which process the cluster ends with, for Sweep.
func (c *Cluster) recordStarter() error {
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	return writeJSON(starterFile(c.dir), self)
}

func starterFile(dir string) string { return filepath.Join(dir, "starter.json") }

// Sweep removes what is left of the clusters in a directory that were to end with their starter and
// whose starter did not stop them. Those of starters that still run are left alone.
func Sweep(ctx context.Context, parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		dir := filepath.Join(parent, entry.Name())
		starter, err := readProcess(starterFile(dir))
		if err != nil || starter.PID == 0 || starter.alive() {
			continue
		}
		if cluster, err := Open(dir); err == nil {
			failures = append(failures, cluster.Stop(ctx))
		} else {
			failures = append(failures, os.RemoveAll(dir), os.RemoveAll(dir+".lock"))
		}
	}
	return errors.Join(failures...)
}
