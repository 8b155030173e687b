// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAMessageStandsWhileOnlyMembersDiffer(t *testing.T) {
	stands := []metav1.Condition{{Type: "Bound", Reason: "TemplateNotFound", Message: "no t" + passedOverMark + "a is gone"}}
	for name, c := range map[string]struct{ kind, reason, message, want string }{
		"others were passed over":           {"Bound", "TemplateNotFound", "no t" + passedOverMark + "a is gone, b is gone", stands[0].Message},
		"none was":                          {"Bound", "TemplateNotFound", "no t", stands[0].Message},
		"something else is in the way":      {"Bound", "TemplateNotFound", "no u" + passedOverMark + "a is gone", "no u" + passedOverMark + "a is gone"},
		"it is so for another reason":       {"Bound", "NameTaken", "no t", "no t"},
		"the condition is not there so far": {"Ready", "TemplateNotFound", "no t", "no t"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := steady(stands, c.kind, c.reason, c.message); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	plain := []metav1.Condition{{Type: "Bound", Reason: "TemplateNotFound", Message: "no t"}}
	if got := steady(plain, "Bound", "TemplateNotFound", "no t"+passedOverMark+"a is gone"); got == "no t" {
		t.Error("members that are passed over for the first time are not told of")
	}
}
