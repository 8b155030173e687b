// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// standardStream is the path of standard input or output.
const standardStream = "-"

type cpOptions struct {
	from, to  place
	container string
}

// place is a path on this machine, or in a sandbox.
type place struct {
	inside bool
	target target
	path   string
}

func (p *program) cpCommand() *cobra.Command {
	var o cpOptions
	cmd := &cobra.Command{
		Use:   "cp SOURCE TARGET",
		Short: "Copy files and directories into a sandbox or out of it",
		Long: "Copies a file or a directory into a sandbox or out of it. The path in the sandbox is written\n" +
			"as CLAIM:PATH or sandbox/NAME:PATH. Where it does not begin with /, it begins at the\n" +
			"container's working directory. A path on this machine that has a colon is written with ./\n" +
			"before it. As SOURCE, - is standard input, and as TARGET it is standard output.\n\n" +
			"If TARGET is a directory, the copy goes into it; otherwise TARGET is the copy's name. A\n" +
			"directory that is there already gets the files besides those it has. Modes and times are kept,\n" +
			"owners are not.\n\n" +
			"The container needs the program tar. What a sandbox sends is not trusted: nothing is written\n" +
			"outside of TARGET, and links that lead out of what is copied are left out and named. A copy out of a\n" +
			"sandbox that fails or is interrupted leaves nothing; one into a sandbox may leave a part there, and\n" +
			"says so.",
		Example: p.examples(`
			# a file into the sandbox, and a directory out of it
			berth cp data.csv analysis:/tmp
			berth cp analysis:/tmp/results ./results

			# from standard input, and to standard output
			generate | berth cp - analysis:/tmp/data.csv
			berth cp analysis:/tmp/report.txt - | less`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: p.completePlaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.from, o.to, err = p.readPlaces(cmd, args); err != nil {
				return err
			}
			return p.cp(cmd.Context(), o)
		},
	}
	containerFlag(cmd, &o.container)
	return cmd
}

// readPlaces reads "SOURCE TARGET", of which exactly one is in a sandbox.
func (p *program) readPlaces(cmd *cobra.Command, args []string) (from, to place, err error) {
	if len(args) != 2 {
		return from, to, usage(cmd, fmt.Errorf("cp needs a source and a target, and got %d arguments", len(args)))
	}
	from, to = parsePlace(args[0]), parsePlace(args[1])
	switch {
	case from.inside && to.inside:
		return from, to, &problem{cause: errors.New("cp copies between this machine and a sandbox, and both paths are in sandboxes"),
			next: []string{p.command("cp", args[0], "-") + " | " + p.command("cp", "-", args[1]) + " copies a file"}}
	case !from.inside && !to.inside:
		return from, to, &problem{cause: errors.New("cp copies between this machine and a sandbox, and both paths are on this machine"),
			next: []string{"write the path in the sandbox as CLAIM:PATH"}}
	}
	for _, at := range []place{from, to} {
		if at.path == "" {
			return from, to, &problem{cause: errors.New("cp needs a path, and one is empty"), next: []string{"name a directory; . is the one the container works in"}}
		}
	}
	return from, to, nil
}

// parsePlace reads CLAIM:PATH, sandbox/NAME:PATH, or a path on this machine.
func parsePlace(text string) place {
	local := place{path: text}
	before, after, colon := strings.Cut(text, ":")
	if !colon || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") {
		return local
	}
	t, err := parseTarget(before)
	if err != nil || len(validation.IsDNS1123Subdomain(t.name)) > 0 {
		return local
	}
	return place{inside: true, target: t, path: after}
}

func (p *program) cp(ctx context.Context, o cpOptions) error {
	inside := o.from
	if o.to.inside {
		inside = o.to
		if err := p.sourceIsThere(o.from.path); err != nil {
			return err
		}
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	r, err := p.remoteOf(ctx, c, inside.target, o.container)
	if err != nil {
		return err
	}
	if o.to.inside {
		return p.push(ctx, r, o)
	}
	return p.pull(ctx, r, o)
}

// splitRemote gives the directory that tar changes to and the name in it, neither of which tar can take
// for a flag. The name is "." where the path has none of its own.
func splitRemote(file string) (directory, name string) {
	clean := path.Clean(file)
	directory, name = path.Split(clean)
	if name == "" || name == "." || name == ".." {
		directory, name = clean, "."
	}
	return asPath(directory), name
}

// asPath is a path that cannot be taken for a flag.
func asPath(file string) string {
	switch {
	case file == "":
		return "."
	case strings.HasPrefix(file, "-"):
		return "./" + file
	}
	return file
}

// cpError explains how tar failed. other is a way to copy a file without tar.
func (p *program) cpError(err error, r *remote, inside place, other string) error {
	var failed *failure
	switch {
	case errors.Is(err, errNoCommand):
		return &problem{cause: fmt.Errorf("container %s of pod %s has no tar, which cp needs", r.container, r.pod.Name),
			next: []string{other + " copies one file", "use an image that has tar"}}
	case errors.As(err, &failed):
		directory, _ := splitRemote(inside.path)
		return &problem{cause: fmt.Errorf("tar in container %s of pod %s: %w", r.container, r.pod.Name, err),
			next: []string{p.command("exec", inside.target.String(), "-- ls -la", directory) + " shows what is there"}}
	}
	return err
}

// sayCopied says what was done.
func sayCopied(progress *progress, done packed, to string) {
	for _, left := range done.left {
		progress.Say("Left out %s", left)
	}
	files := "1 file"
	if done.files != 1 {
		files = fmt.Sprintf("%d files", done.files)
	}
	progress.Say("Copied %s (%d bytes) to %s.", files, done.bytes, to)
}
