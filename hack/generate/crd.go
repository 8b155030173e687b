// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	storageVersion = "v1beta1"
	oldVersion     = "v1alpha1"
)

type schema = apiextensionsv1.JSONSchemaProps

// foreign are the fields of the Kubernetes project's own types. Their
// descriptions are dropped: they are most of the size of a definition, and
// "kubectl explain pod" has them.
var foreign = [][]string{
	{"apiVersion"},
	{"kind"},
	{"spec", "podTemplate", "spec"},
	{"spec", "volumeClaimTemplates", "[]", "spec"},
	{"spec", "networkPolicy", "ingress"},
	{"spec", "networkPolicy", "egress"},
	{"status", "conditions", "[]"},
}

// oldVersions says, for each kind that is served at v1alpha1 too, in what that
// version differs from v1beta1. The schema is otherwise the same: it holds the
// fields of both.
var oldVersions = map[string]func(*apiextensionsv1.CustomResourceDefinitionVersion) error{
	"Sandbox": func(v *apiextensionsv1.CustomResourceDefinitionVersion) error {
		v.AdditionalPrinterColumns = nil
		mode, err := field(v, "spec", "operatingMode")
		if err != nil {
			return err
		}
		// A client of this version does not send operatingMode, and must not
		// be taken to have said Running.
		mode.Default = nil
		if err := setField(v, mode, "spec", "operatingMode"); err != nil {
			return err
		}
		return setDefault(v, "1", "spec", "replicas")
	},
	"SandboxTemplate": func(*apiextensionsv1.CustomResourceDefinitionVersion) error { return nil },
	"SandboxWarmPool": func(v *apiextensionsv1.CustomResourceDefinitionVersion) error {
		spec, err := field(v, "spec")
		if err != nil {
			return err
		}
		spec.Required = append(spec.Required, "replicas")
		slices.Sort(spec.Required)
		if err := setField(v, spec, "spec"); err != nil {
			return err
		}
		replicas, err := field(v, "spec", "replicas")
		if err != nil {
			return err
		}
		replicas.Default = nil
		return setField(v, replicas, "spec", "replicas")
	},
	"SandboxClaim": func(v *apiextensionsv1.CustomResourceDefinitionVersion) error {
		v.AdditionalPrinterColumns = nil
		return setDefault(v, `"default"`, "spec", "warmpool")
	},
}

// finish drops what is not ours to say, refuses what no client could read, and adds
// the version v1alpha1 where the kind has one.
func finish(crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		dropForeignDescriptions(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, nil)
		walk(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, nil, keepReadable)
	}
	change, ok := oldVersions[crd.Spec.Names.Kind]
	if !ok {
		return nil
	}
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != storageVersion {
		return fmt.Errorf("want version %s and no other", storageVersion)
	}
	old := crd.Spec.Versions[0].DeepCopy()
	old.Name = oldVersion
	old.Storage = false
	old.Deprecated = true
	warning := fmt.Sprintf("%s/%s %s is deprecated; use %s/%s %s instead",
		crd.Spec.Group, oldVersion, crd.Spec.Names.Kind, crd.Spec.Group, storageVersion, crd.Spec.Names.Kind)
	old.DeprecationWarning = &warning
	if err := change(old); err != nil {
		return err
	}
	crd.Spec.Versions = append(crd.Spec.Versions, *old)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	return nil
}

// field gives the schema of a field. It is a copy: see setField.
func field(v *apiextensionsv1.CustomResourceDefinitionVersion, path ...string) (schema, error) {
	at := *v.Schema.OpenAPIV3Schema
	for _, name := range path {
		next, ok := at.Properties[name]
		if !ok {
			return schema{}, fmt.Errorf("no field %v", path)
		}
		at = next
	}
	return at, nil
}

// setField replaces the schema of a field.
func setField(v *apiextensionsv1.CustomResourceDefinitionVersion, to schema, path ...string) error {
	parent := v.Schema.OpenAPIV3Schema
	if len(path) > 1 {
		at, err := field(v, path[:len(path)-1]...)
		if err != nil {
			return err
		}
		parent = &at
	}
	// Properties is a map, which the copy shares with the original.
	parent.Properties[path[len(path)-1]] = to
	return nil
}

func setDefault(v *apiextensionsv1.CustomResourceDefinitionVersion, value string, path ...string) error {
	at, err := field(v, path...)
	if err != nil {
		return err
	}
	at.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
	return setField(v, at, path...)
}

// dropForeignDescriptions removes the descriptions below every foreign field.
// That field's own description stays, since it is ours, except on a list's
// items and on the fields that every object has.
func dropForeignDescriptions(at *schema, path []string) {
	walk(at, path, func(at *schema, path []string) {
		for _, f := range foreign {
			switch {
			case len(path) > len(f) && slices.Equal(path[:len(f)], f),
				slices.Equal(path, f) && (len(f) == 1 || f[len(f)-1] == "[]"):
				at.Description = ""
			}
		}
	})
}

// walk visits a schema and all below it, children first. The path of a list's
// items ends in "[]", that of a map's values in "{}".
func walk(at *schema, path []string, visit func(*schema, []string)) {
	for name := range at.Properties {
		child := at.Properties[name]
		walk(&child, append(slices.Clone(path), name), visit)
		at.Properties[name] = child
	}
	if at.Items != nil && at.Items.Schema != nil {
		walk(at.Items.Schema, append(slices.Clone(path), "[]"), visit)
	}
	if at.AdditionalProperties != nil && at.AdditionalProperties.Schema != nil {
		walk(at.AdditionalProperties.Schema, append(slices.Clone(path), "{}"), visit)
	}
	visit(at, path)
}
