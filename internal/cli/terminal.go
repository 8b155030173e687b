// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"

	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
)

// terminal is this program's terminal while a command in a sandbox has it.
type terminal struct {
	input  *os.File
	screen *os.File // where the size is asked for
	before *term.State
	resize <-chan struct{}
	ended  chan struct{}
	unhook func()
	first  bool
}

// takeTerminal hands every key to the command, Ctrl-C included, until giveBack.
func takeTerminal(input *os.File, output io.Writer) (*terminal, error) {
	before, err := term.MakeRaw(int(input.Fd()))
	if err != nil {
		return nil, err
	}
	screen := input
	if file, ok := output.(*os.File); ok && isTerminal(file) {
		screen = file
	}
	resize, unhook := onResize()
	return &terminal{input: input, screen: screen, before: before, resize: resize, ended: make(chan struct{}), unhook: unhook, first: true}, nil
}

func (t *terminal) giveBack() {
	t.unhook()
	close(t.ended)
	// The terminal may be gone, and then nobody misses its settings.
	_ = term.Restore(int(t.input.Fd()), t.before)
}

// Next gives the size at first and after each change. It is nil when the terminal was given back.
func (t *terminal) Next() *remotecommand.TerminalSize {
	if !t.first {
		select {
		case <-t.ended:
			return nil
		case <-t.resize:
		}
	}
	t.first = false
	width, height, err := term.GetSize(int(t.screen.Fd()))
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
}
