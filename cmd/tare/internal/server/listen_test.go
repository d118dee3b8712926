package server

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// TestListenInUse checks that the error for an address in use names the option and a remedy.
func TestListenInUse(t *testing.T) {
	first, err := listen("HTTP (--http)", config.Address("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = listen("HTTP (--http)", config.Address(first.Addr().String()))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "listen for HTTP (--http)") || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("the second listener: %v", err)
	}
}
