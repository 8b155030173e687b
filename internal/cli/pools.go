// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
)

func (p *program) poolsCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "pools",
		Aliases: []string{"pool"},
		Short:   "List warm pools, how full they are, and who waits for them",
		Long: "Lists the warm pools of a namespace.\n\n" +
			"  DESIRED    how many members should wait for a claim\n" +
			"  READY      how many do\n" +
			"  WAITERS    claims that wait for a sandbox of the pool\n" +
			"  TEMPLATE   what members are made from\n" +
			"  BLUEPRINT  the hash of the template as it is now\n" +
			"  ROLLOUT    how many of the members are made from it\n" +
			"  REASON     what the pool does: Complete, Filling, ScalingDown or Updating; or what keeps it\n" +
			"             from doing so, of which -o wide has the message",
		Example: p.examples(`
			berth pools

			# with strategies, and what is wrong
			berth pools -A -o wide`),
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.pools(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd)
	o.addScopeFlags(cmd)
	return cmd
}

func (p *program) pools(ctx context.Context, o *listOptions) error {
	return p.list(ctx, o, "pools", func(c *cluster, scope []client.ListOption) view {
		return view{
			queries: []query{
				{list: func() client.ObjectList { return &extensions.SandboxWarmPoolList{} }, options: scope},
				{list: func() client.ObjectList { return &extensions.SandboxClaimList{} }, options: scope[:1]},
				{list: func() client.ObjectList { return &extensions.SandboxTemplateList{} }, options: scope[:1], optional: true},
			},
			objects: func(all found) []client.Object { return sorted(all[0]) },
			table: func(all found, now time.Time) *metav1.Table {
				return poolTable(poolRows(all), o.everywhere, now)
			},
			key:     []string{"Namespace", "Name"},
			ages:    "Age",
			state:   "Reason",
			colour:  poolColour,
			nothing: fmt.Sprintf("No warm pools %s.", o.place(c)),
		}
	})
}

// poolRow is one line of the listing of pools.
type poolRow struct {
	*extensions.SandboxWarmPool
	waiters         int
	blueprint       string
	reason, message string
}

// poolRows makes the rows from pools, claims and templates, in this order.
func poolRows(all found) []poolRow {
	templates := map[types.NamespacedName]*extensions.SandboxTemplate{}
	for _, template := range typed[*extensions.SandboxTemplate](all[2]) {
		templates[identity(template)] = template
	}
	claims := typed[*extensions.SandboxClaim](all[1])
	var rows []poolRow
	for _, pool := range sorted(typed[*extensions.SandboxWarmPool](all[0])) {
		row := poolRow{SandboxWarmPool: pool, waiters: waiters(pool, claims)}
		row.reason, row.message = poolReason(pool)
		template := templates[types.NamespacedName{Namespace: pool.Namespace, Name: pool.Spec.TemplateRef.Name}]
		switch {
		case template != nil:
			row.blueprint = blueprint.Hash(template)
		case all[2] == nil:
			row.blueprint = "<unknown>"
		}
		rows = append(rows, row)
	}
	return rows
}

// waiters counts the claims that wait for a sandbox of a pool.
func waiters(pool *extensions.SandboxWarmPool, claims []*extensions.SandboxClaim) int {
	n := 0
	for _, claim := range claims {
		its := claim.PoolName() == pool.Name || claim.AnyPool() && claim.TemplateName() == pool.Spec.TemplateRef.Name
		if its && claim.Namespace == pool.Namespace && !claim.NeedsOwnSandbox() && claimState(claim).state == stateWaiting {
			n++
		}
	}
	return n
}

// poolReason says what the pool does or what keeps it.
func poolReason(pool *extensions.SandboxWarmPool) (reason, message string) {
	resolved := meta.FindStatusCondition(pool.Status.Conditions, extensions.ConditionTemplateResolved)
	progressing := meta.FindStatusCondition(pool.Status.Conditions, extensions.ConditionProgressing)
	switch {
	case pool.DeletionTimestamp != nil:
		return stateDeleting, ""
	case resolved != nil && resolved.Status == metav1.ConditionFalse:
		return resolved.Reason, resolved.Message
	case progressing != nil:
		return progressing.Reason, progressing.Message
	}
	return "", ""
}

func poolColour(reason string) colour {
	switch reason {
	case extensions.ReasonComplete:
		return green
	case extensions.ReasonFilling, extensions.ReasonScalingDown, extensions.ReasonUpdating, extensions.ReasonMembersHeld:
		return yellow
	case "<none>", stateDeleting:
		return grey
	}
	return red
}

func poolTable(rows []poolRow, withNamespace bool, now time.Time) *metav1.Table {
	return tableFrom(rows, []column[poolRow]{
		{"Name", 0, func(r poolRow) string { return r.Name }},
		{"Desired", 0, func(r poolRow) string { return strconv.Itoa(int(ptr.Deref(r.Spec.Replicas, 1))) }},
		{"Ready", 0, func(r poolRow) string { return strconv.Itoa(int(r.Status.ReadyReplicas)) }},
		{"Waiters", 0, func(r poolRow) string { return strconv.Itoa(r.waiters) }},
		{"Template", 0, func(r poolRow) string { return r.Spec.TemplateRef.Name }},
		{"Blueprint", 0, func(r poolRow) string { return r.blueprint }},
		{"Rollout", 0, func(r poolRow) string { return fmt.Sprintf("%d/%d", r.Status.UpdatedReplicas, r.Status.Replicas) }},
		{"Reason", 0, func(r poolRow) string { return r.reason }},
		{"Age", 0, func(r poolRow) string { return duration.HumanDuration(now.Sub(r.CreationTimestamp.Time)) }},
		{"Strategy", onlyWide, func(r poolRow) string { return string(strategyOf(r.SandboxWarmPool)) }},
		{"Message", onlyWide, func(r poolRow) string { return r.message }},
	}, namespaceOf(withNamespace, func(r poolRow) string { return r.Namespace }))
}

func strategyOf(pool *extensions.SandboxWarmPool) extensions.SandboxWarmPoolUpdateStrategyType {
	if pool.Spec.UpdateStrategy == nil {
		return extensions.WarmPoolOnReplenish
	}
	return cmp.Or(pool.Spec.UpdateStrategy.Type, extensions.WarmPoolOnReplenish)
}
