// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"iter"
	"runtime/debug"
)

// task is a piece of work that stops at every point where something else may happen
// first, such as an API call. It is a coroutine: resume runs it until it stops again
// or ends.
type task struct {
	// controller is whose pass the task is.
	controller string
	name       string
	next       func() (struct{}, bool)
	end        func()
	yield      func(struct{}) bool
	ended      bool
	panic      any
	stack      []byte
}

// killed is what a task that is ended by a crash unwinds with.
type killed struct{}

// newTask returns a task that has not begun.
func newTask(controller, name string, work func()) *task {
	t := &task{controller: controller, name: name}
	t.next, t.end = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(killed); !ok {
					t.panic, t.stack = p, debug.Stack()
				}
			}
			t.ended = true
		}()
		t.yield = yield
		work()
	})
	return t
}

// resume runs the task until it stops or ends.
func (t *task) resume() { t.next() }

// kill ends the task where it is.
func (t *task) kill() { t.end() }

// stop is called by the task: it lets everything else happen until it is resumed.
func (t *task) stop() {
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
}
