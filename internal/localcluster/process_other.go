// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package localcluster

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// startOf says when a process began, as ps(1) tells it.
func startOf(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 2 || strings.HasPrefix(fields[0], "Z") {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return strings.Join(fields[1:], " "), nil
}

// strays finds processes whose program lies in dir.
func strays(dir string) []process {
	out, err := exec.Command("ps", "-axo", "pid=,command=").Output()
	if err != nil {
		return nil
	}
	var found []process
	for line := range strings.Lines(string(out)) {
		pid, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.Atoi(pid)
		if err != nil || !strings.HasPrefix(strings.TrimSpace(command), dir+"/") {
			continue
		}
		if p, err := identify(number); err == nil {
			found = append(found, p)
		}
	}
	return found
}
