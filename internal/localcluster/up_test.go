// SPDX-License-Identifier: Apache-2.0

package localcluster_test

import (
	"path/filepath"
	"strings"
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

func TestANameMustFitWhatIsMadeFromIt(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/c") // its sockets are /c/berth/clusters/NAME/root/run/containerd/containerd.sock.ttrpc
	for _, test := range []struct{ name, given, want string }{
		{"the default is one", localcluster.DefaultName, ""},
		{"digits and dashes may be in it", "2-of-3", ""},
		{"the longest that the sockets allow is one", strings.Repeat("a", 47), ""},
		{"a longer one is not", strings.Repeat("a", 48), "longer than 47 characters"},
		{"a space is not allowed", "Bad Name", "lower-case letters, digits and dashes"},
		{"upper case is not allowed", "Berth", "lower-case"},
		{"nothing is no name", "", "lower-case"},
		{"the directory of clusters is no name", ".", "lower-case"},
		{"a way out of it is no name", "..", "lower-case"},
		{"a path is no name", "a/b", "lower-case"},
		{"a flag is no name", "-a", "no dash first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused := func(what string, err error) {
				t.Helper()
				switch {
				case test.want == "" && err != nil:
					t.Errorf("%s refuses %q: %v", what, test.given, err)
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
					t.Errorf("%s of %q: %v, want an error that says %q", what, test.given, err, test.want)
				}
			}
			refused("CheckName", localcluster.CheckName(test.given))
			if test.given == "" {
				return // which is the default name in Options
			}
			refused("Down", localcluster.Down(t.Context(), localcluster.Options{Name: test.given}))
			if test.want == "" {
				return // it would start
			}
			_, err := localcluster.Up(t.Context(), localcluster.Options{Name: test.given})
			refused("Up", err)
			_, err = localcluster.Find(localcluster.Options{Name: test.given})
			refused("Find", err)
		})
	}
}

func TestNoNameIsAtFaultForADirectoryThatIsTooLong(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/"+strings.Repeat("c", 100))
	if err := localcluster.CheckName(localcluster.DefaultName); err != nil {
		t.Error(err)
	}
}

func TestACharacterOutOfPlaceIsRefusedInAnyDirectory(t *testing.T) {
	_, err := localcluster.Start(t.Context(), localcluster.Options{Name: "Bad Name", Dir: t.TempDir(), Binaries: localcluster.Binaries{Kubernetes: "/nonexistent"}})
	if err == nil || !strings.Contains(err.Error(), `"Bad Name": it is not a name`) {
		t.Errorf("the error is %v", err)
	}
}
