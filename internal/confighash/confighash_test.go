// SPDX-License-Identifier: Apache-2.0

package confighash_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
)

const operator, team = "rossoctl-system", "team"

// shelf is a source of ConfigMaps, by namespace and name.
type shelf struct {
	maps   map[string]*corev1.ConfigMap
	broken string // the read that fails: a name, or "defaults"
}

var errBroken = errors.New("the server is busy")

func (s shelf) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	if s.broken == name {
		return nil, errBroken
	}
	return s.maps[namespace+"/"+name], nil
}

func (s shelf) Defaults(_ context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	if s.broken == "defaults" {
		return nil, errBroken
	}
	var found []*corev1.ConfigMap
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(s.maps))) {
		if m := s.maps[key]; m.Namespace == namespace && m.Labels[api.LabelDefaults] == api.DefaultsTrue {
			found = append(found, m)
		}
	}
	return found, nil
}

func shelved(all ...*corev1.ConfigMap) shelf {
	s := shelf{maps: map[string]*corev1.ConfigMap{}}
	for _, m := range all {
		s.maps[m.Namespace+"/"+m.Name] = m
	}
	return s
}

func configMap(namespace, name string, data ...string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

func defaults(name string, data ...string) *corev1.ConfigMap {
	m := configMap(team, name, data...)
	m.Labels = map[string]string{api.LabelDefaults: api.DefaultsTrue}
	return m
}

func TestTheHashIsWhatEveryOperatorOfThisAPIComputes(t *testing.T) {
	for name, test := range map[string]struct {
		source shelf
		want   string
	}{
		"nothing found": {shelved(), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
		"feature gates alone": {
			shelved(configMap(operator, api.ConfigMapFeatureGates, "globalEnabled", "true")),
			"fd18f53204ac57cbc882fe5470037bda990291212a217a4db0275124f60ed3b7",
		},
		"the namespace's defaults override the cluster's key by key": {
			shelved(
				configMap(operator, api.ConfigMapFeatureGates, "globalEnabled", "true", "injectTools", "false"),
				configMap(operator, api.ConfigMapPlatform, "cluster-only-key", "cluster-value", "otel-endpoint", "cluster-collector:4317"),
				defaults("mine", "otel-endpoint", "ns-collector:4317"),
			),
			"40e6f4fe0b6c02b89f8d501bdba95e171c26173723d27b0cefd91841ab58abbf",
		},
		"a namespace's runtime configuration": {
			shelved(defaults("mine", "sampling-rate", "0.1"), configMap(team, api.ConfigMapAuthBridgeRuntime, "config.yaml", "mode: proxy-sidecar\n")),
			"05dadca799e039814f0a753bb138ffe7d5d217415ccbcceb66a32cbb84a5a237",
		},
		"maps without data are as good as none": {
			shelved(configMap(operator, api.ConfigMapPlatform), configMap(team, api.ConfigMapAuthBridgeRuntime, "other", "x")),
			"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		},
		"the same names in other namespaces do not count": {
			shelved(
				configMap(team, api.ConfigMapFeatureGates, "globalEnabled", "false"), configMap(team, api.ConfigMapPlatform, "a", "b"),
				configMap("other", api.ConfigMapAuthBridgeRuntime, "config.yaml", "mode: lite"),
				configMap(operator, api.ConfigMapAuthBridgeRuntime, "config.yaml", "mode: lite"),
			),
			"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := confighash.Of(t.Context(), test.source, operator, team)
			if err != nil || got.Hash != test.want {
				t.Errorf("the hash is %s, want %s (%v)", got.Hash, test.want, err)
			}
		})
	}
}

func TestTheSPIFFEHelpersConfigurationIsPartOfTheHash(t *testing.T) {
	got, err := confighash.Of(t.Context(), shelved(configMap(team, api.ConfigMapSPIFFEHelper, "helper.conf", "agent_address = x")), operator, team)
	if err != nil || got.Config.SPIFFEHelper == "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	without, _ := confighash.Config{}.Hash()
	if got.Hash == without {
		t.Error("it does not move the hash")
	}
}

func TestAReadErrorIsNoHash(t *testing.T) {
	for _, broken := range []string{
		api.ConfigMapFeatureGates, api.ConfigMapPlatform, api.ConfigMapAuthBridgeRuntime, api.ConfigMapSPIFFEHelper, "defaults",
	} {
		t.Run(broken, func(t *testing.T) {
			source := shelved(configMap(operator, api.ConfigMapFeatureGates, "globalEnabled", "true"))
			source.broken = broken
			got, err := confighash.Of(t.Context(), source, operator, team)
			if !errors.Is(err, errBroken) || got.Hash != "" {
				t.Errorf("got %q, %v", got.Hash, err)
			}
		})
	}
}

func TestOfSeveralDefaultsTheFirstByNameCountsAndAllAreNamed(t *testing.T) {
	got, err := confighash.Of(t.Context(), shelved(defaults("b", "k", "2"), defaults("a", "k", "1"), defaults("c", "k", "3")), operator, team)
	if err != nil || got.Config.Defaults["k"] != "1" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "a, b, c") {
		t.Errorf("the warnings are %q", got.Warnings)
	}
}
