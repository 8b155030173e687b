// SPDX-License-Identifier: Apache-2.0

// Command generate makes everything that is derived from the Go types in api/:
// the deep-copy functions beside them, and the CustomResourceDefinitions in
// deploy/crds. Run it from the root of the repository; running it again
// changes nothing.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	typesPattern = "./api/..."
	crdDirectory = "deploy/crds"
	boilerplate  = "hack/boilerplate.go.txt"
	header       = "# SPDX-License-Identifier: Apache-2.0\n# Made from the Go types in api/ by \"make generate\"; edits are lost.\n"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	controllerGen, err := toolPath("controller-gen")
	if err != nil {
		return err
	}
	raw, err := os.MkdirTemp("", "berth-crds-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(raw) }()

	if err := execute(controllerGen,
		"object:headerFile="+boilerplate,
		"crd",
		"paths="+typesPattern,
		"output:crd:dir="+raw,
	); err != nil {
		return err
	}
	return writeCRDs(raw, crdDirectory)
}

// toolPath builds a tool pinned in hack/tools, if it is not in the build cache
// yet, and gives the path of its binary.
func toolPath(name string) (string, error) {
	command := exec.Command("go", "-C", "hack/tools", "tool", "-n", name)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func execute(name string, args ...string) error {
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("run %s: %w", filepath.Base(name), err)
	}
	return nil
}

// writeCRDs finishes the definitions found in one directory and writes them to another.
func writeCRDs(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		finished, err := finishFile(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), finished, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// finishFile turns one file of controller-gen's into the one we ship.
func finishFile(raw []byte) ([]byte, error) {
	crd, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if err := finish(crd); err != nil {
		return nil, err
	}
	return render(crd)
}
