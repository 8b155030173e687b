// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const conditions = `[
	{type: Ready, status: "True", reason: DependenciesReady, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"},
	{type: Suspended, status: "False", reason: NotSuspended, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]`

func TestStatusIsWrittenThroughItsSubresourceOnly(t *testing.T) {
	s := newSpace(t)
	s.create("Sandbox", "v1beta1", "s", aSandbox)
	s.create("SandboxWarmPool", "v1beta1", "s", `{sandboxTemplateRef: {name: t}}`)
	s.create("SandboxClaim", "v1beta1", "s", `{warmPoolRef: {name: p}}`)
	for _, test := range []struct{ kind, status string }{
		{"Sandbox", `{service: s, serviceFQDN: s.n.svc, selector: a=b, podIPs: [1.2.3.4], nodeName: node, observedGeneration: 1, replicas: 1,
			currentRevision: a-1, updateRevision: a-2, podFailures: {count: 1, lastFailureTime: "2026-01-01T00:00:00Z"}, conditions: ` + conditions + `}`},
		{"SandboxWarmPool", `{replicas: 3, readyReplicas: 2, updatedReplicas: 1, selector: a=b, observedGeneration: 1, conditions: ` + conditions + `}`},
		{"SandboxClaim", `{sandbox: {name: s, uid: u, podIPs: [1.2.3.4]}, conditions: ` + conditions + `}`},
	} {
		want, err := json.Marshal(parse(test.status))
		if err != nil {
			t.Fatal(err)
		}
		if got := at(s.patch(test.kind, "v1beta1", "s", `{status: `+test.status+`}`), "status"); got != "" {
			t.Errorf("%s: a write to the object changed its status to %s", test.kind, got)
		}
		before := s.get(test.kind, "v1beta1", "s")
		after := s.patch(test.kind, "v1beta1", "s", `{status: `+test.status+`, spec: {shutdownTime: "2030-01-01T00:00:00Z", replicas: 0}}`, "status")
		if got := at(after, "status"); got != string(want) {
			t.Errorf("%s: status is\n%s, want\n%s", test.kind, got, want)
		}
		if at(after, "spec") != at(before, "spec") || after.GetGeneration() != before.GetGeneration() {
			t.Errorf("%s: a write to the status changed the spec", test.kind)
		}
		if got := at(s.get(test.kind, "v1alpha1", "s"), "status"); got != string(want) {
			t.Errorf("%s: at v1alpha1 the status is %s", test.kind, got)
		}
	}
}

func TestThereIsOneConditionOfAType(t *testing.T) {
	s := newSpace(t)
	s.create("Sandbox", "v1beta1", "s", aSandbox)
	_, err := s.tryPatch("Sandbox", "v1beta1", "s", `{status: {conditions: [
		{type: Ready, status: "True", reason: A, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"},
		{type: Ready, status: "False", reason: B, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`, "status")
	refused(t, err, "Duplicate value")
}

func TestColumns(t *testing.T) {
	s := newSpace(t)
	s.create("Sandbox", "v1beta1", "s", aSandbox)
	s.patch("Sandbox", "v1beta1", "s", `{status: {conditions: `+conditions+`}}`, "status")
	s.create("SandboxTemplate", "v1beta1", "s", aSandbox)
	s.create("SandboxWarmPool", "v1beta1", "s", `{sandboxTemplateRef: {name: t}, replicas: 3}`)
	s.patch("SandboxWarmPool", "v1beta1", "s", `{status: {readyReplicas: 2}}`, "status")
	s.create("SandboxClaim", "v1beta1", "s", `{warmPoolRef: {name: p}}`)
	s.patch("SandboxClaim", "v1beta1", "s", `{status: {sandbox: {name: bound}, conditions: `+conditions+`}}`, "status")
	for _, test := range []struct {
		kind, version string
		columns       []string
		cells         []string // without the age
	}{
		{"Sandbox", "v1beta1", []string{"Name", "Ready", "Reason", "Age"}, []string{"s", "True", "DependenciesReady"}},
		{"Sandbox", "v1alpha1", []string{"Name", "Age"}, []string{"s"}},
		{"SandboxTemplate", "v1beta1", []string{"Name", "Age"}, []string{"s"}},
		{"SandboxTemplate", "v1alpha1", []string{"Name", "Age"}, []string{"s"}},
		{"SandboxWarmPool", "v1beta1", []string{"Name", "Ready", "Desired", "Age"}, []string{"s", "2", "3"}},
		{"SandboxWarmPool", "v1alpha1", []string{"Name", "Ready", "Desired", "Age"}, []string{"s", "2", "3"}},
		{"SandboxClaim", "v1beta1", []string{"Name", "Ready", "Sandbox", "Reason", "Age"}, []string{"s", "True", "bound", "DependenciesReady"}},
		{"SandboxClaim", "v1alpha1", []string{"Name", "Age"}, []string{"s"}},
	} {
		t.Run(test.kind+" at "+test.version, func(t *testing.T) {
			table := s.table(test.kind, test.version)
			var columns, cells []string
			for i, column := range table.ColumnDefinitions {
				columns = append(columns, column.Name)
				if column.Name != "Age" {
					cells = append(cells, fmt.Sprint(table.Rows[0].Cells[i]))
				}
			}
			if !slices.Equal(columns, test.columns) {
				t.Errorf("columns are %v, want %v", columns, test.columns)
			}
			if !slices.Equal(cells, test.cells) {
				t.Errorf("cells are %v, want %v", cells, test.cells)
			}
		})
	}
}

// table gives the server's own rendering of the objects of a kind, as kubectl get shows it.
func (s *space) table(kind, version string) *metav1.Table {
	s.t.Helper()
	client, err := rest.UnversionedRESTClientFor(unversioned(s.config))
	if err != nil {
		s.t.Fatal(err)
	}
	group := object(kind, version, "x", `{}`).GroupVersionKind().Group
	raw, err := client.Get().AbsPath("/apis", group, version, "namespaces", s.name, plurals[kind]).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(raw, table); err != nil {
		s.t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		s.t.Fatalf("the table has %d rows, want 1", len(table.Rows))
	}
	return table
}

func TestShortNames(t *testing.T) {
	s := newSpace(t)
	for kind, want := range map[string]string{
		"Sandbox": "sandbox", "SandboxTemplate": "sandboxtemplate", "SandboxWarmPool": "swp", "SandboxClaim": "sandboxclaim",
	} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			resources := s.discover(object(kind, version, "x", `{}`).GroupVersionKind().GroupVersion().String())
			i := slices.IndexFunc(resources, func(r metav1.APIResource) bool { return r.Name == plurals[kind] })
			if i < 0 || !slices.Equal(resources[i].ShortNames, []string{want}) || !resources[i].Namespaced {
				t.Errorf("%s at %s: %+v", kind, version, resources)
			}
		}
	}
}

func TestSubresources(t *testing.T) {
	s := newSpace(t)
	for kind, want := range map[string][]string{
		"Sandbox":         {"sandboxes", "sandboxes/scale", "sandboxes/status"},
		"SandboxTemplate": {"sandboxtemplates"},
		"SandboxWarmPool": {"sandboxwarmpools", "sandboxwarmpools/scale", "sandboxwarmpools/status"},
		"SandboxClaim":    {"sandboxclaims", "sandboxclaims/status"},
	} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			var got []string
			for _, r := range s.discover(object(kind, version, "x", `{}`).GroupVersionKind().GroupVersion().String()) {
				if r.Name == plurals[kind] || len(r.Name) > len(plurals[kind]) && r.Name[:len(plurals[kind])+1] == plurals[kind]+"/" {
					got = append(got, r.Name)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s at %s has %v, want %v", kind, version, got, want)
			}
		}
	}
}
