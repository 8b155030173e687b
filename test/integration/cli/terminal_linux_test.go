// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/internal/cli"
)

// openTerminal gives both ends of a new terminal: a person's, and a program's.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("skipped: no terminals here: " + err.Error())
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

func resize(t *testing.T, terminal *os.File, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

func TestExecOnATerminalGivesTheCommandOneOfTheSameSize(t *testing.T) {
	s := newSpace(t)
	node := s.makeNode(commands{"sizes": func(_ []string, in io.Reader, out, _ io.Writer) int {
		sizes := json.NewDecoder(in)
		for range 2 {
			var size struct{ Width, Height int }
			if err := sizes.Decode(&size); err != nil {
				return 1
			}
			fmt.Fprintf(out, "%dx%d\n", size.Width, size.Height)
		}
		return 5
	}})
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())

	person, program := openTerminal(t)
	resize(t, program, 100, 30)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	s.must(err)
	shown := newOutput()
	go func() { _, _ = io.Copy(shown, person) }()

	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(s.ctx, []string{"berth", "--kubeconfig", cluster.Kubeconfig(), "-n", s.name, "exec", "analysis", "--", "sizes"},
			genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
	}()
	shown.await(s, "100x30")
	during, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	s.must(err)
	if during.Lflag&unix.ISIG != 0 {
		t.Error("Ctrl-C is not left to the command")
	}
	resize(t, program, 80, 24)
	s.must(syscall.Kill(os.Getpid(), syscall.SIGWINCH)) // the kernel sends it to those whose controlling terminal it is
	shown.await(s, "80x24")

	if code := <-ended; code != 5 {
		t.Errorf("exit code %d, want the command's 5", code)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	s.must(err)
	if *after != *before {
		t.Error("the terminal is not as it was")
	}
}

func TestProgressOnATerminalIsALineThatGoesAway(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	s := newSpace(t)
	person, program := openTerminal(t)
	shown := newOutput()
	go func() { _, _ = io.Copy(shown, person) }()
	out := newOutput()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(s.ctx, []string{"berth", "--kubeconfig", cluster.Kubeconfig(), "-n", s.name, "claim", "python"},
			genericiooptions.IOStreams{Out: out, ErrOut: program})
	}()
	claim := s.nextClaim()
	shown.await(s, "| Waiting for claim "+claim.Name+" (")
	s.must(s.Delete(s.ctx, claim))
	<-ended
	shown.await(s, "was deleted")
	if _, last, _ := strings.Cut(shown.String(), "s)\r\x1b[KError:"); last == "" {
		t.Errorf("the moving line is still there when the error comes:\n%q", shown.String())
	}
}

func TestLsWatchOnATerminalIsATableThatIsDrawnOverItself(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	s := newSpace(t)
	person, program := openTerminal(t)
	resize(t, program, 70, 10)
	shown := newOutput()
	go func() { _, _ = io.Copy(shown, person) }()
	ctx, interrupt := context.WithCancel(s.ctx)
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"berth", "--kubeconfig", cluster.Kubeconfig(), "-n", s.name, "ls", "-w"},
			genericiooptions.IOStreams{Out: program, ErrOut: program})
	}()
	shown.await(s, "No claims or sandboxes")
	s.makeClaim("analysis")
	// One line up over what was there, and then the three of the table over themselves.
	shown.await(s, "\x1b[1A\r\x1b[JNAME ")
	shown.await(s, "\x1b[3A\r\x1b[JNAME ")
	shown.await(s, "\x1b[32mReady\x1b[0m")
	interrupt()
	if code := <-ended; code != 130 {
		t.Errorf("Ctrl-C ended it with %d", code)
	}
	if strings.Contains(shown.String(), "Error") {
		t.Errorf("Ctrl-C is no error:\n%q", shown.String())
	}
}
