// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

const (
	loopback = "127.0.0.1"
	// localServices is the service network of a cluster that no packet ever goes to.
	localServices  = "10.0.0.0/16"
	localServiceIP = "10.0.0.1"
)

// create writes all files of a new cluster. Its configuration comes last: with it the cluster exists.
func (c *Cluster) create(options Options) error {
	c.config = config{
		Name: options.Name, Mode: options.Mode, Audit: options.Audit, APIServerFlags: options.APIServerFlags,
		Binaries: options.Binaries, Address: loopback, Parts: []string{Etcd, APIServer},
	}
	if options.ControllerManager || options.Mode == Node {
		c.config.Parts = append(c.config.Parts, ControllerManager)
	}
	if options.Scheduler || options.Mode == Node {
		c.config.Parts = append(c.config.Parts, Scheduler)
	}
	serviceIP := localServiceIP
	if options.Mode == Node {
		chosen, err := chooseNetwork(c.dir)
		if err != nil {
			return err
		}
		c.config.Network, c.config.Address, serviceIP = chosen, chosen.NodeIP, chosen.ServiceIP
		c.config.Parts = append(c.config.Parts, Containerd, Kubelet, Proxy, CoreDNS)
	}
	if err := c.choosePorts(); err != nil {
		return err
	}
	return errors.Join(
		c.linkPrograms(),
		c.issueCertificates(serviceIP),
		c.writeConfigurations(),
		writeJSON(c.configFile(), c.config),
	)
}

// renew makes an old cluster use this version's programs and settings, from each part's next start.
func (c *Cluster) renew(binaries Binaries) error {
	c.config.Binaries = binaries
	return errors.Join(c.linkPrograms(), c.writeConfigurations(), writeJSON(c.configFile(), c.config))
}

// linkPrograms gives each part a program of its own name below the cluster's directory. The name is
// what the one binary chooses its part by, and what strays are found by.
func (c *Cluster) linkPrograms() error {
	bin := filepath.Join(c.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	targets := map[string]string{"node": c.config.Binaries.Node}
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler, Kubelet, Proxy, Kwok, "kubectl"} {
		targets[name] = c.config.Binaries.Kubernetes
	}
	if c.config.Mode == Node {
		path, err := lookPath(Containerd)
		if err != nil {
			return err
		}
		targets[Containerd], targets[CoreDNS] = path, c.config.Binaries.CoreDNS
	}
	for name, target := range targets {
		link := filepath.Join(bin, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// The names of servers' ports in the configuration.
const (
	etcdPeer = "etcd-peer"
)

func (c *Cluster) choosePorts() error {
	c.config.Ports = map[string]int{}
	if c.config.Mode == Node {
		// A network namespace of its own has all ports free.
		for name, port := range map[string]int{
			Etcd: 2379, etcdPeer: 2380, APIServer: 6443, ControllerManager: 10257, Scheduler: 10259, Kwok: 10247,
		} {
			c.config.Ports[name] = port
		}
		return nil
	}
	for _, name := range []string{Etcd, etcdPeer, APIServer, ControllerManager, Scheduler, Kwok} {
		port, err := c.freePort()
		if err != nil {
			return err
		}
		c.config.Ports[name] = port
	}
	return nil
}

// freePort looks below the range that systems take the ports of outgoing connections from, so that
// only another cluster that starts right now can take the port before its part does.
func (c *Cluster) freePort() (int, error) {
	const first, count = 15000, 15000
	for range 100 {
		port := first + rand.IntN(count)
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("found no free port on " + loopback)
}

func (c *Cluster) issueCertificates(serviceIP string) error {
	ca, err := newAuthority(c.pki(""))
	if err != nil {
		return err
	}
	servers := []identity{
		{file: "apiserver", name: APIServer, hosts: []string{
			c.config.Address, loopback, serviceIP, "localhost", "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		// The controller manager's and the scheduler's, for their health endpoints.
		{file: "serving", name: "localhost", hosts: []string{c.config.Address, loopback, "localhost"}},
		{file: "kubelet-serving", name: nodeName, hosts: []string{c.config.Address, nodeName}},
	}
	clients := []identity{
		{file: "admin", name: "admin", groups: []string{"system:masters"}},
		{file: "apiserver-kubelet", name: "apiserver-kubelet", groups: []string{"system:masters"}},
		{file: ControllerManager, name: "system:" + ControllerManager},
		{file: Scheduler, name: "system:" + Scheduler},
		{file: Kubelet, name: "system:node:" + nodeName, groups: []string{"system:nodes"}},
		{file: Proxy, name: "system:" + Proxy},
		{file: Kwok, name: Kwok, groups: []string{"system:masters"}},
		{file: CoreDNS, name: CoreDNS, groups: []string{"system:masters"}},
	}
	for _, of := range append(servers, clients...) {
		if err := ca.issue(of); err != nil {
			return err
		}
	}
	if err := ca.signingKey("service-account"); err != nil {
		return err
	}
	for _, client := range []string{ControllerManager, Scheduler, Kubelet, Proxy, Kwok, CoreDNS} {
		if err := writeKubeconfig(c.clientConfig(client), c.config.Name, c.server(), c.pki(""), client); err != nil {
			return err
		}
	}
	return writeKubeconfig(c.Kubeconfig(), c.config.Name, c.server(), c.pki(""), "admin")
}

func (c *Cluster) writeConfigurations() error {
	err := writeFile(c.auditPolicy(), []byte(auditPolicy), 0o644)
	if c.config.Mode == Node {
		err = errors.Join(err, c.writeNodeConfigurations())
	}
	return err
}

func (c *Cluster) pki(file string) string { return filepath.Join(c.dir, "pki", file) }

// clientConfig is the kubeconfig of one part.
func (c *Cluster) clientConfig(part string) string {
	return filepath.Join(c.dir, "clients", part+".kubeconfig")
}

// server is the API server's URL.
func (c *Cluster) server() string {
	return "https://" + c.address(APIServer)
}

func (c *Cluster) address(of string) string {
	return net.JoinHostPort(c.config.Address, c.port(of))
}

func (c *Cluster) port(of string) string { return fmt.Sprint(c.config.Ports[of]) }
