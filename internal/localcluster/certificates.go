// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// validity of all certificates: a cluster for tests and demos does not rotate them.
const validity = 10 * 365 * 24 * time.Hour

// authority issues the certificates of one cluster, all as files in its pki directory.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// identity is whom a certificate speaks for: Kubernetes reads user and groups from name and organization.
type identity struct {
	file   string
	name   string
	groups []string
	hosts  []string // set for a server
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newCertificate("berth-local-cluster")
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	a := &authority{dir: dir, certificate: template, key: key}
	der, err := a.write("ca", template, key)
	if err != nil {
		return nil, err
	}
	a.certificate, err = x509.ParseCertificate(der)
	return a, err
}

// issue writes <file>.crt and <file>.key.
func (a *authority) issue(of identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newCertificate(of.name)
	if err != nil {
		return err
	}
	template.Subject.Organization = of.groups
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(of.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range of.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, err = a.write(of.file, template, key)
	return err
}

// signingKey writes the pair of keys that service account tokens are signed and checked with.
func (a *authority) signingKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := a.writePEM(file+".pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return a.writeKey(file+".key", key)
}

func (a *authority) write(file string, template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", file, err)
	}
	if err := a.writeKey(file+".key", key); err != nil {
		return nil, err
	}
	return der, a.writePEM(file+".crt", "CERTIFICATE", der)
}

func (a *authority) writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return a.writePEM(file, "EC PRIVATE KEY", der)
}

func (a *authority) writePEM(file, kind string, der []byte) error {
	return writeFile(filepath.Join(a.dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func newCertificate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	begin := time.Now().Add(-time.Hour) // tolerates a clock that is set back a little
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             begin,
		NotAfter:              begin.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}, nil
}

// writeKubeconfig makes a kubeconfig out of the certificate files of one client.
func writeKubeconfig(file, cluster, server, pki, client string) error {
	contents := map[string][]byte{}
	for _, name := range []string{"ca.crt", client + ".crt", client + ".key"} {
		data, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return err
		}
		contents[name] = data
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: contents["ca.crt"]}
	config.AuthInfos[client] = &clientcmdapi.AuthInfo{
		ClientCertificateData: contents[client+".crt"], ClientKeyData: contents[client+".key"],
	}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: client}
	config.CurrentContext = cluster
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(file, data, 0o600)
}
