// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Mode says how much of Kubernetes a cluster is.
type Mode string

const (
	// ControlPlane is etcd and the API server, and what Options add to them. No pod really runs.
	ControlPlane Mode = "ControlPlane"
	// Node is a whole cluster of one node with real pods. It needs Linux and root.
	Node Mode = "Node"
)

// The parts a cluster may have, by the name of their program.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Containerd        = "containerd"
	Kubelet           = "kubelet"
	Proxy             = "kube-proxy"
	CoreDNS           = "coredns"
	Kwok              = "kwok"
)

// Options say which cluster to start. They count when the cluster is made; a cluster that is found
// keeps those it was made with.
type Options struct {
	// Name is the cluster's name in the kubeconfig, "berth" by default. Up, Down and Status also
	// derive the directory from it. See CheckName for those that are refused.
	Name string
	// Dir is where the cluster lives. Start needs it; for Up it is optional.
	Dir string
	// Mode is ControlPlane by default in Start, and Node in Up.
	Mode Mode
	// ControllerManager and Scheduler add these parts to a control plane. A node has both.
	//
	// The controller manager's garbage collector looks for new kinds twice a minute; after installing
	// CustomResourceDefinitions, restart the part to have them collected from then on.
	ControllerManager bool
	Scheduler         bool
	// Audit keeps a log of every request, see Cluster.Requests.
	Audit bool
	// APIServerFlags are given to the API server after its own.
	APIServerFlags []string
	// EndWithStarter ends all processes of the cluster when this process ends, however it ends.
	EndWithStarter bool
	// Binaries are used instead of calling Build.
	Binaries Binaries
	// Progress is told of long steps; nil is silent.
	Progress *Progress
}

// config is the file that a cluster is started and stopped from.
type config struct {
	Name           string         `json:"name"`
	Mode           Mode           `json:"mode"`
	Parts          []string       `json:"parts"` // in the order they start
	Address        string         `json:"address"`
	Ports          map[string]int `json:"ports"`
	Audit          bool           `json:"audit,omitempty"`
	APIServerFlags []string       `json:"apiServerFlags,omitempty"`
	Binaries       Binaries       `json:"binaries"`
	Network        network        `json:"network"`
}

// Cluster is one local cluster. Its methods may be called from several goroutines.
type Cluster struct {
	dir      string
	config   config
	progress *Progress
	tether   *tether // parts end with this process; nil: they stay
}

const (
	startLimit = 5 * time.Minute // for starting a cluster, once built
	attempts   = 3               // at finding ports that nobody takes before the parts do
)

// complete sets what was left out, and refuses what cannot be.
func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("start a cluster: no directory given")
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Mode == "" {
		o.Mode = ControlPlane
	}
	if err := checkCharacters(o.Name, validation.DNS1123LabelMaxLength); err != nil {
		return fmt.Errorf("start cluster %q: %w", o.Name, err)
	}
	return nil
}

// Start brings a cluster up and waits until it is ready. In a directory that already has one, it
// starts what is not running. Any error leaves what was started; Stop removes it.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	if options.Mode == Node {
		if err := prepareMachine(ctx, dir, options.Progress); err != nil {
			return nil, err
		}
	}
	if options.Binaries == (Binaries{}) {
		if options.Binaries, err = Build(ctx, options.Progress); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	unlock, err := lock(ctx, dir+".lock", func() *Step {
		return options.Progress.Step("Waiting for another command on this cluster")
	})
	if err != nil {
		return nil, err
	}
	defer unlock()

	c := &Cluster{dir: dir, progress: options.Progress}
	if options.EndWithStarter {
		if c.tether, err = newTether(); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		err = c.up(ctx, options)
		if !errors.Is(err, errPortTaken) || attempt == attempts || c.config.Mode == Node {
			break
		}
		if err := c.remove(ctx); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start cluster %s: %w", options.Name, err)
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context, options Options) error {
	if options.EndWithStarter {
		if err := c.recordStarter(); err != nil {
			return err
		}
	}
	switch err := c.load(); {
	case errors.Is(err, os.ErrNotExist):
		if err := c.create(options); err != nil {
			return err
		}
	case err != nil:
		return err
	case c.config.Mode != options.Mode:
		return fmt.Errorf("%s has a cluster of mode %s; stop it first", c.dir, c.config.Mode)
	default:
		if err := c.renew(options.Binaries); err != nil {
			return err
		}
	}
	if c.config.Mode == Node {
		if err := c.startNode(ctx); err != nil {
			return err
		}
	}
	return c.startParts(ctx)
}

// Open finds the cluster in a directory, running or not. It is an os.ErrNotExist if there is none.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Stop ends all processes of the cluster and removes everything it made on this machine, its directory
// included. It works from what it finds there, so it may be called on a cluster half started or half
// stopped. Parts are killed, not asked: nothing of them is kept.
func (c *Cluster) Stop(ctx context.Context) error {
	unlock, err := lock(ctx, c.dir+".lock", func() *Step {
		return c.progress.Step("Waiting for another command on this cluster")
	})
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("stop cluster in %s: %w", c.dir, err)
	}
	c.tether.cut()
	return os.Remove(c.dir + ".lock")
}

func (c *Cluster) remove(ctx context.Context) error {
	parts := c.config.Parts
	for i := len(parts) - 1; i >= 0; i-- {
		if err := c.Part(parts[i]).Kill(ctx); err != nil {
			return err
		}
	}
	for _, stray := range strays(c.dir) {
		if err := stray.kill(ctx); err != nil {
			return err
		}
	}
	if err := c.cleanMachine(ctx); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

// Dir is where the cluster lives.
func (c *Cluster) Dir() string { return c.dir }

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.config.Name }

// Mode says what kind of cluster it is.
func (c *Cluster) Mode() Mode { return c.config.Mode }

// Kubeconfig is the path of a kubeconfig for an administrator.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// RESTConfig is for an administrator, without a limit on requests. Each call returns a new one.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Kubectl is the path of a kubectl of the cluster's version.
func (c *Cluster) Kubectl() string { return filepath.Join(c.dir, "bin", "kubectl") }

func (c *Cluster) configFile() string { return filepath.Join(c.dir, "cluster.json") }

func (c *Cluster) load() error {
	data, err := os.ReadFile(c.configFile())
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &c.config)
}
