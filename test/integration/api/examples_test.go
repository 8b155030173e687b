// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

const root = "../../../"

// kubectl runs the kubectl of the cluster's own version, and gives what it said.
func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := install(); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), cluster.Kubectl(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

func mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kubectl(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// The definitions themselves must fit a client-side apply.
func TestDefinitionsAndPoliciesCanBeAppliedClientSide(t *testing.T) {
	for range 2 {
		mustKubectl(t, "apply", "-f", root+"deploy/crds", "-f", root+"deploy/policies")
	}
}

func TestThePublishedPoolAndClaimApplyVerbatim(t *testing.T) {
	t.Cleanup(func() { remove(t, "ns/agent-sandboxes", "ns/monitoring", "crd/prometheusrules.monitoring.coreos.com") })
	mustKubectl(t, "apply", "-f", "testdata/prometheusrules-crd.yaml")
	mustKubectl(t, "wait", "--for=condition=Established", "crd/prometheusrules.monitoring.coreos.com")
	examples := root + "examples/warm-pool-article/"
	mustKubectl(t, "apply", "-f", examples+"setup.yaml")
	// Applying the same again must change nothing: the string in the manifest
	// is an object in the cluster.
	for range 3 {
		mustKubectl(t, "apply", "-f", examples+"pool.yaml", "-f", examples+"claim.yaml", "-f", examples+"prometheus-rule.yaml")
	}
	for query, want := range map[string]string{
		"{.spec.updateStrategy}":     `{"type":"Recreate"}`,
		"{.spec.replicas}":           "10",
		"{.metadata.generation}":     "1",
		"{.metadata.generateName}":   "",
		"{.spec.sandboxTemplateRef}": `{"name":"python-execution-template"}`,
	} {
		if got := mustKubectl(t, "get", "swp", "dynamic-python-pool", "-n", "agent-sandboxes", "-o", "jsonpath="+query); got != want {
			t.Errorf("the pool's %s is %s, want %s", query, got, want)
		}
	}
	claim := mustKubectl(t, "get", "sandboxclaim", "claim-user-exec-8921", "-n", "agent-sandboxes", "-o", "jsonpath={.spec}")
	if claim != `{"warmPoolRef":{"name":"dynamic-python-pool"}}` {
		t.Errorf("the claim's spec is %s", claim)
	}
	template := mustKubectl(t, "get", "sandboxtemplate", "python-execution-template", "-n", "agent-sandboxes", "-o", "name")
	if strings.TrimSpace(template) != "sandboxtemplate."+extensions.GroupName+"/python-execution-template" {
		t.Errorf("the template is %q", template)
	}
	mustKubectl(t, "get", "prometheusrule", "agent-sandbox-alerts", "-n", "monitoring")
}

func TestTheFindingsCommandsSuspendAndResume(t *testing.T) {
	t.Cleanup(func() { remove(t, "ns/team1") })
	mustKubectl(t, "apply", "-f", root+"examples/suspend-and-resume/sandbox.yaml")
	state := func() string {
		return mustKubectl(t, "get", "sandbox", "weather-service-1000", "-n", "team1", "-o", "jsonpath={.spec.operatingMode} {.spec.replicas}")
	}
	for _, step := range []struct {
		want string
		args []string
	}{
		{on, []string{"get", "sandbox", "weather-service-1000", "-n", "team1"}},
		{off, []string{"patch", "sandbox", "weather-service-1000", "-n", "team1", "--type", "merge", "-p", `{"spec":{"replicas":0}}`}},
		{on, []string{"patch", "sandbox", "weather-service-1000", "-n", "team1", "--type", "merge", "-p", `{"spec":{"replicas":1}}`}},
		{on, []string{"annotate", "sandbox", "weather-service-1000", "-n", "team1", "agents.x-k8s.io/pod-name-"}},
		{off, []string{"patch", "sandbox", "weather-service-1000", "-n", "team1", "--type", "merge", "-p", `{"spec":{"operatingMode":"Suspended"}}`}},
		// The manifest says nothing of either field, so applying it leaves them alone.
		{off, []string{"apply", "-f", root + "examples/suspend-and-resume/sandbox.yaml"}},
	} {
		mustKubectl(t, step.args...)
		if got := state(); got != step.want {
			t.Errorf("after kubectl %s it is %q, want %q", strings.Join(step.args, " "), got, step.want)
		}
	}
}

func TestKubectlScale(t *testing.T) {
	s := newSpace(t)
	s.create("Sandbox", "v1beta1", "s", aSandbox)
	for _, step := range []struct{ replicas, want string }{{"0", "Running 0"}, {"1", on}} {
		mustKubectl(t, "scale", "sandbox", "s", "-n", s.name, "--replicas="+step.replicas)
		if got := pair(s.get("Sandbox", "v1beta1", "s")); got != step.want {
			t.Errorf("scaled to %s it is %q", step.replicas, got)
		}
	}
	s.patch("Sandbox", "v1beta1", "s", `{spec: {operatingMode: Suspended}}`)
	out, err := kubectl(t, "scale", "sandbox", "s", "-n", s.name, "--replicas=1")
	if err == nil || !strings.Contains(out, "set spec.operatingMode to Running as well") {
		t.Errorf("scaling up while suspended: %v, %s", err, out)
	}
}

func TestEveryExampleApplies(t *testing.T) {
	s := newSpace(t)
	applied := 0
	err := filepath.WalkDir(root+"examples", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Those in namespaces of their own have tests of their own.
		if bytes.Contains(raw, []byte("\n  namespace:")) {
			return nil
		}
		mustKubectl(t, "apply", "-n", s.name, "--validate=strict", "-f", path)
		applied++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if applied < 4 {
		t.Errorf("%d examples applied, want 4 or more", applied)
	}
}

// remove deletes what a test made under names that are not its own.
func remove(t *testing.T, names ...string) {
	command := exec.CommandContext(context.WithoutCancel(t.Context()), cluster.Kubectl(),
		append([]string{"delete", "--ignore-not-found", "--wait=false"}, names...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
