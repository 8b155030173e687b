// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	pollInterval = 25 * time.Millisecond
	shownLines   = 15
)

// errPortTaken is what a part ended of whose port another process took first.
var errPortTaken = errors.New("a port was taken by another process")

// Part is one process of a cluster.
type Part struct {
	cluster *Cluster
	name    string
}

// Part names one of the cluster's parts, such as APIServer.
func (c *Cluster) Part(name string) Part { return Part{cluster: c, name: name} }

// launch is how to start a part and how to see that it is ready.
type launch struct {
	args  []string
	ready func(context.Context) error
}

// Log is the file that the part writes its output to.
func (p Part) Log() string { return filepath.Join(p.cluster.dir, "logs", p.name+".log") }

func (p Part) recordFile() string { return filepath.Join(p.cluster.dir, "processes", p.name+".json") }

// Running says whether the part's process is there.
func (p Part) Running() bool { return p.PID() != 0 }

// PID is the part's process, as this machine counts, or 0 when it does not run.
func (p Part) PID() int {
	recorded, err := readProcess(p.recordFile())
	if err != nil || !recorded.alive() {
		return 0
	}
	return recorded.PID
}

// Kill ends the part at once (SIGKILL) and returns when it is gone. A part that does not run is fine.
func (p Part) Kill(ctx context.Context) error {
	recorded, err := readProcess(p.recordFile())
	if err != nil {
		return err
	}
	if err := recorded.kill(ctx); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	return nil
}

// Start starts the part unless it runs, and waits until it is ready.
func (p Part) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	how, err := p.cluster.launch(p.name)
	if err != nil {
		return err
	}
	if !p.Running() {
		if err := p.spawn(how); err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
	}
	return p.await(ctx, how)
}

// Restart kills the part and starts it again.
func (p Part) Restart(ctx context.Context) error {
	if err := p.Kill(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

func (p Part) spawn(how launch) error {
	c := p.cluster
	if err := os.MkdirAll(filepath.Dir(p.Log()), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	program := filepath.Join(c.dir, "bin", p.name)
	command := exec.Command(program, how.args...)
	command.Dir = c.dir
	command.Stdout, command.Stderr = log, log
	command.Env = os.Environ()
	// Its own session: an interrupt typed at the starter is not meant for the cluster.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.tether.tie(command)
	if err := c.inNode(command.Start); err != nil {
		return err
	}
	started, err := identify(command.Process.Pid)
	go func() { _ = command.Wait() }() // a parent has to collect its children
	if err != nil {
		return nil // it has ended already; await tells why
	}
	return writeJSON(p.recordFile(), started)
}

// await polls until the part is ready. If it ends instead, the error has the last lines of its log.
func (p Part) await(ctx context.Context, how launch) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if last = how.ready(ctx); last == nil {
			return true, nil
		}
		if p.Running() {
			return false, nil
		}
		said := lastLines(p.Log(), shownLines)
		reason := error(nil)
		if strings.Contains(said, "address already in use") {
			reason = errPortTaken
		}
		return false, errors.Join(fmt.Errorf("%s ended; the end of %s:\n%s", p.name, p.Log(), said), reason)
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s is not ready: %w (%w); the end of %s:\n%s",
			p.name, last, err, p.Log(), lastLines(p.Log(), shownLines))
	}
	return err
}

// stages are the parts that start together, each after those it cannot do without.
func (c *Cluster) stages() [][]string {
	stages := make([][]string, 3)
	for _, name := range c.config.Parts {
		stage := 2
		switch name {
		case Etcd, Containerd:
			stage = 0
		case APIServer:
			stage = 1
		}
		stages[stage] = append(stages[stage], name)
	}
	return stages
}

// startParts starts all parts and waits until the cluster is as its users expect it.
func (c *Cluster) startParts(ctx context.Context) error {
	for _, names := range c.stages() {
		if err := c.startTogether(ctx, names); err != nil {
			return err
		}
	}
	return c.settle(ctx)
}

func (c *Cluster) startTogether(ctx context.Context, names []string) error {
	var missing []string
	for _, name := range names {
		if !c.Part(name).Running() {
			missing = append(missing, name)
		}
	}
	var step *Step
	if len(missing) > 0 {
		step = c.progress.Step("Starting " + strings.ReplaceAll(strings.Join(missing, ", "), "kube-", ""))
	}
	failures := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { failures[i] = c.Part(name).Start(ctx) })
	}
	all.Wait()
	return step.Done(errors.Join(failures...))
}
