// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A write through the scale subresource reaches admission as a Scale, so that
// no policy can make operatingMode follow. These tests say what comes of that.
func TestScalingASandboxDownAndUpAgain(t *testing.T) {
	s := newSpace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		s.create("Sandbox", version, version, aSandbox)
		for range 2 {
			s.patch("Sandbox", version, version, `{spec: {replicas: 0}}`, "scale")
			down := s.get("Sandbox", version, version)
			if pair(down) != "Running 0" || running(t, down) {
				t.Errorf("scaled down it is %q, running %v", pair(down), running(t, down))
			}
			// A write that has nothing to do with it must not get in the way.
			s.patch("Sandbox", version, version, `{metadata: {annotations: {note: "`+version+`"}}}`)
			s.patch("Sandbox", version, version, `{spec: {replicas: 1}}`, "scale")
			up := s.get("Sandbox", version, version)
			if pair(up) != on || !running(t, up) {
				t.Errorf("scaled up again it is %q, running %v", pair(up), running(t, up))
			}
			s.patch("Sandbox", version, version, `{metadata: {annotations: {note: null}}}`)
		}
	}
}

func TestAfterScalingDownEitherFieldOfASandboxBringsItBack(t *testing.T) {
	s := newSpace(t)
	for name, patches := range map[string][]string{
		"replicas":       {`{spec: {replicas: 1}}`},
		"suspend-resume": {`{spec: {operatingMode: Suspended}}`, `{spec: {operatingMode: Running}}`},
		"both":           {`{spec: {operatingMode: Running, replicas: 1}}`},
	} {
		s.create("Sandbox", "v1beta1", name, aSandbox)
		s.patch("Sandbox", "v1beta1", name, `{spec: {replicas: 0}}`, "scale")
		for _, patch := range patches {
			s.patch("Sandbox", "v1beta1", name, patch)
		}
		if back := s.get("Sandbox", "v1beta1", name); pair(back) != on || !running(t, back) {
			t.Errorf("%s: it is %q", name, pair(back))
		}
	}
}

// A typed client that does not know replicas must not bring a Sandbox back
// that was scaled down.
func TestAPutAfterScalingDownKeepsASandboxDown(t *testing.T) {
	s := newSpace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		s.create("Sandbox", "v1beta1", version, aSandbox)
		s.patch("Sandbox", "v1beta1", version, `{spec: {replicas: 0}}`, "scale")
		sent := knows(t, s.get("Sandbox", version, version), version)
		saved, err := s.resource("Sandbox", version).Update(t.Context(), sent, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pair(saved) != "Running 0" {
			t.Errorf("at %s: it became %q", version, pair(saved))
		}
	}
}

// Scaling up a suspended Sandbox could only leave it suspended, with a scale
// that says 1. It is refused, and the refusal says what to do.
func TestScalingUpASuspendedSandboxIsRefused(t *testing.T) {
	s := newSpace(t)
	s.create("Sandbox", "v1beta1", "s", `{operatingMode: Suspended, podTemplate: `+pod+`}`)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		_, err := s.tryPatch("Sandbox", version, "s", `{spec: {replicas: 1}}`, "scale")
		refused(t, err, "replicas cannot be raised while operatingMode is Suspended: the Sandbox would not run; set spec.operatingMode to Running as well")
		if !apierrors.IsInvalid(err) {
			t.Errorf("the refusal is %v, want Invalid", apierrors.ReasonForError(err))
		}
	}
	if got := pair(s.get("Sandbox", "v1beta1", "s")); got != off {
		t.Errorf("it became %q", got)
	}
}

func TestASandboxHasAScale(t *testing.T) {
	s := newSpace(t)
	s.create("Sandbox", "v1beta1", "s", aSandbox)
	s.patch("Sandbox", "v1beta1", "s", `{status: {replicas: 1, selector: "agents.x-k8s.io/sandbox-name-hash=043a718a"}}`, "status")
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		scale, err := s.resource("Sandbox", version).Get(t.Context(), "s", metav1.GetOptions{}, "scale")
		if err != nil {
			t.Fatal(err)
		}
		if at(scale, "spec.replicas") != "1" || at(scale, "status.replicas") != "1" ||
			at(scale, "status.selector") != "agents.x-k8s.io/sandbox-name-hash=043a718a" {
			t.Errorf("at %s: %v", version, scale.Object)
		}
	}
	_, err := s.tryPatch("Sandbox", "v1beta1", "s", `{spec: {replicas: 2}}`, "scale")
	refused(t, err, "should be less than or equal to 1")
}

func TestScalingAPool(t *testing.T) {
	s := newSpace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		s.create("SandboxWarmPool", version, version, `{sandboxTemplateRef: {name: t}, replicas: 1}`)
		s.patch("SandboxWarmPool", version, version, `{spec: {replicas: 5}}`, "scale")
		if got := at(s.get("SandboxWarmPool", version, version), "spec.replicas"); got != "5" {
			t.Errorf("at %s: replicas are %s, want 5", version, got)
		}
		_, err := s.tryPatch("SandboxWarmPool", version, version, `{spec: {replicas: -1}}`, "scale")
		refused(t, err, "replicas")
	}
}
