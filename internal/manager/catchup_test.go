// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answers are pages of a list: the version of the list, then those of its objects.
func answers(pages ...[]string) versions {
	return func(_ context.Context, _ schema.GroupVersionResource, next string) (*metav1.PartialObjectMetadataList, error) {
		page := pages[len(next)]
		list := &metav1.PartialObjectMetadataList{}
		list.ResourceVersion = page[0]
		for _, version := range page[1:] {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}})
		}
		if len(next)+1 < len(pages) {
			list.Continue = next + "x"
		}
		return list, nil
	}
}

func TestAnInformerHasCaughtUpWhenItShowsTheNewestObject(t *testing.T) {
	cases := map[string]struct {
		at     []uint64 // the informer's version, look by look
		server versions
		looks  int32 // how many it takes at least
	}{
		"nothing is there":                            {[]uint64{3}, answers([]string{"900"}), 2},
		"as new as the list":                          {[]uint64{900}, answers([]string{"900", "899"}), 1},
		"as new as the newest object":                 {[]uint64{39, 39, 39, 39, 40}, answers([]string{"900", "7", "40", "9"}), 5},
		"as new as the newest object of a later page": {[]uint64{39, 39, 39, 40, 41}, answers([]string{"900", "7"}, []string{"900", "41"}), 5},
		"as new as the list before its last page":     {[]uint64{39, 900}, answers([]string{"900", "7"}, []string{"900", "not asked for"}), 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var looks atomic.Int32
			s := &store{version: func() uint64 { return c.at[min(int(looks.Add(1)), len(c.at))-1] }}
			if err := s.reach(t.Context(), c.server); err != nil {
				t.Fatal(err)
			}
			if looks.Load() < c.looks {
				t.Errorf("it was let through after %d looks", looks.Load())
			}
		})
	}
}

func TestAnInformerThatLagsIsNotTakenForCurrent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var looks atomic.Int32
	s := &store{version: func() uint64 {
		if looks.Add(1) == 5 {
			cancel()
		}
		return 39
	}}
	if err := s.reach(ctx, answers([]string{"900", "40"})); !errors.Is(err, context.Canceled) {
		t.Errorf("gave %v", err)
	}
	if err := s.reach(t.Context(), func(context.Context, schema.GroupVersionResource, string) (*metav1.PartialObjectMetadataList, error) {
		return nil, errors.New("no route to host")
	}); err == nil {
		t.Error("it is current although the server did not answer")
	}
}
