package server

import (
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

func TestOnSignal(t *testing.T) {
	called := make(chan struct{})
	stop := onSignal(syscall.SIGUSR1, func() { called <- struct{}{} })
	for range 3 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		testwait.Receive(t, "the signal's handler", called)
	}
	stop()
}
