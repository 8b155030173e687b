// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// offline runs a command line on a machine without any cluster.
func offline(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var o, e bytes.Buffer
	code = Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e})
	return o.String(), e.String(), code
}

func TestMistakesAreAnsweredWithWhatToType(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"a command misspelled":          {[]string{"berth", "clam"}, 1, []string{`there is no command "clam"`, "did you mean: berth claim?"}},
		"a command that is not there":   {[]string{"berth", "frobnicate"}, 1, []string{"berth --help lists the commands"}},
		"an argument missing":           {[]string{"berth", "claim"}, 1, []string{"claim needs the name of a warm pool", "berth claim POOL"}},
		"an argument too many":          {[]string{"berth", "ls", "x"}, 1, []string{`ls takes no arguments, and got "x"`, "berth ls --help"}},
		"a flag that is not there":      {[]string{"berth", "ls", "--foo"}, 1, []string{"unknown flag: --foo"}},
		"no cluster":                    {[]string{"berth", "ls"}, 1, []string{"no cluster is configured", "--kubeconfig", "berth local up"}},
		"no cluster, as kubectl plugin": {[]string{"/usr/bin/kubectl-berth", "ls"}, 1, []string{"kubectl berth local up"}},
		"exec without a cluster":        {[]string{"berth", "exec", "x", "--", "ls"}, 125, []string{"no cluster is configured"}},
		"something that is no claim":    {[]string{"berth", "exec", "pod/x", "--", "ls"}, 125, []string{`"pod/x" names neither a claim nor a sandbox`}},
		"no local cluster":              {[]string{"berth", "local", "status"}, 1, []string{"there is no cluster berth on", "Next: berth local up starts it"}},
		"no local cluster of a name":    {[]string{"berth", "local", "status", "--name", "nope"}, 1, []string{"there is no cluster nope on", "Next: berth local up --name nope starts it"}},
		"no local cluster to take down": {[]string{"berth", "local", "down", "--name", "nope"}, 0, []string{"There is no cluster nope on this machine."}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, code := offline(t, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q but\n%s", want, got)
				}
			}
		})
	}
}

// A list of kubeconfigs may have files that are not there, as kubectl allows, and then those may be what is wrong.
func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("empty"), "")
	write(t, in("whole"), "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}")
	list := func(names ...string) string {
		for i := range names {
			names[i] = in(names[i])
		}
		return strings.Join(names, string(filepath.ListSeparator))
	}
	for name, c := range map[string]struct {
		variable string
		args     []string
		want     string // a part of the error
		not      string // what it does not say
	}{
		"one":                           {list("a"), nil, "no cluster is configured: KUBECONFIG names " + in("a") + ", which does not exist\n", "there is no kubeconfig"},
		"two":                           {list("a", "b", "a"), nil, "KUBECONFIG names " + in("a") + " and " + in("b") + ", which do not exist\n", ""},
		"one beside one with nothing":   {list("empty", "b"), nil, "there is no cluster in " + in("empty") + ", and KUBECONFIG names " + in("b") + ", which does not exist\n", ""},
		"one that is empty is there":    {list("empty"), nil, "no cluster is configured: there is no cluster in " + in("empty") + "\n", "not exist"},
		"none is named":                 {"", nil, "no cluster is configured: there is no kubeconfig\n", "names"},
		"the flag's":                    {list("whole"), []string{"--kubeconfig", in("a")}, "Error: --kubeconfig names " + in("a") + ", which does not exist\n", "KUBECONFIG names"},
		"one that may have the context": {list("whole", "b"), []string{"--context", "y"}, `specified context: y; and KUBECONFIG names ` + in("b") + ", which does not exist\n", ""},
		"one beside one that will do":   {list("whole", "b"), nil, "the API server cannot be reached", "not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			t.Setenv("KUBECONFIG", c.variable)
			var e bytes.Buffer
			code := Run(t.Context(), append([]string{"berth", "ls"}, c.args...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &bytes.Buffer{}, ErrOut: &e})
			if got := e.String(); code != 1 || !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("exit code %d, want one that says %q and not %q:\n%s", code, c.want, c.not, got)
			}
		})
	}
}

func TestHelpSpeaksOfThePluginAsPeopleTypeIt(t *testing.T) {
	out, _, _ := offline(t, "kubectl-berth", "claim", "--help")
	if !strings.Contains(out, "kubectl berth claim POOL") || strings.Contains(strings.ReplaceAll(out, "kubectl berth", ""), "berth claim") {
		t.Errorf("the help is\n%s", out)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	p := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard())
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s has no example or no short help", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(p.root)
}

func TestVersionNeedsNoCluster(t *testing.T) {
	out, _, code := offline(t, "berth", "version")
	if code != 0 || !strings.Contains(out, "Client:") || !strings.Contains(out, "no cluster is configured") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestKubectlIsGivenCompletions(t *testing.T) {
	for name, c := range map[string]struct{ args, want []string }{
		"a command":                   {[]string{"cl"}, []string{"claim\t"}},
		"a flag":                      {[]string{"claim", "--de"}, []string{"--detach\t"}},
		"a format":                    {[]string{"ls", "-o", ""}, []string{"wide\n", "yaml\n"}},
		"a shell":                     {[]string{"completion", "z"}, []string{"zsh\n"}},
		"a command for agents":        {[]string{"agents", "ru"}, []string{"run\t"}},
		"what runs an agent":          {[]string{"agents", "run", "a", "--kind", ""}, []string{"deployment\n"}},
		"what can be explained":       {[]string{"why", ""}, []string{"agentruntime/\n"}},
		"nothing without a cluster":   {[]string{"claim", ""}, []string{":4\n"}},
		"nothing after the one claim": {[]string{"suspend", "one", ""}, []string{":4\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, code := offline(t, append([]string{"/usr/local/bin/kubectl_complete-berth"}, c.args...)...)
			for _, want := range c.want {
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("exit code %d, and it does not say %q:\n%s", code, want, out)
				}
			}
		})
	}
}
