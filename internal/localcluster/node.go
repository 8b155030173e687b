// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodeName is the name of a Node cluster's only node.
const nodeName = "berth"

const (
	kubeletHealthPort = 10248
	proxyHealthPort   = 10256
	dnsReadyPort      = 8181
)

// The configuration files of a node's parts. A node has its own /run, /tmp, /var/lib and /var/log, so
// standard paths there are the cluster's own.
var (
	//go:embed node/containerd.toml
	containerdTemplate string
	//go:embed node/cni.json
	cniTemplate string
	//go:embed node/kubelet.yaml
	kubeletTemplate string
	//go:embed node/kube-proxy.yaml
	proxyTemplate string
	//go:embed node/Corefile
	dnsTemplate string
)

// nodeSettings are what the configuration files are filled in with.
type nodeSettings struct {
	Network                    network
	Dir                        string
	CNIPlugins                 string
	PauseImage                 string
	ControlGroup               string
	NodeName                   string
	CA, Certificate, Key       string
	ProxyKubeconfig            string
	DNSKubeconfig              string
	KubeletHealth, ProxyHealth int
	DNSReady                   int
}

func (c *Cluster) writeNodeConfigurations() error {
	plugin, err := lookPath("ptp")
	if err != nil {
		return err
	}
	settings := nodeSettings{
		Network: c.config.Network, Dir: c.dir, CNIPlugins: filepath.Dir(plugin), PauseImage: PauseImage,
		ControlGroup: c.controlGroup(), NodeName: nodeName, CA: c.pki("ca.crt"),
		Certificate: c.pki("kubelet-serving.crt"), Key: c.pki("kubelet-serving.key"),
		ProxyKubeconfig: c.clientConfig(Proxy), DNSKubeconfig: c.clientConfig(CoreDNS),
		KubeletHealth: kubeletHealthPort, ProxyHealth: proxyHealthPort, DNSReady: dnsReadyPort,
	}
	for file, text := range map[string]string{
		c.nodeFile("containerd.toml"):       containerdTemplate,
		c.nodeFile("cni/10-berth.conflist"): cniTemplate,
		c.nodeFile("kubelet.yaml"):          kubeletTemplate,
		c.nodeFile("kube-proxy.yaml"):       proxyTemplate,
		c.nodeFile("Corefile"):              dnsTemplate,
		// What pods get that do not use the cluster's name server. A file without any line would make
		// containerd give them this machine's, which they cannot reach.
		c.nodeFile("resolv.conf"): "options timeout:1 attempts:1\n",
	} {
		var out bytes.Buffer
		parsed, err := template.New(filepath.Base(file)).Parse(text)
		if err == nil {
			err = parsed.Execute(&out, settings)
		}
		if err == nil {
			err = writeFile(file, out.Bytes(), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

func (c *Cluster) nodeFile(name string) string { return filepath.Join(c.dir, "node", name) }

// containerdSocket is where containerd listens, as seen from this machine.
func (c *Cluster) containerdSocket() string {
	return filepath.Join(c.dir, "root/run/containerd/containerd.sock")
}

// controlGroup is the group that all of the node's pods are in.
func (c *Cluster) controlGroup() string { return "/berth-" + shortHash(c.dir) }

// launchOnNode says how to start a part that only a node has.
func (c *Cluster) launchOnNode(part string) (launch, error) {
	switch part {
	case Containerd:
		return launch{args: []string{"--config", c.nodeFile("containerd.toml")}, ready: c.containerdReady}, nil
	case Kubelet:
		return launch{ready: c.answersOnNode(kubeletHealthPort, "/healthz"), args: []string{
			"--config=" + c.nodeFile("kubelet.yaml"),
			"--kubeconfig=" + c.clientConfig(Kubelet),
			"--root-dir=/var/lib/kubelet",
			"--hostname-override=" + nodeName,
			"--node-ip=" + c.config.Network.NodeIP,
		}}, nil
	case Proxy:
		return launch{ready: c.answersOnNode(proxyHealthPort, "/healthz"), args: []string{
			"--config=" + c.nodeFile("kube-proxy.yaml"),
			"--hostname-override=" + nodeName,
		}}, nil
	case CoreDNS:
		return launch{ready: c.answersOnNode(dnsReadyPort, "/ready"), args: []string{"-conf", c.nodeFile("Corefile")}}, nil
	}
	return launch{}, fmt.Errorf("there is no part %s", part)
}

func (c *Cluster) containerdReady(ctx context.Context) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", c.containerdSocket())
	if err != nil {
		return err
	}
	return connection.Close()
}

func (c *Cluster) answersOnNode(port int, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, fmt.Sprintf("http://%s:%d%s", c.config.Network.NodeIP, port, path))
	}
}

// settleNode gives the node images and storage, and waits until pods run on it.
func (c *Cluster) settleNode(ctx context.Context) error {
	images, err := standardImages(ctx, c.config.Binaries)
	if err != nil {
		return err
	}
	if err := c.Import(ctx, images...); err != nil {
		return err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := createStorageClass(ctx, client); err != nil {
		return err
	}
	return awaitNode(ctx, client, nodeName)
}

// createStorageClass makes volume claims that name no class get a directory of the node, from the
// controller manager's provisioner for such.
func createStorageClass(ctx context.Context, client kubernetes.Interface) error {
	reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "standard",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       "kubernetes.io/host-path",
		ReclaimPolicy:     &reclaim,
		VolumeBindingMode: &binding,
	}
	_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return errors.Join(errors.New("create the default storage class"), err)
	}
	return nil
}
