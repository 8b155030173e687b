// SPDX-License-Identifier: Apache-2.0

package managertest

import (
	"context"
	"errors"
	"net/http"
)

var errCut = errors.New("the process was killed")

// line is the wire between a manager and the server. It can be cut.
type line struct {
	alive context.Context
	cut   context.CancelFunc
}

func newLine() *line {
	alive, cut := context.WithCancel(context.Background())
	return &line{alive: alive, cut: cut}
}

func (l *line) wrap(next http.RoundTripper) http.RoundTripper { return &lineEnd{line: l, next: next} }

// lineEnd is a transport over a line.
type lineEnd struct {
	line *line
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (e *lineEnd) RoundTrip(request *http.Request) (*http.Response, error) {
	if e.line.alive.Err() != nil {
		return nil, errCut
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	hearing := context.AfterFunc(e.line.alive, func() { cancel(errCut) })
	context.AfterFunc(request.Context(), func() { hearing() })
	response, err := e.next.RoundTrip(request.WithContext(ctx))
	if e.line.alive.Err() != nil { // a reply that came meanwhile is not heard
		return nil, errCut
	}
	return response, err
}
