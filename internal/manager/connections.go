// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// requestTimeout is how long a request other than a watch may take. The server ends
// requests of its own accord only after a minute.
const requestTimeout = 30 * time.Second

// ownConnection returns a client that shares its HTTP/2 connection with no other. A
// server serves only so many requests on one (mostly 100), and what waits behind a
// burst of others is late. purpose is the last part of its user agent.
func ownConnection(config *rest.Config, purpose string, timeout time.Duration) (*http.Client, error) {
	config = named(config, purpose)
	config.Timeout = timeout
	// client-go shares connections among configurations that are alike. One with a
	// dialer of its own is like no other.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	return rest.HTTPClientFor(config)
}

// named returns a copy of config whose user agent ends in purpose.
func named(config *rest.Config, purpose string) *rest.Config {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.UserAgent += "/" + purpose
	return config
}

// connections is a transport that gives every controller a connection of its own,
// though all use the same views: a controller's requests carry its name in their
// context.
type connections struct {
	config *rest.Config

	mu   sync.RWMutex
	byOf map[string]http.RoundTripper
}

// nobody is the name that the views' own requests go by.
const nobody = "views"

func newConnections(config *rest.Config) (*connections, error) {
	c := &connections{config: config, byOf: map[string]http.RoundTripper{}}
	err := c.add(nobody)
	return c, err
}

// add opens a connection for the controller of that name. Its user agent ends in the
// name.
func (c *connections) add(controller string) error {
	client, err := ownConnection(c.config, controller, requestTimeout)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byOf[controller] = client.Transport
	return nil
}

// client returns the client whose requests go by their context.
func (c *connections) client() *http.Client {
	return &http.Client{Transport: c, Timeout: requestTimeout}
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(request *http.Request) (*http.Response, error) {
	name, ok := request.Context().Value(controllerKey{}).(string)
	if !ok {
		name = nobody
	}
	c.mu.RLock()
	transport := c.byOf[name]
	c.mu.RUnlock()
	return transport.RoundTrip(request)
}

// controllerKey is the context's key of the name of the controller that a request is
// made for.
type controllerKey struct{}

func onBehalfOf(ctx context.Context, controller string) context.Context {
	return context.WithValue(ctx, controllerKey{}, controller)
}

// WholePods returns a reader of pods as the server has them; the views keep only a
// part of each.
func WholePods(server *rest.Config) (consistent.API[*corev1.Pod], error) {
	reads, err := ownConnection(server, "whole-pods", requestTimeout)
	if err != nil {
		return nil, err
	}
	pods := kinds.Pods()
	return consistent.NewAPI[*corev1.Pod](consistent.Server{Config: server, HTTP: reads, Scheme: Scheme()}, pods.GVK, pods.Resource)
}
