// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/berthdev/berth/internal/control"
)

// shortNotes records events whose notes the server takes: it refuses longer ones, and
// the event is lost.
type shortNotes struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r shortNotes) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", control.Note(fmt.Sprintf(note, args...)))
}
