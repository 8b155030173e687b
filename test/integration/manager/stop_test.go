// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
)

func TestAManagerWhoseInformersDoNotSyncIsAliveNotReadyAndStops(t *testing.T) {
	setup(t)
	address := freeAddress(t)
	blocked := clustertest.RESTConfig(t, cluster, "test")
	blocked.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/pods") {
				<-request.Context().Done() // the list never comes
				return nil, request.Context().Err()
			}
			return next.RoundTrip(request)
		})
	})
	m, err := manager.New(blocked, manager.Options{Extensions: true, HealthAddress: address, Registry: prometheus.NewRegistry(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	defer stop()

	if status, body := get(t, "http://"+address+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if status, body := get(t, "http://"+address+"/readyz?verbose"); status == http.StatusOK {
		t.Errorf("/readyz: %d %s", status, body)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(limit):
		t.Error("it does not end")
	}
}

// get asks until the server listens.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	deadline := time.After(limit)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			var body bytes.Buffer
			_, err := body.ReadFrom(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, body.String()
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-ticker.C:
		}
	}
}
