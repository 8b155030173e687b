// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// WriteReference writes the documentation of all commands, in Markdown. It says what their --help says.
func WriteReference(out io.Writer) error {
	root := newProgram("berth", genericiooptions.NewTestIOStreamsDiscard()).root
	var text strings.Builder
	text.WriteString("# The command line\n\nMade from the commands' own help by \"make generate\"; edits are lost.\n\n")
	describe(&text, root)
	text.WriteString("## Flags of all commands\n\n")
	flagTable(&text, root.PersistentFlags())
	for _, cmd := range root.Commands() {
		describeAll(&text, cmd, "##")
	}
	_, err := io.WriteString(out, strings.TrimRight(text.String(), "\n")+"\n")
	return err
}

// describeAll writes a command and its own.
func describeAll(text *strings.Builder, cmd *cobra.Command, heading string) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	fmt.Fprintf(text, "%s %s\n\n", heading, strings.TrimSuffix(cmd.CommandPath()+" "+usageWords(cmd), " "))
	describe(text, cmd)
	flagTable(text, cmd.LocalNonPersistentFlags())
	if cmd.HasAvailableSubCommands() {
		flagTable(text, cmd.PersistentFlags())
	}
	for _, sub := range cmd.Commands() {
		describeAll(text, sub, heading+"#")
	}
}

// usageWords is what follows a command's name.
func usageWords(cmd *cobra.Command) string {
	_, words, _ := strings.Cut(cmd.Use, " ")
	return words
}

func describe(text *strings.Builder, cmd *cobra.Command) {
	if cmd.Long == "" {
		fmt.Fprintf(text, "%s.\n\n", cmd.Short)
	}
	listed, blank := false, false
	for line := range strings.Lines(cmd.Long) {
		indented := strings.HasPrefix(line, "  ")
		if line != "\n" && indented != listed {
			if listed = indented; !blank {
				text.WriteString("\n") // a list in a help text is a block here
			}
		}
		if blank = line == "\n"; indented {
			line = "  " + line
		}
		text.WriteString(line)
	}
	if cmd.Long != "" {
		text.WriteString("\n\n")
	}
	for line := range strings.Lines(cmd.Example) {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		text.WriteString(line)
	}
	text.WriteString("\n\n")
}

// flagTable writes a table of flags, if there are any.
func flagTable(text *strings.Builder, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	text.WriteString("| flag | |\n|---|---|\n")
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(flag)
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + "`, `" + name
		}
		if kind != "" {
			name += " " + kind
		}
		if initially := flag.DefValue; initially != "" && initially != "false" && initially != "[]" && initially != "0s" {
			usage += " (by default " + initially + ")"
		}
		fmt.Fprintf(text, "| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", "\\|"))
	})
	text.WriteString("\n")
}
