// SPDX-License-Identifier: Apache-2.0

// Command manifests joins the manifests of deploy/ into one file, in the order they
// are to be applied. Run it from the root of the repository.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const output = "deploy/berth.yaml"

// inputs are applied in this order: what runs comes after what it needs.
func inputs() ([]string, error) {
	files := []string{"deploy/controller/namespace.yaml"}
	for _, pattern := range []string{"deploy/crds/*.yaml", "deploy/policies/*.yaml"} {
		found, err := fs.Glob(os.DirFS("."), pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no %s", pattern)
		}
		files = append(files, found...)
	}
	return append(files, "deploy/controller/rbac.yaml", "deploy/controller/priority.yaml", "deploy/controller/controller.yaml"), nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := inputs()
	if err != nil {
		return err
	}
	var all bytes.Buffer
	all.WriteString("# SPDX-License-Identifier: Apache-2.0\n# Made from the files beside it by \"make generate\"; edits are lost.\n")
	for _, file := range files {
		contents, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n# Source: %s\n%s\n", filepath.ToSlash(file), withoutComments(contents))
	}
	return os.WriteFile(output, all.Bytes(), 0o644)
}

// withoutComments leaves out the lines that are nothing but a comment at the left
// margin, such as a file's head, and the space around what is left.
func withoutComments(contents []byte) []byte {
	var kept [][]byte
	for line := range bytes.Lines(contents) {
		if !bytes.HasPrefix(line, []byte("#")) {
			kept = append(kept, line)
		}
	}
	return bytes.TrimPrefix(bytes.TrimSpace(bytes.Join(kept, nil)), []byte("---\n"))
}
