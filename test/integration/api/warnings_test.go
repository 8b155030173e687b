// SPDX-License-Identifier: Apache-2.0

package api

import (
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestTheOldVersionWarns(t *testing.T) {
	s := newSpace(t)
	heard := &warnings{}
	config := rest.CopyConfig(s.config)
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	for kind := range plurals {
		for version, want := range map[string]string{
			"v1beta1": "",
			"v1alpha1": object(kind, "v1alpha1", "x", `{}`).GetAPIVersion() + " " + kind + " is deprecated; use " +
				object(kind, "v1beta1", "x", `{}`).GetAPIVersion() + " " + kind + " instead",
		} {
			heard.last = ""
			if _, err := s.resource(kind, version).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			if heard.last != want {
				t.Errorf("%s at %s warns %q, want %q", kind, version, heard.last, want)
			}
		}
	}
}

type warnings struct {
	mu   sync.Mutex
	last string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = text
}

func (s *space) discover(groupVersion string) []metav1.APIResource {
	s.t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := client.ServerResourcesForGroupVersion(groupVersion)
	if err != nil {
		s.t.Fatal(err)
	}
	return found.APIResources
}

// unversioned is a configuration for requests whose whole path is given.
func unversioned(config *rest.Config) *rest.Config {
	made := rest.CopyConfig(config)
	made.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return made
}
