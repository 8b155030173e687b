// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/berth/internal/faultproxy"
)

// server answers watches with the lines a test sends, and counts the rest.
type server struct {
	events   map[string]chan string // by path
	requests atomic.Int32
	header   atomic.Pointer[http.Header]
}

const (
	pods   = "/api/v1/namespaces/default/pods"
	claims = "/apis/extensions.agents.x-k8s.io/v1beta1/sandboxclaims"
)

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.header.Store(&r.Header)
	if r.URL.Query().Get("watch") == "" {
		s.requests.Add(1)
		return
	}
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case line := <-s.events[r.URL.Path]:
			fmt.Fprintln(w, line)
		case <-r.Context().Done():
			return
		}
	}
}

type setup struct {
	*testing.T
	server *server
	proxy  *faultproxy.Proxy
	client *http.Client
	url    string
}

func start(t *testing.T) *setup {
	t.Helper()
	s := &server{events: map[string]chan string{pods: make(chan string), claims: make(chan string)}}
	upstream := httptest.NewUnstartedServer(s)
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})
	proxy, err := faultproxy.Start(&rest.Config{
		Host: upstream.URL, BearerToken: "administrator", TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	})
	must(t, err)
	t.Cleanup(proxy.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, proxy.WriteKubeconfig(file, rest.ImpersonationConfig{UserName: "somebody"}))
	config, err := clientcmd.BuildConfigFromFlags("", file)
	must(t, err)
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	return &setup{T: t, server: s, proxy: proxy, client: client, url: config.Host}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *setup) send(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, http.NoBody)
	must(s.T, err)
	return s.client.Do(request)
}

// stream is the lines of one watch.
type stream struct {
	*testing.T
	lines chan string // closed when the watch ends
}

func (s *setup) watch(path string) *stream {
	s.Helper()
	w, opened := &stream{T: s.T, lines: make(chan string)}, make(chan string, 1)
	go func() {
		defer close(w.lines)
		response, err := s.send(s.Context(), http.MethodGet, path+"?watch=true&resourceVersion=7")
		if err != nil {
			opened <- err.Error()
			return
		}
		defer response.Body.Close()
		opened <- response.Status
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			select {
			case w.lines <- scanner.Text():
			case <-s.Context().Done():
				return
			}
		}
	}()
	if answer := <-opened; answer != "200 OK" {
		s.Fatalf("a watch was answered %s", answer)
	}
	return w
}

// limit is for something that happens at once on a machine that has time.
const limit = time.Minute

func (w *stream) next() string {
	w.Helper()
	select {
	case line, ok := <-w.lines:
		if !ok {
			return "the end"
		}
		return line
	case <-time.After(limit):
		w.Fatal("the watch says nothing")
		return ""
	}
}

func (w *stream) wants(line string) {
	w.Helper()
	if got := w.next(); got != line {
		w.Fatalf("the watch brought %q, want %q", got, line)
	}
}

func TestAClientActsThroughTheProxyAsWhomItImpersonates(t *testing.T) {
	s := start(t)
	response, err := s.send(t.Context(), http.MethodGet, pods)
	must(t, err)
	must(t, response.Body.Close())
	header := *s.server.header.Load()
	if got := header.Get("Impersonate-User"); got != "somebody" {
		t.Errorf("the server saw user %q", got)
	}
	if got := header.Get("Authorization"); got != "Bearer administrator" {
		t.Errorf("the server saw the authorization %q", got)
	}
}

func TestTheProxyRefusesOtherClients(t *testing.T) {
	s := start(t)
	config := s.proxy.RESTConfig()
	config.BearerToken = "guessed"
	other, err := rest.HTTPClientFor(config)
	must(t, err)
	s.client = other
	response, err := s.send(t.Context(), http.MethodGet, pods)
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized || s.server.requests.Load() != 0 {
		t.Errorf("another client was answered %s", response.Status)
	}
}

func TestHeldWatchesBringEverythingOnceTheyAreReleased(t *testing.T) {
	for name, held := range map[string][]string{"by name": {"pods"}, "all": nil} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			watch := s.watch(pods)
			s.server.events[pods] <- "first"
			watch.wants("first")
			s.proxy.HoldWatches(held...)
			s.server.events[pods] <- "second"
			s.server.events[pods] <- "third"
			select {
			case line := <-watch.lines:
				t.Fatalf("a held watch brought %q", line)
			case <-time.After(100 * time.Millisecond): // it would have come by then
			}
			s.proxy.ReleaseWatches(held...)
			watch.wants("second")
			watch.wants("third")
		})
	}
}

func TestWatchesOfOtherResourcesAreNotHeld(t *testing.T) {
	s := start(t)
	watch := s.watch(claims)
	s.proxy.HoldWatches("pods")
	s.server.events[claims] <- "first"
	watch.wants("first")
}

func TestDroppedWatchesHaveToBeginAnew(t *testing.T) {
	s := start(t)
	watch, other := s.watch(pods), s.watch(claims)
	s.proxy.HoldWatches("pods")
	s.server.events[pods] <- "missed"
	if dropped := s.proxy.DropWatches("pods"); dropped != 1 {
		t.Fatalf("%d watches were dropped", dropped)
	}
	watch.wants("the end")
	s.proxy.ReleaseWatches("pods")
	response, err := s.send(t.Context(), http.MethodGet, pods+"?watch=true&resourceVersion=7")
	must(t, err)
	must(t, response.Body.Close())
	if response.StatusCode != http.StatusGone {
		t.Errorf("a watch that resumes was answered %s", response.Status)
	}
	again := s.watch(pods) // the next finds its place
	s.server.events[pods] <- "seen"
	again.wants("seen")
	s.server.events[claims] <- "first"
	other.wants("first")
}

func TestCutConnectionsEndWatchesAndTheNextRequestIsAnswered(t *testing.T) {
	s := start(t)
	watch := s.watch(pods)
	s.proxy.CutConnections()
	watch.wants("the end")
	response, err := s.send(t.Context(), http.MethodGet, pods)
	must(t, err)
	must(t, response.Body.Close())
}

func TestADelayedRequestIsNotAtTheServerYet(t *testing.T) {
	s := start(t)
	s.proxy.Delay(time.Hour)
	watch := s.watch(pods) // watches are not delayed
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if response, err := s.send(ctx, http.MethodGet, pods); err == nil {
		response.Body.Close()
		t.Error("a delayed request was answered")
	}
	s.proxy.Delay(0)
	response, err := s.send(t.Context(), http.MethodGet, pods)
	must(t, err)
	must(t, response.Body.Close())
	if got := s.server.requests.Load(); got != 1 {
		t.Errorf("the server saw %d requests, want the one that was not delayed", got)
	}
	s.server.events[pods] <- "first"
	watch.wants("first")
}

func TestALostReplyBelongsToAWriteThatWasCarriedOut(t *testing.T) {
	s := start(t)
	s.proxy.LoseReplies(1)
	for _, c := range []struct {
		method   string
		answered bool
	}{{http.MethodGet, true}, {http.MethodPost, false}, {http.MethodPost, true}} {
		response, err := s.send(t.Context(), c.method, pods)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		if answered := err == nil; answered != c.answered {
			t.Errorf("%s gave %v", c.method, err)
		}
	}
	if got := s.server.requests.Load(); got != 3 {
		t.Errorf("the server carried out %d requests", got)
	}
}

func TestAServerThatIsAwayBreaksItsClientsConnections(t *testing.T) {
	proxy, err := faultproxy.Start(&rest.Config{Host: "https://127.0.0.1:1"})
	must(t, err)
	defer proxy.Close()
	client, err := rest.HTTPClientFor(proxy.RESTConfig())
	must(t, err)
	response, err := client.Get(proxy.RESTConfig().Host + pods)
	if err == nil {
		response.Body.Close()
		t.Fatalf("a server that is not there answered %s", response.Status)
	}
	if strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}
