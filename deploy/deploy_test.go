// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/deploy"
)

// A client-side apply keeps a copy of the manifest in an annotation, and all
// annotations of an object together may have 256 KiB.
const sizeLimit = 200_000

func TestDefinitionsAreSmallEnoughForClientSideApply(t *testing.T) {
	files, err := fs.Glob(deploy.Manifests, "crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions found: %v", err)
	}
	for _, file := range files {
		raw, err := deploy.Manifests.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) >= sizeLimit {
			t.Errorf("%s has %d bytes, want fewer than %d", file, len(raw), sizeLimit)
		}
		objects, err := deploy.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			asJSON, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if len(asJSON) >= sizeLimit {
				t.Errorf("%s has %d bytes as JSON, want fewer than %d", file, len(asJSON), sizeLimit)
			}
		}
	}
}

func TestEverySandboxKindIsStoredAtV1beta1AndServedAtV1alpha1(t *testing.T) {
	for kind, crd := range definitions(t) {
		if kind == "AgentRuntime" {
			continue // it has one version
		}
		if len(crd.Spec.Versions) != 2 {
			t.Errorf("%s has %d versions, want 2", kind, len(crd.Spec.Versions))
			continue
		}
		now, old := crd.Spec.Versions[0], crd.Spec.Versions[1]
		if now.Name != "v1beta1" || !now.Served || !now.Storage || now.Deprecated {
			t.Errorf("%s: first version is %+v", kind, now.Name)
		}
		if old.Name != "v1alpha1" || !old.Served || old.Storage || !old.Deprecated {
			t.Errorf("%s: second version is %+v", kind, old.Name)
		}
		group := crd.Spec.Group
		want := group + "/v1alpha1 " + kind + " is deprecated; use " + group + "/v1beta1 " + kind + " instead"
		if old.DeprecationWarning == nil || *old.DeprecationWarning != want {
			t.Errorf("%s: deprecation warning is %v, want %q", kind, old.DeprecationWarning, want)
		}
		if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
			t.Errorf("%s: conversion is %v, want None", kind, crd.Spec.Conversion)
		}
	}
}

// The versions share one schema: a field that only one of them had would be
// dropped by a write at the other.
func TestBothVersionsHaveTheSameFields(t *testing.T) {
	for kind, crd := range definitions(t) {
		if kind == "AgentRuntime" {
			continue // it has one version
		}
		var fields [2][]string
		for i := range crd.Spec.Versions {
			fields[i] = fieldsOf("", crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
			if len(fields[i]) < 5 {
				t.Fatalf("%s: found fields %v", kind, fields[i])
			}
		}
		if a, b := sorted(fields[0]), sorted(fields[1]); a != b {
			t.Errorf("%s: fields differ between its versions", kind)
		}
	}
}

func TestOwnFieldsAreDescribedAndKubernetesOwnAreNot(t *testing.T) {
	spec := definitions(t)["Sandbox"].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for _, name := range []string{"replicas", "updateStrategy", "podFailureAction"} {
		if spec.Properties[name].Description == "" {
			t.Errorf("spec.%s has no description", name)
		}
	}
	pod := spec.Properties["podTemplate"].Properties["spec"]
	if got := pod.Properties["containers"].Description; got != "" {
		t.Errorf("a pod's containers are described: %q", got)
	}
	if got := pod.Properties["containers"].Items.Schema.Properties["image"].Description; got != "" {
		t.Errorf("a container's image is described: %q", got)
	}
}

func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	objects, err := deploy.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, object := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, crd, true); err != nil {
			t.Fatal(err)
		}
		byKind[crd.Spec.Names.Kind] = crd
	}
	for _, kind := range []string{"Sandbox", "SandboxTemplate", "SandboxWarmPool", "SandboxClaim", "AgentRuntime"} {
		if byKind[kind] == nil {
			t.Fatalf("no definition of %s", kind)
		}
	}
	return byKind
}

func fieldsOf(at string, schema *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	for name, child := range schema.Properties {
		path := at + "." + name
		found = append(append(found, path+":"+child.Type), fieldsOf(path, &child)...)
	}
	if schema.Items != nil {
		found = append(found, fieldsOf(at+"[]", schema.Items.Schema)...)
	}
	return found
}

func sorted(fields []string) string {
	set := map[string]bool{}
	for _, f := range fields {
		set[f] = true
	}
	raw, _ := json.Marshal(set) // keys come out in order
	return strings.TrimSpace(string(raw))
}
