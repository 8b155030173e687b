// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells gives what writes the completion of a shell.
func shells(root *cobra.Command) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"bash":       func(out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"zsh":        root.GenZshCompletion,
		"fish":       func(out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": root.GenPowerShellCompletionWithDesc,
	}
}

func (p *program) completionCommand() *cobra.Command {
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in a shell",
		Long: "Prints a script that completes commands, flags, and the names of pools, claims and agents in a shell.\n\n" +
			"kubectl completes \"kubectl berth\" itself where it finds this program on the PATH under the name\n" +
			completerName + ", too.",
		Example: p.examples(`
			# for this shell
			source <(berth completion bash)

			# for "kubectl berth"
			ln -s berth /usr/local/bin/kubectl-berth
			ln -s berth /usr/local/bin/` + completerName),
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return usage(cmd, fmt.Errorf("completion needs one of %s", strings.Join(names, ", ")))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return shells(p.root)[args[0]](p.streams.Out)
		},
	}
}
