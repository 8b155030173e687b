// SPDX-License-Identifier: Apache-2.0

package mergepatch

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The functions here read JSON that is known to be valid.

func trim(text []byte) []byte { return bytes.TrimSpace(text) }

// members calls do for each member of an object.
func members(text []byte, do func(key, value []byte) error) error {
	if text[0] != '{' {
		return fmt.Errorf("%s is no object", text)
	}
	for at := skipSpace(text, 1); text[at] != '}'; {
		end := skipValue(text, at)
		key, err := unquoted(text[at:end])
		if err != nil {
			return err
		}
		begin := skipSpace(text, skipSpace(text, end)+1) // after the colon
		end = skipValue(text, begin)
		if err := do(key, text[begin:end]); err != nil {
			return err
		}
		at = skipComma(text, end)
	}
	return nil
}

// items calls do for each item of a list.
func items(text []byte, do func(value []byte) error) error {
	for at := skipSpace(text, 1); text[at] != ']'; {
		end := skipValue(text, at)
		if err := do(text[at:end]); err != nil {
			return err
		}
		at = skipComma(text, end)
	}
	return nil
}

func unquoted(text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1], nil
	}
	var made string
	err := json.Unmarshal(text, &made)
	return []byte(made), err
}

func skipSpace(text []byte, at int) int {
	for text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r' {
		at++
	}
	return at
}

// skipComma returns where the next member or item begins, or the closing bracket is.
func skipComma(text []byte, at int) int {
	at = skipSpace(text, at)
	if text[at] == ',' {
		at = skipSpace(text, at+1)
	}
	return at
}

// skipValue returns where the value that begins at a place ends.
func skipValue(text []byte, at int) int {
	switch text[at] {
	case '"':
		return skipString(text, at)
	case '{', '[':
		for depth := 0; ; at++ {
			switch text[at] {
			case '"':
				at = skipString(text, at) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
		}
	}
	for at < len(text) && bytes.IndexByte([]byte(",]} \n\t\r"), text[at]) < 0 {
		at++
	}
	return at
}

func skipString(text []byte, at int) int {
	for at++; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at + 1
}
