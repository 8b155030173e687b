// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// tie makes a command end with this process, if the cluster does: the command reads from a pipe whose
// other end is this process's, and reads the end when this process ends.
func (c *Cluster) tie(command *exec.Cmd) {
	if c.tether != nil {
		command.ExtraFiles = []*os.File{c.tether} // descriptor 3
		command.Env = append(command.Env, "BERTH_TETHER=1")
	}
}

func (c *Cluster) untie() {
	for _, end := range []*os.File{c.tether, c.hold} {
		if end != nil {
			end.Close()
		}
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
