// SPDX-License-Identifier: Apache-2.0

package control

import (
	"regexp"
	"unicode/utf8"
)

const (
	// longestMessage is how many bytes of a condition's message are kept. A server
	// takes 32768 characters and refuses a status with more; a person reads fewer.
	longestMessage = 4096
	// longestNote is how many bytes an event's note may have; see the API of events.
	longestNote = 1024
	// longestReason is how many characters a condition's reason may have.
	longestReason = 1024
)

// Message is text as the message of a condition. What a server says of a refusal can
// be of any length, and a status with too long a message would be refused itself.
func Message(text string) string { return cut(text, longestMessage) }

// Note is text as the note of an event.
func Note(text string) string { return cut(text, longestNote) }

// cut cuts text to at most so many bytes, between characters.
func cut(text string, most int) string {
	const more = "..."
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// reasons is what a condition's reason must look like; see metav1.Condition.
var reasons = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// IsReason reports whether a condition may have the reason. Those of pods are not held
// to that.
func IsReason(reason string) bool { return len(reason) <= longestReason && reasons.MatchString(reason) }
