// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const withoutFirstThread = "BERTH_TEST_WITHOUT_FIRST_THREAD"

// A process that is started with this variable ends its first thread, and itself only when
// its standard input does. Only an init function is sure to run on the first thread.
func init() {
	if os.Getenv(withoutFirstThread) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("ready")
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func TestAProcessLivesAsLongAsAnyOfItsThreads(t *testing.T) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), withoutFirstThread+"=1")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 100 { // the first thread is about to end
		if !p.alive() {
			t.Fatal("it counts as ended while a thread runs")
		}
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if p.alive() {
		t.Error("it counts as alive when it has ended")
	}
}
