// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

const (
	outputWide = "wide"
	outputName = "name"
)

type lsOptions struct {
	everywhere bool
	noHeaders  bool
	print      *genericclioptions.PrintFlags
}

func (p *program) lsCommand() *cobra.Command {
	o := lsOptions{print: genericclioptions.NewPrintFlags("")}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List claims and sandboxes",
		Long: "Lists the claims and the sandboxes of a namespace.\n\n" +
			"STATE is one of Ready; Waiting, a claim without a sandbox yet; NotReady; Failed, it stays so\n" +
			"until somebody changes something; Lost, a claim whose sandbox is gone; Suspended; Finished, the\n" +
			"pod has ended; Expired; Deleting. REASON is the one that the Ready condition gives.",
		Example: p.examples(`
			berth ls

			# all namespaces, with owners, addresses and what is wrong
			berth ls -A -o wide`),
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.ls(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "list those of all namespaces")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the line of headers out")
	cmd.Flags().StringVarP(o.print.OutputFormat, "output", "o", "", "wide, json, yaml, name, or jsonpath=TEMPLATE")
	return cmd
}

// listing is what there is of claims and sandboxes.
type listing struct {
	claims    []extensions.SandboxClaim
	sandboxes []agents.Sandbox
}

func (p *program) ls(ctx context.Context, o lsOptions) error {
	format := *o.print.OutputFormat
	printer, err := o.printer()
	if err != nil {
		return &problem{cause: fmt.Errorf("there is no output format %q", format),
			next: []string{p.command("ls", "-o wide") + "; the others are json, yaml, name and jsonpath=TEMPLATE"}}
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	where := client.ListOption(client.InNamespace(c.namespace))
	if o.everywhere {
		where = client.InNamespace("")
	}
	found, err := list(ctx, c, where)
	if err != nil {
		return err
	}
	if printer != nil {
		return p.printObjects(c, printer, format, found)
	}
	if len(found.claims)+len(found.sandboxes) == 0 {
		place := fmt.Sprintf("in namespace %s", c.namespace)
		if o.everywhere {
			place = "in any namespace"
		}
		fmt.Fprintf(p.streams.ErrOut, "No claims or sandboxes %s.\n", place)
		return nil
	}
	table := tableOf(rowsOf(found), o.everywhere, time.Now())
	return printers.NewTablePrinter(printers.PrintOptions{Wide: format == outputWide, NoHeaders: o.noHeaders}).
		PrintObj(table, p.streams.Out)
}

// printer prints objects. It is nil for the tables.
func (o lsOptions) printer() (printers.ResourcePrinter, error) {
	switch *o.print.OutputFormat {
	case "", outputWide:
		return nil, nil
	}
	return o.print.ToPrinter()
}

func list(ctx context.Context, c *cluster, where client.ListOption) (listing, error) {
	var claims extensions.SandboxClaimList
	if err := c.List(ctx, &claims, where); err != nil {
		return listing{}, err
	}
	var sandboxes agents.SandboxList
	if err := c.List(ctx, &sandboxes, where); err != nil {
		return listing{}, err
	}
	return listing{claims: claims.Items, sandboxes: sandboxes.Items}, nil
}

// printObjects prints the objects themselves: one list, or one name a line.
func (p *program) printObjects(c *cluster, printer printers.ResourcePrinter, format string, found listing) error {
	var objects []client.Object
	for i := range found.claims {
		objects = append(objects, &found.claims[i])
	}
	for i := range found.sandboxes {
		objects = append(objects, &found.sandboxes[i])
	}
	all := &corev1.List{Items: []kruntime.RawExtension{}}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("List"))
	for _, object := range objects {
		kind, err := c.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		object.GetObjectKind().SetGroupVersionKind(kind) // the items of typed lists have none
		if format == outputName {
			if err := printer.PrintObj(object, p.streams.Out); err != nil {
				return err
			}
			continue
		}
		all.Items = append(all.Items, kruntime.RawExtension{Object: object})
	}
	if format == outputName {
		return nil
	}
	return printer.PrintObj(all, p.streams.Out)
}
