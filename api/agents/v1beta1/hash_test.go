// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "testing"

func TestNameHash(t *testing.T) {
	for text, want := range map[string]string{
		"":              "811c9dc5",
		"a":             "e40c292c",
		"hello":         "4f9f2cab",
		"my-sandbox":    "374de8f5",
		"test-template": "69155462",
	} {
		if got := NameHash(text); got != want {
			t.Errorf("NameHash(%q) = %q, want %q", text, got, want)
		}
	}
}

// A hash with leading zeros must keep all 8 digits, or the label would not
// match what other programs compute.
func TestNameHashKeepsLeadingZeros(t *testing.T) {
	for i := range 100_000 {
		text := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + string(rune('a'+i/17576))
		hash := NameHash(text)
		if len(hash) != 8 {
			t.Fatalf("NameHash(%q) = %q, want 8 digits", text, hash)
		}
		if hash[0] == '0' {
			return
		}
	}
	t.Fatal("no text with a leading zero was tried")
}
