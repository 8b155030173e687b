// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAPodThatCannotGetItsImageIsTold(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		want         bool
	}{
		{"a pull that failed and is tried again later", "ImagePullBackOff", true},
		{"an image that may not be pulled", "ErrImageNeverPull", true},
		{"a pull that failed once may yet succeed", "ErrImagePull", false},
		{"a container that is being made", "ContainerCreating", false},
		{"a container that runs", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := corev1.ContainerStatus{}
			if test.reason != "" {
				status.State.Waiting = &corev1.ContainerStateWaiting{Reason: test.reason}
			}
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
			if got := lacksImage(pod); got != test.want {
				t.Errorf("lacksImage with reason %q = %t, want %t", test.reason, got, test.want)
			}
		})
	}
}
