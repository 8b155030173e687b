// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package scenarios

import "syscall"

func endWithTest() *syscall.SysProcAttr { return nil }
