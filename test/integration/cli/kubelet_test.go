// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// commands are what the kubelet that a test plays can run, by name. A command returns its exit code.
type commands map[string]func(args []string, in io.Reader, out, errOut io.Writer) int

// kubelet is what the kubelet that a test plays does.
type kubelet struct {
	run     commands
	logs    http.HandlerFunc                                 // answers with a container's log
	ports   func(port string, connection io.ReadWriteCloser) // serves a connection to a port of a pod
	refuses func(port string) string                         // if set, says why a connection to a port fails, or ""
	// connected gets what connections to ports come through, if it is set.
	connected chan<- io.Closer
}

// ServeHTTP answers the API server.
func (k kubelet) ServeHTTP(s *space, w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/containerLogs/") && k.logs != nil:
		k.logs(w, r)
	case strings.HasPrefix(r.URL.Path, "/portForward/") && k.ports != nil:
		s.servePorts(w, r, k)
	default:
		s.serveExec(w, r, k.run)
	}
}

// makeNode makes a Node whose kubelet is this process, as far as running commands goes.
func (s *space) makeNode(run commands) string {
	s.t.Helper()
	return s.makeKubelet(kubelet{run: run})
}

// makeKubelet makes a Node whose kubelet is this process.
func (s *space) makeKubelet(k kubelet) string {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	// The API server checks kubelets' certificates; its own is as good.
	pki := filepath.Join(cluster.Dir(), "pki")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.ServeHTTP(s, w, r) })}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServeTLS(listener, filepath.Join(pki, "apiserver.crt"), filepath.Join(pki, "apiserver.key"))
	}()
	s.t.Cleanup(func() { server.Close(); <-ended })

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	s.must(s.Create(s.ctx, node))
	s.t.Cleanup(func() { _ = s.Delete(context.Background(), node) })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	s.must(err)
	number, err := strconv.Atoi(port)
	s.must(err)
	before := node.DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	s.must(s.Status().Patch(s.ctx, node, client.MergeFrom(before)))
	return node.Name
}

// serveExec answers the API server as a kubelet does: one stream each for input, outputs, and how it ended.
func (s *space) serveExec(w http.ResponseWriter, r *http.Request, run commands) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	query := r.URL.Query()
	want := 1 // the stream for how it ended
	// A terminal has a stream for its size.
	for _, asked := range []string{corev1.ExecStdinParam, corev1.ExecStdoutParam, corev1.ExecStderrParam, corev1.ExecTTYParam} {
		if on := query.Get(asked); on == "1" || on == "true" {
			want++
		}
	}
	arrived := make(chan httpstream.Stream, want)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		arrived <- stream
		return nil
	})
	if connection == nil {
		return
	}
	defer connection.Close()
	streams := map[string]httpstream.Stream{}
	for len(streams) < want {
		select {
		case stream := <-arrived:
			streams[stream.Headers().Get(corev1.StreamType)] = stream
		case <-connection.CloseChan():
			return
		case <-s.ctx.Done():
			return
		}
	}
	status := answer(query[corev1.ExecCommandParam], run, streams)
	for _, name := range []string{corev1.StreamTypeStdout, corev1.StreamTypeStderr} {
		if stream := streams[name]; stream != nil {
			stream.Close()
		}
	}
	if err := json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status); err != nil {
		return
	}
	streams[corev1.StreamTypeError].Close()
	select { // the API server has read it all when it closes the connection
	case <-connection.CloseChan():
	case <-s.ctx.Done():
	}
}

// servePorts answers the API server as a kubelet does: two streams for each connection, of which one is for
// what goes wrong.
func (s *space) servePorts(w http.ResponseWriter, r *http.Request, k kubelet) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	arrived := make(chan httpstream.Stream)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		select {
		case arrived <- stream:
		case <-s.ctx.Done():
		}
		return nil
	})
	if connection == nil {
		return
	}
	defer connection.Close()
	if k.connected != nil {
		k.connected <- connection
	}
	problems := map[string]httpstream.Stream{}
	for {
		select {
		case stream := <-arrived:
			id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				problems[id] = stream
				continue
			}
			problem := problems[id]
			go func() {
				defer problem.Close()
				defer stream.Close()
				if k.refuses != nil {
					if why := k.refuses(stream.Headers().Get(corev1.PortHeader)); why != "" {
						fmt.Fprint(problem, why)
						return
					}
				}
				k.ports(stream.Headers().Get(corev1.PortHeader), stream)
			}()
		case <-connection.CloseChan():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func answer(line []string, run commands, streams map[string]httpstream.Stream) metav1.Status {
	command, known := run[line[0]]
	if !known {
		// The words of containerd and runc.
		return apierrors.NewInternalError(&net.AddrError{Err: `error executing command in container: failed to exec in container: ` +
			`failed to start exec "x": OCI runtime exec failed: exec failed: unable to start container process: exec: "` + line[0] +
			`": executable file not found in $PATH: unknown`}).ErrStatus
	}
	var in io.Reader = streams[corev1.StreamTypeStdin]
	if streams[corev1.StreamTypeStdin] == nil {
		in = http.NoBody
	}
	var errOut = io.Discard
	if stream := streams[corev1.StreamTypeStderr]; stream != nil {
		errOut = stream
	}
	if size := streams[corev1.StreamTypeResize]; size != nil {
		errOut, in = streams[corev1.StreamTypeStdout], size // the one output, and what a test wants to see
	}
	code := command(line[1:], in, streams[corev1.StreamTypeStdout], errOut)
	if code == 0 {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	return metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
		Message: "command terminated with non-zero exit code"}
}

// makePod makes the pod of a Sandbox on a node, with its container in a state.
func (s *space) makePod(name, node string, owner *agents.Sandbox, state corev1.ContainerState) *corev1.Pod {
	s.t.Helper()
	no := false
	pod := &corev1.Pod{ObjectMeta: s.meta(name), Spec: corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "work", Image: "image"}, {Name: "side", Image: "image"}}}}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, agents.GroupVersion.WithKind(agents.SandboxKind))}
	}
	s.must(s.Create(s.ctx, pod))
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodPending
	if state.Running != nil {
		pod.Status.Phase = corev1.PodRunning
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: container.Name, State: state})
	}
	s.must(s.Status().Patch(s.ctx, pod, client.MergeFrom(before)))
	return pod
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now())}}
}
