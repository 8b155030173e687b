// SPDX-License-Identifier: Apache-2.0

package localcluster_test

import (
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/internal/localcluster"
)

func TestAKubeconfigTellsWhichClusterItIsOf(t *testing.T) {
	dir, err := localcluster.DefaultDir("mine")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, kubeconfig, want string }{
		{"that of a cluster in its default place names it", filepath.Join(dir, "kubeconfig"), "mine"},
		{"another file there is none", filepath.Join(dir, "client.yaml"), ""},
		{"that of a cluster somewhere below is none", filepath.Join(dir, "other", "kubeconfig"), ""},
		{"a person's own is none", "/home/somebody/.kube/config", ""},
		{"several files are none", "/home/somebody/.kube/config:" + filepath.Join(dir, "kubeconfig"), ""},
		{"no file is none", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := localcluster.NameOf(test.kubeconfig); got != test.want {
				t.Errorf("NameOf(%q) = %q, want %q", test.kubeconfig, got, test.want)
			}
		})
	}
}
