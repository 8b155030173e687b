// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const repository = "../.."

func TestBlocks(t *testing.T) {
	text := "# T\n\n```sh\na\n```\n- item\n  ```console exit=3 norun=it-never-ends\n  $ b\n```\n````text\n```\n````\n"
	// The fence of an item is indented, and so is its end; the one that is not ends it too.
	want := []Block{
		{Line: 4, Language: "sh", Words: map[string]string{}, Content: "a\n"},
		{Line: 8, Language: "console", Words: map[string]string{"exit": "3", "norun": "it-never-ends"}, Content: "  $ b\n"},
		{Line: 11, Language: "text", Words: map[string]string{}, Content: "```\n"},
	}
	if got := Blocks(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		block Block
		want  string
	}{
		"a shell's block is all commands":         {Block{Language: "sh", Content: "a\nb\n"}, "a\nb\n"},
		"of a session, what was typed":            {Block{Language: "console", Content: "$ a <<E\n> b\n> E\nb\n$ c\n"}, "a <<E\nb\nE\nc\n"},
		"what a program prints is not a command":  {Block{Language: "text", Content: "$ a\n"}, ""},
		"a file is not a command, whatever it is": {Block{Language: "yaml", Content: "$ a\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.block.Commands(); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func read(t *testing.T) map[string]string {
	t.Helper()
	names, err := Files(repository)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	texts := read(t)
	for name, text := range texts {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(repository, file)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, found[1])
				continue
			}
			if anchor != "" && !anchors(texts[file])[anchor] {
				t.Errorf("%s: the link %s leads to no heading", name, found[1])
			}
		}
	}
}

// anchors are the names by which a page's headings can be linked to.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return names
}

// TestEveryReasonIsExplained looks for each reason that the APIs declare, and each condition, on the
// pages of the kinds that can have it.
func TestEveryReasonIsExplained(t *testing.T) {
	texts := read(t)
	for file, pages := range map[string]string{
		"api/agents/v1beta1/conditions.go":     texts["docs/kinds/sandbox.md"],
		"api/extensions/v1beta1/conditions.go": texts["docs/kinds/claim.md"] + texts["docs/kinds/warmpool.md"],
	} {
		for name, value := range constants(t, filepath.Join(repository, file)) {
			if strings.HasPrefix(name, "Message") || strings.HasPrefix(name, "Note") {
				continue
			}
			if !strings.Contains(pages, "`"+value+"`") {
				t.Errorf("%s is on no page of its kind (%s of %s)", value, name, file)
			}
		}
	}
}

// constants are the string constants of a Go file by name.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return true
		}
		if literal, is := spec.Values[0].(*ast.BasicLit); is && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values[spec.Names[0].Name] = value
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants", file)
	}
	return values
}
