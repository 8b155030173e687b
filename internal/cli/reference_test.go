// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestTheReferenceIsCurrent(t *testing.T) {
	var want bytes.Buffer
	if err := WriteReference(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/cli.md is not what the commands say: make generate")
	}
}

func TestLinesOfHelpFitATerminal(t *testing.T) {
	out, _, _ := offline(t, "berth", "claim", "--help")
	text, _, _ := strings.Cut(out, "Usage:")
	for line := range strings.Lines(text) {
		if len(line) > 110 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}
