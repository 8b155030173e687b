// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestABadValueNamesTheFlagAndTheRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"a wait below 0":                 {[]string{"claim", "p", "--timeout", "-1s"}, 1, []string{`--timeout "-1s": it is negative`, "Next: write a number with a unit", "0 waits forever"}},
		"a wait without a unit":          {[]string{"release", "c", "--timeout", "30"}, 1, []string{`--timeout "30": it is not a length of time`, "such as 30s"}},
		"a wait of resume below 0":       {[]string{"resume", "c", "--timeout", "-1h"}, 1, []string{`--timeout "-1h"`}},
		"a lifetime of nothing":          {[]string{"claim", "p", "--ttl", "0s"}, 1, []string{`--ttl "0s": it is less than 1s`, "such as 30s"}},
		"a variable without a value":     {[]string{"claim", "p", "--env", "TOKEN"}, 1, []string{`--env "TOKEN": it is not of the form KEY=VALUE`, "--env NAME=VALUE"}},
		"a variable no process can have": {[]string{"claim", "p", "--env", "1 2=x"}, 1, []string{`--env "1 2=x":`, "--env NAME=VALUE"}},
		"a label that is none":           {[]string{"claim", "p", "--label", "a b=c"}, 1, []string{`--label "a b=c":`, "--label KEY=VALUE"}},
		"a label's value that is none":   {[]string{"claim", "p", "--pod-label", "x.io/a=b c"}, 1, []string{`--pod-label "x.io/a=b c":`}},
		"lines below 0":                  {[]string{"logs", "c", "--tail", "-3"}, 1, []string{`--tail "-3": it is not a number of 0 or more`, "such as 20"}},
		"a time to look back of nothing": {[]string{"logs", "c", "--since", "-1m"}, 1, []string{`--since "-1m": it is negative`}},
		"a name that cannot be":          {[]string{"claim", "p", "--name", "My_Claim"}, 1, []string{`"My_Claim" cannot be the name of a claim`, "Next: choose another --name"}},
		"a name that is too long":        {[]string{"claim", "p", "--name", strings.Repeat("a", 64)}, 1, []string{"no more than 63 characters", "Next: choose another --name"}},
		"a name that is empty":           {[]string{"claim", "p", "--name", ""}, 1, []string{`"" cannot be the name of a claim`, "Next: choose another --name"}},
		"a pool that cannot be":          {[]string{"claim", "P!"}, 1, []string{`"P!" cannot be the name of a pool`, "Next: berth pools"}},
		"a port too high":                {[]string{"port-forward", "c", "99999"}, 1, []string{`"99999" is not a port`, "Next: write LOCAL:REMOTE"}},
		"a port 0 in the sandbox":        {[]string{"port-forward", "c", "8080:0"}, 1, []string{`"8080:0" is not a port`}},
		"an address that is none":        {[]string{"port-forward", "c", "80", "--address", "here"}, 1, []string{`--address "here"`, "Next: write localhost"}},
		"a format that is none":          {[]string{"pools", "-o", "xml"}, 1, []string{`there is no output format "xml"`, "Next: berth pools -o wide"}},
		"objects that are watched":       {[]string{"ls", "-w", "-o", "json"}, 1, []string{"--watch shows tables", "Next: berth ls -w -o wide"}},
		"a command without --rm":         {[]string{"claim", "p", "--", "ls"}, 1, []string{"only with --rm", "Next: berth claim p --rm -- ls"}},
		"--rm without a command":         {[]string{"claim", "p", "--rm"}, 125, []string{"claim --rm needs a command", "Next: berth claim p --rm -- sh"}},
		"--rm without dashes":            {[]string{"claim", "p", "--rm", "ls"}, 125, []string{"Next: berth claim p --rm -- ls"}},
		"--rm and --detach":              {[]string{"claim", "p", "--rm", "--detach", "--", "ls"}, 125, []string{"--detach waits for nothing", "Next: berth claim p --rm -- ls"}},
		"both paths here":                {[]string{"cp", "a", "b"}, 1, []string{"both paths are on this machine", "Next: write the path in the sandbox as CLAIM:PATH"}},
		"both paths in sandboxes":        {[]string{"cp", "a:/x", "sandbox/b:/y"}, 1, []string{"both paths are in sandboxes", "Next: berth cp a:/x - | berth cp - sandbox/b:/y"}},
		"a path that is empty":           {[]string{"cp", "a:", "b"}, 1, []string{"one is empty"}},
		"nothing to copy":                {[]string{"cp", "/no/such/file", "a:/x"}, 1, []string{"nothing to copy: ", "Next: name a file"}},
		"events of a pod":                {[]string{"events", "pod/x"}, 1, []string{"neither a claim, a sandbox nor a pool", "Next: write CLAIM"}},
		"a local cluster's bad name":     {[]string{"local", "up", "--name", "Bad Name"}, 1, []string{`--name "Bad Name": it is not a name of up to `, `Next: write a name such as "test"`}},
		"a local cluster of no name":     {[]string{"local", "down", "--name", ""}, 1, []string{`--name "": it is not a name`}},
		"a local cluster that leads out": {[]string{"local", "status", "--name", ".."}, 1, []string{`--name "..": it is not a name`}},
		"a shell that is none":           {[]string{"completion", "tcsh"}, 1, []string{"completion needs one of bash"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, code := offline(t, append([]string{"berth"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q:\n%s", want, got)
				}
			}
		})
	}
}

func TestTheClaimIsWhatTheFlagsSay(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 1, time.UTC)
	claim := newClaim("team", claimOptions{pool: "python", name: "analysis", ttl: time.Minute,
		env: []pair{{"A", "1=2"}, {"B", ""}}, labels: []pair{{"team", "blue"}}, podLabels: []pair{{"x.io/a", "b"}}}, at)
	if claim.Name != "analysis" || claim.PoolName() != "python" || claim.Labels["team"] != "blue" || claim.Labels[agents.LabelCreatedBy] != agents.CreatedByGoClient {
		t.Errorf("the claim is %+v", claim)
	}
	if env := claim.Spec.Env; len(env) != 2 || env[0] != (extensions.EnvVar{Name: "A", Value: "1=2"}) || env[1].Name != "B" {
		t.Errorf("env is %+v", env)
	}
	if got := claim.Spec.AdditionalPodMetadata.Labels; len(got) != 1 || got["x.io/a"] != "b" {
		t.Errorf("the pod's labels are %v", got)
	}
	life := claim.Spec.Lifecycle
	if life == nil || life.ShutdownPolicy != extensions.ClaimShutdownDelete || !life.ShutdownTime.Equal(&metav1.Time{Time: time.Date(2026, 9, 1, 12, 1, 1, 0, time.UTC)}) {
		t.Errorf("the lifecycle is %+v, and must not end before the minute does", life)
	}
	plain := newClaim("team", claimOptions{pool: "python"}, at)
	if plain.Spec.Lifecycle != nil || plain.NeedsOwnSandbox() || plain.Spec.AdditionalPodMetadata.Labels != nil {
		t.Errorf("a claim without flags is %+v", plain.Spec)
	}
}
