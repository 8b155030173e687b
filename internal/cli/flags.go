// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// badValue is what is wrong with a flag's value, and how to write a right one.
type badValue struct{ cause, remedy string }

func (b badValue) Error() string { return b.cause }

// limit is how long something may take: a flag's value of no less than 0, where 0 may mean forever.
type limit struct {
	value  *time.Duration
	remedy string // what to write instead of a wrong value
	least  time.Duration
}

func (l limit) String() string { return l.value.String() }
func (l limit) Type() string   { return "duration" }

func (l limit) Set(text string) error {
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return badValue{"it is not a length of time", l.remedy}
	case value < 0:
		return badValue{"it is negative", l.remedy}
	case value < l.least:
		return badValue{"it is less than " + l.least.String(), l.remedy}
	}
	*l.value = value
	return nil
}

// patience is how long a command waits if nothing else is said: as long as client libraries.
const patience = 3 * time.Minute

// waitFlag is the flag for how long to wait, where 0 is forever.
func waitFlag(flags *pflag.FlagSet, value *time.Duration, usage string) {
	*value = patience
	flags.Var(limit{value: value, remedy: "write a number with a unit, such as 30s or 5m; 0 waits forever"}, "timeout", usage+"; 0 waits forever")
}

// spanFlag is a flag for a length of time that may be left out and is a second or more.
func spanFlag(flags *pflag.FlagSet, value *time.Duration, name, usage string) {
	flags.Var(limit{value: value, remedy: "write a number with a unit, such as 30s, 5m or 8h", least: time.Second}, name, usage)
	flags.Lookup(name).DefValue = "" // the help has no default of 0s
}

// count is a number of no less than 0.
type count struct {
	value  *int64
	remedy string
}

func (c count) String() string { return strconv.FormatInt(*c.value, 10) }
func (c count) Type() string   { return "number" }

func (c count) Set(text string) error {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 {
		return badValue{"it is not a number of 0 or more", c.remedy}
	}
	*c.value = value
	return nil
}

// pair is KEY=VALUE.
type pair struct{ key, value string }

// pairs are the values of a flag that may be given again.
type pairs struct {
	values *[]pair
	check  func(pair) error
	remedy string
}

func (p pairs) String() string { return "" }
func (p pairs) Type() string   { return "KEY=VALUE" }

func (p pairs) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return badValue{"it is not of the form KEY=VALUE", p.remedy}
	}
	if err := p.check(pair{key, value}); err != nil {
		return badValue{err.Error(), p.remedy}
	}
	*p.values = append(*p.values, pair{key, value})
	return nil
}

func checkVariable(p pair) error {
	return joined(validation.IsEnvVarName(p.key))
}

func checkLabel(p pair) error {
	return joined(append(validation.IsQualifiedName(p.key), validation.IsValidLabelValue(p.value)...))
}

// joined makes one error of what the validation of Kubernetes says, or none.
func joined(messages []string) error {
	if len(messages) == 0 {
		return nil
	}
	return errors.New(strings.Join(messages, "; "))
}

// flagProblem explains a flag that cannot be parsed; it is not known for other errors.
func flagProblem(err error) (*problem, bool) {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return nil, false
	}
	var bad badValue
	if !errors.As(err, &bad) {
		return nil, false
	}
	return &problem{cause: fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), bad.cause), next: []string{bad.remedy}}, true
}
