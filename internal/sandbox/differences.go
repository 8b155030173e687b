// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// differences are the paths at which a pod's spec is not what the template's sets.
// What the template does not set is not looked at: the server, and whoever admits
// pods, add to them. Values are not told, which may be secret.
func differences(template, pod *corev1.PodSpec) []string {
	return differ("spec", canonical(*template), canonical(*pod))
}

func differ(path string, want, have any) []string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return []string{path}
		}
		var paths []string
		for _, key := range slices.Sorted(maps.Keys(want)) {
			paths = append(paths, differ(path+"."+key, want[key], have[key])...)
		}
		return paths
	case []any:
		have, ok := have.([]any)
		if !ok {
			return []string{path}
		}
		return differInList(path, want, have)
	default:
		if reflect.DeepEqual(want, have) {
			return nil
		}
		return []string{path}
	}
}

// differInList compares items by name where they have one, else by place.
func differInList(path string, want, have []any) []string {
	var paths []string
	for i, item := range want {
		at, other := fmt.Sprintf("%s[%d]", path, i), any(nil)
		if name := nameOf(item); name != "" {
			at = fmt.Sprintf("%s[%s]", path, name)
			if j := slices.IndexFunc(have, func(o any) bool { return nameOf(o) == name }); j >= 0 {
				other = have[j]
			}
		} else if i < len(have) {
			other = have[i]
		}
		paths = append(paths, differ(at, item, other)...)
	}
	return paths
}

func nameOf(item any) string {
	if fields, ok := item.(map[string]any); ok {
		name, _ := fields["name"].(string)
		return name
	}
	return ""
}
