// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"
)

// maxLinks is how many symbolic links are followed from what was asked for, as an operating system does.
const maxLinks = 16

// pull copies out of a sandbox. What was asked for may be a symbolic link and is followed there.
func (p *program) pull(ctx context.Context, r *remote, o cpOptions) error {
	from := o.from.target.String() + ":" + o.from.path
	progress := newProgress(p.streams.ErrOut, "Copying from "+from)
	defer progress.Close()
	receive, err := p.receiver(o, progress)
	if err != nil {
		return err
	}
	source := o.from.path
	for range maxLinks {
		err = r.packThere(ctx, source, receive)
		var link *errIsLink
		if !errors.As(err, &link) {
			break
		}
		if !path.IsAbs(link.to) {
			link.to = path.Join(path.Dir(path.Clean(source)), link.to)
		}
		source = link.to
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &problem{cause: errors.New("interrupted; nothing was copied"), code: exitInterrupted}
	}
	target := o.to.path
	if target == standardStream {
		target = "FILE"
	}
	return p.cpError(err, r, o.from, p.command("exec", o.from.target.String(), "-- cat", o.from.path, ">", target))
}

// packThere lets the container's tar pack a file or a directory, and gives the archive to receive, with
// the name of its only or topmost entry. What tar complains about counts before what was received.
func (r *remote) packThere(ctx context.Context, file string, receive func(archive io.Reader, base string) error) error {
	directory, base := splitRemote(file)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := r.run(ctx, nil, out, "tar", "-cf", "-", "-C", directory, asPath(base))
		_ = out.CloseWithError(err)
		ended <- err
		close(ended)
	}()
	whole := &untilEnd{Reader: in}
	err := receive(whole, base)
	if errors.Is(err, errEmpty) {
		_, _ = io.Copy(io.Discard, whole) // tar says why when it ends
	}
	if err != nil && whole.err == nil { // it was not what tar did
		_ = in.CloseWithError(errStopped)
		cancel()
		for range ended { // it was stopped, and says so
		}
		return err
	}
	if sent := <-ended; sent != nil {
		return sent
	}
	return err
}

// untilEnd remembers how reading ended.
type untilEnd struct {
	io.Reader
	err error
}

func (u *untilEnd) Read(into []byte) (int, error) {
	n, err := u.Reader.Read(into)
	if err != nil {
		u.err = err
	}
	return n, err
}

// receiver says where the archive goes: to standard output, into a directory, or to a name.
func (p *program) receiver(o cpOptions, progress *progress) (func(io.Reader, string) error, error) {
	if o.to.path == standardStream {
		return p.toOutput, nil
	}
	into, name := filepath.Split(filepath.Clean(o.to.path))
	info, err := os.Stat(o.to.path)
	switch {
	case err == nil && info.IsDir():
		into = o.to.path
		_, name = splitRemote(o.from.path)
	case strings.HasSuffix(o.to.path, "/"):
		return nil, &problem{cause: fmt.Errorf("there is no directory %s", o.to.path), next: []string{"mkdir " + o.to.path, "leave the last / out, and it is the copy's name"}}
	}
	if into == "" {
		into = "."
	}
	if info, err := os.Stat(into); err != nil || !info.IsDir() {
		return nil, &problem{cause: fmt.Errorf("there is no directory %s to copy to", into), next: []string{"mkdir -p " + into}}
	}
	return func(archive io.Reader, base string) error {
		done, err := receiveInto(archive, into, base, name)
		if err != nil {
			return err
		}
		sayCopied(progress, done, filepath.Join(into, name))
		return nil
	}, nil
}

// receiveInto unpacks an archive in a directory under a name, all of it or nothing.
func receiveInto(archive io.Reader, directory, base, name string) (done packed, err error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return packed{}, err
	}
	defer root.Close()
	u := &unpacker{root: root, stage: ".berth-cp-" + rand.String(nameSuffix)}
	if err := root.Mkdir(u.stage, 0o700); err != nil {
		return packed{}, err
	}
	defer func() { err = errors.Join(err, root.RemoveAll(u.stage)) }()
	if err := u.unpack(archive, base, name); err != nil {
		return packed{}, err
	}
	// The rest of the stream, and whether tar is content with what it did.
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return packed{}, err
	}
	if name == "." {
		return u.done, u.placeAll(".")
	}
	return u.done, u.place(name)
}

// toOutput writes the content of the one file in an archive to standard output.
func (p *program) toOutput(archive io.Reader, base string) error {
	content := tar.NewReader(archive)
	header, err := content.Next()
	switch {
	case errors.Is(err, io.EOF):
		return errEmpty
	case err != nil:
		return fmt.Errorf("read what the sandbox's tar sent: %w", err)
	}
	switch header.Typeflag {
	case tar.TypeReg:
	case tar.TypeSymlink:
		return &errIsLink{to: header.Linkname}
	case tar.TypeDir:
		return &problem{cause: fmt.Errorf("%s is a directory, and standard output takes one file", base), next: []string{"name a directory of this machine as the target"}}
	default:
		return &problem{cause: fmt.Errorf("%s is not a file", base), next: []string{"name a file"}}
	}
	if _, err := io.Copy(p.streams.Out, content); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, archive)
	return err
}
