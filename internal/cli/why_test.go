// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/internal/explain"
)

func TestWhyTakesEveryNameOfAKind(t *testing.T) {
	for text, want := range map[string]explain.Kind{
		"a": explain.Claim, "claim/a": explain.Claim, "sandboxclaim.extensions.agents.x-k8s.io/a": explain.Claim,
		"sandbox/a": explain.Sandbox, "sandbox.agents.x-k8s.io/a": explain.Sandbox,
		"pool/a": explain.Pool, "SandboxWarmPool/a": explain.Pool, "template/a": explain.Template, "sandboxtemplates/a": explain.Template,
		"pod/a": "", "claim/": "", "/a": "", "": "",
	} {
		kind, name, err := parseWhy(text)
		if kind != want || (want != "" && name != "a") || (err == nil) != (want != "") {
			t.Errorf("%q is %q %q, %v", text, kind, name, err)
		}
	}
}

func TestAReportIsWrittenInSectionsThatSaySomething(t *testing.T) {
	p := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard())
	var out bytes.Buffer
	report := &explain.Report{Kind: explain.Claim, Name: "task", Verdict: explain.Stuck, Summary: "has no sandbox",
		Sees: []string{"one", "two\nlines"}, Next: []string{"nothing"}, Advice: []string{"do it"}}
	if err := p.writeReport(&out, report); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{"claim/task has no sandbox", "It stays so until somebody does something.", "",
		"What the controller sees", "  - one", "  - two", "    lines", "", "What it does next", "  - nothing", "", "What you can do", "  - do it", ""}, "\n")
	if out.String() != want {
		t.Errorf("it is\n%s", out.String())
	}
}
