// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// applying answers every apply alike.
type applying struct {
	*server
	reply *corev1.Pod
	err   error
	got   Patch
}

func (a *applying) Apply(_ context.Context, _ types.NamespacedName, _ string, configuration Patch) (*corev1.Pod, error) {
	a.got = configuration
	return a.reply, a.err
}

func applyView(api API[*corev1.Pod], stored ...*corev1.Pod) *View[*corev1.Pod] {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers(byOwner))
	for _, p := range stored {
		_ = indexer.Add(p)
	}
	return New(Options[*corev1.Pod]{Name: "pods", API: api, Store: FromIndexer(indexer), Clock: clocktesting.NewFakePassiveClock(epoch), Indexes: byOwner})
}

func TestWhatWasAppliedShowsBeforeTheInformerDoes(t *testing.T) {
	base := seenPod("a", "one", "u1", 5)
	after := seenPod("a", "one", "u1", 9)
	after.Labels = map[string]string{"stamped": "yes"}
	api := &applying{server: newServer(), reply: after}
	v := applyView(api, base)
	if _, err := v.Apply(t.Context(), base, "me", Patch{"metadata": map[string]any{"labels": map[string]any{"stamped": "yes"}}}); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := v.Get(t.Context(), keyOf("a")); err != nil || !ok || got.Labels["stamped"] != "yes" {
		t.Errorf("the view shows %+v, %v, %v", got, ok, err)
	}
	metadata := api.got["metadata"].(map[string]any)
	if metadata["uid"] != base.UID || metadata["resourceVersion"] != "5" {
		t.Errorf("the apply was conditional on %v", metadata)
	}
}

func TestAFieldConflictIsARefusalAndAnyOtherConflictIsUndecided(t *testing.T) {
	base := seenPod("a", "one", "u1", 5)
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".metadata.labels.stamped",
	}}, "Apply failed with 1 conflict")
	for name, test := range map[string]struct {
		err  error
		want bool // undecided
	}{
		"another manager's field":                    {conflict, false},
		"an old version, maybe after an own attempt": {apierrors.NewConflict(pods, "a", errLost), true},
	} {
		t.Run(name, func(t *testing.T) {
			v := applyView(&applying{server: newServer(), err: test.err}, base)
			_, err := v.Apply(t.Context(), base, "me", Patch{})
			if Again(err) != test.want || IsFieldConflict(err) == test.want {
				t.Errorf("got %v", err)
			}
		})
	}
	if got := FieldConflicts(conflict); len(got) != 1 || got[0].Field != ".metadata.labels.stamped" {
		t.Errorf("the fields in conflict are %v", got)
	}
}

func TestAnApplyIsSentOnceAndNeverTakesAFieldAway(t *testing.T) {
	api, got := serve(t, podAnswer())
	if _, err := api.(Applier[*corev1.Pod]).Apply(t.Context(), keyOf("a"), "me", Patch{"metadata": map[string]any{"uid": "u1"}}); err != nil {
		t.Fatal(err)
	}
	r := (*got)[0]
	if r.method != "PATCH" || r.contentType != string(types.ApplyYAMLPatchType) || !strings.Contains(r.query, "fieldManager=me") || !strings.Contains(r.query, "force=false") {
		t.Errorf("the request is %+v", r)
	}
	var body struct {
		APIVersion, Kind string
		Metadata         map[string]string
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.APIVersion != "v1" || body.Kind != "Pod" || body.Metadata["name"] != "a" || body.Metadata["uid"] != "u1" {
		t.Errorf("the body is %s (%v)", r.body, err)
	}
}
