package testmysql

import "syscall"

// processAttr returns the attributes of a server's process. The server gets SIGKILL when the thread that forked it
// exits. Setpgid limits a terminal's Ctrl-C to the program, which then stops its servers in order.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
