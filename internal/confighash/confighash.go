// SPDX-License-Identifier: Apache-2.0

// Package confighash computes the hash of the configuration that agent workloads of a
// namespace have. Its values are an interface: other operators of the same API, and
// tools that create workloads, have to compute the same.
//
// What cannot be read is an error and never nothing: a hash over less than there is
// would replace every pod.
package confighash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

// Source is where ConfigMaps are read from.
type Source interface {
	// ConfigMap returns nil if there is none of that name.
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	// Defaults returns the namespace's ConfigMaps that are labelled as its defaults, in
	// any order.
	Defaults(ctx context.Context, namespace string) ([]*corev1.ConfigMap, error)
}

// Config is what the hash covers. The order of its fields, and that absent ones are left
// out, are part of the hash.
type Config struct {
	// FeatureGates are the cluster's, which a namespace cannot override.
	FeatureGates map[string]string `json:"featureGates,omitempty"`
	// Defaults are the cluster's, overlaid with the namespace's key by key.
	Defaults map[string]string `json:"defaults,omitempty"`
	// AuthBridgeRuntime is the namespace's configuration of sidecars.
	AuthBridgeRuntime string `json:"authBridgeRuntime,omitempty"`
	// SPIFFEHelper is the namespace's configuration of SPIFFE helpers.
	SPIFFEHelper string `json:"spiffeHelperConfig,omitempty"`
}

// Result is the configuration of a namespace.
type Result struct {
	Config Config
	// Hash is 64 hexadecimal digits.
	Hash string
	// Warnings say what in the configuration is doubtful.
	Warnings []string
}

// Of reads the configuration of a namespace and returns it with its hash. Any error of
// the source is returned, and then there is no result.
func Of(ctx context.Context, source Source, operatorNamespace, namespace string) (Result, error) {
	r := reader{ctx: ctx, source: source}
	gates := r.data(operatorNamespace, api.ConfigMapFeatureGates)
	platform := r.data(operatorNamespace, api.ConfigMapPlatform)
	own, warnings := r.defaults(namespace)
	result := Result{
		Config: Config{
			FeatureGates:      gates,
			Defaults:          overlaid(platform, own),
			AuthBridgeRuntime: r.data(namespace, api.ConfigMapAuthBridgeRuntime)[api.ConfigMapAuthBridgeRuntimeKey],
			SPIFFEHelper:      r.data(namespace, api.ConfigMapSPIFFEHelper)[api.ConfigMapSPIFFEHelperKey],
		},
		Warnings: warnings,
	}
	if r.err != nil {
		return Result{}, r.err
	}
	var err error
	result.Hash, err = result.Config.Hash()
	return result, err
}

// Hash is the SHA-256 of the configuration as encoding/json writes it, in hexadecimal.
func (c Config) Hash() (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("hash the configuration: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// IsConfig reports whether a ConfigMap may be part of a configuration.
func IsConfig(name string, labels map[string]string) bool {
	return IsCluster(name) || IsNamespaced(name, labels)
}

// IsCluster reports whether a ConfigMap of that name, in the operator's namespace, is
// part of every namespace's configuration.
func IsCluster(name string) bool {
	return name == api.ConfigMapPlatform || name == api.ConfigMapFeatureGates
}

// IsNamespaced reports whether a ConfigMap is part of its own namespace's configuration.
func IsNamespaced(name string, labels map[string]string) bool {
	return name == api.ConfigMapAuthBridgeRuntime || name == api.ConfigMapSPIFFEHelper || labels[api.LabelDefaults] == api.DefaultsTrue
}

// reader reads until something fails.
type reader struct {
	ctx    context.Context
	source Source
	err    error
}

func (r *reader) data(namespace, name string) map[string]string {
	if r.err != nil {
		return nil
	}
	found, err := r.source.ConfigMap(r.ctx, namespace, name)
	if err != nil {
		r.err = fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
		return nil
	}
	if found == nil {
		return nil
	}
	return found.Data
}

// defaults returns the namespace's own: the first by name, which is the order a server
// lists them in.
func (r *reader) defaults(namespace string) (map[string]string, []string) {
	if r.err != nil {
		return nil, nil
	}
	found, err := r.source.Defaults(r.ctx, namespace)
	if err != nil {
		r.err = fmt.Errorf("list the ConfigMaps labelled %s=%s in %s: %w", api.LabelDefaults, api.DefaultsTrue, namespace, err)
		return nil, nil
	}
	if len(found) == 0 {
		return nil, nil
	}
	found = slices.SortedFunc(slices.Values(found), func(a, b *corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	if len(found) == 1 {
		return found[0].Data, nil
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Name
	}
	return found[0].Data, []string{fmt.Sprintf("%d ConfigMaps are labelled %s=%s, and only %q counts: %s",
		len(found), api.LabelDefaults, api.DefaultsTrue, names[0], strings.Join(names, ", "))}
}

func overlaid(below, above map[string]string) map[string]string {
	merged := maps.Clone(below)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, above)
	return merged
}
