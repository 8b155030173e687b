// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berthdev/berth/internal/control"
)

func TestLongWordsAreCutBetweenCharacters(t *testing.T) {
	for name, text := range map[string]string{
		"letters":    strings.Repeat("a", 40_000),
		"characters": "a" + strings.Repeat("ä", 20_000),
		"symbols":    strings.Repeat("船", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			for what, got := range map[string]string{"message": control.Message(text), "note": control.Note(text)} {
				most := map[string]int{"message": 4096, "note": 1024}[what]
				if len(got) > most || len(got) < most-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
					t.Errorf("the %s has %d bytes and ends in %q", what, len(got), got[len(got)-8:])
				}
			}
		})
	}
	if got := control.Message("short"); got != "short" {
		t.Errorf("a short message became %q", got)
	}
}

func TestOnlyWordsAreReasons(t *testing.T) {
	for reason, want := range map[string]bool{
		"Unschedulable": true, "a": true, "Waiting_for:1,2": true,
		"": false, "no nodes": false, "Not-Enough": false, "1st": false, "Ends:": false, "Zu_groß": false,
		strings.Repeat("a", 1024): true, strings.Repeat("a", 1025): false,
	} {
		if got := control.IsReason(reason); got != want {
			t.Errorf("IsReason(%.20q) = %t, want %t", reason, got, want)
		}
	}
}
