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
