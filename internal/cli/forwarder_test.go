// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// node plays a node and its one pod: on ports where nothing fails, connections are answered line by line.
type node struct {
	t        *testing.T
	mu       sync.Mutex
	failing  map[string]string          // by port, what is said of connections that fail
	sessions chan httpstream.Connection // those that were made
}

func (n *node) fail(port, how string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failing[port] = how
}

func (n *node) dial() (httpstream.Connection, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	problems := map[string]httpstream.Stream{}
	server, err := spdy.NewServerConnection(far, func(stream httpstream.Stream, replied <-chan struct{}) error {
		mu.Lock()
		defer mu.Unlock()
		id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
		if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			problems[id] = stream
			return nil
		}
		problem := problems[id]
		go func() {
			<-replied
			n.serve(stream, problem)
		}()
		return nil
	})
	if err != nil {
		return nil, err
	}
	n.t.Cleanup(func() { server.Close() })
	n.sessions <- server
	return spdy.NewClientConnection(near)
}

func (n *node) serve(data, problem httpstream.Stream) {
	defer problem.Close()
	defer data.Close()
	port := data.Headers().Get(corev1.PortHeader)
	n.mu.Lock()
	how := n.failing[port]
	n.mu.Unlock()
	if how != "" {
		_, _ = io.WriteString(problem, how)
		return
	}
	lines := bufio.NewScanner(data)
	for lines.Scan() {
		_, _ = fmt.Fprintf(data, "%s: %s\n", port, lines.Text())
	}
}

// words is what a person is told, to wait for.
type words struct {
	mu      sync.Mutex
	text    string
	changed chan struct{}
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text += string(p)
	close(w.changed)
	w.changed = make(chan struct{})
	return len(p), nil
}

func (w *words) await(t *testing.T, want string) string {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		w.mu.Lock()
		text, changed := w.text, w.changed
		w.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("nobody is told %q:\n%s", want, text)
		}
	}
}

// forwarding forwards to ports 80 and 443 of a node until the test ends.
func forwarding(t *testing.T) (n *node, told *words, http, https string, stop func()) {
	t.Helper()
	n = &node{t: t, failing: map[string]string{}, sessions: make(chan httpstream.Connection, 10)}
	told = &words{changed: make(chan struct{})}
	ports, err := listenAll("localhost", []portPair{{0, 80}, {0, 443}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &forwarder{dial: n.dial, ports: ports, pod: "box-pod", sandbox: "box", errOut: told}
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- f.run(ctx, func() { close(begun) }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		closeAll(ports)
	})
	t.Cleanup(stop)
	<-begun
	return n, told, ports[0].listeners[0].Addr().String(), ports[1].listeners[0].Addr().String(), stop
}

// caller is a connection of a client.
type caller struct {
	net.Conn
	lines *bufio.Reader
}

func call(t *testing.T, address string) *caller {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return &caller{connection, bufio.NewReader(connection)}
}

func (c *caller) ask(t *testing.T, line, want string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
	if got, err := c.lines.ReadString('\n'); got != want+"\n" {
		t.Fatalf("the answer to %q is %q (%v), want %q", line, got, err, want)
	}
}

func (c *caller) ends(t *testing.T) {
	t.Helper()
	if got, err := c.lines.ReadByte(); err == nil {
		t.Fatalf("the connection goes on with %q", got)
	}
}

// The words of containerd, as a kubelet passes them on.
const refusal = `error forwarding port 443 to pod 1, uid : failed to execute portforward in network namespace "/var/run/netns/cni-1": ` +
	`failed to connect to localhost:443 inside namespace "1", IPv4: dial tcp4 127.0.0.1:443: connect: connection refused IPv6 dial tcp6: address localhost: no suitable address found`

func TestARefusedConnectionEndsAlone(t *testing.T) {
	n, told, http, https, _ := forwarding(t)
	transfer := call(t, http)
	transfer.ask(t, "one", "80: one")
	n.fail("443", refusal)
	for range 3 {
		call(t, https).ends(t)
	}
	told.await(t, "nothing listens on port 443 in sandbox box.\n")
	transfer.ask(t, "two", "80: two")
	n.fail("443", "")
	for range 2 {
		call(t, https).ask(t, "hello", "443: hello")
	}
	told.await(t, "Port 443 in sandbox box answers now.\n")
	n.fail("443", refusal)
	call(t, https).ends(t)
	transfer.ask(t, "three", "80: three")
	const gone = "A connection failed: nothing listens on port 443 in sandbox box.\n"
	want := gone + "Port 443 in sandbox box answers now.\n" + gone
	if got := told.await(t, want); got != want || len(n.sessions) != 1 {
		t.Errorf("%d sessions were made, and a person is told\n%s", len(n.sessions), got)
	}
}

func TestABrokenSessionIsMadeAgainBehindTheSamePorts(t *testing.T) {
	n, told, http, https, stop := forwarding(t)
	before := call(t, http)
	before.ask(t, "one", "80: one")
	(<-n.sessions).Close()
	before.ends(t)
	call(t, http).ask(t, "two", "80: two")
	call(t, https).ask(t, "three", "443: three")
	got := told.await(t, "made again.\n")
	if want := "The connection to pod box-pod broke; making it again.\nThe connection to pod box-pod is made again.\n"; got != want || len(n.sessions) != 1 {
		t.Errorf("%d sessions were made again, and a person is told\n%s", len(n.sessions), got)
	}
	last := call(t, http)
	last.ask(t, "four", "80: four")
	stop()
	last.ends(t)
	if connection, err := net.Dial("tcp", http); err == nil {
		connection.Close()
		t.Error("the port is listened on when nothing is forwarded any more")
	}
}

// Such as when the pod's network is another than the one the session was made with.
func TestAfterAnotherFailureThereIsANewSessionAndTheOldOneGoesOn(t *testing.T) {
	n, told, http, https, _ := forwarding(t)
	transfer := call(t, http)
	transfer.ask(t, "one", "80: one")
	n.fail("443", "network namespace is closed")
	call(t, https).ends(t)
	told.await(t, "A connection to port 443 of pod box-pod failed: network namespace is closed\n")
	n.fail("443", "")
	call(t, https).ask(t, "two", "443: two")
	transfer.ask(t, "three", "80: three")
	if len(n.sessions) != 2 {
		t.Fatalf("%d sessions were made, want 2", len(n.sessions))
	}
	old := <-n.sessions
	transfer.Close()
	select {
	case <-old.CloseChan():
	case <-time.After(time.Minute):
		t.Error("the old session stays when nothing goes through it")
	}
}

func TestWhatAClientSendsLastIsAnswered(t *testing.T) {
	_, _, http, _, _ := forwarding(t)
	c := call(t, http)
	if _, err := io.WriteString(c, "last"); err != nil {
		t.Fatal(err)
	}
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c.lines); string(got) != "80: last\n" {
		t.Errorf("the answer is %q (%v)", got, err)
	}
}

func TestThatNoSessionCanBeMadeAtFirstIsAnError(t *testing.T) {
	f := &forwarder{dial: func() (httpstream.Connection, error) { return nil, io.ErrUnexpectedEOF }, pod: "box-pod", errOut: io.Discard}
	if err := f.run(t.Context(), func() { t.Error("it has begun") }); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "pod box-pod") {
		t.Errorf("the error is %v", err)
	}
}

func TestAPortThatIsTakenIsNamedAndNoOtherIsKept(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := listenAll("127.0.0.1", []portPair{{0, 80}})
	if err != nil {
		t.Fatal(err)
	}
	closeAll(free)
	number := uint16(taken.Addr().(*net.TCPAddr).Port)
	_, err = listenAll("localhost", []portPair{{free[0].local, 80}, {number, 80}})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d of this machine", number)) {
		t.Fatalf("the error is %v", err)
	}
	again, err := listenAll("127.0.0.1", []portPair{{free[0].local, 80}})
	if err != nil {
		t.Errorf("the other port is kept: %v", err)
	}
	closeAll(again)
}
