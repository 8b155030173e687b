// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

type logsOptions struct {
	target     target
	container  string
	follow     bool
	previous   bool
	timestamps bool
	tail       int64 // lines; below 0 means all
	since      time.Duration

	// again and events are the commands that print these logs, and that say what happened to the pod.
	again, events string
}

func (p *program) logsCommand() *cobra.Command {
	o := logsOptions{tail: -1}
	cmd := &cobra.Command{
		Use:   "logs CLAIM",
		Short: "Print what a claimed sandbox's container has written",
		Long: "Prints what a container of a claim's sandbox, or of one named as sandbox/NAME, has written to its\n" +
			"outputs. A suspended sandbox has no pod and so no logs.\n\n" +
			"With -f it goes on until the container ends, or until Ctrl-C.",
		Example: p.examples(`
			berth logs analysis --tail 20

			# go on, from what was written in the last minute
			berth logs analysis -f --since 1m

			# why the container before this one ended
			berth logs analysis --previous`),
		Args:              one("the name of a claim"),
		ValidArgsFunction: p.completeOneTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.target, err = parseTarget(args[0]); err != nil {
				return err
			}
			return p.logs(cmd.Context(), o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *logsOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	containerFlag(cmd, &o.container)
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with what is written from now on")
	flags.BoolVarP(&o.previous, "previous", "p", false, "of the container that ran before this one")
	flags.BoolVar(&o.timestamps, "timestamps", false, "with the time before each line")
	flags.Var(count{&o.tail, "write how many lines, such as 20"}, "tail", "print only this many lines from the end; by default all")
	flags.Lookup("tail").DefValue = ""
	spanFlag(flags, &o.since, "since", "print only what is no older than this; by default all")
}

// request is what to ask the API server for.
func (o logsOptions) request() *corev1.PodLogOptions {
	asked := &corev1.PodLogOptions{Container: o.container, Follow: o.follow, Previous: o.previous, Timestamps: o.timestamps}
	if o.tail >= 0 {
		asked.TailLines = &o.tail
	}
	if o.since > 0 {
		seconds := int64(math.Ceil(o.since.Seconds()))
		asked.SinceSeconds = &seconds
	}
	return asked
}

func (p *program) logs(ctx context.Context, o logsOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	pod, err := p.podOf(ctx, c, o.target)
	if err != nil {
		return err
	}
	o.again, o.events = "logs "+o.target.String(), "events "+o.target.String()
	return p.printLogs(ctx, c, pod, o)
}

func (p *program) printLogs(ctx context.Context, c *cluster, pod *corev1.Pod, o logsOptions) error {
	var err error
	if o.container, err = chosenContainer(pod, o.container); err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	stream, err := typed.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o.request()).Stream(ctx)
	if err != nil {
		return p.noLogs(err, pod, o)
	}
	defer stream.Close()
	_, err = io.Copy(p.streams.Out, stream)
	switch {
	case ctx.Err() != nil && o.follow:
		return exitCode(exitInterrupted) // this is how a person ends it
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &problem{cause: fmt.Errorf("the log of pod %s broke off: %w", pod.Name, err),
			next: []string{p.command(o.again, "-f --since 1m") + " goes on"}}
	}
	return nil
}

// noLogs explains why there are none.
func (p *program) noLogs(err error, pod *corev1.Pod, o logsOptions) error {
	switch {
	case !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err):
		return err
	case o.previous && strings.Contains(err.Error(), "previous terminated container"):
		return &problem{cause: fmt.Errorf("container %s of pod %s has not been started again, so there is no previous one", o.container, pod.Name),
			next: []string{p.command(o.again) + " prints those of the one that runs"}}
	}
	cause := fmt.Errorf("container %s of pod %s has no logs: %w", o.container, pod.Name, err)
	if status := statusOf(pod, o.container); status != nil && status.State.Waiting != nil {
		cause = fmt.Errorf("container %s of pod %s has not started: %s", o.container, pod.Name, stopped(status.State))
	}
	return &problem{cause: cause, next: []string{p.command(o.events) + " shows what happened to it"}}
}
