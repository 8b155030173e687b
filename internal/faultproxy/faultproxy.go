// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between one client and an API server and makes trouble on the
// way: watches that fall behind or lose their place, slow requests, replies that never
// come, connections that break.
//
//	proxy, err := faultproxy.Start(config)
//	client := proxy.RESTConfig() // or proxy.WriteKubeconfig, for another process
//	proxy.HoldWatches("pods")    // the client does not hear of pods any more
//	proxy.ReleaseWatches("pods") // it hears of everything that happened meanwhile
//
// Faults concern the client of one proxy; each client that is to have its own gets a proxy
// of its own. Everything that a proxy does a network or a server may do, too: what the
// client sees keeps the contract of the Kubernetes API.
package faultproxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is a server on the loopback interface. Its methods may be called from several
// goroutines.
type Proxy struct {
	url         string
	certificate []byte // PEM
	token       string
	server      *http.Server
	connections connections
	upstream    *http.Transport
	faults      faults
}

// Start starts a proxy in front of the API server that a configuration names. It makes its
// requests with that configuration's credentials; a client may impersonate others if they
// may. Subresources that take a connection over, such as exec, work over WebSockets only.
func Start(config *rest.Config) (*Proxy, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true // what is compressed is the client's business
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	// A transport of its own: those of client-go are shared by all who use the same
	// configuration, and this client's troubles are not theirs.
	upstream := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true}
	transport, err := rest.HTTPWrappersForConfig(config, upstream)
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	own, certificate, err := newCertificate()
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	p := &Proxy{
		url: "https://" + listener.Addr().String(), certificate: certificate, token: rand.Text(), upstream: upstream,
	}
	p.faults.init()
	quiet := log.New(discard{}, "", 0) // broken connections are what it is for
	p.server = &http.Server{
		Handler:   p.handler(server, transport, quiet),
		ErrorLog:  quiet,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = p.server.ServeTLS(p.connections.of(listener), "", "") }() // ends with Close
	return p, nil
}

// Close ends the proxy and every connection of its client.
func (p *Proxy) Close() {
	_ = p.server.Close() // it has no error that its owner could do anything about
	p.upstream.CloseIdleConnections()
}

// RESTConfig is for the proxy's client, without a limit on requests. Each call returns a
// new one.
func (p *Proxy) RESTConfig() *rest.Config {
	return &rest.Config{Host: p.url, BearerToken: p.token, TLSClientConfig: rest.TLSClientConfig{CAData: p.certificate}, QPS: -1}
}

// WriteKubeconfig writes a kubeconfig for a client in another process, which acts as the
// user it impersonates, if any.
func (p *Proxy) WriteKubeconfig(file string, as rest.ImpersonationConfig) error {
	const name = "faultproxy"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: p.url, CertificateAuthorityData: p.certificate}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: p.token, Impersonate: as.UserName, ImpersonateUID: as.UID, ImpersonateGroups: as.Groups, ImpersonateUserExtra: as.Extra,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}

// CutConnections breaks every connection of the client. Requests under way may have been
// carried out.
func (p *Proxy) CutConnections() { p.connections.cut() }

type connectionKey struct{}

func (p *Proxy) handler(server *url.URL, transport http.RoundTripper, quiet *log.Logger) http.Handler {
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header.Del("Authorization")
		},
		ModifyResponse: p.faults.answered,
		ErrorHandler:   fail,
	}
	want := []byte("Bearer " + p.token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "this proxy is another client's", http.StatusUnauthorized)
			return
		}
		if err := p.faults.wait(r); err != nil {
			panic(http.ErrAbortHandler)
		}
		if p.faults.expires(w, r) {
			return
		}
		forward.ServeHTTP(w, r)
	})
}

// fail answers a request whose reply is lost, or that did not reach the server, by
// answering nothing. If the server is away its client's connections break.
func fail(_ http.ResponseWriter, r *http.Request, err error) {
	connection, ok := r.Context().Value(connectionKey{}).(net.Conn)
	if ok && r.Context().Err() == nil && !errors.Is(err, errReplyLost) {
		_ = connection.Close() // an error says that it is closed
	}
	panic(http.ErrAbortHandler)
}

type discard struct{}

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return len(p), nil }
