// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// sourceIsThere says at once when there is nothing to copy.
func (p *program) sourceIsThere(source string) error {
	if source == standardStream {
		return nil
	}
	if _, err := os.Stat(source); err != nil {
		return &problem{cause: fmt.Errorf("nothing to copy: %w", err), next: []string{"name a file or a directory of this machine, or - for standard input"}}
	}
	return nil
}

// push copies into a sandbox.
func (p *program) push(ctx context.Context, r *remote, o cpOptions) error {
	directory, name, err := p.destination(ctx, r, o)
	if err != nil {
		return err
	}
	write := func(out io.Writer) (packed, error) { return pack(out, o.from.path, name) }
	if o.from.path == standardStream {
		whole, err := p.readAll(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = unspool(whole) }()
		write = func(out io.Writer) (packed, error) { return packSpooled(out, whole, name) }
	}
	to := o.to.target.String() + ":" + path.Join(directory, name)
	progress := newProgress(p.streams.ErrOut, "Copying to "+to)
	defer progress.Close()
	done, err := r.unpackThere(ctx, directory, write)
	partly := path.Join(directory, name)
	switch {
	case err == nil:
		sayCopied(progress, done, to)
		return nil
	case ctx.Err() != nil:
		return &problem{cause: fmt.Errorf("interrupted; %s may be there in part", to), code: exitInterrupted,
			next: []string{p.command("exec", o.to.target.String(), "-- rm -r", partly) + " removes it"}}
	}
	return p.cpError(err, r, o.to, p.command("exec", o.to.target.String(), "-- sh -c 'cat > "+partly+"' < "+o.from.path))
}

// unpackThere lets the container's tar unpack in a directory what write writes. What keeps write from
// writing counts before what tar says about it.
func (r *remote) unpackThere(ctx context.Context, directory string, write func(io.Writer) (packed, error)) (packed, error) {
	type outcome struct {
		done packed
		err  error
	}
	in, out := io.Pipe()
	written := make(chan outcome, 1)
	go func() {
		done, err := write(out)
		_ = out.CloseWithError(err) // nil is the end of the file
		written <- outcome{done, err}
	}()
	err := r.run(ctx, in, nil, "tar", "-xof", "-", "-C", directory)
	_ = in.CloseWithError(errors.Join(errStopped, err)) // so that write ends, too
	result := <-written
	if result.err != nil && !errors.Is(result.err, errStopped) {
		return result.done, result.err
	}
	return result.done, err
}

// errStopped ends one side of a pipe when the other has ended.
var errStopped = errors.New("the other side has ended")

// destination gives the directory to copy into and the copy's name in it.
func (p *program) destination(ctx context.Context, r *remote, o cpOptions) (directory, name string, err error) {
	into, err := r.isDirectory(ctx, o.to.path)
	if err != nil {
		return "", "", err
	}
	if !into && !strings.HasSuffix(o.to.path, "/") {
		directory, name = splitRemote(o.to.path)
		return directory, name, nil
	}
	if o.from.path == standardStream {
		return "", "", &problem{cause: fmt.Errorf("%s is a directory, and standard input has no name", o.to.path),
			next: []string{p.command("cp", "-", o.to.target.String()+":"+path.Join(o.to.path, "NAME"))}}
	}
	whole, err := filepath.Abs(o.from.path)
	if err != nil {
		return "", "", err
	}
	return asPath(path.Clean(o.to.path)), filepath.Base(whole), nil
}

// isDirectory asks the container. Where it cannot tell, the answer is no.
func (r *remote) isDirectory(ctx context.Context, file string) (bool, error) {
	err := r.run(ctx, nil, nil, "test", "-d", asPath(file))
	var failed *failure
	if errors.As(err, &failed) || errors.Is(err, errNoCommand) {
		return false, nil
	}
	return err == nil, err
}

// readAll reads standard input to its end. An interrupt does not wait for whoever writes it.
func (p *program) readAll(ctx context.Context) (*os.File, error) {
	type outcome struct {
		file *os.File
		err  error
	}
	read := make(chan outcome, 1)
	go func() {
		file, err := spool(p.streams.In)
		read <- outcome{file, err}
	}()
	select {
	case result := <-read:
		return result.file, result.err
	case <-ctx.Done():
		return nil, &problem{cause: errors.New("interrupted; nothing was copied"), code: exitInterrupted}
	}
}
