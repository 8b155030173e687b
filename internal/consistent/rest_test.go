// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// request is what reached the server.
type request struct{ method, path, query, contentType, body string }

// serve answers requests in order, the last answer for ever, and records them.
func serve(t *testing.T, answers ...http.HandlerFunc) (API[*corev1.Pod], *[]request) {
	var got []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), string(body)})
		answers[min(len(got), len(answers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	api, err := NewAPI[*corev1.Pod](Server{Config: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, HTTP: server.Client(), Scheme: scheme.Scheme}, corev1.SchemeGroupVersion.WithKind("Pod"), "pods")
	if err != nil {
		t.Fatal(err)
	}
	return api, &got
}

func answer(code int, obj any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(obj)
	}
}

func podAnswer() http.HandlerFunc {
	p := seenPod("a", "one", "u1", 5)
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return answer(200, p)
}

// unavailableFor is a 503 that asks to come back at once.
func unavailableFor(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "0")
	err := apierrors.NewServiceUnavailable("etcd is slow")
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(503, err.ErrStatus)(w, r)
}

func TestWritesAreSentOnce(t *testing.T) {
	for name, write := range map[string]func(API[*corev1.Pod]) error{
		"create": func(a API[*corev1.Pod]) error { _, err := a.Create(ctx, pod("a", "one")); return err },
		"patch":  func(a API[*corev1.Pod]) error { _, err := a.Patch(ctx, keyOf("a"), "", []byte("{}")); return err },
		"status": func(a API[*corev1.Pod]) error { _, err := a.Patch(ctx, keyOf("a"), "status", []byte("{}")); return err },
		"delete": func(a API[*corev1.Pod]) error {
			_, _, err := a.Delete(ctx, keyOf("a"), DeleteCondition{UID: "u1"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, got := serve(t, unavailableFor, podAnswer())
			if err := write(api); !apierrors.IsServiceUnavailable(err) || refused(err) {
				t.Errorf("got %v, want the server's 503", err)
			}
			if len(*got) != 1 {
				t.Errorf("sent %d times", len(*got))
			}
		})
	}
	t.Run("reads are sent again", func(t *testing.T) {
		api, got := serve(t, unavailableFor, podAnswer())
		if p, err := api.Get(ctx, keyOf("a")); err != nil || p.UID != "u1" || len(*got) != 2 {
			t.Errorf("got %v (%v) after %d requests", p, err, len(*got))
		}
	})
}

func TestRequests(t *testing.T) {
	const path = "/api/v1/namespaces/ns/pods"
	check := func(t *testing.T, got []request, want request) {
		t.Helper()
		if len(got) != 1 {
			t.Fatalf("%d requests", len(got))
		}
		g := got[0]
		if g.method != want.method || g.path != want.path || g.query != "" || (want.contentType != "" && g.contentType != want.contentType) || !strings.Contains(g.body, want.body) {
			t.Errorf("sent %+v, want %+v", g, want)
		}
	}
	t.Run("a read is a quorum read", func(t *testing.T) {
		api, got := serve(t, podAnswer())
		if _, err := api.Get(ctx, keyOf("a")); err != nil {
			t.Fatal(err)
		}
		check(t, *got, request{method: "GET", path: path + "/a"})
	})
	t.Run("a create posts the object", func(t *testing.T) {
		api, got := serve(t, podAnswer())
		if _, err := api.Create(ctx, pod("a", "one")); err != nil {
			t.Fatal(err)
		}
		check(t, *got, request{method: "POST", path: path, body: `"kind":"Pod"`})
	})
	t.Run("a status patch is a merge patch of the subresource", func(t *testing.T) {
		api, got := serve(t, podAnswer())
		if _, err := api.Patch(ctx, keyOf("a"), "status", []byte(`{"status":null}`)); err != nil {
			t.Fatal(err)
		}
		check(t, *got, request{"PATCH", path + "/a/status", "", "application/merge-patch+json", `{"status":null}`})
	})
	t.Run("a delete carries its conditions", func(t *testing.T) {
		api, got := serve(t, podAnswer())
		p, ok, err := api.Delete(ctx, keyOf("a"), DeleteCondition{UID: "u1", ResourceVersion: "5", Foreground: true})
		if err != nil || !ok || p.UID != "u1" {
			t.Fatalf("got %v, %v (%v)", p, ok, err)
		}
		check(t, *got, request{method: "DELETE", path: path + "/a", body: `"preconditions":{"uid":"u1","resourceVersion":"5"}`})
		if !strings.Contains((*got)[0].body, `"propagationPolicy":"Foreground"`) {
			t.Errorf("sent %s", (*got)[0].body)
		}
	})
	t.Run("a delete by UID alone carries no version, and its reply may be a Status", func(t *testing.T) {
		api, got := serve(t, answer(200, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}))
		if _, ok, err := api.Delete(ctx, keyOf("a"), DeleteCondition{UID: "u1"}); ok || err != nil {
			t.Fatalf("%v (%v)", ok, err)
		}
		check(t, *got, request{method: "DELETE", path: path + "/a", body: `"preconditions":{"uid":"u1"}`})
	})
}

func TestAnswersOfSomethingElse(t *testing.T) {
	t.Run("a 404 for the path is not the absence of the object", func(t *testing.T) {
		api, _ := serve(t, http.NotFound)
		_, err := api.Get(ctx, keyOf("a"))
		if !apierrors.IsNotFound(err) || absent(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a 404 for the object is", func(t *testing.T) {
		status := apierrors.NewNotFound(pods, "a").ErrStatus
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		api, _ := serve(t, answer(404, status))
		if _, err := api.Get(ctx, keyOf("a")); !absent(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a success with another kind leaves the outcome open", func(t *testing.T) {
		api, _ := serve(t, answer(200, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}))
		_, err := api.Create(ctx, pod("a", "one"))
		var unexpected *unexpectedReplyError
		if !errors.As(err, &unexpected) || refused(err) {
			t.Errorf("got %v", err)
		}
	})
}
