// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a container with test and tar, which work in a directory of this machine.
func machine(directory string) commands {
	with := func(name string) func([]string, io.Reader, io.Writer, io.Writer) int {
		return func(args []string, in io.Reader, out, errOut io.Writer) int {
			command := exec.Command(name, args...)
			command.Dir, command.Stdin, command.Stdout, command.Stderr = directory, in, out, errOut
			err := command.Run()
			var ended *exec.ExitError
			switch {
			case err == nil:
				return 0
			case errors.As(err, &ended):
				return ended.ExitCode()
			}
			fmt.Fprintln(errOut, err)
			return 1
		}
	}
	return commands{"tar": with("tar"), "test": with("test")}
}

func (s *space) write(file, content string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(file), 0o755))
	s.must(os.WriteFile(file, []byte(content), 0o600))
}

// holds fails the test unless a file has this content.
func (s *space) holds(file, content string) {
	s.t.Helper()
	if got, err := os.ReadFile(file); err != nil || string(got) != content {
		s.t.Errorf("%s holds %q, %v, want %q", file, got, err, content)
	}
}

func TestCpCopiesBothWays(t *testing.T) {
	s := newSpace(t)
	inside, here := t.TempDir(), t.TempDir()
	node := s.makeNode(machine(inside))
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	s.write(filepath.Join(here, "data.csv"), "1,2\n")
	s.write(filepath.Join(here, "dir", "deep", "b"), "B")
	s.write(filepath.Join(inside, "there", "x"), "X")
	s.must(os.Symlink("there/x", filepath.Join(inside, "way")))

	for _, c := range []struct {
		name string
		in   string
		args []string
		out  string
		file string // and what it then holds
		want string
	}{
		{"a file under a name", "", []string{here + "/data.csv", "analysis:named.csv"}, "", inside + "/named.csv", "1,2\n"},
		{"a file into a directory", "", []string{here + "/data.csv", "sandbox/analysis-box:there"}, "", inside + "/there/data.csv", "1,2\n"},
		{"a directory under a name", "", []string{here + "/dir", "analysis:" + inside + "/new"}, "", inside + "/new/deep/b", "B"},
		{"a directory into a directory", "", []string{here + "/dir", "analysis:there/"}, "", inside + "/there/dir/deep/b", "B"},
		{"from standard input", "from a pipe", []string{"-", "analysis:piped"}, "", inside + "/piped", "from a pipe"},
		{"a file here", "", []string{"analysis:there/x", here + "/copy"}, "", here + "/copy", "X"},
		{"a file into a directory here", "", []string{"analysis:there/x", here}, "", here + "/x", "X"},
		{"a directory here", "", []string{"analysis:there", here + "/whole"}, "", here + "/whole/x", "X"},
		{"a link is followed", "", []string{"analysis:way", here + "/followed"}, "", here + "/followed", "X"},
		{"to standard output", "", []string{"analysis:way", "-"}, "X", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			got := s.start(s.ctx, strings.NewReader(c.in), append([]string{"cp"}, c.args...)...).wait()
			got.expect(t, 0)
			if got.out != c.out {
				t.Errorf("standard output is %q, want %q", got.out, c.out)
			}
			if c.file != "" {
				s.holds(c.file, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a file that is not there":              {[]string{"analysis:nope", here}, []string{"tar in container work of pod analysis-box", "No such file", "Next: berth exec", "ls -la"}},
		"a directory that is not there":         {[]string{here + "/data.csv", "analysis:nope/file"}, []string{"tar in container work", "Next: berth exec"}},
		"a directory to standard output":        {[]string{"analysis:there", "-"}, []string{"there is a directory", "Next: name a directory"}},
		"standard input into a directory":       {[]string{"-", "analysis:there"}, []string{"there is a directory, and standard input has no name", "analysis:there/NAME"}},
		"into no directory of this machine":     {[]string{"analysis:there", here + "/no/where"}, []string{"there is no directory " + here + "/no/ to copy to", "Next: mkdir -p"}},
		"a directory where a file is":           {[]string{"analysis:there", here + "/data.csv"}, []string{"data.csv is there already and is a file"}},
		"a directory of this machine, by its /": {[]string{"analysis:there", here + "/no/"}, []string{"there is no directory", "Next: mkdir"}},
	} {
		t.Run(name, func(t *testing.T) { s.in(t).run(append([]string{"cp"}, c.args...)...).expect(t, 1, c.want...) })
	}
	if entries, err := filepath.Glob(filepath.Join(here, ".*")); err != nil || len(entries) > 0 {
		t.Errorf("copies left %q, %v", entries, err)
	}
}

func TestCpWithoutTarSaysWhatToDo(t *testing.T) {
	s := newSpace(t)
	node := s.makeNode(shell())
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	here := t.TempDir()
	s.write(here+"/a", "A")
	s.run("cp", "analysis:/tmp/x", here).expect(t, 1, "container work of pod analysis-box has no tar, which cp needs", "-- cat /tmp/x > "+here, "use an image that has tar")
	s.run("cp", here+"/a", "analysis:/tmp/x").expect(t, 1, "has no tar, which cp needs", "analysis -- sh -c 'cat > /tmp/x' < "+here+"/a")
}

func TestInterruptedCpNamesWhatItLeaves(t *testing.T) {
	started := make(chan struct{}, 1)
	// This tar has begun, and does not come to its end before the connection does.
	node := func(s *space) string {
		return s.makeNode(commands{
			"test": func([]string, io.Reader, io.Writer, io.Writer) int { return 1 },
			"tar": func(args []string, _ io.Reader, out, _ io.Writer) int {
				if args[0] == "-cf" {
					_, _ = out.Write(make([]byte, 100))
				}
				started <- struct{}{}
				<-s.ctx.Done()
				return 1
			},
		})
	}
	t.Run("into a sandbox", func(t *testing.T) {
		s := newSpace(t)
		ctx, end := context.WithCancel(s.ctx)
		s.ctx = ctx
		defer end()
		_, sandbox := s.makeClaim("analysis")
		s.makePod(sandbox.Name, node(s), sandbox, runs())
		file := filepath.Join(t.TempDir(), "a")
		s.write(file, strings.Repeat("a", 1<<22))
		ctx, interrupt := context.WithCancel(s.ctx)
		command := s.start(ctx, nil, "cp", file, "analysis:/tmp/x")
		<-started
		interrupt()
		command.wait().expect(t, 130, "interrupted; analysis:/tmp/x may be there in part", "-- rm -r /tmp/x removes it")
	})
	t.Run("out of a sandbox", func(t *testing.T) {
		s := newSpace(t)
		ctx, end := context.WithCancel(s.ctx)
		s.ctx = ctx
		defer end()
		_, sandbox := s.makeClaim("analysis")
		s.makePod(sandbox.Name, node(s), sandbox, runs())
		here := t.TempDir()
		ctx, interrupt := context.WithCancel(s.ctx)
		command := s.start(ctx, nil, "cp", "analysis:/tmp/x", here)
		<-started
		interrupt()
		command.wait().expect(t, 130, "interrupted; nothing was copied")
		if entries, err := os.ReadDir(here); err != nil || len(entries) > 0 {
			t.Errorf("left are %v, %v", entries, err)
		}
	})
	t.Run("from standard input", func(t *testing.T) {
		s := newSpace(t)
		_, sandbox := s.makeClaim("analysis")
		s.makePod(sandbox.Name, s.makeNode(machine(t.TempDir())), sandbox, runs())
		in, hold := io.Pipe()
		defer hold.Close()
		ctx, interrupt := context.WithCancel(s.ctx)
		command := s.start(ctx, in, "cp", "-", "analysis:x")
		_, err := hold.Write([]byte("a part"))
		s.must(err)
		interrupt()
		command.wait().expect(t, 130, "interrupted; nothing was copied")
	})
}
