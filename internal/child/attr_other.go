//go:build !linux

package child

import "syscall"

// attr returns the attributes of a child's process. The child outlives this process if it is killed: only Linux
// signals the death of a parent.
func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
