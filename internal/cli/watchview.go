// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// redrawInterval is how often a live table counts the ages on.
const redrawInterval = time.Second

// gone is what the state column says of a row that is not there any more.
const gone = "Deleted"

// watchView shows a view until ctx ends: drawn again and again on a terminal, and line by line otherwise.
// A view without a state grows only, and is always shown in lines.
func (p *program) watchView(ctx context.Context, c *cluster, o *listOptions, v view) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := c.mirror(ctx, v.queries)
	var tick <-chan time.Time
	show := (&ticker{program: p, options: o, view: v, seen: map[string]string{}}).show
	if file, ok := p.streams.Out.(*os.File); ok && isTerminal(file) && v.state != "" {
		clock := time.NewTicker(redrawInterval)
		defer clock.Stop()
		tick = clock.C
		show = (&screen{program: p, file: file, options: o, view: v}).show
	}
	all, missing := make(found, len(v.queries)), len(v.queries)
	first := make([]bool, len(v.queries))
	for {
		select {
		case <-ctx.Done():
			return exitCode(exitInterrupted) // this is how a person ends it
		case <-tick:
		case u := <-changes:
			switch {
			case u.err != nil:
				return u.err
			case u.lost != nil:
				fmt.Fprintf(p.streams.ErrOut, "The connection to the API server broke: %v; trying again.\n", u.lost)
				continue
			}
			all.apply(u)
			if !first[u.query] {
				first[u.query] = true
				missing--
			}
		}
		if missing > 0 {
			continue
		}
		if err := show(v.table(all, time.Now())); err != nil {
			return err
		}
	}
}

// screen is a table that is drawn over itself.
type screen struct {
	program *program
	file    *os.File
	options *listOptions
	view    view
	drawn   int // lines
}

func (s *screen) show(table *metav1.Table) error {
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil {
		return err
	}
	lines := []string{s.view.nothing}
	if len(table.Rows) > 0 {
		if lines, err = linesOf(table, s.options); err != nil {
			return err
		}
	}
	lines = fit(lines, width, height)
	s.program.paintView(lines, s.view)
	up := ""
	if s.drawn > 0 {
		up = fmt.Sprintf("\x1b[%dA", s.drawn)
	}
	s.drawn = len(lines)
	_, err = s.file.WriteString(up + "\r\x1b[J" + strings.Join(lines, "\n") + "\n")
	return err
}

// fit cuts lines to a terminal's size. What would wrap or scroll could not be drawn over.
func fit(lines []string, width, height int) []string {
	if height > 2 && len(lines) > height-1 {
		more := len(lines) - (height - 2)
		lines = append(slices.Clone(lines[:height-2]), fmt.Sprintf("... and %d more", more))
	}
	for i, line := range lines {
		if runes := []rune(line); width > 0 && len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return lines
}

// ticker prints the rows of a table that have changed.
type ticker struct {
	program *program
	options *listOptions
	view    view
	seen    map[string]string // what a row said, without its age, by key
	rows    map[string]metav1.TableRow
	widths  []int
}

func (t *ticker) show(table *metav1.Table) error {
	now := map[string]metav1.TableRow{}
	var print []metav1.TableRow
	for _, row := range table.Rows {
		key, says := t.keyOf(table, row), t.says(table, row)
		now[key] = row
		if before, known := t.seen[key]; !known || before != says {
			t.seen[key] = says
			print = append(print, row)
		}
	}
	for _, key := range sortedKeys(t.rows) {
		if _, still := now[key]; !still {
			delete(t.seen, key)
			if t.view.state != "" {
				print = append(print, t.deleted(table, t.rows[key]))
			}
		}
	}
	t.rows = now
	return t.print(table, print)
}

func (t *ticker) keyOf(table *metav1.Table, row metav1.TableRow) string {
	var key []string
	for i, column := range table.ColumnDefinitions {
		if slices.Contains(t.view.key, column.Name) {
			key = append(key, fmt.Sprint(row.Cells[i]))
		}
	}
	return strings.Join(key, "\x00")
}

func (t *ticker) says(table *metav1.Table, row metav1.TableRow) string {
	var says []string
	for i, column := range table.ColumnDefinitions {
		if column.Name != t.view.ages {
			says = append(says, fmt.Sprint(row.Cells[i]))
		}
	}
	return strings.Join(says, "\x00")
}

func (t *ticker) deleted(table *metav1.Table, row metav1.TableRow) metav1.TableRow {
	row.Cells = slices.Clone(row.Cells)
	for i, column := range table.ColumnDefinitions {
		if column.Name == t.view.state {
			row.Cells[i] = gone
		}
	}
	return row
}

// print prints rows, with columns as wide as was needed so far, and the headers before the first.
func (t *ticker) print(table *metav1.Table, rows []metav1.TableRow) error {
	var shown []int
	var headers []any
	wide := *t.options.print.OutputFormat == outputWide
	for i, column := range table.ColumnDefinitions {
		headers = append(headers, strings.ToUpper(column.Name))
		if column.Priority == 0 || wide {
			shown = append(shown, i)
		}
	}
	if t.widths == nil {
		if len(rows) == 0 {
			return nil
		}
		t.widths = make([]int, len(table.ColumnDefinitions))
		if !t.options.noHeaders {
			rows = slices.Insert(rows, 0, metav1.TableRow{Cells: headers})
		}
	}
	for _, row := range rows {
		for i, cell := range row.Cells {
			t.widths[i] = max(t.widths[i], len(fmt.Sprint(cell)))
		}
	}
	for _, row := range rows {
		line := ""
		for _, i := range shown {
			line += fmt.Sprintf("%-*v   ", t.widths[i], row.Cells[i])
		}
		if _, err := fmt.Fprintln(t.program.streams.Out, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(rows map[string]metav1.TableRow) []string {
	var keys []string
	for key := range rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
