// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// initProcess is the node's first process. Its namespaces are the node: it ends, and with it all of
// the node's processes, mounts, network devices and firewall rules.
const initProcess = "node"

// NodeProblem says in a sentence why this machine cannot run a node, or is empty if it can.
func NodeProblem() string {
	if os.Geteuid() != 0 {
		return "real pods need root"
	}
	if err := syscall.Access("/sys/fs/cgroup", unix.W_OK); err != nil {
		return "real pods need control groups, and /sys/fs/cgroup cannot be written"
	}
	return ""
}

// prepareMachine checks and installs what a node needs of this machine.
func prepareMachine(ctx context.Context, dir string, progress *Progress) error {
	if problem := NodeProblem(); problem != "" {
		return errors.New(problem)
	}
	for _, taken := range []string{"/run", "/tmp", "/var/lib", "/var/log"} {
		if resolved, err := filepath.EvalSymlinks(filepath.Dir(dir)); strings.HasPrefix(dir+"/", taken+"/") ||
			err == nil && strings.HasPrefix(resolved+"/", taken+"/") {
			return fmt.Errorf("a node cannot live in %s: it has a %s of its own", dir, taken)
		}
	}
	if len(filepath.Join(dir, longestSocket)) > socketLimit {
		return fmt.Errorf("the directory name %s is too long for the sockets in it", dir)
	}
	return install(ctx, progress)
}

// chooseNetwork finds addresses that nothing on this machine uses.
func chooseNetwork(dir string) (network, error) {
	out, err := exec.Command("ip", "-4", "-json", "route", "show", "table", "all").Output()
	if err != nil {
		return network{}, fmt.Errorf("list routes: %w", err)
	}
	var routes []struct{ Dst string }
	if err := json.Unmarshal(out, &routes); err != nil {
		return network{}, fmt.Errorf("list routes: %w", err)
	}
	var destinations []string
	for _, route := range routes {
		destinations = append(destinations, route.Dst)
	}
	used, err := parseRoutes(destinations)
	if err != nil {
		return network{}, err
	}
	block, err := freeBlock(used, dir)
	return newNetwork(block, dir), err
}

// startNode makes the node's namespaces, cable and control group, unless they are there.
func (c *Cluster) startNode(ctx context.Context) error {
	if c.Part(initProcess).Running() {
		return nil
	}
	// Parts of a node that has ended are being ended by the kernel; none may be left when they start anew.
	for _, name := range c.config.Parts {
		if err := c.Part(name).Kill(ctx); err != nil {
			return err
		}
	}
	if err := c.makeControlGroups(); err != nil {
		return fmt.Errorf("make control groups: %w", err)
	}
	if err := c.startInit(); err != nil {
		return fmt.Errorf("start the node's first process: %w", err)
	}
	if err := c.connect(ctx); err != nil {
		// A node that runs is taken to be connected.
		return errors.Join(fmt.Errorf("connect the node: %w", err), c.Part(initProcess).Kill(ctx))
	}
	return nil
}

func (c *Cluster) startInit() error {
	part := c.Part(initProcess)
	if err := os.MkdirAll(filepath.Dir(part.Log()), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(part.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(filepath.Join(c.dir, "bin", initProcess), c.dir)
	command.Dir, command.Stderr, command.Env = "/", log, os.Environ()
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
	}
	c.tether.tie(command)
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	_, notReady := bufio.NewReader(out).ReadString('\n')
	started, err := identify(command.Process.Pid)
	go func() { _ = command.Wait() }()
	if notReady != nil || err != nil {
		return fmt.Errorf("it ended; the end of %s:\n%s", part.Log(), lastLines(part.Log(), shownLines))
	}
	return writeJSON(part.recordFile(), started)
}

// inNode calls a function on a thread that has joined the node's namespaces, so that processes it
// starts are born there. For a control plane it just calls it.
func (c *Cluster) inNode(call func() error) error {
	if c.config.Mode != Node {
		return call()
	}
	first, err := readProcess(c.Part(initProcess).recordFile())
	if err != nil {
		return err
	}
	handle, err := unix.PidfdOpen(first.PID, 0)
	if err != nil || !first.alive() {
		return errors.Join(errors.New("the node does not run"), err)
	}
	defer unix.Close(handle)
	result := make(chan error, 1)
	go onSpareThread(func() {
		// A thread that shares its root and working directory with others may not change its mounts.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			result <- err
			return
		}
		if err := unix.Setns(handle, unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("join the node's namespaces: %w", err)
			return
		}
		result <- call()
	})
	return <-result
}

// onSpareThread calls a function on a thread that ends with the calling goroutine. It is never the main
// thread, which cannot end, and by whose namespaces the kernel describes the process in /proc/self.
func onSpareThread(call func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		call()
		return // locked: the thread cannot go back
	}
	done := make(chan struct{})
	go func() { // elsewhere, as long as this goroutine has the main thread
		defer close(done)
		onSpareThread(call)
	}()
	<-done
	runtime.UnlockOSThread()
}

// connect lays the cable between this machine and the node.
func (c *Cluster) connect(ctx context.Context) error {
	n := c.config.Network
	first := fmt.Sprint(c.Part(initProcess).PID())
	here := [][]string{
		{"link", "add", n.Device, "type", "veth", "peer", "name", "eth0", "netns", first},
		{"addr", "add", n.HostIP + "/24", "dev", n.Device},
		{"link", "set", n.Device, "up"},
	}
	there := [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", n.NodeIP + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		// Addresses of Services are translated before they are routed, but only if there is a route.
		{"route", "add", n.Services, "via", n.HostIP},
	}
	routes := [][]string{
		{"route", "add", n.Services, "via", n.NodeIP},
		{"route", "add", n.Pods, "via", n.NodeIP},
	}
	if err := c.disconnect(ctx); err != nil {
		return err
	}
	if err := ip(ctx, here...); err != nil {
		return err
	}
	err := c.inNode(func() error {
		if err := ip(ctx, there...); err != nil {
			return err
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
	if err != nil {
		return err
	}
	return ip(ctx, routes...)
}

// disconnect removes this machine's end of the cable. It goes by itself with the node's network
// namespace, but some time after it.
func (c *Cluster) disconnect(ctx context.Context) error {
	device := filepath.Join("/sys/class/net", c.config.Network.Device)
	if !exists(device) {
		return nil
	}
	err := ip(ctx, []string{"link", "delete", c.config.Network.Device})
	if exists(device) {
		return err
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

func ip(ctx context.Context, commands ...[]string) error {
	for _, arguments := range commands {
		if out, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, out)
		}
	}
	return nil
}

// cleanMachine removes what a node leaves outside its directory once its processes are gone.
func (c *Cluster) cleanMachine(ctx context.Context) error {
	if c.config.Mode != Node {
		return nil
	}
	if err := c.Part(initProcess).Kill(ctx); err != nil {
		return err
	}
	if err := c.disconnect(ctx); err != nil {
		return err
	}
	if err := unmountBelow(c.dir); err != nil {
		return err
	}
	return c.removeControlGroups(ctx)
}

// unmountBelow unmounts what is mounted in a directory on this machine. A node's own mounts are not; this
// keeps the removal of the directory from following a mount that somebody else made.
func unmountBelow(dir string) error {
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	slices.Reverse(points) // a later mount may lie on an earlier one
	for _, point := range points {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}
