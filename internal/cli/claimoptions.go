// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

type claimOptions struct {
	pool      string
	name      string
	timeout   time.Duration
	ttl       time.Duration
	env       []pair
	labels    []pair
	podLabels []pair
	detach    bool
	remove    bool        // run exec's command, and release the claim
	exec      execOptions // with remove
}

func (o *claimOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "the claim's name; by default the pool's with a random ending")
	waitFlag(flags, &o.timeout, "how long to wait until the sandbox is Ready")
	spanFlag(flags, &o.ttl, "ttl", "when this time is over, claim and sandbox are deleted; by default never")
	flags.Var(pairs{&o.env, checkVariable, "write it as --env NAME=VALUE"}, "env",
		"an environment variable for the sandbox's processes; may be given again")
	flags.Var(pairs{&o.labels, checkLabel, "write it as --label KEY=VALUE"}, "label",
		"a label of the claim, to find it by; may be given again")
	flags.Var(pairs{&o.podLabels, checkLabel, "write it as --pod-label DOMAIN/KEY=VALUE"}, "pod-label",
		"a label for the sandbox's pod, under a domain that the cluster allows; may be given again")
	flags.BoolVar(&o.detach, "detach", false, "print the claim's name and do not wait")
	flags.BoolVar(&o.remove, "rm", false, "run the command after --, and release the claim when it ends")
	o.exec.addFlags(cmd)
}

// readClaim reads "POOL" and "POOL -- COMMAND...", and checks what the flags say together.
func (p *program) readClaim(cmd *cobra.Command, args []string, o *claimOptions) error {
	dash := cmd.ArgsLenAtDash()
	if dash >= 0 {
		args, o.exec.command = args[:dash], args[dash:]
	}
	if len(args) != 1 {
		err := fmt.Errorf("claim needs the name of a warm pool, and got %d arguments", len(args))
		if len(args) > 1 && o.remove {
			return &problem{cause: err, next: []string{p.command("claim", args[0], "--rm --", strings.Join(args[1:], " "))}}
		}
		return usage(cmd, err)
	}
	o.pool = args[0]
	command := strings.Join(o.exec.command, " ")
	switch {
	case len(validation.IsDNS1123Subdomain(o.pool)) > 0:
		return &problem{cause: fmt.Errorf("%q cannot be the name of a pool: %w", o.pool, joined(validation.IsDNS1123Subdomain(o.pool))),
			next: []string{p.command("pools") + " lists those there are"}}
	case o.remove && len(o.exec.command) == 0:
		return &problem{cause: errors.New("claim --rm needs a command"), next: []string{p.command("claim", o.pool, "--rm -- sh") + " opens a shell"}}
	case o.remove && o.detach:
		return &problem{cause: errors.New("--rm waits for the command, and --detach waits for nothing"),
			next: []string{p.command("claim", o.pool, "--rm --", command), p.command("claim", o.pool, "--detach")}}
	case !o.remove && len(o.exec.command) > 0:
		return &problem{cause: errors.New("claim runs a command only with --rm, which releases the claim afterwards"),
			next: []string{p.command("claim", o.pool, "--rm --", command), p.command("exec", "CLAIM --", command) + " runs it in a claim that is kept"}}
	}
	if !cmd.Flags().Changed("name") {
		return nil
	}
	return p.checkName(o.name)
}

// checkName refuses the names that the API server would refuse.
func (p *program) checkName(name string) error {
	err := joined(validation.IsDNS1123Subdomain(name))
	if len(name) > agents.MaxNameLength {
		err = fmt.Errorf("it must have no more than %d characters, because the sandbox is named after it", agents.MaxNameLength)
	}
	if err == nil {
		return nil
	}
	return &problem{cause: fmt.Errorf("%q cannot be the name of a claim: %w", name, err),
		next: []string{"choose another --name: small letters, digits and dashes, such as analysis-1", "leave --name out, and the claim is named after the pool"}}
}

// newClaim is the claim to make. Its marks are those the Go client library sets, so that a claim counts
// the same however a person made it.
func newClaim(namespace string, o claimOptions, now time.Time) *extensions.SandboxClaim {
	name := o.name
	if name == "" {
		name = claimName(o.pool, rand.String(nameSuffix))
	}
	labels := map[string]string{agents.LabelCreatedBy: agents.CreatedByGoClient}
	maps.Copy(labels, mapOf(o.labels))
	claim := &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        name,
			Labels:      labels,
			Annotations: map[string]string{agents.AnnotationClientFirstRequestedAt: now.UTC().Format(time.RFC3339)},
		},
		Spec: extensions.SandboxClaimSpec{
			WarmPoolRef:           &extensions.SandboxWarmPoolRef{Name: o.pool},
			AdditionalPodMetadata: agents.PodMetadata{Labels: mapOf(o.podLabels)},
		},
	}
	for _, variable := range o.env {
		claim.Spec.Env = append(claim.Spec.Env, extensions.EnvVar{Name: variable.key, Value: variable.value})
	}
	if o.ttl > 0 {
		// The time is kept in whole seconds, and whoever asks for a minute gets no less.
		end := metav1.NewTime(now.Add(o.ttl + time.Second - 1).Truncate(time.Second))
		claim.Spec.Lifecycle = &extensions.ClaimLifecycle{ShutdownTime: &end, ShutdownPolicy: extensions.ClaimShutdownDelete}
	}
	return claim
}

// mapOf is nil for none.
func mapOf(given []pair) map[string]string {
	if len(given) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, p := range given {
		all[p.key] = p.value
	}
	return all
}
