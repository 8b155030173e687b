// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Images that every node has, under the names that public manifests use, though no registry is reached.
const (
	PauseImage   = "registry.k8s.io/pause:3.10"
	BusyboxImage = "docker.io/library/busybox:1.36"
	// SandboxImage is busybox with a command that idles and ends at once when told to.
	SandboxImage = "ghcr.io/berthdev/sandbox:dev"
)

// Image is a container image made here.
type Image struct {
	Reference string
	image     v1.Image
}

// File is one file of an image.
type File struct {
	Path     string // in the image, without a leading slash
	Mode     int64
	Contents []byte
	Link     string // makes it a symbolic link
	Dir      bool
}

// NewImage makes an image of one layer. The same input makes the same image, to the digest.
func NewImage(reference string, files []File, config v1.Config) (Image, error) {
	if _, err := name.NewTag(reference); err != nil {
		return Image{}, err
	}
	contents, err := archive(files)
	if err != nil {
		return Image{}, fmt.Errorf("image %s: %w", reference, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(contents)), nil
	})
	if err != nil {
		return Image{}, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return Image{}, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return Image{}, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	image, err = mutate.ConfigFile(image, file)
	return Image{Reference: reference, image: image}, err
}

// NewGoImage builds a main package of this repository into an image that holds nothing else and runs
// it as an unprivileged user. Package is a path such as ./cmd/berth-controller.
func NewGoImage(ctx context.Context, reference, pkg string) (Image, error) {
	root, err := Repository()
	if err != nil {
		return Image{}, err
	}
	scratch, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(scratch)
	program := filepath.Join(scratch, "program")
	command := goCommand(ctx, root, "build", "-ldflags=-s -w", "-o", program, pkg)
	command.Env = append(command.Env, "GOOS=linux")
	if out, err := command.CombinedOutput(); err != nil {
		return Image{}, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return NewProgramImage(reference, path.Base(pkg), program)
}

// NewProgramImage makes an image that runs a static program, found in file, as an unprivileged user.
func NewProgramImage(reference, program, file string) (Image, error) {
	contents, err := os.ReadFile(file)
	if err != nil {
		return Image{}, err
	}
	const user = "65532:65532"
	files := append(base(), File{Path: program, Mode: 0o755, Contents: contents})
	return NewImage(reference, files, v1.Config{User: user, WorkingDir: "/", Entrypoint: []string{"/" + program}})
}

// Write writes the image as the archive that "docker save" writes, which everything that loads images takes.
func (i Image) Write(to io.Writer) error {
	tag, err := name.NewTag(i.Reference)
	if err != nil {
		return err
	}
	return tarball.Write(tag, i.image, to)
}

// base is what programs expect of any system.
func base() []File {
	return []File{
		{Path: "etc", Mode: 0o755, Dir: true},
		{Path: "etc/passwd", Mode: 0o644, Contents: []byte(
			"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nnonroot:x:65532:65532:nonroot:/:/bin/false\n")},
		{Path: "etc/group", Mode: 0o644, Contents: []byte("root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n")},
		{Path: "root", Mode: 0o700, Dir: true},
		{Path: "tmp", Mode: 0o1777, Dir: true},
	}
}

// standardImages are those every node has.
func standardImages(ctx context.Context, binaries Binaries) ([]Image, error) {
	pause, err := os.ReadFile(binaries.Pause)
	if err != nil {
		return nil, err
	}
	pauseImage, err := NewImage(PauseImage, []File{{Path: "pause", Mode: 0o755, Contents: pause}},
		v1.Config{User: "65535:65535", Entrypoint: []string{"/pause"}})
	if err != nil {
		return nil, err
	}
	busybox, err := busyboxFiles(ctx)
	if err != nil {
		return nil, err
	}
	busyboxImage, err := NewImage(BusyboxImage, busybox, v1.Config{Cmd: []string{"sh"}, Env: searchPath()})
	if err != nil {
		return nil, err
	}
	// A shell as first process would ignore the request to stop, and each stop would take the whole grace period.
	idle := `trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done`
	sandboxImage, err := NewImage(SandboxImage, busybox,
		v1.Config{Cmd: []string{"/bin/sh", "-c", idle}, Env: searchPath(), WorkingDir: "/root"})
	return []Image{pauseImage, busyboxImage, sandboxImage}, err
}

func searchPath() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

// busyboxFiles is a small system around busybox: every command it knows is a link to it in /bin.
func busyboxFiles(ctx context.Context) ([]File, error) {
	program, err := busybox(ctx)
	if err != nil {
		return nil, err
	}
	contents, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	applets, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("ask busybox for its commands: %w", err)
	}
	files := append(base(),
		File{Path: "bin", Mode: 0o755, Dir: true},
		File{Path: "usr", Mode: 0o755, Dir: true},
		File{Path: "usr/bin", Mode: 0o755, Dir: true},
		File{Path: "usr/bin/env", Link: "../../bin/busybox"},
		File{Path: "bin/busybox", Mode: 0o755, Contents: contents},
	)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			files = append(files, File{Path: "bin/" + applet, Link: "busybox"})
		}
	}
	return files, nil
}

func archive(files []File) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, file := range files {
		header := &tar.Header{
			Name: file.Path, Mode: file.Mode, Size: int64(len(file.Contents)), Typeflag: tar.TypeReg,
			ModTime: time.Unix(0, 0),
		}
		switch {
		case file.Dir:
			header.Typeflag, header.Name = tar.TypeDir, file.Path+"/"
		case file.Link != "":
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, file.Link, 0o777
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.Contents); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), writer.Close()
}

// Import puts images where the node's pods find them without pulling. One that is there already in the
// same form costs nothing.
func (c *Cluster) Import(ctx context.Context, images ...Image) error {
	if c.config.Mode != Node {
		return errors.New("only a node takes images")
	}
	for _, image := range images {
		if err := c.importOne(ctx, image); err != nil {
			return fmt.Errorf("import image %s: %w", image.Reference, err)
		}
	}
	return nil
}

func (c *Cluster) importOne(ctx context.Context, image Image) error {
	digest, err := image.image.Digest()
	if err != nil {
		return err
	}
	record := filepath.Join(c.dir, "images", strings.NewReplacer("/", "_", ":", "_").Replace(image.Reference))
	if known, err := os.ReadFile(record); err == nil && string(known) == digest.String() {
		return nil
	}
	file, err := os.CreateTemp(c.dir, "image-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(image.Write(file), file.Close()); err != nil {
		return err
	}
	arguments := []string{"--address", c.containerdSocket(), "--namespace", "k8s.io", "images", "import", file.Name()}
	if out, err := exec.CommandContext(ctx, "ctr", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return writeFile(record, []byte(digest.String()), 0o644)
}

// busybox finds Debian's static busybox, which is fetched but not installed: the package would replace
// a busybox that other packages may need.
func busybox(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "busybox.lock"), func() *Step { return nil })
	if err != nil {
		return "", err
	}
	defer unlock()
	program := filepath.Join(cache, "busybox")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	scratch, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	if err := fetchPackage(ctx, "busybox-static", scratch); err != nil {
		return "", fmt.Errorf("fetch busybox for images: %w", err)
	}
	for _, place := range []string{"bin/busybox", "usr/bin/busybox"} { // before and after Debian's merged /usr
		if err = os.Rename(filepath.Join(scratch, place), program); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("find busybox in its package: %w", err)
}
