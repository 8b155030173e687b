// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/wait"
)

const controlGroups = "/sys/fs/cgroup"

// hierarchies are the trees that control groups are made in: one per controller in version 1, one in
// all in version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(controlGroups, "cgroup.controllers")); err == nil {
		return []string{controlGroups}, nil
	}
	entries, err := os.ReadDir(controlGroups)
	if err != nil {
		return nil, err
	}
	var trees []string
	for _, entry := range entries {
		if entry.IsDir() { // links are second names of trees
			trees = append(trees, filepath.Join(controlGroups, entry.Name()))
		}
	}
	return trees, nil
}

func (c *Cluster) makeControlGroups() error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		if err := os.MkdirAll(filepath.Join(tree, c.controlGroup()), 0o755); err != nil {
			return err
		}
	}
	return delegateControllers(c.controlGroup())
}

// delegateControllers lets groups below this one, in version 2, use all controllers that there are.
func delegateControllers(group string) error {
	controllers, err := os.ReadFile(filepath.Join(controlGroups, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, of := range []string{"", group} {
		for controller := range strings.FieldsSeq(string(controllers)) {
			file := filepath.Join(controlGroups, of, "cgroup.subtree_control")
			// Some controllers can be in use in a way that does not allow this; pods do without those.
			_ = os.WriteFile(file, []byte("+"+controller), 0)
		}
	}
	return nil
}

// removeControlGroups removes the groups of the node's pods, from the leaves up. The kernel refuses until the
// last process of a group is gone.
func (c *Cluster) removeControlGroups(ctx context.Context) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		var groups []string
		err := filepath.WalkDir(filepath.Join(tree, c.controlGroup()), func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, file)
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.Reverse(groups)
		for _, group := range groups {
			err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
				err := os.Remove(group)
				if errors.Is(err, syscall.EBUSY) {
					return false, nil
				}
				return true, err
			})
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
