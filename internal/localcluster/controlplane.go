// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const serviceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// probeLimit is for one request of a readiness probe.
const probeLimit = 5 * time.Second

// launch says how to start a part of this cluster.
func (c *Cluster) launch(part string) (launch, error) {
	if !slices.Contains(c.config.Parts, part) {
		return launch{}, fmt.Errorf("cluster %s has no %s", c.config.Name, part)
	}
	switch part {
	case Etcd:
		return launch{args: c.etcdArgs(), ready: c.etcdReady}, nil
	case APIServer:
		return launch{args: c.apiServerArgs(), ready: c.apiServerReady}, nil
	case ControllerManager:
		return launch{args: c.controllerManagerArgs(), ready: c.healthy(ControllerManager)}, nil
	case Scheduler:
		return launch{args: c.schedulerArgs(), ready: c.healthy(Scheduler)}, nil
	case Kwok:
		return launch{args: c.kwokArgs(), ready: c.kwokReady}, nil
	default:
		return c.launchOnNode(part)
	}
}

func (c *Cluster) etcdArgs() []string {
	client, peer := "http://"+c.address(Etcd), "http://"+c.address(etcdPeer)
	return []string{
		"--name=" + c.config.Name,
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + c.config.Name + "=" + peer,
		// A power failure may cost the cluster, which can be made again; waiting for disks would cost always.
		"--unsafe-no-fsync",
		"--logger=zap",
		"--log-level=warn",
	}
}

func (c *Cluster) etcdReady(ctx context.Context) error {
	return get(ctx, http.DefaultClient, "http://"+c.address(Etcd)+"/readyz")
}

func (c *Cluster) apiServerArgs() []string {
	services := localServices
	args := []string{
		"--etcd-servers=http://" + c.address(Etcd),
		"--bind-address=" + c.config.Address,
		"--secure-port=" + c.port(APIServer),
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + c.pki("service-account.pub"),
		"--service-account-signing-key-file=" + c.pki("service-account.key"),
		"--kubelet-client-certificate=" + c.pki("apiserver-kubelet.crt"),
		"--kubelet-client-key=" + c.pki("apiserver-kubelet.key"),
		"--kubelet-certificate-authority=" + c.pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
	if c.config.Mode == Node {
		services = c.config.Network.Services
		args = append(args, "--advertise-address="+c.config.Address)
	} else {
		// Nothing can reach the API server by its Service, and its address, a loopback one, is none an
		// EndpointSlice may have.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	if !slices.Contains(c.config.Parts, ControllerManager) {
		// Nobody makes the service accounts that this plugin demands of every pod.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	args = append(args, "--service-cluster-ip-range="+services)
	if c.config.Audit {
		args = append(args, c.auditArgs()...)
	}
	return append(args, c.config.APIServerFlags...)
}

func (c *Cluster) apiServerReady(ctx context.Context) error {
	return c.probe(ctx, "/readyz")
}

func (c *Cluster) controllerManagerArgs() []string {
	return append(c.clientArgs(ControllerManager),
		"--controllers=*",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+c.pki("service-account.key"),
		"--root-ca-file="+c.pki("ca.crt"),
		"--cluster-signing-cert-file="+c.pki("ca.crt"),
		"--cluster-signing-key-file="+c.pki("ca.key"),
		// Volume claims are served with directories of the node.
		"--enable-hostpath-provisioner=true",
		"--flex-volume-plugin-dir="+filepath.Join(c.dir, "flex-volume-plugins"),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	)
}

func (c *Cluster) schedulerArgs() []string {
	return append(c.clientArgs(Scheduler), "--kube-api-qps=500", "--kube-api-burst=1000")
}

// clientArgs are those of parts that serve health and metrics and read the API server as a client.
func (c *Cluster) clientArgs(part string) []string {
	kubeconfig := c.clientConfig(part)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + c.config.Address,
		"--secure-port=" + c.port(part),
		"--tls-cert-file=" + c.pki("serving.crt"),
		"--tls-private-key-file=" + c.pki("serving.key"),
		"--leader-elect=false",
		"--profiling=false",
	}
}

// healthy probes the health endpoint of a part, which needs no authorization.
func (c *Cluster) healthy(part string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := c.trusting()
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		return get(ctx, client, "https://"+c.address(part)+"/healthz")
	}
}

func (c *Cluster) trusting() (*http.Client, error) {
	ca, err := os.ReadFile(c.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}

// probe asks the API server for a path as administrator; nil means it answered 200.
func (c *Cluster) probe(ctx context.Context, path string) error {
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	return get(ctx, client, c.server()+path)
}

func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 2000))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// settle waits for what every user of a cluster takes for granted and servers make a moment after they
// are ready.
func (c *Cluster) settle(ctx context.Context) error {
	paths := []string{"/api/v1/namespaces/default"}
	if slices.Contains(c.config.Parts, ControllerManager) {
		paths = append(paths, "/api/v1/namespaces/default/serviceaccounts/default")
	}
	for _, path := range paths {
		var last error
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			last = c.probe(ctx, path)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("%w (%w)", err, last)
		}
	}
	if c.config.Mode != Node {
		return nil
	}
	step := c.progress.Step("Providing images and storage, and waiting for the node")
	return step.Done(c.settleNode(ctx))
}
