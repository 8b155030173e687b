// SPDX-License-Identifier: Apache-2.0

// Command clidocs writes the reference of the command line, docs/cli.md, from the commands' own help. Run it
// from the root of the repository; running it again changes nothing.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/berthdev/berth/internal/cli"
)

const file = "docs/cli.md"

func main() {
	var out bytes.Buffer
	err := cli.WriteReference(&out)
	if err == nil {
		err = os.WriteFile(file, out.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clidocs:", err)
		os.Exit(1)
	}
}
