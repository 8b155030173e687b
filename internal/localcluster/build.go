// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// KubernetesVersion is the version that the built server reports.
const KubernetesVersion = "v1.37.2"

// keepUnused is how long a build of other sources is kept, for branches that are gone back to.
const keepUnused = 14 * 24 * time.Hour

// module is the line that marks this repository's root.
const module = "module github.com/berthdev/berth\n"

// Binaries are the programs a cluster is made of.
type Binaries struct {
	Kubernetes string // every part of Kubernetes and etcd; its first argument or its name says which
	Pause      string // the pause container
	CoreDNS    string // a cluster's name server
	Node       string // the first process of a node; empty outside Linux
}

// program is one main package of the kubernetes module.
type program struct {
	path    string // below kubernetes/
	output  string
	install func(*Binaries, string)
}

func programs() []program {
	all := []program{
		{".", "kubernetes", func(b *Binaries, file string) { b.Kubernetes = file }},
		{"./pause", "pause", func(b *Binaries, file string) { b.Pause = file }},
		{"./coredns", "coredns", func(b *Binaries, file string) { b.CoreDNS = file }},
	}
	if runtime.GOOS == "linux" {
		all = append(all, program{"./node", "node", func(b *Binaries, file string) { b.Node = file }})
	}
	return all
}

// Build makes the binaries of a cluster from their Go modules, or finds them where an earlier build of
// the same sources left them. The first build takes minutes. It needs a checkout of this repository:
// the one the working directory is in, or else the one this program was built from.
func Build(ctx context.Context, progress *Progress) (Binaries, error) {
	binaries, err := build(ctx, progress)
	if err != nil {
		return binaries, fmt.Errorf("build Kubernetes: %w", err)
	}
	return binaries, nil
}

func build(ctx context.Context, progress *Progress) (Binaries, error) {
	var binaries Binaries
	root, err := Repository()
	if err != nil {
		return binaries, err
	}
	sources := filepath.Join(root, "kubernetes")
	key, err := buildKey(ctx, sources)
	if err != nil {
		return binaries, err
	}
	cache, err := cacheDir()
	if err != nil {
		return binaries, err
	}
	dir := filepath.Join(cache, "kubernetes", key)
	for _, p := range programs() {
		p.install(&binaries, filepath.Join(dir, p.output))
	}
	if built(dir) {
		now := time.Now()
		return binaries, os.Chtimes(dir, now, now)
	}

	unlock, err := lock(ctx, filepath.Join(cache, "kubernetes", "lock"), func() *Step {
		return progress.Step("Waiting for another build of Kubernetes")
	})
	if err != nil {
		return binaries, err
	}
	defer unlock()
	if built(dir) {
		return binaries, nil
	}
	if err := prune(filepath.Dir(dir)); err != nil {
		return binaries, err
	}
	step := progress.Step("Building Kubernetes; minutes, once")
	return binaries, step.Done(compile(ctx, step, sources, dir))
}

// prune removes builds that nobody has asked for in a while.
func prune(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < keepUnused {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func built(dir string) bool {
	return !slices.ContainsFunc(programs(), func(p program) bool {
		_, err := os.Stat(filepath.Join(dir, p.output))
		return err != nil
	})
}

func compile(ctx context.Context, step *Step, sources, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const versions = "k8s.io/component-base/version."
	major, minor, _ := strings.Cut(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	flags := strings.Join([]string{
		"-s -w",
		"-X " + versions + "gitVersion=" + KubernetesVersion,
		"-X " + versions + "gitMajor=" + major,
		"-X " + versions + "gitMinor=" + minor,
		"-X " + versions + "gitTreeState=clean",
	}, " ")
	step.Detail("looking up packages")
	list := goCommand(ctx, sources, "list", "-deps", "./...")
	var failure bytes.Buffer
	list.Stderr = &failure
	packages, err := list.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, failure.String())
	}
	total := bytes.Count(packages, []byte("\n"))
	compiled := 0
	for _, p := range programs() {
		// Built beside its place and renamed, so that a file that exists is complete.
		partial := filepath.Join(dir, p.output+".partial")
		command := goCommand(ctx, sources, "build", "-v", "-trimpath", "-ldflags", flags, "-o", partial, p.path)
		if err := compileOne(command, func() {
			compiled++
			step.Detail("%d of up to %d packages", compiled, total)
		}); err != nil {
			return err
		}
		if err := os.Rename(partial, filepath.Join(dir, p.output)); err != nil {
			return err
		}
	}
	return nil
}

// compileOne runs a build and calls compiled for each package.
func compileOne(command *exec.Cmd, compiled func()) error {
	reader, writer := io.Pipe()
	command.Stderr = writer
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := command.Wait()
		writer.Close()
		ended <- err
	}()
	var said []string
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, " ") { // a package's name has none; everything else is worth keeping
			said = append(said, line)
			continue
		}
		compiled()
	}
	_, _ = io.Copy(io.Discard, reader) // a line too long to scan must not hold the build up
	if err := <-ended; err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(said, "\n"))
	}
	return nil
}

// buildKey names what a build depends on: the sources, the Go version, the platform and this build's flags.
func buildKey(ctx context.Context, sources string) (string, error) {
	version, err := goCommand(ctx, sources, "env", "GOVERSION", "GOOS", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("run the go command, which builds Kubernetes: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n", KubernetesVersion, version)
	err = filepath.WalkDir(sources, func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() || (name != "go.mod" && name != "go.sum" && filepath.Ext(name) != ".go") {
			return err
		}
		contents, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(sources, file)
		fmt.Fprintf(hash, "%s %d\n%s", relative, len(contents), contents)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil))[:20], err
}

// Repository finds the root of this repository's checkout.
func Repository() (string, error) {
	var starts []string
	if working, err := os.Getwd(); err == nil {
		starts = append(starts, working)
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		starts = append(starts, filepath.Dir(file))
	}
	for _, dir := range starts {
		for ; filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			contents, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && bytes.HasPrefix(contents, []byte(module)) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("no checkout of github.com/berthdev/berth here: run this inside one")
}

// goCommand is a go command in dir that builds static programs.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", append([]string{args[0], "-C", dir}, args[1:]...)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
	return command
}

// cacheDir is where this package keeps what outlives clusters.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place to keep built programs: %w", err)
	}
	return filepath.Join(dir, "berth"), nil
}
