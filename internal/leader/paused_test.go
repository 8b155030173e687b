// SPDX-License-Identifier: Apache-2.0

//go:build unix

package leader

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// shortTerm is what the leader that is paused has.
const shortTerm = 2 * time.Second

// leaderVariable makes the test binary a leader that writes to the server named in it.
const leaderVariable = "BERTH_TEST_LEADER_OF"

func TestMain(m *testing.M) {
	if server := os.Getenv(leaderVariable); server != "" {
		if err := lead(server); err != nil {
			fmt.Println(err)
		}
		return
	}
	os.Exit(m.Run())
}

// lead is elected, writes, and writes again when the first write is answered.
func lead(server string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fence := NewFence(clock.RealClock{}, shortTerm)
	leading := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          fence.Watch(&remoteLock{server: server, client: http.DefaultClient}),
		LeaseDuration: 2 * shortTerm, RenewDeadline: shortTerm, RetryPeriod: shortTerm / 10,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go elector.Run(ctx)
	<-leading
	for range 2 {
		if err := post(ctx, &http.Client{Transport: fence.Wrap(http.DefaultTransport)}, server+"/objects"); err != nil {
			return err
		}
	}
	return errors.New("both writes were answered")
}

// remoteLock is a lock whose only server is the test.
type remoteLock struct {
	resourcelock.Interface
	server string
	client *http.Client
	held   atomic.Pointer[resourcelock.LeaderElectionRecord]
}

func (*remoteLock) Identity() string   { return "me" }
func (*remoteLock) Describe() string   { return "lock" }
func (*remoteLock) RecordEvent(string) {}

func (l *remoteLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if held := l.held.Load(); held != nil {
		return held, []byte(held.RenewTime.String()), nil
	}
	return &resourcelock.LeaderElectionRecord{}, nil, nil
}

func (l *remoteLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := post(ctx, l.client, l.server+"/lease"); err != nil {
		return err
	}
	l.held.Store(&record)
	return nil
}

func post(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

func TestALeaderThatWasPausedForLongerThanItsTermWritesNothingMore(t *testing.T) {
	wrote, answer := make(chan struct{}, 2), make(chan struct{})
	var taken atomic.Bool // by another leader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/objects" {
			wrote <- struct{}{}
			<-answer
		} else if taken.Load() {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer server.Close()

	leader := exec.CommandContext(t.Context(), os.Args[0])
	leader.Env = append(os.Environ(), leaderVariable+"="+server.URL)
	said, err := leader.StdoutPipe()
	must(t, err)
	must(t, leader.Start())
	defer func() { _ = leader.Wait() }()
	defer func() { _ = leader.Process.Kill() }()

	<-wrote
	must(t, leader.Process.Signal(syscall.SIGSTOP))
	taken.Store(true)
	// The lease runs out by the clock; there is no other sign of it.
	<-time.After(shortTerm + shortTerm/4)
	must(t, leader.Process.Signal(syscall.SIGCONT))
	close(answer)

	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		t.Fatal("the leader said nothing")
	}
	if line := lines.Text(); !strings.Contains(line, ErrNotLeading.Error()) && !strings.Contains(line, errTermEnded.Error()) {
		t.Errorf("the leader said %q", line)
	}
	if len(wrote) > 0 {
		t.Error("the paused leader wrote")
	}
}
