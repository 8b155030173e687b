// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// render gives the definition as YAML. Fields of the Kubernetes project's own
// types stand on one line each, which halves the file: nobody reads them here.
func render(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	raw, err := json.Marshal(crd)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	delete(object, "status") // it is the server's

	var document yaml.Node
	if err := document.Encode(object); err != nil {
		return nil, err
	}
	spec := child(&document, "spec")
	for _, version := range child(spec, "versions").Content {
		root := child(child(version, "schema"), "openAPIV3Schema")
		for _, path := range foreign {
			narrow(descend(root, path))
		}
	}

	out := bytes.NewBufferString(header)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// descend finds the schema of a field, or nil where the kind has no such field.
func descend(at *yaml.Node, path []string) *yaml.Node {
	for _, name := range path {
		if name == "[]" {
			at = child(at, "items")
			continue
		}
		at = child(child(at, "properties"), name)
	}
	return at
}

// narrow puts each property of a schema, and the schema of its items, on one line.
func narrow(at *yaml.Node) {
	if items := child(at, "items"); items != nil {
		items.Style = yaml.FlowStyle
	}
	if properties := child(at, "properties"); properties != nil {
		for i := 1; i < len(properties.Content); i += 2 {
			properties.Content[i].Style = yaml.FlowStyle
		}
	}
}

// child gives the value under a key of a mapping, or nil.
func child(at *yaml.Node, key string) *yaml.Node {
	if at == nil || at.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value == key {
			return at.Content[i+1]
		}
	}
	return nil
}

// parse reads a definition as strictly as the API server does.
func parse(raw []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.DisallowUnknownFields()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := decoder.Decode(crd); err != nil {
		return nil, fmt.Errorf("not a definition: %w", err)
	}
	return crd, nil
}
