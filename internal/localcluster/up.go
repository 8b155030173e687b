// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// DefaultName is the cluster's name if none is given.
const DefaultName = "berth"

// DefaultDir is where Up keeps the cluster of a name.
func DefaultDir(name string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "clusters", name), nil
}

// NameOf is the name of the cluster that a kubeconfig is of, whether it runs or not, if Up keeps it in its
// default place, or else "".
func NameOf(kubeconfig string) string {
	file, err := filepath.Abs(kubeconfig)
	if kubeconfig == "" || err != nil {
		return ""
	}
	name := filepath.Base(filepath.Dir(file))
	dir, err := DefaultDir(name)
	if err != nil || file != (&Cluster{dir: dir}).Kubeconfig() {
		return ""
	}
	return name
}

// Up starts the named cluster, by default a Node called berth, or starts again what of it does not run.
// The cluster outlives this process.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	if options.Mode == "" {
		options.Mode = Node
	}
	options, err := options.named()
	if err != nil {
		return nil, err
	}
	return Start(ctx, options)
}

// named fills in the name and the directory that goes with it.
func (o Options) named() (Options, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Dir != "" {
		return o, nil
	}
	if err := CheckName(o.Name); err != nil {
		return o, fmt.Errorf("cluster name %q: %w", o.Name, err)
	}
	var err error
	o.Dir, err = DefaultDir(o.Name)
	return o, err
}

// Find opens the cluster that options name. It is an os.ErrNotExist if there is none.
func Find(options Options) (*Cluster, error) {
	options, err := options.named()
	if err != nil {
		return nil, err
	}
	cluster, err := Open(options.Dir)
	if err != nil {
		return nil, err
	}
	cluster.progress = options.Progress
	return cluster, nil
}

// Down stops the named cluster and leaves nothing of it on this machine. That there is none is fine.
func Down(ctx context.Context, options Options) error {
	cluster, err := Find(options)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	step := options.Progress.Step("Stopping cluster " + cluster.Name())
	return step.Done(cluster.Stop(ctx))
}

// PartStatus tells whether a part runs.
type PartStatus struct {
	Name string
	PID  int // 0 when it does not run
	Log  string
}

// Status tells which parts of the cluster run, in the order they start.
func (c *Cluster) Status() []PartStatus {
	parts := c.config.Parts
	if c.config.Mode == Node {
		parts = append([]string{"node"}, parts...)
	}
	var all []PartStatus
	for _, name := range parts {
		part := c.Part(name)
		all = append(all, PartStatus{Name: name, PID: part.PID(), Log: part.Log()})
	}
	return all
}

// Status tells which parts of the named cluster run. It is an os.ErrNotExist if there is no such cluster.
func Status(options Options) ([]PartStatus, error) {
	cluster, err := Find(options)
	if err != nil {
		return nil, err
	}
	return cluster.Status(), nil
}
