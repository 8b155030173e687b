// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

type forwardOptions struct {
	target  target
	ports   []portPair
	address string
}

func (p *program) portForwardCommand() *cobra.Command {
	var o forwardOptions
	cmd := &cobra.Command{
		Use:   "port-forward CLAIM [LOCAL:]REMOTE...",
		Short: "Reach ports of a claimed sandbox from this machine",
		Long: "Listens on ports of this machine and forwards connections to ports of a claim's sandbox, or of one\n" +
			"named as sandbox/NAME, until Ctrl-C. One number stands for the same port on both sides; LOCAL 0,\n" +
			"or none before the colon, is any free port, which is printed.\n\n" +
			"A connection to the cluster that breaks is made again, and berth says so. The ports of this machine stay\n" +
			"open meanwhile, also while nothing listens in the sandbox. It ends with an error when the sandbox's pod\n" +
			"ends or is deleted.",
		Example: p.examples(`
			# the sandbox's port 8888 at http://localhost:8888
			berth port-forward analysis 8888

			# two ports, one of them under any free number
			berth port-forward analysis 8080:80 :5432`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: p.completeOneTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(cmd, errors.New("port-forward needs a claim and a port"))
			}
			var err error
			if o.target, err = parseTarget(args[0]); err != nil {
				return err
			}
			if o.ports, err = parsePorts(args[1:]); err != nil {
				return err
			}
			if net.ParseIP(o.address) == nil && o.address != "localhost" {
				return &problem{cause: fmt.Errorf("--address %q: it is not an address", o.address), next: []string{"write localhost or an IP address of this machine"}}
			}
			return p.portForward(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.address, "address", "localhost", "the address of this machine to listen on")
	return cmd
}

func (p *program) portForward(ctx context.Context, o forwardOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	pod, err := p.podOf(ctx, c, o.target)
	if err != nil {
		return err
	}
	if _, err := p.containerOf(pod, ""); err != nil {
		return err
	}
	// A node may keep the connection of a pod that has gone, so the pod is watched.
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	go func() {
		err := p.awaitPodsEnd(ctx, c, pod)
		if apierrors.IsForbidden(err) {
			fmt.Fprintf(p.streams.ErrOut, "Pod %s cannot be watched, so you are not told when it goes: %v\n", pod.Name, err)
			return
		}
		gone(err)
	}()
	ports, err := listenAll(o.address, o.ports)
	if err != nil {
		return err
	}
	defer closeAll(ports)
	dialer, err := newDialer(c.config, pod)
	if err != nil {
		return err
	}
	f := &forwarder{
		dial: func() (httpstream.Connection, error) {
			connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
			return connection, err
		},
		ports: ports, pod: pod.Name, sandbox: pod.Name, errOut: p.streams.ErrOut,
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		f.sandbox = owner.Name
	}
	err = f.run(ctx, func() {
		for _, port := range ports {
			fmt.Fprintf(p.streams.Out, "Forwarding %s to port %d of pod %s.\n", net.JoinHostPort(o.address, strconv.Itoa(int(port.local))), port.remote, pod.Name)
		}
	})
	if ctx.Err() != nil {
		return forwardingEnded(ctx)
	}
	return err
}

// forwardingEnded says why forwarding was ended: Ctrl-C is how a person ends it, and needs no words.
func forwardingEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return exitCode(exitInterrupted)
	}
	return cause
}

// newDialer speaks WebSocket, and SPDY where a proxy or an old server does not.
func newDialer(config *rest.Config, pod *corev1.Pod) (httpstream.Dialer, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	url := c.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreamingWithLogger(logr.Discard(), url, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(websocket, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// awaitPodsEnd returns when the pod has ended or is gone, with a problem that says so, or when ctx ends.
func (p *program) awaitPodsEnd(ctx context.Context, c *cluster, pod *corev1.Pod) error {
	ended := func(how string) error {
		return &problem{cause: fmt.Errorf("pod %s %s, and its ports with it", pod.Name, how),
			next: []string{p.command("ls") + " shows the sandbox's state"}}
	}
	leaving := false
	return follower[*corev1.Pod]{
		cluster: c,
		list:    &corev1.PodList{},
		empty:   func() *corev1.Pod { return &corev1.Pod{} },
		see: func(pod *corev1.Pod, gone bool) (bool, error) {
			switch {
			case gone:
				return true, ended("is gone")
			case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
				return true, ended("has ended (" + string(pod.Status.Phase) + ")")
			case pod.DeletionTimestamp != nil && !leaving:
				leaving = true
				fmt.Fprintf(p.streams.ErrOut, "Pod %s is being deleted.\n", pod.Name)
			}
			return false, nil
		},
		lost: func(error) {}, // the forwarded connection breaks too, and that is told
	}.follow(ctx, pod)
}
