// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// packed is what went into an archive or came out of one.
type packed struct {
	files int      // all but directories: a link counts as one, symbolic or not
	bytes int64    // in all files, so those of a hard link count again
	left  []string // what was left out, and why
}

func (p *packed) leave(format string, args ...any) {
	p.left = append(p.left, fmt.Sprintf(format, args...))
}

// pack writes a file, or a directory with all that is in it, to an archive under a name. Symbolic links
// below a directory stay links; the source itself may be one and is followed.
func pack(out io.Writer, source, name string) (packed, error) {
	var done packed
	archive := tar.NewWriter(out)
	info, err := os.Stat(source)
	if err != nil {
		return done, err
	}
	if !info.IsDir() {
		if err := packEntry(archive, source, name, info, &done); err != nil {
			return done, err
		}
		return done, archive.Close()
	}
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return done, err
	}
	err = filepath.WalkDir(resolved, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(resolved, file)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return packEntry(archive, file, path.Join(name, filepath.ToSlash(relative)), info, &done)
	})
	if err != nil {
		return done, err
	}
	return done, archive.Close()
}

func packEntry(archive *tar.Writer, file, name string, info fs.FileInfo, done *packed) error {
	link := ""
	switch kind := info.Mode().Type(); kind {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		var err error
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	default:
		done.leave("%s: it is neither a file nor a directory", file)
		return nil
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = name
	if info.IsDir() {
		header.Name += "/"
	}
	// Whose the file is here means nothing in the sandbox.
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.Format = tar.FormatUnknown
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if info.IsDir() {
		return nil
	}
	done.files++
	if link != "" {
		return nil
	}
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	copied, err := io.CopyN(archive, content, header.Size)
	done.bytes += copied
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s became shorter while it was copied", file)
	}
	return err
}

// spool reads all of a reader into a temporary file that has no name any more where the system allows it,
// and so cannot be left behind. An archive says a file's size before its content.
func spool(in io.Reader) (*os.File, error) {
	whole, err := os.CreateTemp("", "berth-cp-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(whole.Name())
	if _, err := io.Copy(whole, in); err != nil {
		return nil, errors.Join(fmt.Errorf("read standard input: %w", err), unspool(whole))
	}
	return whole, nil
}

// unspool removes what spool made.
func unspool(whole *os.File) error {
	err := whole.Close()
	if removed := os.Remove(whole.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// packSpooled writes what was read to an archive, as a file of a name.
func packSpooled(out io.Writer, whole *os.File, name string) (packed, error) {
	size, err := whole.Seek(0, io.SeekEnd)
	if err != nil {
		return packed{}, err
	}
	if _, err := whole.Seek(0, io.SeekStart); err != nil {
		return packed{}, err
	}
	archive := tar.NewWriter(out)
	if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
		return packed{}, err
	}
	if _, err := io.Copy(archive, whole); err != nil {
		return packed{}, err
	}
	return packed{files: 1, bytes: size}, archive.Close()
}
