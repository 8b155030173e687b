// SPDX-License-Identifier: Apache-2.0

// Package docs reads the project's documents, so that tests can run the commands in them and check
// what they say.
//
// A fenced block is read by the words after its backticks:
//
//	sh            commands
//	console       commands after "$ ", continued after "> ", between what they print
//	yaml file=F   a file, for commands that follow
//
// Of a block of commands, norun=REASON says that no test can run it, with dashes for the reason's
// spaces, and exit=CODE,... that it ends with one of these exit codes.
package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Block is a fenced block of a document.
type Block struct {
	// Line is where its first line of content is in the document, from 1.
	Line int
	// Language is the first word after the backticks, and Words are the rest, as key and value.
	Language string
	Words    map[string]string
	// Content has no backticks and ends with a newline.
	Content string
}

// Blocks are the fenced blocks of a document, in order.
func Blocks(text string) []Block {
	var blocks []Block
	var open *Block
	fence := ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(trimmed, "```"):
			info := strings.TrimLeft(trimmed, "`")
			fence = trimmed[:len(trimmed)-len(info)]
			open = newBlock(info, number+1)
		case open != nil && trimmed == fence:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.Content += line
		}
	}
	return blocks
}

func newBlock(info string, line int) *Block {
	b := &Block{Line: line, Words: map[string]string{}}
	for i, word := range strings.Fields(info) {
		if i == 0 {
			b.Language = word
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		b.Words[key] = value
	}
	return b
}

// Commands are the commands of a block as a shell takes them, or nothing.
func (b Block) Commands() string {
	switch b.Language {
	case "sh":
		return b.Content
	case "console":
		return typed(b.Content)
	default:
		return ""
	}
}

// typed is what a person typed in a session on a terminal.
func typed(session string) string {
	var commands strings.Builder
	for line := range strings.Lines(session) {
		for _, prompt := range []string{"$ ", "> "} {
			if rest, is := strings.CutPrefix(line, prompt); is {
				commands.WriteString(rest)
			}
		}
	}
	return commands.String()
}

// Files are the names of all documents below a directory, such as "README.md" and
// "docs/kinds/claim.md", sorted.
func Files(repository string) ([]string, error) {
	names := []string{"README.md"}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".md" {
				name, _ := filepath.Rel(repository, path) // both begin with it
				names = append(names, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}
