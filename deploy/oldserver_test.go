// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// A server of before 1.36 has no policies that change what is written. It gets the
// others all the same.
func TestAServerWithoutMutatingPoliciesGetsTheOthers(t *testing.T) {
	var mu sync.Mutex
	applied := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(r.URL.Path, "mutatingadmissionpolic"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		case r.Method == http.MethodPatch:
			mu.Lock()
			applied[path.Base(path.Dir(r.URL.Path))]++
			mu.Unlock()
			var object map[string]any
			if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
				t.Error(err)
			}
			object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
			_ = json.NewEncoder(w).Encode(object)
		default:
			t.Errorf("unexpected %s %s", r.Method, r.URL)
		}
	}))
	defer server.Close()
	if err := Install(t.Context(), &rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	for resource, want := range map[string]int{"validatingadmissionpolicies": 1, "validatingadmissionpolicybindings": 1} {
		if n := applied[resource]; n != want {
			t.Errorf("%d %s were applied, want %d", n, resource, want)
		}
	}
}
