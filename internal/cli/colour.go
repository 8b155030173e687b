// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"strings"
)

// colour is a terminal's code for one.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	grey   colour = "90"
)

// colourful says whether a stream gets colours: a terminal, unless the person wants none
// (https://no-color.org).
func colourful(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// paint colours a text where the stream gets colours.
func (p *program) paint(out io.Writer, c colour, text string) string {
	if !colourful(out) {
		return text
	}
	return painted(c, text)
}

func painted(c colour, text string) string {
	if c == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// stateColour is a state's colour, or "" for those that have none.
func stateColour(state string) colour {
	switch state {
	case stateReady:
		return green
	case stateFailed, stateLost:
		return red
	case stateWaiting, stateNotReady:
		return yellow
	case stateSuspended, stateFinished, stateExpired, stateDeleting:
		return grey
	}
	return ""
}

// paintColumn colours the words of one column in the lines of a table, whose first line is its headers.
func paintColumn(lines []string, header string, of func(word string) colour) {
	if len(lines) == 0 {
		return
	}
	at := strings.Index(lines[0], header+" ")
	if at < 0 {
		return
	}
	for i, line := range lines[1:] {
		if len(line) < at {
			continue
		}
		word, _, _ := strings.Cut(line[at:], " ")
		lines[i+1] = line[:at] + painted(of(word), word) + line[at+len(word):]
	}
}
