package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listen listens on a TCP address. purpose appears in errors, and names the option with the address.
func listen[Addr ~string](purpose string, addr Addr) (net.Listener, error) {
	l, err := net.Listen("tcp", string(addr))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen for %s: %w: stop the process that listens there or choose another address", purpose, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", purpose, err)
	}
	return l, nil
}
