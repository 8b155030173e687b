// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPlaces(t *testing.T) {
	claim := func(name, path string) place { return place{true, target{name: name}, path} }
	for text, want := range map[string]place{
		"analysis:/tmp/x":        claim("analysis", "/tmp/x"),
		"claim/analysis:x":       claim("analysis", "x"),
		"analysis:a:b":           claim("analysis", "a:b"),
		"sandbox/box:/tmp":       {true, target{sandbox: true, name: "box"}, "/tmp"},
		"/tmp/a:b":               {path: "/tmp/a:b"},
		"./analysis:x":           {path: "./analysis:x"},
		"file":                   {path: "file"},
		"-":                      {path: "-"},
		`C:\data`:                {path: `C:\data`},
		"pod/x:/tmp":             {path: "pod/x:/tmp"},
		"directory/file_a:b.txt": {path: "directory/file_a:b.txt"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("parsePlace(%q) = %+v, want %+v", text, got, want)
		}
	}
}

func TestPathsInSandboxesAreNoFlags(t *testing.T) {
	for given, want := range map[string][2]string{
		"/tmp/x": {"/tmp/", "x"}, "x": {".", "x"}, "a/b/": {"a/", "b"}, "/": {"/", "."}, ".": {".", "."}, "..": {"..", "."}, "a/..": {".", "."},
		"-C/x": {"./-C/", "x"}, "-x": {".", "-x"}, "a//b": {"a/", "b"},
	} {
		directory, name := splitRemote(given)
		if directory != want[0] || name != want[1] {
			t.Errorf("splitRemote(%q) = %q, %q, want %q", given, directory, name, want)
		}
	}
	if got := asPath("-x"); got != "./-x" {
		t.Errorf("asPath gives %q, which tar takes for a flag", got)
	}
}

// entry is an entry of an archive that a sandbox sends.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func archiveOf(t *testing.T, entries ...entry) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.content)), Mode: e.mode, ModTime: time.Unix(1e9, 0)}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// tree is what is in a directory: the content of files, "/" for directories, "-> " and the target of links.
func tree(t *testing.T, directory string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(directory, func(file string, e fs.DirEntry, err error) error {
		if err != nil || file == directory {
			return err
		}
		name, _ := filepath.Rel(directory, file)
		switch e.Type() {
		case fs.ModeDir:
			all[name] = "/"
		case fs.ModeSymlink:
			to, err := os.Readlink(file)
			all[name] = "-> " + to
			return err
		default:
			content, err := os.ReadFile(file)
			all[name] = string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s is %q, want %q", name, got[name], content)
		}
	}
	for name, content := range got {
		if _, wanted := want[name]; !wanted {
			t.Errorf("%s is there too: %q", name, content)
		}
	}
}

// What a sandbox sends lands in the directory "in"; the file "outside" beside it must not change, and
// nothing else may come to be there.
func TestWhatASandboxSendsStaysInItsPlace(t *testing.T) {
	dir, link, hard := byte(tar.TypeDir), byte(tar.TypeSymlink), byte(tar.TypeLink)
	for name, c := range map[string]struct {
		sent []entry
		want map[string]string // below in/
		fail string            // a part of the error
		left string            // a part of what was left out
	}{
		"a directory": {
			[]entry{{name: "d/", kind: dir, mode: 0o500}, {name: "d/a", content: "A"}, {name: "d/s/b", content: "B"}, {name: "d/l", kind: link, link: "s/b"}},
			map[string]string{"copy": "/", "copy/a": "A", "copy/s": "/", "copy/s/b": "B", "copy/l": "-> s/b"}, "", ""},
		"a name that climbs":                   {[]entry{{name: "d/../../outside", content: "X"}}, nil, "not below", ""},
		"a name that climbs and comes back":    {[]entry{{name: "d/../../in/d/x", content: "X"}}, nil, "not below", ""},
		"a name that climbs inside":            {[]entry{{name: "d/a/../b", content: "X"}}, nil, "leads out", ""},
		"an absolute name":                     {[]entry{{name: "/etc/passwd", content: "X"}}, nil, "not below", ""},
		"a name beside":                        {[]entry{{name: "other", content: "X"}}, nil, "not below", ""},
		"a name that begins alike":             {[]entry{{name: "data", content: "X"}}, nil, "not below", ""},
		"a link that climbs out":               {[]entry{{name: "d/l", kind: link, link: "../../outside"}, {name: "d/a", content: "A"}}, map[string]string{"copy": "/", "copy/a": "A"}, "", "leads out"},
		"a link to what lies beside":           {[]entry{{name: "d/l", kind: link, link: "../other"}, {name: "d/a", content: "A"}}, map[string]string{"copy": "/", "copy/a": "A"}, "", "leads out"},
		"an absolute link":                     {[]entry{{name: "d/l", kind: link, link: "/etc/passwd"}, {name: "d/a", content: "A"}}, map[string]string{"copy": "/", "copy/a": "A"}, "", "leads out"},
		"a link that climbs behind a link":     {[]entry{{name: "d/p/q/up", kind: link, link: "../.."}, {name: "d/p/q/l", kind: link, link: "up/../outside"}, {name: "d/a", content: "A"}}, map[string]string{"copy": "/", "copy/a": "A", "copy/p": "/", "copy/p/q": "/", "copy/p/q/up": "-> ../.."}, "", "leads out"},
		"a link through a link":                {[]entry{{name: "d/p/q/up", kind: link, link: "../.."}, {name: "d/p/q/up/l", kind: link, link: "../../../outside"}}, nil, "exist", ""},
		"a file through a link":                {[]entry{{name: "d/l", kind: link, link: "s"}, {name: "d/l/x", content: "X"}}, nil, "exist", ""},
		"a link that becomes a file":           {[]entry{{name: "d/l", kind: link, link: "s"}, {name: "d/l", content: "X"}}, nil, "exist", ""},
		"a hard link to a copied file":         {[]entry{{name: "d/a", content: "A"}, {name: "d/b", kind: hard, link: "d/a"}}, map[string]string{"copy": "/", "copy/a": "A", "copy/b": "A"}, "", ""},
		"a hard link to a file outside":        {[]entry{{name: "d/a", content: "A"}, {name: "d/b", kind: hard, link: "../outside"}}, map[string]string{"copy": "/", "copy/a": "A"}, "", "not copied"},
		"a device":                             {[]entry{{name: "d/null", kind: tar.TypeChar}, {name: "d/a", content: "A"}}, map[string]string{"copy": "/", "copy/a": "A"}, "", "neither a file"},
		"nothing":                              {nil, nil, "sent nothing", ""},
		"a link where something was asked for": {[]entry{{name: "d", kind: link, link: "/etc"}}, nil, "symbolic link to /etc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			around := t.TempDir()
			in := filepath.Join(around, "in")
			if err := os.Mkdir(in, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(around, "outside"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			done, err := receiveInto(archiveOf(t, c.sent...), in, "d", "copy")
			switch {
			case c.fail == "" && err != nil:
				t.Fatal(err)
			case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
				t.Errorf("the error is %v, want one that says %q", err, c.fail)
			}
			if left := strings.Join(done.left, "\n"); !strings.Contains(left, c.left) || (c.left == "") != (left == "") {
				t.Errorf("left out is %q, want %q", left, c.left)
			}
			want := map[string]string{"outside": "mine", "in": "/"}
			for name, content := range c.want {
				want[filepath.Join("in", name)] = content
			}
			sameTree(t, tree(t, around), want)
		})
	}
}

func TestACopyGoesIntoWhatIsThere(t *testing.T) {
	sent := []entry{{name: "d/a", content: "new", mode: 0o640}, {name: "d/s/b", content: "B"}}
	t.Run("files are replaced and others stay", func(t *testing.T) {
		in := t.TempDir()
		write(t, filepath.Join(in, "d", "a"), "old")
		write(t, filepath.Join(in, "d", "other"), "mine")
		if _, err := receiveInto(archiveOf(t, sent...), in, "d", "d"); err != nil {
			t.Fatal(err)
		}
		sameTree(t, tree(t, in), map[string]string{"d": "/", "d/a": "new", "d/s": "/", "d/s/b": "B", "d/other": "mine"})
		info, err := os.Stat(filepath.Join(in, "d", "a"))
		if err != nil || info.Mode() != 0o640 || !info.ModTime().Equal(time.Unix(1e9, 0)) {
			t.Errorf("mode and time are %v, %v", info.Mode(), info.ModTime())
		}
	})
	t.Run("nothing is written through a link that is there", func(t *testing.T) {
		around := t.TempDir()
		in := filepath.Join(around, "in")
		write(t, filepath.Join(around, "elsewhere", "mine"), "mine")
		write(t, filepath.Join(in, "d", "x"), "x")
		if err := os.Symlink("../../elsewhere", filepath.Join(in, "d", "s")); err != nil {
			t.Fatal(err)
		}
		_, err := receiveInto(archiveOf(t, sent...), in, "d", "d")
		if err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("the error is %v", err)
		}
		if got := tree(t, filepath.Join(around, "elsewhere")); len(got) != 1 {
			t.Errorf("elsewhere there is %v", got)
		}
	})
	t.Run("the content of a directory goes to a directory", func(t *testing.T) {
		in := t.TempDir()
		if _, err := receiveInto(archiveOf(t, entry{name: "./", kind: tar.TypeDir}, entry{name: "./a", content: "A"}), in, ".", "."); err != nil {
			t.Fatal(err)
		}
		sameTree(t, tree(t, in), map[string]string{"a": "A"})
	})
	t.Run("an archive that breaks off leaves nothing", func(t *testing.T) {
		in := t.TempDir()
		whole := archiveOf(t, entry{name: "d/a", content: strings.Repeat("a", 5000)})
		if _, err := receiveInto(bytes.NewReader(whole.Bytes()[:2000]), in, "d", "d"); err == nil {
			t.Error("no error")
		}
		sameTree(t, tree(t, in), nil)
	})
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsPackedComesOutTheSame(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	source := filepath.Join(from, "source")
	write(t, filepath.Join(source, "a"), "A")
	write(t, filepath.Join(source, "deep", "er", "b"), strings.Repeat("b", 100000))
	for _, err := range []error{
		os.MkdirAll(filepath.Join(source, "empty"), 0o755),
		os.Symlink("deep/er", filepath.Join(source, "link")),
		os.Symlink("source", filepath.Join(from, "way")), // the source itself may be a link
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var sent bytes.Buffer
	packed, err := pack(&sent, filepath.Join(from, "way"), "name")
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := receiveInto(&sent, to, "name", "copy")
	if err != nil {
		t.Fatal(err)
	}
	if packed.files != 3 || packed.bytes != 100001 || unpacked.files != packed.files || unpacked.bytes != packed.bytes {
		t.Errorf("packed %+v, unpacked %+v", packed, unpacked)
	}
	want := map[string]string{"copy": "/"}
	for name, content := range tree(t, source) {
		want[filepath.Join("copy", name)] = content
	}
	sameTree(t, tree(t, to), want)
}

func TestAHardLinkCountsAsTheFileThatItIs(t *testing.T) {
	from, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "a"), "AAA")
	if err := os.Link(filepath.Join(from, "a"), filepath.Join(from, "b")); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	in, err := pack(&sent, from, "d")
	if _, received := receiveInto(&sent, first, "d", "d"); err != nil || received != nil {
		t.Fatal(err, received)
	}
	// A container's tar sends the second name as a link to the first.
	out, err := receiveInto(archiveOf(t, entry{name: "d/a", content: "AAA"}, entry{name: "d/b", kind: tar.TypeLink, link: "d/a"}), second, "d", "d")
	if err != nil {
		t.Fatal(err)
	}
	if in.files != 2 || in.bytes != 6 || out.files != in.files || out.bytes != in.bytes {
		t.Errorf("into the sandbox %+v, out of it %+v", in, out)
	}
}

func TestStandardInputIsOneFileAndLeavesNoOther(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	whole, err := spool(strings.NewReader("from a pipe"))
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	_, err = packSpooled(&sent, whole, "f")
	if err := errors.Join(err, unspool(whole)); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := receiveInto(&sent, to, "f", "g"); err != nil {
		t.Fatal(err)
	}
	sameTree(t, tree(t, to), map[string]string{"g": "from a pipe"})
	sameTree(t, tree(t, temporary), nil)
}
