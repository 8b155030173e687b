// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	spinnerFrames   = "|/-\\"
	spinnerInterval = 120 * time.Millisecond
	clearLine       = "\r\x1b[K"
)

// progress tells a person what a command waits for: a line for each thing said, and on a terminal a
// last line that moves and counts the seconds.
type progress struct {
	out   io.Writer
	began time.Time

	mu      sync.Mutex
	said    map[string]bool
	waiting string // the moving line, "" outside terminals
	drawn   bool

	stop    chan struct{}
	stopped chan struct{}
}

// newProgress writes to out. waiting is the moving line's text. It ends with Close.
func newProgress(out io.Writer, waiting string) *progress {
	p := &progress{out: out, began: time.Now(), said: map[string]bool{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	if !isTerminal(out) {
		close(p.stopped)
		return p
	}
	p.waiting = waiting
	go p.spin()
	return p
}

// Say prints a line, unless it was said before.
func (p *progress) Say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[line] {
		return
	}
	p.said[line] = true
	p.erase()
	fmt.Fprintln(p.out, line)
}

// Close removes the moving line.
func (p *progress) Close() {
	close(p.stop)
	<-p.stopped
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.out, clearLine)
		p.drawn = false
	}
}

func (p *progress) spin() {
	defer close(p.stopped)
	ticker := time.NewTicker(spinnerInterval)
	defer ticker.Stop()
	for frame := 0; ; frame++ {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			fmt.Fprintf(p.out, "%s%c %s (%d s)", clearLine, spinnerFrames[frame%len(spinnerFrames)], p.waiting,
				int(time.Since(p.began).Seconds()))
			p.drawn = true
			p.mu.Unlock()
		}
	}
}

// isTerminal says whether a stream of the command is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
