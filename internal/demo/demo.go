// SPDX-License-Identifier: Apache-2.0

// Package demo shows a person what a sandbox is for: it claims one from a warm pool and
// runs a command in it.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/install"
	"github.com/berthdev/berth/internal/localcluster"
)

const (
	// Namespace is where the demo makes its objects.
	Namespace = "berth-demo"
	// manifests are those the demo applies, and pool is the name of the pool in them.
	manifests = "examples/quickstart"
	pool      = "shells"
	// stepLimit is for one step once the cluster runs: something that takes longer does
	// not come.
	stepLimit = 5 * time.Minute
)

// claims are the two that the demo makes.
func claims() []string { return []string{"demo-first", "demo-second"} }

// Options say where to show it.
type Options struct {
	// Kubeconfig is for the cluster; empty is what KUBECONFIG names.
	Kubeconfig string
	// Local is a cluster that takes images, which gets the controller's. Without it the
	// cluster pulls Image.
	Local *localcluster.Cluster
	// Image is the controller's; empty is the one in the manifests.
	Image string
	// Out is where the demo is told, and Progress is told of long steps.
	Out      io.Writer
	Progress *localcluster.Progress
}

// demo is one run.
type demo struct {
	Options
	config *rest.Config
	client client.WithWatch
	root   string
}

// Run installs what is missing on the cluster and shows the demo. A second run finds
// everything there and makes its claims anew.
func Run(ctx context.Context, options Options) error {
	d := &demo{Options: options}
	if err := d.connect(); err != nil {
		return err
	}
	err := install.Berth(ctx, install.Options{Config: d.config, Local: d.Local, Image: d.Image, Progress: d.Progress})
	if err != nil {
		return err
	}
	if err := d.fill(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "\nClaiming a sandbox from the pool:\n")
	first, err := d.claim(ctx, claims()[0])
	if err != nil {
		return err
	}
	if err := d.run(ctx, first); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "\nClaiming a second one:\n")
	if _, err := d.claim(ctx, claims()[1]); err != nil {
		return err
	}
	d.next()
	return nil
}

func (d *demo) connect() error {
	root, err := localcluster.Repository()
	if err != nil {
		return err
	}
	d.root = root
	if d.config, err = loadConfig(d.Kubeconfig); err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, agents.AddToScheme, extensions.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	d.client, err = client.NewWithWatch(d.config, client.Options{Scheme: scheme})
	return err
}

// fill applies the manifests, gives back what a former run claimed, and waits until the
// pool is full.
func (d *demo) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := d.release(ctx); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := client.IgnoreAlreadyExists(d.client.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("create namespace %s: %w", Namespace, err)
	}
	for _, name := range []string{"template.yaml", "pool.yaml"} {
		contents, err := os.ReadFile(filepath.Join(d.root, manifests, name))
		if err != nil {
			return err
		}
		objects, err := deploy.Decode(contents)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := deploy.Apply(ctx, d.config, Namespace, objects); err != nil {
			return err
		}
		for _, object := range objects {
			fmt.Fprintf(d.Out, "Applied %s %s.\n", object.GetKind(), object.GetName())
		}
	}
	fmt.Fprintf(d.Out, "\nThe pool fills:\n")
	began, shown := time.Now(), ""
	return d.await(ctx, &extensions.SandboxWarmPoolList{}, pool, func(object client.Object) (bool, string) {
		p, ok := object.(*extensions.SandboxWarmPool)
		if !ok {
			return false, "it is gone"
		}
		want := ptr.Deref(p.Spec.Replicas, 0)
		if line := fmt.Sprintf("  %d/%d ready", p.Status.ReadyReplicas, want); line != shown {
			shown = line
			fmt.Fprintf(d.Out, "%s   (%s)\n", line, since(began))
		}
		return p.Status.ReadyReplicas == want && p.Status.ObservedGeneration == p.Generation,
			explain(p.Status.Conditions, extensions.ConditionAvailable, extensions.ConditionTemplateResolved)
	})
}

// release deletes the claims of a former run and waits until they are gone, and their
// Sandboxes with them.
func (d *demo) release(ctx context.Context) error {
	for _, name := range claims() {
		claim := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
		err := d.client.Delete(ctx, claim, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("release claim %s of a former run: %w", name, err)
		}
		if err == nil {
			fmt.Fprintf(d.Out, "Released claim %s of a former run.\n", name)
		}
		err = d.await(ctx, &extensions.SandboxClaimList{}, name, func(object client.Object) (bool, string) {
			return object == nil, "it has not gone"
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claim claims a Sandbox and tells how long that took, as a client sees it that waits
// for the claim to become Ready.
func (d *demo) claim(ctx context.Context, name string) (*extensions.SandboxClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	waiting := &agents.SandboxList{}
	if err := d.client.List(ctx, waiting, client.InNamespace(Namespace)); err != nil {
		return nil, err
	}
	changes, err := d.watch(ctx, &extensions.SandboxClaimList{}, name)
	if err != nil {
		return nil, err
	}
	defer changes.Stop()
	claim := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
	claim.Spec.WarmPoolRef = &extensions.SandboxWarmPoolRef{Name: pool}
	began := time.Now()
	if err := d.client.Create(ctx, claim); err != nil {
		return nil, fmt.Errorf("create claim %s: %w", name, err)
	}
	err = follow(ctx, changes, func(object client.Object) (bool, string) {
		if seen, ok := object.(*extensions.SandboxClaim); ok {
			claim = seen
		}
		return isTrue(claim.Status.Conditions, agents.ConditionReady), explain(claim.Status.Conditions, agents.ConditionReady)
	})
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", name, err)
	}
	took := time.Since(began)
	origin := "was made for it: the pool had none ready"
	for i := range waiting.Items {
		if waiting.Items[i].Name == claim.Status.Sandbox.Name {
			origin = "waited in the pool"
		}
	}
	fmt.Fprintf(d.Out, "  %s: sandbox %s, which %s, at %s\n", name, claim.Status.Sandbox.Name, origin, strings.Join(claim.Status.Sandbox.PodIPs, ", "))
	fmt.Fprintf(d.Out, "  %d ms from creating the claim until it was Ready\n", took.Milliseconds())
	return claim, nil
}

// run runs a command in the claimed pod, as a person would.
func (d *demo) run(ctx context.Context, claim *extensions.SandboxClaim) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	command := []string{"sh", "-c", "echo \"Hello from $(hostname): $(uname -sm), user $(id -u)\""}
	fmt.Fprintf(d.Out, "\nRunning a command in it:\n  $ berth exec -n %s %s -- %s %s '%s'\n", Namespace, claim.Name, command[0], command[1], command[2])
	var out, problems bytes.Buffer
	arguments := []string{"berth", "-n", Namespace}
	if d.Kubeconfig != "" {
		arguments = append(arguments, "--kubeconfig", d.Kubeconfig)
	}
	arguments = append(append(arguments, "exec", claim.Name, "--"), command...)
	code := cli.Run(ctx, arguments, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems})
	if code != 0 {
		return errors.New(strings.TrimSpace(problems.String()))
	}
	fmt.Fprintf(d.Out, "  %s\n", strings.ReplaceAll(strings.TrimSpace(out.String()), "\n", "\n  "))
	return nil
}

// next tells what to try.
func (d *demo) next() {
	kubectl := "kubectl"
	fmt.Fprintf(d.Out, "\nTry next:\n")
	if d.Local != nil {
		fmt.Fprintf(d.Out, "  export KUBECONFIG=%s\n", d.Kubeconfig)
		kubectl = d.Local.Kubectl()
	}
	fmt.Fprintf(d.Out, "  bin/berth exec -n %s %s -- sh\n", Namespace, claims()[0])
	fmt.Fprintf(d.Out, "  bin/berth claim -n %s %s\n", Namespace, pool)
	fmt.Fprintf(d.Out, "  %s get sandboxes,sandboxclaims,sandboxwarmpools -n %s\n", kubectl, Namespace)
	if d.Local != nil {
		down := "make down"
		if d.Local.Name() != localcluster.DefaultName {
			down = "bin/berth local down --name " + d.Local.Name()
		}
		fmt.Fprintf(d.Out, "\n\"%s\" stops the cluster and leaves nothing of it behind.\n", down)
	}
}
