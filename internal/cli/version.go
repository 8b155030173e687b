// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controller's Deployment and container, where clients look for it.
const (
	controllerNamespace = "agent-sandbox-system"
	controllerName      = "agent-sandbox-controller"
)

// versionLimit is for the cluster's answers: this command also runs without a cluster.
const versionLimit = 5 * time.Second

func (p *program) versionCommand() *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of this program, the controller and the cluster",
		Long:    "Prints the version of this program and, where the cluster can be reached, the image of the\ncontroller and the version of Kubernetes.",
		Example: p.examples("berth version"),
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(p.streams.Out, "Client:      %s\n", clientVersion())
			if !clientOnly {
				p.serverVersions(cmd.Context())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "ask no cluster")
	return cmd
}

func (p *program) serverVersions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	c, err := p.connect()
	if err != nil {
		fmt.Fprintf(p.streams.Out, "Controller:  not known: %v\n", err)
		return
	}
	fmt.Fprintf(p.streams.Out, "Controller:  %s\n", controllerVersion(ctx, c))
	fmt.Fprintf(p.streams.Out, "Kubernetes:  %s\n", kubernetesVersion(c))
}

func controllerVersion(ctx context.Context, c *cluster) string {
	deployment := &appsv1.Deployment{}
	err := c.Get(ctx, client.ObjectKey{Namespace: controllerNamespace, Name: controllerName}, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("not installed: there is no Deployment %s in namespace %s", controllerName, controllerNamespace)
	case err != nil:
		return fmt.Sprintf("not known: %v", err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == controllerName {
			return fmt.Sprintf("%s (%d of %d ready)", container.Image, deployment.Status.ReadyReplicas, deployment.Status.Replicas)
		}
	}
	return fmt.Sprintf("not known: Deployment %s has no container %s", controllerName, controllerName)
}

func kubernetesVersion(c *cluster) string {
	config := *c.config
	config.Timeout = versionLimit
	server, err := discovery.NewDiscoveryClientForConfig(&config)
	if err != nil {
		return fmt.Sprintf("not known: %v", err)
	}
	info, err := server.ServerVersion()
	if err != nil {
		return fmt.Sprintf("not known: %v", err)
	}
	return info.GitVersion
}

// clientVersion is what the Go toolchain recorded: a release's tag, or the commit that was built.
func clientVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unreleased"
	}
	return info.Main.Version
}
