// SPDX-License-Identifier: Apache-2.0

package replica

import "syscall"

// endWithStarter lets a process end with the one that started it, however that ends.
func endWithStarter() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
