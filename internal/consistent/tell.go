// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Told must be called with every object that the informer tells its handlers of, but
// not before its store shows the object. It may be called late.
func (v *View[T]) Told(obj T) {
	key, rv := client.ObjectKeyFromObject(obj), version(obj.GetResourceVersion())
	v.mu.Lock()
	defer v.mu.Unlock()
	v.overlay.told(key, rv)
}

// tell tells that the object of an entry is gone, if the entry knows one.
func (v *View[T]) tell(e *entry[T]) {
	var none T
	if e.known() && any(e.obj) != any(none) {
		v.vanished(e.obj)
	}
}

// tellToLook tells to look at the object under key again. If it changes while that is
// told, the event of that may have come first: what was told is then over, and is told
// to be gone before what follows it is told.
func (v *View[T]) tellToLook(key types.NamespacedName) {
	for {
		obj, ok := v.read(key)
		if !ok {
			return
		}
		v.lookAgain(obj)
		if now, ok := v.read(key); ok && now.GetUID() == obj.GetUID() && now.GetResourceVersion() == obj.GetResourceVersion() {
			return
		}
		v.vanished(obj)
	}
}
