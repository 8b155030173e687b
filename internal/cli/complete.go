// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// completionLimit keeps a shell from hanging on a cluster that does not answer.
const completionLimit = 2 * time.Second

// completePools completes the one argument of claim.
func (p *program) completePools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	pools := &extensions.SandboxWarmPoolList{}
	if !p.listForCompletion(cmd, pools) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, pool := range pools.Items {
		names = append(names, pool.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeClaims completes any number of claims.
func (p *program) completeClaims(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	claims := &extensions.SandboxClaimList{}
	if !p.listForCompletion(cmd, claims) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, claim := range claims.Items {
		names = append(names, claim.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeTargets completes the claim of exec; what follows is the command.
func (p *program) completeTargets(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return p.completeClaims(cmd, args, typed)
}

// completeOneTarget completes the claim of commands that have one; what follows cannot be guessed.
func (p *program) completeOneTarget(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeClaims(cmd, args, typed)
}

// completePlaces completes a claim, to which a colon and a path are added, and files.
func (p *program) completePlaces(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	claims, _ := p.completeClaims(cmd, args, typed)
	for i := range claims {
		claims[i] += ":"
	}
	return claims, cobra.ShellCompDirectiveNoSpace
}

func (p *program) listForCompletion(cmd *cobra.Command, into client.ObjectList) bool {
	c, err := p.connect()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	return c.List(ctx, into, client.InNamespace(c.namespace)) == nil
}
