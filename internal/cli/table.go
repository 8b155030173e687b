// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// row is one line of a listing.
type row struct {
	namespace string
	name      string // with claim/ or sandbox/ before it, as commands take it
	stateOf
	sandbox string // of a claim
	pool    string
	node    string
	owner   string // of a sandbox
	ips     []string
	created time.Time
}

// rowsOf gives the rows of claims, then those of sandboxes, namespace by namespace.
func rowsOf(found listing) []row {
	sandboxes := map[types.NamespacedName]*agents.Sandbox{}
	for i, sandbox := range found.sandboxes {
		sandboxes[types.NamespacedName{Namespace: sandbox.Namespace, Name: sandbox.Name}] = &found.sandboxes[i]
	}
	claims := map[types.UID]*extensions.SandboxClaim{}
	var rows []row
	for i := range found.claims {
		claim := &found.claims[i]
		claims[claim.UID] = claim
		rows = append(rows, claimRow(claim, sandboxes[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Status.Sandbox.Name}]))
	}
	for i := range found.sandboxes {
		rows = append(rows, sandboxRow(&found.sandboxes[i], claims))
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return rows
}

// claimRow is the row of a claim. sandbox is the one its status names, or nil.
func claimRow(claim *extensions.SandboxClaim, sandbox *agents.Sandbox) row {
	r := row{
		namespace: claim.Namespace,
		name:      "claim/" + claim.Name,
		stateOf:   claimState(claim),
		sandbox:   claim.Status.Sandbox.Name,
		pool:      claim.PoolName(),
		ips:       claim.Status.Sandbox.PodIPs,
		created:   claim.CreationTimestamp.Time,
	}
	if sandbox != nil && metav1.IsControlledBy(sandbox, claim) {
		r.node = sandbox.Status.NodeName
	}
	return r
}

// sandboxRow is the row of a sandbox, whose pool is the one it is a member of or came to its claim from.
func sandboxRow(sandbox *agents.Sandbox, claims map[types.UID]*extensions.SandboxClaim) row {
	r := row{
		namespace: sandbox.Namespace,
		name:      "sandbox/" + sandbox.Name,
		stateOf:   sandboxState(sandbox),
		node:      sandbox.Status.NodeName,
		ips:       sandbox.Status.PodIPs,
		created:   sandbox.CreationTimestamp.Time,
	}
	owner := metav1.GetControllerOf(sandbox)
	if owner == nil {
		return r
	}
	switch owner.Kind {
	case extensions.SandboxWarmPoolKind:
		r.owner, r.pool = "pool/"+owner.Name, owner.Name
	case extensions.SandboxClaimKind:
		r.owner = "claim/" + owner.Name
		if claim := claims[owner.UID]; claim != nil {
			r.pool = claim.PoolName()
		}
	default:
		r.owner = strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return r
}

// onlyWide marks columns that only -o wide shows, as the API's tables do.
const onlyWide = 1

// column is a column of a table of rows.
type column[R any] struct {
	name     string
	priority int32
	cell     func(R) string
}

// namespaceOf is the first column of tables that are of all namespaces, or none.
func namespaceOf[R any](shown bool, cell func(R) string) []column[R] {
	if !shown {
		return nil
	}
	return []column[R]{{"Namespace", 0, cell}}
}

// tableFrom makes a table, with the columns of before first.
func tableFrom[R any](rows []R, columns, before []column[R]) *metav1.Table {
	columns = slices.Concat(before, columns)
	table := &metav1.Table{}
	for _, column := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: column.name, Type: "string", Priority: column.priority})
	}
	for _, r := range rows {
		var cells []any
		for _, column := range columns {
			cells = append(cells, cmp.Or(column.cell(r), "<none>"))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}

func tableOf(rows []row, withNamespace bool, now time.Time) *metav1.Table {
	return tableFrom(rows, []column[row]{
		{"Name", 0, func(r row) string { return r.name }},
		{"State", 0, func(r row) string { return r.state }},
		{"Reason", 0, func(r row) string { return r.reason }},
		{"Sandbox", 0, func(r row) string { return r.sandbox }},
		{"Pool", 0, func(r row) string { return r.pool }},
		{"Node", 0, func(r row) string { return r.node }},
		{"Age", 0, func(r row) string { return duration.HumanDuration(now.Sub(r.created)) }},
		{"Owner", onlyWide, func(r row) string { return r.owner }},
		{"Pod IPs", onlyWide, func(r row) string { return strings.Join(r.ips, ",") }},
		{"Message", onlyWide, func(r row) string { return r.message }},
	}, namespaceOf(withNamespace, func(r row) string { return r.namespace }))
}
