// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// forwarder forwards what connects to ports of this machine to ports of a pod. The listeners stay for as long
// as it runs, whatever becomes of the session with the pod: each connection goes through the session of the
// time, and waits for one where there is none. client-go's own forwarder ends with the first connection that
// fails, and all others with it.
type forwarder struct {
	dial         func() (httpstream.Connection, error)
	ports        []*openPort
	pod, sandbox string // their names
	errOut       io.Writer

	mu       sync.Mutex // guards what follows, and errOut
	session  *session   // the latest one
	changed  chan struct{}
	requests int
	refused  map[uint16]bool // ports of the pod where nothing listened the last time
}

// session is one connection to the pod, which those of clients go through.
type session struct {
	httpstream.Connection
	users   int           // connections that go through it
	retired chan struct{} // closed when no more are to; it is closed itself after the last
}

// run makes a session, says that it has begun, and forwards until ctx ends. It makes another session whenever
// one breaks. Only that the first one cannot be made is an error.
func (f *forwarder) run(ctx context.Context, begun func()) error {
	f.changed, f.refused = make(chan struct{}), map[uint16]bool{}
	backoff, ever := reconnects(), false
	for {
		s, err := f.connect(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !ever:
			return fmt.Errorf("forward ports of pod %s: %w", f.pod, err)
		case err == nil:
			backoff = reconnects()
			f.use(s)
			if !ever {
				ever = true
				begun()
				f.acceptAll(ctx)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.retired:
			case <-s.CloseChan():
			}
			// A connection may be the first to notice, by failing to open, and then both are so.
			f.say("The connection to pod %s broke; making it again.", f.pod)
		}
		if err := pause(ctx, &backoff); err != nil {
			return err
		}
	}
}

// connect makes a session, which ends with ctx. Dialing itself knows no ctx.
func (f *forwarder) connect(ctx context.Context) (*session, error) {
	type outcome struct {
		connection httpstream.Connection
		err        error
	}
	dialed := make(chan outcome, 1)
	go func() {
		connection, err := f.dial()
		if err == nil {
			context.AfterFunc(ctx, func() { _ = connection.Close() })
		}
		dialed <- outcome{connection, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-dialed:
		return &session{Connection: got.connection, retired: make(chan struct{})}, got.err
	}
}

// use lets connections go through a session from now on.
func (f *forwarder) use(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil {
		fmt.Fprintf(f.errOut, "The connection to pod %s is made again.\n", f.pod)
	}
	f.session = s
	close(f.changed)
	f.changed = make(chan struct{})
}

// enter waits for a session that works. Who enters must leave.
func (f *forwarder) enter(ctx context.Context) (*session, error) {
	for {
		f.mu.Lock()
		s, changed := f.session, f.changed
		select {
		case <-s.retired:
		case <-s.CloseChan():
		default:
			s.users++
			f.mu.Unlock()
			return s, nil
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// leave forgets the streams of a connection. With fault, no more connections go through the session, and those
// that do go on.
func (f *forwarder) leave(s *session, fault bool, streams ...httpstream.Stream) {
	s.RemoveStreams(streams...)
	f.mu.Lock()
	defer f.mu.Unlock()
	s.users--
	over := true
	select {
	case <-s.retired:
	default:
		if fault {
			close(s.retired)
		} else {
			over = false
		}
	}
	if over && s.users == 0 {
		go func() { _ = s.Close() }() // which writes to the network
	}
}

func (f *forwarder) acceptAll(ctx context.Context) {
	for _, port := range f.ports {
		for _, listener := range port.listeners {
			go f.accept(ctx, listener, port.remote)
		}
	}
}

// accept forwards what connects until ctx ends. Accepting may fail for a while, as with too many open files.
func (f *forwarder) accept(ctx context.Context, listener net.Listener, port uint16) {
	backoff := reconnects()
	for {
		client, err := listener.Accept()
		if err != nil {
			if pause(ctx, &backoff) != nil {
				return
			}
			continue
		}
		backoff = reconnects()
		go f.forward(ctx, client, port)
	}
}

// forward forwards one connection to a port of the pod. What fails ends that connection only, and is told before
// the client notices: what it does next, and whether that works, is told after.
func (f *forwarder) forward(ctx context.Context, client net.Conn, port uint16) {
	defer client.Close()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	var problem string
	s, problems, data, err := f.open(ctx, port)
	if err == nil {
		problem, err = carry(client, problems, data, func() { f.answers(port, true) })
		f.leave(s, err != nil || problem != "" && !isRefusal(problem), problems, data)
		if problem == "" && closed(s) {
			return // that it broke is told
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.say("A connection to port %d of pod %s failed: %v", port, f.pod, err)
	case isRefusal(problem):
		f.answers(port, false)
	case problem != "":
		f.say("A connection to port %d of pod %s failed: %s", port, f.pod, problem)
	default:
		f.answers(port, true)
	}
}

// isRefusal says whether nothing listens on a port, from what a node says of a connection that failed: it gives
// the words of its own operating system, Linux or Windows.
func isRefusal(problem string) bool {
	return strings.Contains(problem, "connection refused") || strings.Contains(problem, "actively refused")
}

func closed(s *session) bool {
	select {
	case <-s.CloseChan():
		return true
	default:
		return false
	}
}

// answers tells a person once when it turns out that nothing listens on a port, and once when something does.
func (f *forwarder) answers(port uint16, does bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !does && !f.refused[port]:
		fmt.Fprintf(f.errOut, "A connection failed: nothing listens on port %d in sandbox %s.\n", port, f.sandbox)
	case does && f.refused[port]:
		fmt.Fprintf(f.errOut, "Port %d in sandbox %s answers now.\n", port, f.sandbox)
	}
	f.refused[port] = !does
}

func (f *forwarder) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.errOut, format+"\n", args...)
}

// open makes the two streams of a connection, in a session that it enters. A session may break before it is
// known to have, and then the next one is tried.
func (f *forwarder) open(ctx context.Context, port uint16) (s *session, problems, data httpstream.Stream, err error) {
	for range 2 {
		if s, err = f.enter(ctx); err != nil {
			return nil, nil, nil, err
		}
		f.mu.Lock()
		f.requests++
		id := strconv.Itoa(f.requests)
		f.mu.Unlock()
		stream := func(kind string) (httpstream.Stream, error) {
			headers := http.Header{}
			headers.Set(corev1.StreamType, kind)
			headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
			headers.Set(corev1.PortForwardRequestIDHeader, id)
			return s.CreateStream(headers)
		}
		if problems, err = stream(corev1.StreamTypeError); err == nil {
			_ = problems.Close() // the pod's side writes to it
			if data, err = stream(corev1.StreamTypeData); err == nil {
				return s, problems, data, nil
			}
			f.leave(s, true, problems)
			continue
		}
		f.leave(s, true)
	}
	return nil, nil, nil, err
}

// carry copies in both directions until the pod's side has ended, or this one failed. It gives what the node
// says went wrong; an error is that the node did not get to say it. answered is called with the first data.
func carry(client net.Conn, problems, data httpstream.Stream, answered func()) (problem string, err error) {
	type outcome struct {
		text []byte
		err  error
	}
	said := make(chan outcome, 1)
	go func() {
		text, err := io.ReadAll(problems)
		said <- outcome{text, err}
	}()
	received, failed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(received)
		_, _ = io.Copy(client, &firstRead{Reader: data, seen: answered})
	}()
	go func() {
		defer data.Close() // the end of what the client sends
		if _, err := io.Copy(data, client); err != nil {
			close(failed)
		}
	}()
	select {
	case <-received:
	case <-failed:
	}
	// What is not read of a stream would keep all others of the session from being read.
	_ = data.Reset()
	result := <-said
	return string(result.text), result.err
}

// firstRead calls seen when there is something to read.
type firstRead struct {
	io.Reader
	seen func()
}

func (r *firstRead) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	if n > 0 && r.seen != nil {
		r.seen()
		r.seen = nil
	}
	return n, err
}
