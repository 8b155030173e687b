// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Exit codes besides 0 and those of a command that was run in a sandbox. The ones from 125 on are what
// shells and container tools use.
const (
	exitProblem       = 1   // the command failed
	exitNotRun        = 125 // exec: this program failed, and the command's exit code is not known
	exitNotExecutable = 126 // exec: the command is there and cannot be run
	exitNotFound      = 127 // exec: there is no such command
	exitInterrupted   = 130 // Ctrl-C
)

// problem is an error for a person: what is wrong, and what to do about it.
type problem struct {
	cause error
	next  []string // commands to type or things to change, the likeliest first
	// ifKept follows next: what to do with a claim that this command made and keeps.
	ifKept []string
	code   int // the exit code; 0 means exitProblem
}

func (p *problem) Error() string { return p.cause.Error() }
func (p *problem) Unwrap() error { return p.cause }

// exitCode ends the program silently: what there was to say has been said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// report prints an error and gives the exit code for it.
func (p *program) report(err error) int {
	if err == nil {
		return 0
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintln(p.streams.ErrOut, p.paint(p.streams.ErrOut, red, "Error:"), err)
	var known *problem
	if !errors.As(err, &known) {
		return exitProblem
	}
	for i, line := range slices.Concat(known.next, known.ifKept) {
		label := "Next:"
		if i > 0 {
			label = "  or:"
		}
		fmt.Fprintln(p.streams.ErrOut, label, line)
	}
	if known.code == 0 {
		return exitProblem
	}
	return known.code
}

// explain turns errors that any request can end with into problems. Others it leaves as they are.
func (p *program) explain(err error) error {
	var known *problem
	var code exitCode
	if err == nil || errors.As(err, &known) || errors.As(err, &code) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return &problem{cause: errors.New("interrupted"), code: exitInterrupted}
	}
	var dns *net.DNSError
	var dial *net.OpError
	switch {
	case apierrors.IsUnauthorized(err):
		return &problem{cause: fmt.Errorf("the API server does not accept these credentials: %w", err),
			next: []string{"log in to the cluster again, or choose another with --context"}}
	case apierrors.IsForbidden(err):
		return &problem{cause: err, next: []string{"ask an administrator of the cluster for this permission",
			"kubectl auth can-i --list shows those you have"}}
	case notServed(err):
		return &problem{cause: errors.New("the cluster does not know sandboxes: it does not serve agents.x-k8s.io/v1beta1"),
			next: []string{"install Berth there, or choose another cluster with --context"}}
	case missingNamespace(err) != "":
		return &problem{cause: fmt.Errorf("there is no namespace %q", missingNamespace(err)),
			next: []string{"choose another with -n", "kubectl create namespace " + missingNamespace(err)}}
	case errors.As(err, &dns), errors.As(err, &dial), unreachable(err):
		return &problem{cause: fmt.Errorf("the API server cannot be reached: %w", err),
			next: []string{"see that the cluster runs and that this is the right one; --context chooses another"}}
	}
	return err
}

// notServed says whether the server does not have the kind at all, not just no such object.
func notServed(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// missingNamespace is the namespace that a request was for and that does not exist, or "".
func missingNamespace(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return ""
	}
	if details := status.Status().Details; details != nil && details.Kind == "namespaces" {
		return details.Name
	}
	return ""
}

// unreachable says whether a request ended without any answer.
func unreachable(err error) bool {
	var request *url.Error
	return errors.As(err, &request) && !errors.Is(err, context.Canceled)
}

// refused says whether the API server's answer shows that it did not do what was asked. Any other
// error leaves that open.
func refused(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonInternalError:
		return false
	}
	return true
}

// each does something for each of several names. What goes wrong with one does not keep the others from it.
// When a person interrupts it, undone says of the names that are left what was not done.
func (p *program) each(ctx context.Context, names []string, undone string, do func(name string) error) error {
	var failed []error
	for i, name := range names {
		if ctx.Err() != nil {
			failed = append(failed, &problem{cause: fmt.Errorf("interrupted; %s: %s", undone, strings.Join(names[i:], ", ")), code: exitInterrupted})
			break
		}
		if err := do(name); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) <= 1 {
		return errors.Join(failed...)
	}
	code := exitProblem
	for _, err := range failed {
		code = p.report(err)
	}
	return exitCode(code)
}
