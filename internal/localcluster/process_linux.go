// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// startOf says when a process began: the boot it began in and the clock ticks since then.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// proc(5): the name in parentheses may contain anything; after it come the state (field 3), as field 20
	// the number of threads and as field 22 the start time.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, threads, start = 0, 17, 19
	if len(fields) <= start {
		return "", fmt.Errorf("process %d: its state cannot be read", pid)
	}
	// The state is that of the first thread. While others end, they hold the files and the ports.
	if ended := fields[state] == "Z" || fields[state] == "X"; ended && (fields[threads] == "0" || fields[threads] == "1") {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[start], nil
}

// strays finds processes whose program lies in dir, also those that no file tells of because their
// starter ended between starting them and writing it down.
func strays(dir string) []process {
	var found []process
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := identify(pid)
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && bytes.HasPrefix(line, []byte(dir+"/")) {
			found = append(found, p)
		}
	}
	return found
}
