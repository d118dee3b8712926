//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoProbes starts an idle process with all packages of the program on a terminal: it writes no escape
// sequences, by which libraries query a terminal for its colors.
func TestNoProbes(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals: ", err)
	}
	defer terminal.Close()
	must(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	must(t, err)
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	must(t, cmd.Start())
	must(t, side.Close())
	text, _ := io.ReadAll(terminal) // it fails once the process has closed its side
	must(t, cmd.Wait())
	if bytes.IndexByte(text, 0x1b) >= 0 || !bytes.Contains(text, []byte("PASS")) {
		t.Errorf("the process wrote %q", text)
	}
}
