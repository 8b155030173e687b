// SPDX-License-Identifier: Apache-2.0

// Command node is the first process of a node: the one that its process, mount and network namespaces
// hang on. All of the node ends with it, because the kernel then kills every process of the process
// namespace, and with the last of them unmounts what they mounted and deletes their network devices.
//
// usage: node DIR
//
// The directories a node writes to (/run, /tmp, /var/lib, /var/log) are those in DIR/root. It prints
// a line when they are in place, and then waits, as the parent of every orphan of the node.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/berthdev/berth/kubernetes/internal/tether"
)

var private = []string{"/run", "/tmp", "/var/lib", "/var/log"}

func main() {
	tether.Tie()
	if len(os.Args) != 2 || os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "usage: node DIR, as the first process of its namespaces")
		os.Exit(2)
	}
	if err := mount(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	fmt.Println("ready")
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// mount gives the node its own view of the machine's files.
func mount(dir string) error {
	// Nothing the node mounts may reach the machine. Within the node, volumes that the kubelet mounts
	// must reach containers that ask for it, so the node's own mounts are shared among themselves.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", propagation|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("set the propagation of mounts: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, target := range private {
		source := filepath.Join(dir, "root", target)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to %s: %w", source, target, err)
		}
	}
	return os.Chmod("/tmp", 0o777|os.ModeSticky)
}

// reap collects every child that has ended: one signal can stand for several of them.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
	}
}
