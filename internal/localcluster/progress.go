// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// plainInterval is how often a long step says where it is when lines cannot be rewritten.
const plainInterval = 20 * time.Second

// rewriteWidth is how much of a line terminals are sure to show without wrapping it.
const rewriteWidth = 79

// Progress tells a person what is being done and how long it has taken. A nil Progress is silent.
type Progress struct {
	out     io.Writer
	rewrite bool // a terminal: the line of the running step is drawn again every second
}

// NewProgress writes to out; when it is a terminal, each step is one line that changes as it advances.
func NewProgress(out *os.File) *Progress {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &Progress{out: out, rewrite: terminal}
}

// NewPlainProgress writes whole lines to out.
func NewPlainProgress(out io.Writer) *Progress {
	return &Progress{out: out}
}

// Step is one thing being done. All of its methods may be called on nil.
type Step struct {
	progress *Progress
	title    string
	began    time.Time
	stop     chan struct{}
	stopped  chan struct{}

	mu     sync.Mutex
	detail string
}

// Step begins a step. It ends with Done.
func (p *Progress) Step(title string) *Step {
	if p == nil {
		return nil
	}
	s := &Step{progress: p, title: title, began: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	if !p.rewrite {
		fmt.Fprintf(p.out, "%s ...\n", title)
	}
	go s.tick()
	return s
}

// Detail says how far the step is, in a few words.
func (s *Step) Detail(format string, args ...any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detail = fmt.Sprintf(format, args...)
}

// Done ends the step, well when err is nil, and returns err.
func (s *Step) Done(err error) error {
	if s == nil {
		return err
	}
	close(s.stop)
	<-s.stopped
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	s.print(outcome, "\n")
	return err
}

func (s *Step) tick() {
	defer close(s.stopped)
	interval := plainInterval
	if s.progress.rewrite {
		interval = time.Second
		s.print("", "")
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.mu.Lock()
			detail := s.detail
			s.mu.Unlock()
			if s.progress.rewrite {
				s.print(detail, "")
			} else {
				s.print(detail, "\n")
			}
		}
	}
}

func (s *Step) print(state, end string) {
	took := time.Since(s.began).Round(100 * time.Millisecond)
	if state != "" {
		state = ", " + state
	}
	line := fmt.Sprintf("%s (%s%s)", s.title, took, state)
	if s.progress.rewrite {
		// A line that wraps cannot be rewritten.
		if len(line) > rewriteWidth {
			line = line[:rewriteWidth]
		}
		line = "\r\x1b[K" + line
	}
	fmt.Fprint(s.progress.out, line+end)
}
