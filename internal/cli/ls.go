// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func (p *program) lsCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List claims and sandboxes",
		Long: "Lists the claims and the sandboxes of a namespace. A name is written as other commands take it.\n\n" +
			"STATE is one of\n" +
			"  Ready      it can be used\n" +
			"  Waiting    a claim that has no sandbox yet\n" +
			"  NotReady   it has what it needs, and is not Ready yet or not any more\n" +
			"  Failed     it stays so until somebody changes something; -o wide shows what is wrong\n" +
			"  Lost       a claim whose sandbox is gone\n" +
			"  Suspended  a sandbox that should not run, or its claim\n" +
			"  Finished   the pod has ended\n" +
			"  Expired    its time is over\n" +
			"  Deleting   it is being deleted\n\n" +
			"REASON is the one that the Ready condition gives. With -w, a line with the state Deleted tells\n" +
			"of what is gone.",
		Example: p.examples(`
			berth ls

			# all namespaces, with owners, addresses and what is wrong
			berth ls -A -o wide

			# a table that changes as the cluster does, until Ctrl-C
			berth ls -w`),
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.ls(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd)
	o.addScopeFlags(cmd)
	return cmd
}

func (p *program) ls(ctx context.Context, o *listOptions) error {
	return p.list(ctx, o, "ls", func(c *cluster, scope []client.ListOption) view {
		return view{
			queries: []query{
				{list: func() client.ObjectList { return &extensions.SandboxClaimList{} }, options: scope},
				{list: func() client.ObjectList { return &agents.SandboxList{} }, options: scope},
			},
			objects: func(all found) []client.Object {
				return append(sorted(all[0]), sorted(all[1])...)
			},
			table: func(all found, now time.Time) *metav1.Table {
				return tableOf(rowsOf(listingOf(all)), o.everywhere, now)
			},
			key:     []string{"Namespace", "Name"},
			ages:    "Age",
			state:   "State",
			colour:  stateColour,
			nothing: fmt.Sprintf("No claims or sandboxes %s.", o.place(c)),
		}
	})
}

// listing is what there is of claims and sandboxes.
type listing struct {
	claims    []extensions.SandboxClaim
	sandboxes []agents.Sandbox
}

func listingOf(all found) listing {
	var l listing
	for _, claim := range typed[*extensions.SandboxClaim](all[0]) {
		l.claims = append(l.claims, *claim)
	}
	for _, sandbox := range typed[*agents.Sandbox](all[1]) {
		l.sandboxes = append(l.sandboxes, *sandbox)
	}
	return l
}
