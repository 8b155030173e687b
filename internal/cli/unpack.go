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
	"strings"
	"time"
)

// unpacker writes an archive that a sandbox sends, which is not to be trusted: nothing is written outside
// of the directory, and no link that is made leads out of what was copied.
//
// Everything goes to a directory of its own first. Links are made last, when all directories are there:
// so no entry is written through a link, and a link's leading ".." mean what they say.
type unpacker struct {
	root  *os.Root
	stage string // a directory in root
	links []link
	done  packed
}

// link is a symbolic link to make.
type link struct{ name, to string }

// errIsLink is that what was asked for is a symbolic link. It is a path beside it, or from the top.
type errIsLink struct{ to string }

func (e *errIsLink) Error() string { return "it is a symbolic link to " + e.to }

// errEmpty is that there is nothing in an archive.
var errEmpty = errors.New("the sandbox's tar sent nothing")

// unpack writes the entry base of an archive, and those below it, to the stage under a name.
func (u *unpacker) unpack(in io.Reader, base, name string) error {
	archive := tar.NewReader(in)
	some := false
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && !some:
			return errEmpty
		case errors.Is(err, io.EOF):
			return u.makeLinks()
		case err != nil:
			return fmt.Errorf("read what the sandbox's tar sent: %w", err)
		}
		some = true
		relative, err := below(header.Name, base)
		if err != nil {
			return err
		}
		if relative == "." && header.Typeflag == tar.TypeSymlink {
			return &errIsLink{to: header.Linkname}
		}
		if err := u.entry(archive, header, relative, base, name); err != nil {
			return err
		}
	}
}

// below gives the path of an entry relative to base, and refuses those that are not below it.
func below(entry, base string) (string, error) {
	clean := path.Clean(entry)
	if base != "." {
		rest, found := strings.CutPrefix(clean, base)
		if !found || rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("the sandbox's tar sent %q, which is not below %q", entry, base)
		}
		clean = path.Clean("./" + rest)
	}
	if !filepath.IsLocal(filepath.FromSlash(clean)) || strings.Contains("/"+entry+"/", "/../") {
		return "", fmt.Errorf("the sandbox's tar sent %q, which leads out of the directory", entry)
	}
	return clean, nil
}

// entry writes one entry. relative is its path below base, which is copied to the stage as name.
func (u *unpacker) entry(archive *tar.Reader, header *tar.Header, relative, base, name string) error {
	shown := filepath.Join(name, filepath.FromSlash(relative))
	staged := filepath.Join(u.stage, shown)
	switch header.Typeflag {
	case tar.TypeDir:
		return u.root.MkdirAll(staged, 0o700|fs.FileMode(header.Mode)&0o777)
	case tar.TypeReg:
		return u.file(archive, header, staged)
	case tar.TypeLink:
		if target, outside := below(header.Linkname, base); outside == nil {
			return u.hardLink(filepath.Join(u.stage, name, filepath.FromSlash(target)), staged)
		}
		u.done.leave("%s: it is a link to %s, which is not copied", shown, header.Linkname)
		return nil
	case tar.TypeSymlink:
		if !staysInside(path.Dir(relative), header.Linkname) {
			u.done.leave("%s: it is a symbolic link to %s, which leads out of what is copied", shown, header.Linkname)
			return nil
		}
		u.links = append(u.links, link{name: staged, to: header.Linkname})
		return nil
	case tar.TypeXGlobalHeader:
		return nil
	}
	u.done.leave("%s: it is neither a file nor a directory", shown)
	return nil
}

func (u *unpacker) hardLink(target, staged string) error {
	if err := u.root.MkdirAll(filepath.Dir(staged), 0o755); err != nil {
		return err
	}
	if err := u.root.Link(target, staged); err != nil {
		return err
	}
	info, err := u.root.Lstat(staged)
	if err != nil {
		return err
	}
	u.done.files++
	u.done.bytes += info.Size()
	return nil
}

func (u *unpacker) file(content io.Reader, header *tar.Header, staged string) (err error) {
	if err := u.root.MkdirAll(filepath.Dir(staged), 0o755); err != nil {
		return err
	}
	file, err := u.root.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	copied, err := io.Copy(file, content)
	if err != nil {
		return err
	}
	u.done.files++
	u.done.bytes += copied
	if err := file.Chmod(fs.FileMode(header.Mode) & 0o777); err != nil {
		return err
	}
	return u.root.Chtimes(staged, time.Time{}, header.ModTime)
}

// staysInside says whether a link in a directory leads to somewhere below the top. Its ".." must come
// first: behind another link they would mean something else than they seem to.
func staysInside(directory, to string) bool {
	if path.IsAbs(to) || filepath.IsAbs(to) {
		return false
	}
	rest := to
	for {
		next, found := strings.CutPrefix(rest, "../")
		if !found {
			break
		}
		rest = strings.TrimLeft(next, "/")
	}
	if rest != ".." && strings.Contains("/"+rest+"/", "/../") {
		return false
	}
	return filepath.IsLocal(filepath.FromSlash(path.Join(directory, to)))
}

// makeLinks makes all directories of links before any link.
func (u *unpacker) makeLinks() error {
	for _, l := range u.links {
		if err := u.root.MkdirAll(filepath.Dir(l.name), 0o755); err != nil {
			return err
		}
	}
	for _, l := range u.links {
		if err := u.root.Symlink(filepath.FromSlash(l.to), l.name); err != nil {
			return err
		}
		u.done.files++
	}
	return nil
}

// place moves what was unpacked from the stage to its place, and into directories that are there already.
func (u *unpacker) place(name string) error {
	staged := filepath.Join(u.stage, name)
	from, err := u.root.Lstat(staged)
	if err != nil {
		return err
	}
	there, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u.root.Rename(staged, name)
	case err != nil:
		return err
	case !from.IsDir() && !there.IsDir():
		return u.root.Rename(staged, name)
	case from.IsDir() != there.IsDir():
		return fmt.Errorf("%s is there already and is %s", filepath.Join(u.root.Name(), name), kindOf(there))
	}
	return u.placeAll(name)
}

func (u *unpacker) placeAll(directory string) error {
	in, err := u.root.Open(filepath.Join(u.stage, directory))
	if err != nil {
		return err
	}
	names, err := in.Readdirnames(-1)
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := u.place(filepath.Join(directory, name)); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(info fs.FileInfo) string {
	switch info.Mode().Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	}
	return "a file"
}
