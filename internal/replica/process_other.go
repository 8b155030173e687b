// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package replica

import "syscall"

func endWithStarter() *syscall.SysProcAttr { return nil }
