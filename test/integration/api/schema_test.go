// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDefaults(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct {
		name, kind, version, spec string
		want                      map[string]string
	}{
		{"a sandbox", "Sandbox", "v1beta1", aSandbox, map[string]string{
			"spec.operatingMode": "Running", "spec.shutdownPolicy": "Retain", "spec.service": "", "spec.shutdownTime": "",
			"spec.updateStrategy": "", "spec.podFailureAction": ""}},
		{"an old sandbox", "Sandbox", "v1alpha1", aSandbox, map[string]string{
			"spec.replicas": "1", "spec.shutdownPolicy": "Retain"}},
		{"a sandbox's update strategy", "Sandbox", "v1beta1", `{updateStrategy: {}, podTemplate: ` + pod + `}`, map[string]string{
			"spec.updateStrategy.type": "OnDelete"}},
		{"a template", "SandboxTemplate", "v1beta1", aSandbox, map[string]string{
			"spec.networkPolicyManagement": "Managed", "spec.envVarsInjectionPolicy": "Disallowed",
			"spec.volumeClaimTemplatesPolicy": "Disallowed"}},
		{"an old template", "SandboxTemplate", "v1alpha1", aSandbox, map[string]string{
			"spec.networkPolicyManagement": "Managed", "spec.envVarsInjectionPolicy": "Disallowed"}},
		{"a pool", "SandboxWarmPool", "v1beta1", `{sandboxTemplateRef: {name: t}}`, map[string]string{
			"spec.replicas": "1", "spec.updateStrategy": ""}},
		{"a pool's update strategy", "SandboxWarmPool", "v1beta1", `{sandboxTemplateRef: {name: t}, updateStrategy: {}}`, map[string]string{
			"spec.updateStrategy.type": "OnReplenish"}},
		{"a claim", "SandboxClaim", "v1beta1", `{warmPoolRef: {name: p}, lifecycle: {}}`, map[string]string{
			"spec.lifecycle.shutdownPolicy": "Retain", "spec.warmpool": "", "spec.lifecycle.sandboxLost": ""}},
		{"an old claim", "SandboxClaim", "v1alpha1", `{sandboxTemplateRef: {name: t}}`, map[string]string{
			"spec.warmpool": "default"}},
		{"a container's port", "Sandbox", "v1beta1", `{podTemplate: {spec: {containers: [{name: c, ports: [{containerPort: 1}]}]}}}`, map[string]string{
			"spec.podTemplate.spec.containers.0.ports.0.protocol": "TCP"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			created := s.create(test.kind, test.version, dns(test.name), test.spec)
			for path, want := range test.want {
				if got := at(created, path); got != want {
					t.Errorf("%s = %q, want %q", path, got, want)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := newSpace(t)
	sandbox := func(field string) string { return `{podTemplate: ` + pod + `, ` + field + `}` }
	pool := func(field string) string { return `{sandboxTemplateRef: {name: t}, ` + field + `}` }
	claim := func(field string) string { return `{warmPoolRef: {name: p}, ` + field + `}` }
	for _, test := range []struct{ name, kind, version, spec, want string }{

		{"operating mode", "Sandbox", "v1beta1", sandbox(`operatingMode: Paused`),
			`spec.operatingMode: Unsupported value: "Paused": supported values: "Running", "Suspended"`},
		{"replicas of a sandbox above 1", "Sandbox", "v1beta1", sandbox(`replicas: 2`), `spec.replicas in body should be less than or equal to 1`},
		{"replicas of an old sandbox above 1", "Sandbox", "v1alpha1", sandbox(`replicas: 2`), `spec.replicas in body should be less than or equal to 1`},
		{"negative replicas of a sandbox", "Sandbox", "v1beta1", sandbox(`replicas: -1`), `spec.replicas in body should be greater than or equal to 0`},
		{"replicas that are no number", "Sandbox", "v1beta1", sandbox(`replicas: many`), `spec.replicas: Invalid value: "string"`},
		{"an update strategy a sandbox does not have", "Sandbox", "v1beta1", sandbox(`updateStrategy: {type: RollingUpdate}`),
			`supported values: "OnDelete", "Recreate"`},
		{"a failure action", "Sandbox", "v1beta1", sandbox(`podFailureAction: Ignore`), `supported values: "Keep", "Replace"`},
		{"a shutdown policy", "Sandbox", "v1beta1", sandbox(`shutdownPolicy: DeleteForeground`), `supported values: "Delete", "Retain"`},
		{"a sandbox without a pod template", "Sandbox", "v1beta1", `{service: true}`, `spec.podTemplate: Required value`},
		{"a pod without containers", "Sandbox", "v1beta1", `{podTemplate: {spec: {}}}`, `spec.podTemplate.spec.containers: Required value`},
		{"a volume without a spec", "Sandbox", "v1beta1", sandbox(`volumeClaimTemplates: [{metadata: {name: v}}]`), `spec.volumeClaimTemplates[0].spec: Required value`},
		{"two ports of one number", "Sandbox", "v1beta1", `{podTemplate: {spec: {containers: [{name: c, ports: [{containerPort: 1}, {containerPort: 1}]}]}}}`,
			`Duplicate value`},
		{"a network policy nobody keeps", "SandboxTemplate", "v1beta1", sandbox(`networkPolicyManagement: Never`), `supported values: "Managed", "Unmanaged"`},
		{"a policy for variables", "SandboxTemplate", "v1beta1", sandbox(`envVarsInjectionPolicy: Always`), `supported values: "Allowed", "Overrides", "Disallowed"`},
		{"a policy for volumes", "SandboxTemplate", "v1beta1", sandbox(`volumeClaimTemplatesPolicy: Maybe`), `supported values: "Disallowed", "Allowed", "Overrides"`},
		{"negative replicas of a pool", "SandboxWarmPool", "v1beta1", pool(`replicas: -1`), `spec.replicas in body should be greater than or equal to 0`},
		{"an old pool without replicas", "SandboxWarmPool", "v1alpha1", `{sandboxTemplateRef: {name: t}}`, `spec.replicas: Required value`},
		{"a pool without a template", "SandboxWarmPool", "v1beta1", `{replicas: 1}`, `spec.sandboxTemplateRef: Required value`},
		{"an update strategy a pool does not have", "SandboxWarmPool", "v1beta1", pool(`updateStrategy: {type: OnDelete}`),
			`supported values: "Recreate", "OnReplenish", "RollingUpdate"`},
		{"bounds without a rolling update", "SandboxWarmPool", "v1beta1", pool(`updateStrategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}`),
			`rollingUpdate may be set only when type is RollingUpdate`},
		{"a surge that is no number", "SandboxWarmPool", "v1beta1", pool(`updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: lots}}`),
			`maxSurge must be a number, 0 or more, or a percentage from 0% to 100%`},
		{"a negative surge", "SandboxWarmPool", "v1beta1", pool(`updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: -1}}`),
			`maxSurge must be a number, 0 or more`},
		{"more missing than there are", "SandboxWarmPool", "v1beta1", pool(`updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 101%}}`),
			`maxUnavailable must be a number, 0 or more, or a percentage from 0% to 100%`},
		{"a rolling update that cannot move", "SandboxWarmPool", "v1beta1", pool(`updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0}}`),
			`maxUnavailable and maxSurge must not both be 0`},
		{"a rolling update that cannot move, in percent", "SandboxWarmPool", "v1beta1",
			pool(`updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0%, maxSurge: 0}}`),
			`maxUnavailable and maxSurge must not both be 0`},
		{"a claim for nothing", "SandboxClaim", "v1beta1", `{lifecycle: {}}`,
			`a claim needs spec.warmPoolRef.name, the pool to take a sandbox from, or spec.sandboxTemplateRef.name, the template to make one from`},
		{"an old claim for nothing", "SandboxClaim", "v1alpha1", `{warmpool: p}`, `a claim needs spec.warmPoolRef.name`},
		{"a claim for a pool without a name", "SandboxClaim", "v1beta1", `{warmPoolRef: {name: ""}}`, `a claim needs spec.warmPoolRef.name`},
		{"a claim's shutdown policy", "SandboxClaim", "v1beta1", claim(`lifecycle: {shutdownPolicy: Keep}`), `supported values: "Delete", "DeleteForeground", "Retain"`},
		{"a claim's negative time to live", "SandboxClaim", "v1beta1", claim(`lifecycle: {ttlSecondsAfterFinished: -1}`), `should be greater than or equal to 0`},
		{"a deadline before the claim", "SandboxClaim", "v1beta1", claim(`lifecycle: {bindDeadlineSeconds: 0}`), `should be greater than or equal to 1`},
		{"a lost sandbox", "SandboxClaim", "v1beta1", claim(`lifecycle: {sandboxLost: Ignore}`), `supported values: "Report", "Replace"`},
		{"a variable without a value", "SandboxClaim", "v1beta1", claim(`env: [{name: A}]`), `spec.env[0].value: Required value`},
		{"a variable without a name", "SandboxClaim", "v1beta1", claim(`env: [{value: a}]`), `spec.env[0].name: Required value`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.tryCreate(test.kind, test.version, "refused", test.spec)
			refused(t, err, test.want)
			if !apierrors.IsInvalid(err) {
				t.Errorf("the refusal is %v, want Invalid", apierrors.ReasonForError(err))
			}
		})
	}
	for kind := range plurals {
		t.Run(kind+" without a spec", func(t *testing.T) {
			made := object(kind, "v1beta1", "refused", `{}`)
			delete(made.Object, "spec")
			_, err := s.resource(kind, "v1beta1").Create(t.Context(), made, metav1.CreateOptions{})
			refused(t, err, "spec: Required value")
		})
	}
}

func TestAccepted(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct{ name, kind, version, spec string }{
		{"every update strategy of a sandbox", "Sandbox", "v1beta1", `{updateStrategy: {type: Recreate}, podFailureAction: Replace, podTemplate: ` + pod + `}`},
		{"a template's network policy", "SandboxTemplate", "v1beta1",
			`{networkPolicy: {egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]}], ingress: []}, podTemplate: ` + pod + `}`},
		{"a rolling update in numbers", "SandboxWarmPool", "v1beta1",
			`{sandboxTemplateRef: {name: t}, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 2}}}`},
		{"a rolling update in percent", "SandboxWarmPool", "v1beta1",
			`{sandboxTemplateRef: {name: t}, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%}}}`},
		{"a pool of none", "SandboxWarmPool", "v1beta1", `{sandboxTemplateRef: {name: t}, replicas: 0}`},
		{"a claim for a template", "SandboxClaim", "v1beta1", `{sandboxTemplateRef: {name: t}, warmpool: none}`},
		{"a claim with everything", "SandboxClaim", "v1beta1", `{warmPoolRef: {name: p}, env: [{name: A, value: "", containerName: c}],
			additionalPodMetadata: {labels: {sandbox.users.io/a: b}}, volumeClaimTemplates: [{metadata: {name: v}, spec: {}}],
			lifecycle: {shutdownTime: "2030-01-01T00:00:00Z", ttlSecondsAfterFinished: 0, bindDeadlineSeconds: 1, sandboxLost: Replace, shutdownPolicy: DeleteForeground}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.t = t
			s.create(test.kind, test.version, dns(test.name), test.spec)
		})
	}
}

func TestUnknownFieldsArePruned(t *testing.T) {
	s := newSpace(t)
	created := s.create("Sandbox", "v1beta1", "pruned", `{
		podTemplate: {
			metadata: {name: gone, namespace: gone, labels: {a: b}, annotations: {c: d}, finalizers: [gone/gone]},
			spec: {containers: [{name: c, nonsense: 1}], hostname: kept}},
		volumeClaimTemplates: [{metadata: {name: v, namespace: gone, labels: {a: b}}, spec: {accessModes: [ReadWriteOnce]}}]}`)
	for path, want := range map[string]string{
		"spec.podTemplate.metadata":            `{"annotations":{"c":"d"},"labels":{"a":"b"}}`,
		"spec.podTemplate.spec":                `{"containers":[{"name":"c"}],"hostname":"kept"}`,
		"spec.volumeClaimTemplates.0.metadata": `{"labels":{"a":"b"},"name":"v"}`,
	} {
		if got := at(created, path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
}

func TestVolumeClaimTemplatesOfASandboxAreImmutable(t *testing.T) {
	s := newSpace(t)
	const volume = `volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce]}}]`
	s.create("Sandbox", "v1beta1", "with", `{`+volume+`, podTemplate: `+pod+`}`)
	s.create("Sandbox", "v1beta1", "without", aSandbox)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, patch := range map[string]string{
			"with":    `{spec: {volumeClaimTemplates: null}}`,
			"without": `{spec: {` + volume + `}}`,
		} {
			_, err := s.tryPatch("Sandbox", version, name, patch)
			refused(t, err, "volumeClaimTemplates is immutable")
		}
		_, err := s.tryPatch("Sandbox", version, "with", `{spec: {volumeClaimTemplates: []}}`)
		refused(t, err, "volumeClaimTemplates is immutable")
		s.patch("Sandbox", version, "with", `{spec: {`+volume+`, podTemplate: {metadata: {labels: {edited: "`+version+`"}}}}}`)
	}
	s.create("SandboxTemplate", "v1beta1", "template", aSandbox)
	s.patch("SandboxTemplate", "v1beta1", "template", `{spec: {`+volume+`}}`)
}

func TestNamesThatNothingCanHaveAreRefused(t *testing.T) {
	s := newSpace(t)
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, test := range []struct{ name, kind, object, spec, want string }{
		{"a sandbox of 64 characters", "Sandbox", long(64), aSandbox,
			"metadata.name must have no more than 63 characters, because the Sandbox's pod and Service are named after it; choose a shorter name"},
		{"a claim of 64 characters", "SandboxClaim", long(64), `{warmPoolRef: {name: p}}`,
			"metadata.name must have no more than 63 characters, because a Sandbox made for the claim has its name; choose a shorter name"},
		{"a template of 239 characters", "SandboxTemplate", long(239), aSandbox,
			"metadata.name must have no more than 238 characters, because the template's NetworkPolicy is named <name>-network-policy; choose a shorter name"},
		{"a sandbox with dots and a Service", "Sandbox", "a.b", `{service: true, podTemplate: ` + pod + `}`,
			"metadata.name must have no dots where spec.service is true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				_, err := s.tryCreate(test.kind, version, test.object, test.spec)
				refused(t, err, test.want)
			}
		})
	}
	s.create("Sandbox", "v1beta1", long(63), `{service: true, podTemplate: `+pod+`}`)
	s.create("SandboxClaim", "v1beta1", long(63), `{warmPoolRef: {name: p}}`)
	s.create("SandboxTemplate", "v1beta1", long(238), aSandbox)
	s.create("SandboxWarmPool", "v1beta1", long(253), `{sandboxTemplateRef: {name: t}}`)
	s.create("Sandbox", "v1beta1", "1-starts-with-a-digit", `{service: true, podTemplate: `+pod+`}`)
	s.create("Sandbox", "v1beta1", "a.b", aSandbox)
	_, err := s.tryPatch("Sandbox", "v1beta1", "a.b", `{spec: {service: true}}`)
	refused(t, err, "metadata.name must have no dots where spec.service is true")
}

// dns makes a name for an object from the name of a test case.
func dns(sentence string) string {
	return strings.NewReplacer(" ", "-", "'", "", ",", "").Replace(strings.ToLower(sentence))
}
