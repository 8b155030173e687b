// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// An API server that has just started answers for custom resources as if there were none. A real one
// does so for too short a time to be sure to meet it.
func TestAWaitOutlivesAServerThatDoesNotServeTheKindYet(t *testing.T) {
	claim := claimOf("python", "")
	claim.TypeMeta = metav1.TypeMeta{APIVersion: extensions.GroupVersion.String(), Kind: extensions.SandboxClaimKind}
	claim.ResourceVersion = "1"
	watches, gets := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		switch {
		case r.Method == http.MethodPost:
			status = http.StatusCreated
		case r.URL.Query().Has("watch"):
			watches++
			http.NotFound(w, r)
			return
		default:
			if gets++; gets == 1 {
				http.NotFound(w, r)
				return
			}
			claim.Status.Sandbox.Name = "python-a"
			claim.Status.Conditions = []metav1.Condition{condition(agents.ConditionReady, metav1.ConditionTrue, agents.ReasonDependenciesReady, "")}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(claim); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()

	out, errOut, code := offline(t, "berth", "--server", server.URL, "-n", "team", "claim", "python", "--name", "analysis")
	if code != 0 || out != "analysis\n" || watches != 2 || gets != 2 {
		t.Errorf("exit code %d after %d watches and %d reads, standard output %q, standard error\n%s", code, watches, gets, out, errOut)
	}
	if !strings.Contains(errOut, "trying again") {
		t.Errorf("the person is not told:\n%s", errOut)
	}
}
