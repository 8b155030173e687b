// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestVolumeClaims(t *testing.T) {
	const mine, missing, willing, nobody, other, going = "mine", "missing", "willing", "nobody", "other", "going"
	const (
		notOurs = `PVC "data-box" is owned by StatefulSet/db (UID: db-uid), not by sandbox "box"`
		alone   = `cannot adopt unowned PVC "work-box": ` + unlabelled
	)
	cases := map[string]struct {
		work, data string
		refused    bool
		next       string
		problem    string
	}{
		"all are made":                        {work: missing, data: missing, next: "create the volume claims work-box, data-box"},
		"one that was deleted is made again":  {work: mine, data: missing, next: "create the volume claims data-box"},
		"one on its way out is waited for":    {work: going, data: mine},
		"one that asks for it is taken over":  {work: willing, data: mine, next: "take over the volume claims work-box"},
		"making comes before taking over":     {work: willing, data: missing, next: "create the volume claims data-box"},
		"nobody's is left alone, and ends it": {work: nobody, data: missing, problem: alone},
		"another's is left alone":             {work: missing, data: other, next: "create the volume claims work-box", problem: notOurs},
		"what was refused is told":            {work: missing, data: missing, refused: true, problem: "exceeded quota"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(withVolumes)
			seen := seenWith(s)
			for i, kind := range []string{c.work, c.data} {
				claim := renderVolumeClaim(s, s.Spec.VolumeClaimTemplates[i])
				switch kind {
				case missing:
					continue
				case willing:
					claim.OwnerReferences, claim.Labels = nil, map[string]string{agents.LabelAdoptable: "true"}
				case nobody:
					claim.OwnerReferences, claim.Labels = nil, nil
				case other:
					claim.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: "db-uid", Controller: ptr.To(true)}}
				case going:
					at := metav1.NewTime(testStart)
					claim.DeletionTimestamp = &at
				}
				seen.volumeClaims[i] = claim
			}
			if c.refused {
				seen.pass.refusals = []refusal{{subject: aboutVolumes, err: errors.New("exceeded quota")}}
			}
			v := decideVolumes(seen)
			next := ""
			if v.next != nil {
				next = v.next.String()
			}
			if next != c.next || v.problem != c.problem {
				t.Errorf("next %q, problem %q; want %q, %q", next, v.problem, c.next, c.problem)
			}
		})
	}
}

func TestTakingOverAVolumeClaimChangesItsOwnerOnly(t *testing.T) {
	s := newSandbox(withVolumes)
	seen := seenWith(s)
	for i := range seen.volumeClaims {
		seen.volumeClaims[i] = renderVolumeClaim(s, s.Spec.VolumeClaimTemplates[i])
	}
	seen.volumeClaims[0] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "work-box", Labels: map[string]string{agents.LabelAdoptable: "true"}}}
	patch := decideVolumes(seen).next.(adoptVolumeClaims).patches[0]
	if metadata := patch["metadata"].(map[string]any); len(patch) != 1 || len(metadata) != 1 || metadata["ownerReferences"].([]metav1.OwnerReference)[0].UID != s.UID {
		t.Errorf("patch is %v", patch)
	}
}
