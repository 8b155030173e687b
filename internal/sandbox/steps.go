// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/consistent"
)

// A step is the one thing to do next. Its String says it to a person.
type step interface {
	fmt.Stringer
	about() subject
}

// subject is what a step is about. A refused write about one subject does not keep the
// others from being brought about.
type subject string

const (
	aboutSandbox subject = "sandbox"
	aboutVolumes subject = "volumes"
	aboutPod     subject = "pod"
	aboutService subject = "service"
)

// rest ends the pass: what comes next is an event, or until.
type rest struct {
	why   string
	until time.Time // zero if only an event can change anything
}

// retry ends the pass with an error, to try again with backoff what nothing announces.
type retry struct{ err error }

// createVolumeClaims creates PersistentVolumeClaims.
type createVolumeClaims struct {
	claims []*corev1.PersistentVolumeClaim
}

// adoptVolumeClaims takes over PersistentVolumeClaims that nobody controls.
type adoptVolumeClaims struct {
	claims  []*corev1.PersistentVolumeClaim
	patches []consistent.Patch
}

// createPod creates the pod.
type createPod struct{ pod *corev1.Pod }

// adoptPod takes over a pod that nobody controls.
type adoptPod struct {
	pod   *corev1.Pod
	patch consistent.Patch
}

// syncPod brings a pod's labels and annotations up to date.
type syncPod struct {
	pod   *corev1.Pod
	patch consistent.Patch
	// changed are the template's keys among what the patch changes.
	changed []string
}

// deletePods deletes pods of the Sandbox, with their own grace periods.
type deletePods struct {
	pods []*corev1.Pod
	why  string
}

// namePod writes the pod's name into the Sandbox's annotation for clients.
type namePod struct{ pod string }

// createService creates the Service.
type createService struct{ service *corev1.Service }

// patchService brings the Service up to date, or takes it over.
type patchService struct {
	service *corev1.Service
	patch   consistent.Patch
}

// deleteService deletes the Service.
type deleteService struct{ service *corev1.Service }

// confirmPodGone asks the server whether the Sandbox's pod is gone.
type confirmPodGone struct{}

// readPod reads the whole pod, to say in what it differs from its template.
type readPod struct{ pod *corev1.Pod }

// writeStatus writes the status, and records the events that go with it.
type writeStatus struct {
	patch  consistent.Patch
	events []event
}

// event is a warning about the Sandbox.
type event struct{ reason, note string }

// deleteSandbox deletes the Sandbox itself.
type deleteSandbox struct{}

func (rest) about() subject               { return aboutSandbox }
func (retry) about() subject              { return aboutSandbox }
func (createVolumeClaims) about() subject { return aboutVolumes }
func (adoptVolumeClaims) about() subject  { return aboutVolumes }
func (createPod) about() subject          { return aboutPod }
func (adoptPod) about() subject           { return aboutPod }
func (syncPod) about() subject            { return aboutPod }
func (deletePods) about() subject         { return aboutPod }
func (namePod) about() subject            { return aboutSandbox }
func (createService) about() subject      { return aboutService }
func (patchService) about() subject       { return aboutService }
func (deleteService) about() subject      { return aboutService }
func (confirmPodGone) about() subject     { return aboutSandbox }
func (readPod) about() subject            { return aboutSandbox }
func (writeStatus) about() subject        { return aboutSandbox }
func (deleteSandbox) about() subject      { return aboutSandbox }

func (s rest) String() string {
	if s.until.IsZero() {
		return "wait: " + s.why
	}
	return fmt.Sprintf("wait until %s at the latest: %s", s.until.UTC().Format(time.RFC3339), s.why)
}
func (s retry) String() string { return "try again later: " + s.err.Error() }
func (s createVolumeClaims) String() string {
	return "create the volume claims " + names(s.claims)
}
func (s adoptVolumeClaims) String() string {
	return "take over the volume claims " + names(s.claims)
}
func (s createPod) String() string { return "create the pod " + s.pod.Name }
func (s adoptPod) String() string  { return "take over the pod " + s.pod.Name }
func (s syncPod) String() string {
	return "bring labels and annotations of the pod " + s.pod.Name + " up to date"
}
func (s deletePods) String() string {
	return fmt.Sprintf("delete the pod %s: %s", names(s.pods), s.why)
}
func (s namePod) String() string        { return "write the pod's name " + s.pod + " on the Sandbox" }
func (s createService) String() string  { return "create the Service " + s.service.Name }
func (s patchService) String() string   { return "bring the Service " + s.service.Name + " up to date" }
func (s deleteService) String() string  { return "delete the Service " + s.service.Name }
func (s confirmPodGone) String() string { return "ask the server whether the pod is gone" }
func (s readPod) String() string {
	return "read in what the pod " + s.pod.Name + " differs from its template"
}
func (s writeStatus) String() string   { return "write the status" }
func (s deleteSandbox) String() string { return "delete the Sandbox, which has expired" }

func names[T client.Object](objects []T) string {
	list := make([]string, len(objects))
	for i, obj := range objects {
		list[i] = obj.GetName()
	}
	return strings.Join(list, ", ")
}
