package testgrpc

import (
	"net"
	"testing"

	"google.golang.org/grpc"

	"github.com/taredb/tare/internal/testwait"
)

// Serve serves a gRPC server on a port of the loopback interface until the test ends, and returns its address.
func Serve(tb testing.TB, s *grpc.Server) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := testwait.Receive(tb, "Serve to return", done); err != nil {
			tb.Error(err)
		}
	})
	return l.Addr().String()
}
