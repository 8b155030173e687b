// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/internal/consistent"
)

// ConflictError says that other field managers have set what was to be stamped to
// something else. Nothing was written.
type ConflictError struct {
	Target Target
	Fields []ConflictingField
}

// ConflictingField is one field, such as ".metadata.labels.team", and who has set it.
type ConflictingField struct{ Field, Manager string }

func (e *ConflictError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = fmt.Sprintf("%s is set by field manager %q", f.Field, f.Manager)
	}
	return fmt.Sprintf("%s: %s", e.Target, strings.Join(parts, "; "))
}

func conflictError(t Target, causes []metav1.StatusCause) *ConflictError {
	e := &ConflictError{Target: t}
	for _, c := range causes {
		// The server says: conflict with "name" using version at time.
		manager := c.Message
		if parts := strings.SplitN(c.Message, `"`, 3); len(parts) == 3 {
			manager = parts[1]
		}
		e.Fields = append(e.Fields, ConflictingField{Field: c.Field, Manager: manager})
	}
	return e
}

// NotServed reports whether err says that the server does not know the kind at all: its
// definition was never there, or is gone, and all objects with it.
func NotServed(err error) bool {
	return errors.Is(err, consistent.ErrNotServed) || meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}
