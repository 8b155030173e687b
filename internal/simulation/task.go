// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"iter"
	"runtime/debug"
)

// task is a piece of work that stops at every point where something else may happen
// first, such as an API call: resume runs it until it stops again or ends.
type task struct {
	// controller is whose pass the task is.
	controller string
	name       string
	work       func()
	crew       *crew
	worker     *coroutine // nil before it begins and after it has ended
	dying      bool
	ended      bool
	panic      any
	stack      []byte
}

// coroutine does one task after another, so that its stack has to grow only once.
type coroutine struct {
	task  *task
	next  func() (struct{}, bool)
	end   func()
	yield func(struct{}) bool
}

// crew are the coroutines of a run that have nothing to do.
type crew struct{ idle []*coroutine }

// killed is what a task that is ended by a crash unwinds with.
type killed struct{}

// newTask returns a task that has not begun.
func (c *crew) newTask(controller, name string, work func()) *task {
	return &task{controller: controller, name: name, work: work, crew: c}
}

// take returns a coroutine for a task.
func (c *crew) take() *coroutine {
	if n := len(c.idle); n > 0 {
		taken := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return taken
	}
	made := &coroutine{}
	made.next, made.end = iter.Pull(func(yield func(struct{}) bool) {
		made.yield = yield
		for goesOn := true; goesOn; goesOn = yield(struct{}{}) {
			made.do()
		}
	})
	return made
}

// dismiss ends the coroutines. Those that still have a task are not among them.
func (c *crew) dismiss() {
	for _, idle := range c.idle {
		idle.end()
	}
	c.idle = nil
}

// do does the coroutine's task.
func (c *coroutine) do() {
	t := c.task
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				t.panic, t.stack = p, debug.Stack()
			}
		}
		t.ended = true
	}()
	t.work()
}

// resume runs the task until it stops or ends.
func (t *task) resume() {
	if t.worker == nil {
		t.worker = t.crew.take()
		t.worker.task = t
	}
	t.worker.next()
	if t.ended {
		t.worker.task = nil
		t.crew.idle = append(t.crew.idle, t.worker)
		t.worker = nil
	}
}

// kill ends the task where it is.
func (t *task) kill() {
	t.dying = true
	if t.worker != nil {
		t.resume()
	}
	t.ended = true
}

// stop is called by the task: it lets everything else happen until it is resumed.
func (t *task) stop() {
	if !t.dying {
		t.worker.yield(struct{}{})
	}
	if t.dying {
		panic(killed{})
	}
}
