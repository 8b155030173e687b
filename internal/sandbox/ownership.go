// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// An object of a name that the Sandbox needs is one of these.
type relation int

const (
	owned     relation = iota // its controller is the Sandbox's UID
	adoptable                 // nobody controls it, and its labels let the Sandbox take it
	unowned                   // nobody controls it
	foreign                   // something else controls it
)

func relate(s *agents.Sandbox, obj client.Object) relation {
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref != nil && ref.UID == s.UID:
		return owned
	case ref != nil:
		return foreign
	case concerns(obj, agents.NameHash(s.Name)):
		return adoptable
	default:
		return unowned
	}
}

// otherOwner fills in one of the formats that name an object's owner.
func otherOwner(format string, s *agents.Sandbox, obj client.Object) string {
	ref := metav1.GetControllerOfNoCopy(obj)
	return fmt.Sprintf(format, obj.GetName(), ref.Kind, ref.Name, ref.UID, s.Name)
}
