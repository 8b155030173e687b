// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package crash_test

import "syscall"

func endWithTest() *syscall.SysProcAttr { return nil }
