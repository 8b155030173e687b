// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestThePageTellsEveryScenarioInItsOrder(t *testing.T) {
	page, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	var told, all []string
	for _, found := range regexp.MustCompile("(?m)^## .*`make scenario NAME=([a-z-]+)`$").FindAllSubmatch(page, -1) {
		told = append(told, string(found[1]))
	}
	for _, s := range scenarios() {
		all = append(all, s.name)
	}
	if !slices.Equal(told, all) {
		t.Errorf("docs/scenarios.md tells %v, and the scenarios are %v", told, all)
	}
}
