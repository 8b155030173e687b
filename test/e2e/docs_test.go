// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/internal/docs"
	"github.com/berthdev/berth/internal/install"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// docsPatience ends the test when it hangs: it follows many documents, one after the other.
const docsPatience = 3 * cliPatience

// TestCommandsInTheDocumentsOnRealPods runs the commands of the documents that people follow, in order, on a
// cluster with Berth. Each document has a namespace and a directory of its own and runs in one shell, so
// that what an earlier block sets or writes is there for a later one.
func TestCommandsInTheDocumentsOnRealPods(t *testing.T) {
	log.SetLogger(logr.Discard())
	cluster := clustertest.Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), docsPatience)
	defer cancel()
	if err := install.Berth(ctx, install.Options{Config: clustertest.RESTConfig(t, cluster, "docs-test"), Local: cluster}); err != nil {
		t.Fatal(err)
	}
	repository, err := localcluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/berth")
	build.Dir = repository
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build berth: %v\n%s", err, said)
	}
	for _, link := range []string{"kubectl-berth", "kubectl_complete-berth"} {
		if err := os.Symlink("berth", filepath.Join(bin, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, document := range []string{
		"README.md", "docs/quickstart.md", "docs/kinds/sandbox.md", "docs/kinds/template.md",
		"docs/kinds/warmpool.md", "docs/kinds/claim.md", "docs/kinds/agentruntime.md", "docs/agents.md", "docs/troubleshooting.md",
	} {
		t.Run(document, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(repository, document))
			if err != nil {
				t.Fatal(err)
			}
			r := reader{cluster: cluster, repository: repository, bin: bin, dir: t.TempDir()}
			r.follow(ctx, t, document, string(text))
		})
	}
}

// reader follows a document.
type reader struct {
	cluster              *localcluster.Cluster
	repository, bin, dir string
}

func (r reader) follow(ctx context.Context, t *testing.T, document, text string) {
	t.Helper()
	script, skipped := script(document, text)
	for _, line := range skipped {
		t.Log(line)
	}
	// Commands name what is in a checkout, and write files of their own beside it.
	for link, target := range map[string]string{"examples": filepath.Join(r.repository, "examples"), "deploy": filepath.Join(r.repository, "deploy"), "bin": r.bin} {
		if err := os.Symlink(target, filepath.Join(r.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := r.kubeconfig(ctx, t, namespaceFor(document))
	file := filepath.Join(t.TempDir(), "commands")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	command := exec.CommandContext(ctx, "bash", file)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig,
		"PATH="+strings.Join([]string{r.bin, filepath.Dir(r.cluster.Kubectl()), os.Getenv("PATH")}, string(filepath.ListSeparator)))
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
		return
	}
	t.Logf("%d blocks in %s\n%s", strings.Count(script, blockMark), time.Since(begin).Round(time.Second), said.String())
}

// kubeconfig makes a namespace and a file by which commands without -n work in it.
func (r reader) kubeconfig(ctx context.Context, t *testing.T, namespace string) string {
	t.Helper()
	contents, err := os.ReadFile(r.cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(ctx, t, r.cluster, "create", "namespace", namespace)
	kubectl(ctx, t, r.cluster, "--kubeconfig", file, "config", "set-context", "--current", "--namespace", namespace)
	return file
}

func namespaceFor(document string) string {
	name := strings.TrimSuffix(filepath.Base(document), ".md")
	return "docs-" + strings.ToLower(name)
}

// blockMark begins the line that a script prints before each block.
const blockMark = ">>> "

// script is a document's blocks as one script for bash, and a line for each block that is left out.
func script(document, text string) (script string, skipped []string) {
	var out strings.Builder
	out.WriteString("set -e -o pipefail\n")
	for _, block := range docs.Blocks(text) {
		where := fmt.Sprintf("%s:%d", document, block.Line)
		commands, file, reason := block.Commands(), block.Words["file"], block.Words["norun"]
		switch {
		case file != "":
			fmt.Fprintf(&out, "cat > '%s' <<'END_OF_%[1]s'\n%sEND_OF_%[1]s\n", file, block.Content)
		case commands == "":
		case reason != "":
			skipped = append(skipped, where+" is not run: "+strings.ReplaceAll(reason, "-", " "))
		default:
			fmt.Fprintf(&out, "echo '%s%s'\n", blockMark, where)
			out.WriteString(expecting(block.Words["exit"], commands))
		}
	}
	return out.String(), skipped
}

// expecting is commands that end with one of some exit codes, which are separated by commas.
func expecting(codes, commands string) string {
	if codes == "" {
		return commands
	}
	return "set +e\n(\nset -e\n" + commands + fmt.Sprintf(")\ncode=$?\nset -e\n[[ ,%s, == *,$code,* ]] || { echo \"exit code $code, not %[1]s\"; exit 1; }\n", codes)
}

func TestADocumentFails(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		code     int
	}{
		"never, where all commands succeed":              {"```sh\na=1\n```\n```sh\n[ $a = 1 ]\n```\n", 0},
		"with the first command that does":               {"```sh\nfalse\ntrue\n```\n", 1},
		"within a pipe, too":                             {"```console\n$ false | cat\n```\n", 1},
		"not where an exit code is wanted":               {"```sh exit=3\n(exit 3)\n```\n", 0},
		"nor where it is one of those wanted":            {"```sh exit=0,2\n(exit 2)\n```\n", 0},
		"where it is another one than that":              {"```sh exit=3\ntrue\n```\n", 1},
		"where an earlier command than the last one did": {"```sh exit=0,2\n(exit 3)\ntrue\n```\n", 1},
		"not for what is not run":                        {"```sh norun=never\nfalse\n```\n```text\nfalse\n```\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			commands, _ := script("a.md", c.document)
			command := exec.CommandContext(t.Context(), "bash", "-c", commands)
			if said, err := command.CombinedOutput(); command.ProcessState.ExitCode() != c.code {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

func TestScriptOfADocument(t *testing.T) {
	got, skipped := script("a.md", "```yaml file=b.yaml\nb: 1\n```\n```console\n$ one\nout\n```\n```sh exit=0,3\ntwo\n```\n```sh norun=it-never-ends\nthree\n```\n```yaml\nc: 1\n```\n")
	want := "set -e -o pipefail\ncat > 'b.yaml' <<'END_OF_b.yaml'\nb: 1\nEND_OF_b.yaml\necho '>>> a.md:5'\none\necho '>>> a.md:9'\n" +
		"set +e\n(\nset -e\ntwo\n)\ncode=$?\nset -e\n[[ ,0,3, == *,$code,* ]] || { echo \"exit code $code, not 0,3\"; exit 1; }\n"
	if got != want {
		t.Errorf("got:\n%s", got)
	}
	if len(skipped) != 1 || skipped[0] != "a.md:12 is not run: it never ends" {
		t.Errorf("skipped %q", skipped)
	}
}
