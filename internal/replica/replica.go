// SPDX-License-Identifier: Apache-2.0

// Package replica runs the controllers' program in tests as a Deployment does: when it
// ends because it lost the lead, which on a busy machine happens, it is started again.
package replica

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Build builds the controllers' program into a directory and returns its path.
func Build(dir string) (string, error) {
	program := filepath.Join(dir, "berth-controller")
	build := exec.Command("go", "build", "-o", program, "github.com/berthdev/berth/cmd/berth-controller")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return program, nil
}

// Options say how to run a replica.
type Options struct {
	Program    string
	Kubeconfig string
	Flags      []string
	// Restart is how long after its end the program is started again if it ended by
	// itself, as a kubelet does; 0 takes every end but a lost lead for a failure.
	Restart time.Duration
	// Leads is called each time the replica has become the leader.
	Leads func()
}

// Replica is one replica of the controllers' program.
type Replica struct {
	options Options
	stop    chan struct{} // closed to end it for good
	ended   chan struct{}

	mu      sync.Mutex
	command *exec.Cmd
	log     output
	killed  bool
	starts  int
	failed  error
}

// Start starts a replica. It ends with Kill, or with this process at the latest.
func Start(options Options) (*Replica, error) {
	r := &Replica{options: options, stop: make(chan struct{}), ended: make(chan struct{})}
	r.log.leads = options.Leads
	if err := r.run(); err != nil {
		return nil, err
	}
	go r.supervise()
	return r, nil
}

func (r *Replica) run() error {
	r.command = exec.Command(r.options.Program, append([]string{
		"--extensions", "--kubeconfig=" + r.options.Kubeconfig,
		"--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0",
	}, r.options.Flags...)...)
	r.command.Stdout, r.command.Stderr = &r.log, &r.log
	r.command.SysProcAttr = endWithStarter()
	r.starts++
	return r.command.Start()
}

func (r *Replica) supervise() {
	defer close(r.ended)
	for again := true; again; {
		_ = r.command.Wait() // the log says how it ended
		again = r.again()
	}
}

// again starts the program again, unless it was killed for good or failed.
func (r *Replica) again() bool {
	log := r.log.end()
	r.mu.Lock()
	lost := bytes.HasSuffix(log, []byte("leader election lost\n"))
	if !r.killed && (!lost && r.options.Restart == 0 || bytes.Contains(log, []byte("\ngoroutine "))) {
		r.failed = fmt.Errorf("the controllers ended by themselves:\n%s", log)
	}
	done := r.killed || r.failed != nil
	r.mu.Unlock()
	if done {
		return false
	}
	timer := time.NewTimer(r.options.Restart)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stop:
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return false
	}
	r.failed = r.run()
	return r.failed == nil
}

// Kill ends the replica for good, as if its machine had lost power.
func (r *Replica) Kill() {
	r.mu.Lock()
	if !r.killed {
		r.killed = true
		close(r.stop)
	}
	_ = r.command.Process.Kill() // an error says that it ended
	r.mu.Unlock()
	<-r.ended
}

// Crash ends the program at once; with Options.Restart it is started again.
func (r *Replica) Crash() { r.signal(syscall.SIGKILL) }

// Pause stops the program where it is, and Resume lets it go on.
func (r *Replica) Pause() { r.signal(syscall.SIGSTOP) }

// Resume lets a paused program go on.
func (r *Replica) Resume() { r.signal(syscall.SIGCONT) }

func (r *Replica) signal(what os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.command.Process.Signal(what) // an error says that it ended
}

// Starts is how often the program was started.
func (r *Replica) Starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

// Err says how the program ended by itself, if it did and was not to.
func (r *Replica) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Log is the end of what the program said.
func (r *Replica) Log() string { return string(r.log.end()) }

// output keeps the end of what is written to it.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	leads func()
}

// kept is how much of a log is shown.
const kept = 16_000

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// client-go's words. They come in one line, and lines in one piece.
	if o.leads != nil && bytes.Contains(p, []byte("uccessfully acquired lease")) {
		o.leads()
	}
	if o.text.Len() > 2*kept {
		o.text.Next(o.text.Len() - kept)
	}
	return o.text.Write(p)
}

func (o *output) end() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.Bytes()
	return bytes.Clone(text[max(0, len(text)-kept):])
}
