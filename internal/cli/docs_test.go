// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/internal/docs"
)

// TestCommandsInTheDocumentsExist looks up every command line of berth in the documents: the command, its
// flags and, in blocks of commands, its arguments.
func TestCommandsInTheDocumentsExist(t *testing.T) {
	const repository = "../.."
	names, err := docs.Files(repository)
	if err != nil {
		t.Fatal(err)
	}
	inline := regexp.MustCompile("`((?:kubectl )?berth [^`]+)`")
	found := 0
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range inline.FindAllStringSubmatch(string(text), -1) {
			found++
			if err := lookUp(invocations(line[1])[0], false); err != nil {
				t.Errorf("%s: %s: %v", name, line[1], err)
			}
		}
		commands := indented(string(text))
		for _, block := range docs.Blocks(string(text)) {
			commands += block.Commands()
		}
		for _, words := range invocations(commands) {
			found++
			if err := lookUp(words, true); err != nil {
				t.Errorf("%s: berth %s: %v", name, strings.Join(words, " "), err)
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d commands", found)
	}
}

func TestInvocations(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"its own line":                     {"berth ls -A\n", []string{"ls|-A"}},
		"another program's line":           {"ls berth\n", nil},
		"by a path":                        {"bin/berth ls\n", []string{"ls"}},
		"kubectl's":                        {"kubectl berth ls\n", []string{"ls"}},
		"in a pipe":                        {"echo 'a b' | berth exec c -- sh | cat\n", []string{"exec|c|--|sh"}},
		"in a substitution":                {"c=$(berth claim p --rm -- sh -c 'a; b')\n", []string{"claim|p|--rm|--|sh|-c|a; b"}},
		"with its output in a file":        {"berth cp a:b - > c\n", []string{"cp|a:b|-"}},
		"with a comment":                   {"berth ls # all\n", []string{"ls"}},
		"continued":                        {"berth claim p \\\n  --detach\n", []string{"claim|p|--detach"}},
		"after another":                    {"true && berth ls; berth pools\n", []string{"ls", "pools"}},
		"an expansion is one word":         {"berth exec \"$(hostname)\" -- a\n", []string{"exec|$(hostname)|--|a"}},
		"within quotes it is another word": {"echo 'x; berth nope'\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, words := range invocations(c.script) {
				got = append(got, strings.Join(words, "|"))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// lookUp gives the error that a command line would have before it does anything.
func lookUp(words []string, whole bool) error {
	root := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard()).root
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd == root && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		return newProgram("berth", genericiooptions.NewTestIOStreamsDiscard()).unknownCommand(words[0])
	}
	if err := cmd.ParseFlags(rest); err != nil || !whole {
		return err
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// indented are the commands in indented blocks, as the reference has them.
func indented(text string) string {
	command := regexp.MustCompile(`(?m)^    (?:\$ )?((?:berth |.*(?:\$\(|\| )berth ).*\n)`)
	var commands strings.Builder
	for _, line := range command.FindAllStringSubmatch(text, -1) {
		commands.WriteString(line[1])
	}
	return commands.String()
}

// invocations are the arguments of every call of berth in a script, as far as a shell would take them apart
// that expands nothing.
func invocations(script string) [][]string {
	var calls [][]string
	for _, words := range split(strings.ReplaceAll(script, "\\\n", " ")) {
		if len(words) > 1 && words[0] == "kubectl" {
			words = words[1:]
		}
		if len(words) > 0 && (words[0] == "berth" || strings.HasSuffix(words[0], "/berth")) {
			calls = append(calls, words[1:])
		}
	}
	return calls
}

// split takes a script apart into commands, and those into words.
func split(script string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	var quote rune
	inWord, redirected, comment := false, false, false
	endWord := func() {
		if inWord && !redirected {
			words = append(words, word.String())
		}
		if inWord {
			redirected = false
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, redirected = nil, false
	}
	for _, r := range script {
		switch {
		case comment:
			comment = r != '\n'
			if !comment {
				endCommand()
			}
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			comment = true
		case r == ' ' || r == '\t':
			endWord()
		case r == '>' || r == '<':
			endWord()
			redirected = true
		case strings.ContainsRune("\n|;&()", r):
			endCommand()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands
}
