// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func (p *program) eventsCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "events CLAIM|sandbox/NAME|pool/NAME",
		Short: "List what happened to a claim, a sandbox or a pool",
		Long: "Lists the events of a claim with those of its sandbox, pod and volumes; of one sandbox with its pod and\n" +
			"volumes; or of a pool with those of the members it has. The oldest comes first. A cluster keeps\n" +
			"events for an hour, unless its administrator says otherwise.",
		Example: p.examples(`
			berth events analysis

			# what keeps a pool from filling, as it happens
			berth events pool/python -w`),
		Args:              one("a claim, a sandbox or a pool"),
		ValidArgsFunction: p.completeOneTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := parseSubject(args[0])
			if err != nil {
				return err
			}
			return p.events(cmd.Context(), &o, of, args[0])
		},
	}
	o.addFlags(cmd)
	return cmd
}

// subject is what events are listed of.
type subject struct{ kind, name string }

// parseSubject reads what parseTarget does, and pool/NAME.
func parseSubject(text string) (subject, error) {
	kind, name, _ := strings.Cut(text, "/")
	switch kind {
	case "pool", "sandboxwarmpool", "sandboxwarmpools", "swp", "sandboxwarmpool." + extensions.GroupName:
		if name != "" {
			return subject{extensions.SandboxWarmPoolKind, name}, nil
		}
	}
	t, err := parseTarget(text)
	switch {
	case err != nil:
		return subject{}, &problem{cause: fmt.Errorf("%q names neither a claim, a sandbox nor a pool", text), next: []string{"write CLAIM, sandbox/SANDBOX or pool/POOL"}}
	case t.sandbox:
		return subject{agents.SandboxKind, t.name}, nil
	}
	return subject{extensions.SandboxClaimKind, t.name}, nil
}

func (p *program) events(ctx context.Context, o *listOptions, of subject, typed string) error {
	printer, err := o.printer(p, "events "+typed)
	if err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	where := []client.ListOption{client.InNamespace(c.namespace)}
	one := append(slices.Clone(where), client.MatchingFields{"metadata.name": of.name})
	owner := func() client.ObjectList { return &extensions.SandboxClaimList{} }
	if of.kind == extensions.SandboxWarmPoolKind {
		owner = func() client.ObjectList { return &extensions.SandboxWarmPoolList{} }
	}
	return p.show(ctx, c, o, printer, view{
		command: "events",
		queries: []query{
			{list: owner, options: one},
			{list: func() client.ObjectList { return &agents.SandboxList{} }, options: where},
			{list: func() client.ObjectList { return &corev1.EventList{} }, options: where},
		},
		objects: func(all found) []client.Object {
			var objects []client.Object
			for _, event := range eventsOf(of, all) {
				objects = append(objects, event)
			}
			return objects
		},
		table:   func(all found, now time.Time) *metav1.Table { return eventTable(eventsOf(of, all), now) },
		key:     []string{"Object", "Reason", "Message"},
		ages:    "Last seen",
		nothing: fmt.Sprintf("No events of %s in namespace %s.", typed, c.namespace),
		absent:  of.absent,
	})
}

// absent says that there is no such object, if there is none. Events may be told of one that is gone, so that
// this is no error.
func (s subject) absent(all found) string {
	among := all[0]
	if s.kind == agents.SandboxKind {
		among = all[1]
	}
	if slices.ContainsFunc(among, func(obj client.Object) bool { return obj.GetName() == s.name }) {
		return ""
	}
	return fmt.Sprintf(" And there is no %s %s there: if there ever was, its events have expired.", shownKind(s.kind), s.name)
}

// eventsOf picks the events of a subject and of what belongs to it, from the subject (if it is a claim or a
// pool), the sandboxes and the events of its namespace. The oldest comes first.
func eventsOf(of subject, all found) []*corev1.Event {
	related := relatedTo(of, all)
	var events []*corev1.Event
	for _, event := range typed[*corev1.Event](all[2]) {
		about := event.InvolvedObject
		uid, known := related[subject{about.Kind, about.Name}]
		// Of an earlier object of the same name there may be events, too.
		if known && (uid == "" || about.UID == "" || string(about.UID) == uid) {
			events = append(events, event)
		}
	}
	slices.SortStableFunc(events, func(a, b *corev1.Event) int {
		return cmp.Or(lastSeen(a).Compare(lastSeen(b)), compareVersions(a, b), strings.Compare(a.Name, b.Name))
	})
	return events
}

// relatedTo gives the objects that count, with their UIDs where those are known.
func relatedTo(of subject, all found) map[subject]string {
	related := map[subject]string{of: ""}
	owner := ""
	for _, object := range all[0] {
		if of.kind != agents.SandboxKind && object.GetName() == of.name {
			owner = string(object.GetUID())
			related[of] = owner
		}
	}
	for _, sandbox := range typed[*agents.Sandbox](all[1]) {
		controller := metav1.GetControllerOf(sandbox)
		owned := owner != "" && controller != nil && string(controller.UID) == owner
		named := of.kind == agents.SandboxKind && sandbox.Name == of.name
		if !owned && !named {
			continue
		}
		related[subject{agents.SandboxKind, sandbox.Name}] = string(sandbox.UID)
		pod := cmp.Or(sandbox.Annotations[agents.AnnotationPodName], sandbox.Name)
		related[subject{"Pod", pod}] = ""
		for _, template := range sandbox.Spec.VolumeClaimTemplates {
			related[subject{"PersistentVolumeClaim", agents.PersistentVolumeClaimName(template.Metadata.Name, sandbox.Name)}] = ""
		}
	}
	return related
}

// lastSeen is when an event happened, or happened again.
func lastSeen(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

// compareVersions tells which of two events of the same second was written first.
func compareVersions(a, b *corev1.Event) int {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		return 0
	}
	return order
}

// times is how often an event happened.
func times(event *corev1.Event) int {
	n := int(event.Count)
	if event.Series != nil {
		n = int(event.Series.Count)
	}
	return max(n, 1)
}

// shownKind is how commands write a kind.
func shownKind(kind string) string {
	switch kind {
	case extensions.SandboxClaimKind:
		return "claim"
	case extensions.SandboxWarmPoolKind:
		return "pool"
	}
	return strings.ToLower(kind)
}

func eventTable(events []*corev1.Event, now time.Time) *metav1.Table {
	return tableFrom(events, []column[*corev1.Event]{
		{"Last seen", 0, func(e *corev1.Event) string { return duration.HumanDuration(now.Sub(lastSeen(e))) }},
		{"Type", 0, func(e *corev1.Event) string { return e.Type }},
		{"Reason", 0, func(e *corev1.Event) string { return e.Reason }},
		{"Object", 0, func(e *corev1.Event) string { return shownKind(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name }},
		{"Message", 0, func(e *corev1.Event) string { return strings.TrimSpace(e.Message) }},
		{"Count", onlyWide, func(e *corev1.Event) string { return strconv.Itoa(times(e)) }},
		{"Source", onlyWide, func(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) }},
	}, nil)
}
