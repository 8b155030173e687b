// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"time"
)

// connections are those that clients have to a proxy.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// of notes the connections that a listener accepts.
func (c *connections) of(listener net.Listener) net.Listener {
	c.open = map[net.Conn]struct{}{}
	return &noting{Listener: listener, connections: c}
}

func (c *connections) cut() {
	c.mu.Lock()
	open := c.open
	c.open = map[net.Conn]struct{}{}
	c.mu.Unlock()
	for connection := range open {
		_ = connection.Close() // an error says that it is closed
	}
}

type noting struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l *noting) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	noted := &connection{Conn: accepted, connections: l.connections}
	l.connections.mu.Lock()
	defer l.connections.mu.Unlock()
	l.connections.open[noted] = struct{}{}
	return noted, nil
}

type connection struct {
	net.Conn
	connections *connections
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.connections.mu.Lock()
	delete(c.connections.open, c)
	c.connections.mu.Unlock()
	return c.Conn.Close()
}

// newCertificate makes a certificate for the loopback address, signed by nobody else, and
// what its clients trust.
func newCertificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "faultproxy"},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
