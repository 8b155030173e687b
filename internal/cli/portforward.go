// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

type forwardOptions struct {
	target  target
	ports   []string // LOCAL:REMOTE
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
			"A connection to the cluster that breaks is made again, and berth says so. It ends with an error when the\n" +
			"sandbox's pod ends or is deleted.",
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

// parsePorts checks [LOCAL:]REMOTE and completes it.
func parsePorts(given []string) ([]string, error) {
	var ports []string
	for _, text := range given {
		local, remote, two := strings.Cut(text, ":")
		if !two {
			remote = local
		}
		if local == "" {
			local = "0"
		}
		from, fromErr := strconv.ParseUint(local, 10, 16)
		to, toErr := strconv.ParseUint(remote, 10, 16)
		if fromErr != nil || toErr != nil || to == 0 {
			return nil, &problem{cause: fmt.Errorf("%q is not a port", text), next: []string{"write LOCAL:REMOTE, such as 8080:80, or one number of 1 to 65535"}}
		}
		ports = append(ports, fmt.Sprintf("%d:%d", from, to))
	}
	return ports, nil
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
	backoff, ever := reconnects(), false
	for {
		began, err := p.forward(ctx, c.config, pod, &o)
		var known *problem
		switch {
		case ctx.Err() != nil:
		case !began && !ever, errors.As(err, &known):
			return err
		case began:
			backoff, ever = reconnects(), true
			fmt.Fprintf(p.streams.ErrOut, "The connection to pod %s broke; making it again.\n", pod.Name)
		}
		if ctx.Err() != nil || pause(ctx, &backoff) != nil {
			return forwardingEnded(ctx)
		}
	}
}

// forwardingEnded says why forwarding was ended: Ctrl-C is how a person ends it, and needs no words.
func forwardingEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return exitCode(exitInterrupted)
	}
	return cause
}

// forward forwards until the connection breaks or ctx ends. It has begun when the ports were listened on;
// then the ports that were chosen are those of a next time.
func (p *program) forward(ctx context.Context, config *rest.Config, pod *corev1.Pod, o *forwardOptions) (began bool, err error) {
	dialer, err := newDialer(config, pod)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.New(&troubles{program: p})))
	defer cancel()
	ready := make(chan struct{})
	var refusals bytes.Buffer
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{o.address}, o.ports, ready, io.Discard, &refusals)
	if err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- forwarder.ForwardPorts()
	}()
	select {
	case err := <-ended:
		if refusals.Len() > 0 {
			return false, p.portTaken(refusals.String())
		}
		return false, fmt.Errorf("forward ports of pod %s: %w", pod.Name, err)
	case <-ready:
	}
	if refusals.Len() > 0 {
		cancel()
		for range ended { // it was asked to end
		}
		return false, p.portTaken(refusals.String())
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return false, err
	}
	o.ports = nil
	for _, port := range ports {
		o.ports = append(o.ports, fmt.Sprintf("%d:%d", port.Local, port.Remote))
		fmt.Fprintf(p.streams.Out, "Forwarding %s to port %d of pod %s.\n", net.JoinHostPort(o.address, strconv.Itoa(int(port.Local))), port.Remote, pod.Name)
	}
	return true, <-ended
}

func (p *program) portTaken(refusals string) error {
	first, _, _ := strings.Cut(strings.TrimSpace(refusals), "\n")
	return &problem{cause: errors.New(first), next: []string{"choose another port of this machine: LOCAL:REMOTE, or :REMOTE for any that is free"}}
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

// troubles tells a person of connections that could not be forwarded, which the library logs.
type troubles struct{ program *program }

func (t *troubles) Init(logr.RuntimeInfo)          {}
func (t *troubles) Enabled(int) bool               { return false }
func (t *troubles) Info(int, string, ...any)       {}
func (t *troubles) WithValues(...any) logr.LogSink { return t }
func (t *troubles) WithName(string) logr.LogSink   { return t }
func (t *troubles) Error(err error, _ string, _ ...any) {
	fmt.Fprintln(t.program.streams.ErrOut, "A connection failed:", strings.TrimSpace(err.Error()))
}
