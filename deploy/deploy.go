// SPDX-License-Identifier: Apache-2.0

// Package deploy holds the manifests that a cluster needs before the controller
// can run: the custom resource definitions and the admission policies.
package deploy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Manifests are the files of crds and policies.
//
//go:embed crds/*.yaml policies/*.yaml
var Manifests embed.FS

// CRDs gives the custom resource definitions.
func CRDs() ([]*unstructured.Unstructured, error) { return read("crds") }

// Policies gives the admission policies and their bindings. Servers older than
// 1.36 do not have these kinds.
func Policies() ([]*unstructured.Unstructured, error) { return read("policies") }

func read(directory string) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(Manifests, directory+"/*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		raw, err := Manifests.ReadFile(file)
		if err != nil {
			return nil, err
		}
		in, err := Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, in...)
	}
	return objects, nil
}

// Decode gives the objects in a YAML file of one or more documents.
func Decode(raw []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}
