// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// One object that the types cannot hold would end every list of its kind, and with it
// the controllers for everybody. So the server has to refuse it.
func TestWhatNoClientCouldReadIsRefused(t *testing.T) {
	s := newSpace(t)
	limits := func(quantity string) string {
		return `{podTemplate: {spec: {containers: [{name: c, resources: {limits: {cpu: ` + quantity + `}}}]}}}`
	}
	probe := func(port string) string {
		return `{podTemplate: {spec: {containers: [{name: c, livenessProbe: {httpGet: {port: ` + port + `}}}]}}}`
	}
	shutdown := func(time string) string { return `{shutdownTime: "` + time + `", podTemplate: ` + pod + `}` }
	container := func(field string) string { return `{podTemplate: {spec: {containers: [{name: c, ` + field + `}]}}}` }
	for _, test := range []struct{ name, kind, spec string }{
		{"a quantity with a fraction in its exponent", "Sandbox", limits(`"1e1.5"`)},
		{"a quantity with an exponent that takes forever", "Sandbox", limits(`"1e-2147483647"`)},
		{"a quantity with an exponent of many digits", "Sandbox", limits(`"1e99999999999999999999"`)},
		{"a template's quantity with a fraction in its exponent", "SandboxTemplate", limits(`"1e1.5"`)},
		{"a claim's volume with a fraction in its exponent", "SandboxClaim",
			`{warmPoolRef: {name: p}, volumeClaimTemplates: [{metadata: {name: v}, spec: {resources: {requests: {storage: "1e.5"}}}}]}`},
		{"a port or name above 32 bits", "Sandbox", probe(`3000000000`)},
		{"a port or name below 32 bits", "Sandbox", probe(`-3000000000`)},
		{"a network policy's port above 32 bits", "SandboxTemplate",
			`{networkPolicy: {egress: [{ports: [{port: 3000000000}]}]}, podTemplate: ` + pod + `}`},
		{"a surge above 32 bits", "SandboxWarmPool",
			`{sandboxTemplateRef: {name: t}, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 3000000000}}}`},
		{"a container's port above 32 bits", "Sandbox", container(`ports: [{containerPort: 3000000000}]`)},
		{"a container's port below 32 bits", "SandboxTemplate", container(`ports: [{containerPort: -3000000000}]`)},
		{"a time to live above 32 bits", "SandboxClaim", `{warmPoolRef: {name: p}, lifecycle: {ttlSecondsAfterFinished: 3000000000}}`},
		{"a deadline above 32 bits", "SandboxClaim", `{warmPoolRef: {name: p}, lifecycle: {bindDeadlineSeconds: 9000000000000}}`},
		{"replicas above 32 bits", "SandboxWarmPool", `{sandboxTemplateRef: {name: t}, replicas: 3000000000}`},
		{"a second that is a leap", "Sandbox", shutdown("2030-01-01T23:59:60Z")},
		{"a time in small letters", "Sandbox", shutdown("2030-01-01t00:00:00z")},
		{"a time without a zone", "Sandbox", shutdown("2030-01-01T00:00:00")},
		{"a day that does not exist", "Sandbox", shutdown("2030-02-31T00:00:00Z")},
		{"a time with a space", "Sandbox", shutdown("2030-01-01 00:00:00Z")},
		{"a zone that does not exist", "Sandbox", shutdown("2030-01-01T00:00:00+99:99")},
		{"a claim's second that is a leap", "SandboxClaim", `{warmPoolRef: {name: p}, lifecycle: {shutdownTime: "2030-01-01T23:59:60Z"}}`},
	} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			t.Run(test.name+" at "+version, func(t *testing.T) {
				made := object(test.kind, version, dns(test.name), test.spec)
				_, err := s.resource(test.kind, version).Create(t.Context(), made, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err == nil {
					t.Error("accepted")
				}
			})
		}
	}
	for _, test := range []struct {
		name, kind, spec string
		into             any
	}{
		{"quantities of every form", "Sandbox", `{podTemplate: {spec: {containers: [{name: c, resources: {limits:
			{a: 1, b: "1", c: 100m, d: 1.5Gi, e: "1e3", f: "12E2", g: ".5", h: "1.", i: "-1e-3", j: "+5k", k: "9223372036854775807", l: 1E, m: 250n}}}]}}}`, &agents.Sandbox{}},
		{"ports by number and name", "Sandbox", `{podTemplate: {spec: {containers: [{name: c, livenessProbe: {httpGet: {port: 80}},
			readinessProbe: {tcpSocket: {port: http}}, ports: [{containerPort: 65535}]}]}}}`, &agents.Sandbox{}},
		{"a time with a fraction", "Sandbox", `{shutdownTime: "2030-12-31T23:59:59.123456789Z", podTemplate: ` + pod + `}`, &agents.Sandbox{}},
		{"a time in a zone", "SandboxClaim", `{warmPoolRef: {name: p}, lifecycle: {shutdownTime: "2030-01-01T00:00:00+05:30"}}`, &extensions.SandboxClaim{}},
		{"the largest numbers", "SandboxClaim", `{warmPoolRef: {name: p}, lifecycle: {ttlSecondsAfterFinished: 2147483647}}`, &extensions.SandboxClaim{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw, err := json.Marshal(s.create(test.kind, "v1beta1", dns(test.name), test.spec).Object)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, test.into); err != nil {
				t.Error(err)
			}
		})
	}
}
