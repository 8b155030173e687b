// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// Servers before 1.36 have no admission policies, and a cluster can have
// Sandboxes from before it had ours. Then the fields are not kept in step; a
// Sandbox runs only if both let it, and a write that asks for more is refused.
func TestWithoutPoliciesNothingRunsThatAFieldForbids(t *testing.T) {
	config := clustertest.RESTConfig(t, clustertest.ControlPlane(t), "without-policies")
	config.WarningHandler = rest.NoWarnings{}
	if err := deploy.InstallCRDs(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &space{t: t, name: metav1.NamespaceDefault, config: config, client: client}
	s.served()

	for name, test := range map[string]struct {
		version, fields, pair string
		runs                  bool
	}{
		"new":           {"v1beta1", ``, "Running ", true},
		"new-suspended": {"v1beta1", `operatingMode: Suspended,`, "Suspended ", false},
		"old":           {"v1alpha1", ``, "Running 1", true},
		"old-none":      {"v1alpha1", `replicas: 0,`, "Running 0", false},
	} {
		s.create("Sandbox", test.version, name, `{`+test.fields+` podTemplate: `+pod+`}`)
		read := s.get("Sandbox", "v1beta1", name)
		if pair(read) != test.pair || running(t, read) != test.runs {
			t.Errorf("%s: it is %q, running %v", name, pair(read), running(t, read))
		}
	}

	if got := pair(s.patch("Sandbox", "v1beta1", "old", `{spec: {operatingMode: Suspended}}`)); got != "Suspended 1" {
		t.Errorf("old, suspended: it is %q", got)
	}
	if running(t, s.get("Sandbox", "v1beta1", "old")) {
		t.Error("old, suspended: it runs")
	}
	s.patch("Sandbox", "v1beta1", "old", `{spec: {replicas: 0}}`)
	_, err = s.tryPatch("Sandbox", "v1beta1", "old", `{spec: {operatingMode: Running}}`)
	refused(t, err, "operatingMode cannot become Running while replicas is 0: the Sandbox would not run; set spec.replicas to 1 as well")
	_, err = s.tryPatch("Sandbox", "v1alpha1", "old", `{spec: {replicas: 1}}`)
	refused(t, err, "replicas cannot be raised while operatingMode is Suspended: the Sandbox would not run; set spec.operatingMode to Running as well")
	if !running(t, s.patch("Sandbox", "v1beta1", "old", `{spec: {operatingMode: Running, replicas: 1}}`)) {
		t.Error("old, with both fields on: it does not run")
	}
	_, err = s.resource("Sandbox", "v1alpha1").Update(t.Context(),
		knows(t, s.get("Sandbox", "v1alpha1", "new-suspended"), "v1alpha1"), metav1.UpdateOptions{})
	refused(t, err, "operatingMode is Suspended and left out of this write, which would start the Sandbox; send Suspended to keep it so, or Running")
	_, err = s.tryCreate("SandboxWarmPool", "v1beta1", "pool", `{sandboxTemplateRef: {name: t}, updateStrategy: Recreate}`)
	refused(t, err, "spec.updateStrategy")

	// Now the policies arrive. A write at v1alpha1 comes with replicas: 1
	// filled in, which its client did not say.
	if err := deploy.Install(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ name, version, patch, want string }{
		{"new", "v1alpha1", `{metadata: {labels: {a: b}}}`, on},
		{"new-suspended", "v1alpha1", `{metadata: {labels: {a: b}}}`, off},
		{"new-suspended", "v1alpha1", `{spec: {replicas: 1}}`, on},
		{"old-none", "v1beta1", `{metadata: {labels: {a: b}}}`, "Running 0"},
		{"old-none", "v1beta1", `{spec: {replicas: 1}}`, on},
	} {
		if got := pair(s.patch("Sandbox", step.version, step.name, step.patch)); got != step.want {
			t.Errorf("%s after %s at %s: it is %q, want %q", step.name, step.patch, step.version, got, step.want)
		}
	}
}

// served waits until creations are accepted, which is a little after the
// definitions say that they are served.
func (s *space) served() {
	s.t.Helper()
	err := wait.PollUntilContextCancel(s.t.Context(), 50*time.Millisecond, true, func(_ context.Context) (bool, error) {
		for kind, version := range map[string]string{"Sandbox": "v1alpha1", "SandboxWarmPool": "v1beta1"} {
			_, err := s.resource(kind, version).List(s.t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
