// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
)

// profiles are the handlers that the flags ask for, by path. They show what is in
// memory, so none is served by default.
func (s *settings) profiles() map[string]http.Handler {
	handlers := map[string]http.Handler{}
	if s.profile || s.profileDebug {
		handlers["/debug/pprof/profile"] = http.HandlerFunc(pprof.Profile)
	}
	if !s.profileDebug {
		return handlers
	}
	runtime.SetBlockProfileRate(s.blockProfileRate)
	runtime.SetMutexProfileFraction(s.mutexProfileShare)
	handlers["/debug/pprof/"] = http.HandlerFunc(pprof.Index) // the named profiles too
	handlers["/debug/pprof/cmdline"] = http.HandlerFunc(pprof.Cmdline)
	handlers["/debug/pprof/symbol"] = http.HandlerFunc(pprof.Symbol)
	handlers["/debug/pprof/trace"] = http.HandlerFunc(pprof.Trace)
	return handlers
}
