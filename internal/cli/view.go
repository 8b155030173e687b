// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	outputWide = "wide"
	outputName = "name"
)

// view is a listing: what it is made from, and how it looks.
type view struct {
	command string // that shows it, for suggestions
	queries []query
	objects func(found) []client.Object // those that are printed as objects
	table   func(found, time.Time) *metav1.Table
	key     []string // the columns that tell one row from another
	ages    string   // the column that changes by itself
	state   string   // the column with a word that has a colour, and that says Deleted
	colour  func(string) colour
	nothing string // what to say when there is nothing
	// absent is what to add then, from what was found; nil is nothing.
	absent func(found) string
}

// empty is what to say when there is nothing.
func (v view) empty(all found) string {
	if v.absent == nil {
		return v.nothing
	}
	return v.nothing + v.absent(all)
}

// listOptions are the flags of commands that list.
type listOptions struct {
	everywhere bool
	noHeaders  bool
	watch      bool
	selector   string
	print      *genericclioptions.PrintFlags
}

func (o *listOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the line of headers out")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on showing what changes: a live table on a terminal, lines otherwise")
	o.addOutput(cmd, "wide, json, yaml, name, or jsonpath=TEMPLATE", outputWide, "json", "yaml", outputName)
}

// addOutput adds the flag for the format. usage says what there is, and formats complete it.
func (o *listOptions) addOutput(cmd *cobra.Command, usage string, formats ...string) {
	o.print = genericclioptions.NewPrintFlags("")
	cmd.Flags().StringVarP(o.print.OutputFormat, "output", "o", "", usage)
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is added above
	}
}

// addScopeFlags adds the flags that say which objects to list.
func (o *listOptions) addScopeFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "list those of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "list those that have these labels, such as team=blue")
}

// scope says where to look and for what.
func (o *listOptions) scope(c *cluster) ([]client.ListOption, error) {
	where := client.InNamespace(c.namespace)
	if o.everywhere {
		where = client.InNamespace("")
	}
	if o.selector == "" {
		return []client.ListOption{where}, nil
	}
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, &problem{cause: fmt.Errorf("--selector %q: %w", o.selector, err), next: []string{"write it as KEY=VALUE, or several with commas between them"}}
	}
	return []client.ListOption{where, client.MatchingLabelsSelector{Selector: selector}}, nil
}

// place says where was looked, to follow a sentence.
func (o *listOptions) place(c *cluster) string {
	if o.everywhere {
		return "in any namespace"
	}
	return "in namespace " + c.namespace
}

// printer prints objects. It is nil for the tables.
func (o *listOptions) printer(p *program, command string) (printers.ResourcePrinter, error) {
	switch *o.print.OutputFormat {
	case "", outputWide:
		return nil, nil
	}
	printer, err := o.print.ToPrinter()
	if err != nil {
		return nil, &problem{cause: fmt.Errorf("there is no output format %q", *o.print.OutputFormat),
			next: []string{p.command(command, "-o wide") + "; the others are json, yaml, name and jsonpath=TEMPLATE"}}
	}
	if o.watch {
		return nil, &problem{cause: errors.New("--watch shows tables and no objects"),
			next: []string{p.command(command, "-w -o wide"), p.command(command, "-o", *o.print.OutputFormat)}}
	}
	return printer, nil
}

// list shows what a view finds in the scope that was asked for.
func (p *program) list(ctx context.Context, o *listOptions, command string, in func(c *cluster, scope []client.ListOption) view) error {
	printer, err := o.printer(p, command)
	if err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	scope, err := o.scope(c)
	if err != nil {
		return err
	}
	v := in(c, scope)
	v.command = command
	return p.show(ctx, c, o, printer, v)
}

// show prints a view once, or for as long as it is watched.
func (p *program) show(ctx context.Context, c *cluster, o *listOptions, printer printers.ResourcePrinter, v view) error {
	if o.watch {
		return p.watchView(ctx, c, o, v)
	}
	all, err := c.read(ctx, v.queries)
	if err != nil {
		return err
	}
	if printer != nil {
		return p.printObjects(c, printer, *o.print.OutputFormat == outputName, v.objects(all))
	}
	table := v.table(all, time.Now())
	if len(table.Rows) == 0 {
		fmt.Fprintln(p.streams.ErrOut, v.empty(all))
		return nil
	}
	lines, err := linesOf(table, o)
	if err != nil {
		return err
	}
	p.paintView(lines, v)
	fmt.Fprintln(p.streams.Out, strings.Join(lines, "\n"))
	return nil
}

// linesOf gives a table's lines.
func linesOf(table *metav1.Table, o *listOptions) ([]string, error) {
	var out bytes.Buffer
	wide := *o.print.OutputFormat == outputWide
	err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide, NoHeaders: o.noHeaders}).PrintObj(table, &out)
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), err
}

func (p *program) paintView(lines []string, v view) {
	if v.state != "" && colourful(p.streams.Out) {
		paintColumn(lines, strings.ToUpper(v.state), v.colour)
	}
}

// printObjects prints the objects themselves: one list, or one name a line.
func (p *program) printObjects(c *cluster, printer printers.ResourcePrinter, names bool, objects []client.Object) error {
	all := &corev1.List{Items: []kruntime.RawExtension{}}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("List"))
	for _, object := range objects {
		kind, err := c.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		object.GetObjectKind().SetGroupVersionKind(kind) // the items of typed lists have none
		if names {
			if err := printer.PrintObj(object, p.streams.Out); err != nil {
				return err
			}
			continue
		}
		all.Items = append(all.Items, kruntime.RawExtension{Object: object})
	}
	if names {
		return nil
	}
	return printer.PrintObj(all, p.streams.Out)
}

// sorted puts objects in the order of their namespaces and names.
func sorted[T client.Object](objects []T) []T {
	slices.SortFunc(objects, func(a, b T) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return objects
}
