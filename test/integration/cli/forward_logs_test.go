// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forwarded waits until a port is forwarded, and gives its address on this machine.
func (r *running) forwarded(s *space, remote string) string {
	s.t.Helper()
	pattern := regexp.MustCompile(`(?m)^Forwarding localhost:(\d+) to port ` + remote + ` `)
	for {
		r.out.mu.Lock()
		have, changed := r.out.text.String(), r.out.changed
		r.out.mu.Unlock()
		if found := pattern.FindStringSubmatch(have); found != nil {
			return "127.0.0.1:" + found[1]
		}
		select {
		case <-changed:
		case code := <-r.ended:
			s.t.Fatalf("the command ended with %d:\n%s", code, r.err.String())
		case <-s.ctx.Done():
			s.t.Fatalf("port %s is not forwarded:\n%s\n%s", remote, have, r.err.String())
		}
	}
}

func (s *space) greeting(address string) string {
	s.t.Helper()
	connection, err := net.Dial("tcp", address)
	s.must(err)
	defer connection.Close()
	line, err := bufio.NewReader(connection).ReadString('\n')
	s.must(err)
	return line
}

func TestPortForwardSaysWhenThePodGoes(t *testing.T) {
	s := newSpace(t)
	node := s.makeKubelet(kubelet{ports: func(port string, connection io.ReadWriteCloser) { fmt.Fprintf(connection, "port %s\n", port) }})
	_, sandbox := s.makeClaim("analysis")
	pod := s.makePod(sandbox.Name, node, sandbox, runs())
	command := s.start(s.ctx, nil, "port-forward", "analysis", ":80", "0:443")
	for _, port := range []string{"80", "443", "80"} {
		if got := s.greeting(command.forwarded(s, port)); got != "port "+port+"\n" {
			t.Errorf("port %s answers %q", port, got)
		}
	}
	s.must(s.Delete(s.ctx, pod, client.GracePeriodSeconds(0)))
	command.wait().expect(t, 1, "pod analysis-box is gone, and its ports with it", "berth ls")
}

func TestPortForwardConnectsAgain(t *testing.T) {
	s := newSpace(t)
	broken := make(chan io.Closer, 2)
	node := s.makeKubelet(kubelet{ports: func(_ string, connection io.ReadWriteCloser) { fmt.Fprintln(connection, "hello") }, connected: broken})
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "port-forward", "sandbox/analysis-box", ":80")
	address := command.forwarded(s, "80")
	(<-broken).Close()
	command.err.await(s, "The connection to pod analysis-box broke; making it again.")
	if got := s.greeting(address); got != "hello\n" {
		t.Errorf("the port answers %q", got)
	}
	command.err.await(s, "The connection to pod analysis-box is made again.")
	interrupt()
	if got := command.wait(); got.code != 130 || strings.Contains(got.err, "Error:") {
		t.Errorf("Ctrl-C ended it with %+v", got)
	}
}

// As while a server in the sandbox starts.
func TestPortForwardOutlivesAPortWhereNothingListens(t *testing.T) {
	s := newSpace(t)
	connected := make(chan io.Closer, 2)
	var listens atomic.Bool
	node := s.makeKubelet(kubelet{
		ports: func(_ string, connection io.ReadWriteCloser) { fmt.Fprintln(connection, "hello") },
		refuses: func(port string) string {
			if port == "80" || listens.Load() {
				return ""
			}
			return "error forwarding port " + port + ": dial tcp4 127.0.0.1:" + port + ": connect: connection refused"
		},
		connected: connected,
	})
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "port-forward", "analysis", ":80", ":443")
	address := command.forwarded(s, "443")
	for range 2 {
		connection, err := net.Dial("tcp", address)
		s.must(err)
		if _, err := connection.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is not ended")
		}
		connection.Close()
	}
	command.err.await(s, "nothing listens on port 443 in sandbox analysis-box.\n")
	listens.Store(true)
	for _, port := range []string{"443", "80"} {
		if got := s.greeting(command.forwarded(s, port)); got != "hello\n" {
			t.Errorf("port %s answers %q", port, got)
		}
	}
	interrupt()
	got := command.wait()
	if strings.Count(got.err, "nothing listens") != 1 || strings.Contains(got.err, "broke") || len(connected) != 1 {
		t.Errorf("%d sessions were made, and standard error is\n%s", len(connected), got.err)
	}
}

func TestPortForwardNamesAPortThatIsTaken(t *testing.T) {
	s := newSpace(t)
	node := s.makeKubelet(kubelet{ports: func(string, io.ReadWriteCloser) {}})
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	var taken [2]net.Listener
	var err error
	taken[0], err = net.Listen("tcp4", "127.0.0.1:0")
	s.must(err)
	defer taken[0].Close()
	_, port, err := net.SplitHostPort(taken[0].Addr().String())
	s.must(err)
	s.run("port-forward", "analysis", "--address", "127.0.0.1", ":443", port+":80").
		expect(t, 1, "port "+port+" of this machine cannot be listened on", "address already in use", "Next: choose another port of this machine")
}

func TestLogsAreThoseThatAreAskedFor(t *testing.T) {
	s := newSpace(t)
	asked := make(chan string, 1)
	node := s.makeKubelet(kubelet{logs: func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:] + "?" + r.URL.RawQuery
		fmt.Fprintln(w, "a line")
		if r.URL.Query().Get("follow") == "true" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}})
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	for name, c := range map[string]struct{ args, want string }{
		"all of the default container": {"", "work?"},
		"the last lines of another":    {"-c side --tail 20", "side?tailLines=20"},
		"what is new":                  {"--since 1m", "work?sinceSeconds=60"},
		"with times":                   {"--timestamps", "work?timestamps=true"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.in(t).run(append([]string{"logs", "analysis"}, strings.Fields(c.args)...)...)
			got.expect(t, 0)
			if request := <-asked; got.out != "a line\n" || request != c.want {
				t.Errorf("standard output is %q, asked was for %s, want %s", got.out, request, c.want)
			}
		})
	}
	ctx, interrupt := context.WithCancel(s.ctx)
	command := s.start(ctx, nil, "logs", "sandbox/analysis-box", "-f")
	command.out.await(s, "a line\n")
	interrupt()
	if got := command.wait(); got.code != 130 || got.err != "" {
		t.Errorf("Ctrl-C ended it with %+v", got)
	}
	s.run("logs", "analysis", "-c", "other").expect(t, 1, `has no container "other"`, "work, side")
}

func TestLogsOfAContainerThatHasNotStarted(t *testing.T) {
	s := newSpace(t)
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, s.makeNode(nil), sandbox, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}})
	s.run("logs", "analysis").expect(t, 1, "container work of pod analysis-box has not started: ImagePullBackOff: no such image", "Next: berth events")
	_, other := s.makeClaim("other")
	s.makePod(other.Name, s.makeKubelet(kubelet{logs: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `previous terminated container "work" in pod "other-box" not found`, http.StatusBadRequest)
	}}), other, runs())
	s.run("logs", "other", "--previous").expect(t, 1, "has not been started again, so there is no previous one", "Next: berth logs")
}
