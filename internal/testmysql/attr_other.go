//go:build !linux

package testmysql

import "syscall"

// processAttr returns the attributes of a server's process. Setpgid limits a terminal's Ctrl-C to the program, which
// then stops its servers in order. A server outlives a program that is killed here.
func processAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
