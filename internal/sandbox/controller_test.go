// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/internal/consistent"
)

func TestHowAStepMayEnd(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	unknown := &consistent.UndecidedError{Verb: consistent.VerbCreate, Err: errors.New("timeout")}
	cases := map[string]struct {
		step  step
		err   error
		ends  bool // the pass
		knows string
	}{
		"well":                                 {step: createPod{}},
		"in the unknown, which is looked into": {step: createPod{}, err: unknown},
		"with the object gone":                 {step: deletePods{}, err: consistent.ErrGone},
		"refused for now":                      {step: createPod{}, err: apierrors.NewForbidden(pods, "box", errors.New("quota")), knows: "again"},
		"refused as invalid":                   {step: createPod{}, err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "box", nil), knows: "invalid"},
		"a bad request is refused so too":      {step: createService{}, err: apierrors.NewBadRequest("no"), knows: "invalid"},
		"with the informer too far behind":     {step: createPod{}, err: consistent.ErrLagging, ends: true},
		"the Sandbox itself cannot be written": {step: writeStatus{}, err: apierrors.NewForbidden(pods, "box", nil), ends: true},
		"without an answer":                    {step: createPod{}, err: errors.New("no route"), ends: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var learnt pass
			err := learnt.take(c.step, c.err)
			if (err != nil) != c.ends {
				t.Errorf("the pass ends: %v", err)
			}
			knows := ""
			if refused := learnt.refused(c.step.about()); refused != nil && refused.invalid {
				knows = "invalid"
			} else if refused != nil {
				knows = "again"
			}
			if knows != c.knows {
				t.Errorf("knows %q, want %q", knows, c.knows)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsAskedTwice(t *testing.T) {
	unknown := &consistent.UndecidedError{Verb: consistent.VerbCreate, Err: errors.New("timeout")}
	var learnt pass
	if err := learnt.take(createPod{}, unknown); err != nil {
		t.Fatal(err)
	}
	if err := learnt.take(createService{}, unknown); err != nil {
		t.Fatal("another write counts as the same")
	}
	if err := learnt.take(createService{}, unknown); err == nil {
		t.Error("the same write is repeated for ever")
	}
}
