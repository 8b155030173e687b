// SPDX-License-Identifier: Apache-2.0

package scenarios

import "syscall"

// endWithTest lets a process end with the one that started it, however that ends.
func endWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
