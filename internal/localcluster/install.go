// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// requirement is a program a node needs and the Debian package that has it.
type requirement struct {
	program string
	pkg     string
}

// requirements of a node. Kubernetes' own come from Build.
func requirements() []requirement {
	return []requirement{
		{Containerd, "containerd"},
		{"ctr", "containerd"},
		{"containerd-shim-runc-v2", "containerd"},
		{"runc", "runc"},
		{"ptp", "containernetworking-plugins"},
		{"iptables", "iptables"},
		{"conntrack", "conntrack"},
		{"ip", "iproute2"},
		{"mount", "mount"},
	}
}

// searched are the directories programs are looked for in. A user's PATH may lack those of the system.
func searched() []string {
	return append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", cniPlugins)
}

const cniPlugins = "/usr/lib/cni"

func lookPath(program string) (string, error) {
	for _, dir := range searched() {
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %s is not installed", program)
}

// missingPackages are those that have a program that is not there.
func missingPackages() []string {
	var missing []string
	for _, needed := range requirements() {
		if _, err := lookPath(needed.program); err != nil {
			missing = append(missing, needed.pkg)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// install adds what a node needs and this machine lacks.
func install(ctx context.Context, progress *Progress) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	command := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks %s, and only Debian's packages are known here; on Debian: %s",
			strings.Join(missing, ", "), command)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("this machine lacks %s; as root: %s", strings.Join(missing, ", "), command)
	}
	step := progress.Step("Installing " + strings.Join(missing, ", "))
	err := apt(ctx, "install", missing...)
	if err != nil {
		// The lists of a fresh machine are often empty or old.
		step.Detail("reading package lists")
		err = apt(ctx, "update")
		if err == nil {
			step.Detail("installing")
			err = apt(ctx, "install", missing...)
		}
	}
	if step.Done(err) != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if missing = missingPackages(); len(missing) > 0 {
		return fmt.Errorf("the packages %s are installed, but programs of theirs are not found", strings.Join(missing, ", "))
	}
	return nil
}

func apt(ctx context.Context, verb string, packages ...string) error {
	arguments := append([]string{"-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", verb}, packages...)
	command := exec.CommandContext(ctx, "apt-get", arguments...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// fetchPackage unpacks a Debian package into dir without installing it.
func fetchPackage(ctx context.Context, pkg, dir string) error {
	download := func() error {
		command := exec.CommandContext(ctx, "apt-get", "-q", "download", pkg)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get download %s: %w\n%s", pkg, err, out)
		}
		return nil
	}
	if err := download(); err != nil {
		if err := errors.Join(err, apt(ctx, "update")); os.Geteuid() != 0 {
			return err
		}
		if err := download(); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(dir, pkg+"_*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("apt-get download %s left %d archives", pkg, len(archives))
	}
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", archives[0], dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", archives[0], err, out)
	}
	return nil
}
