package storeapi

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/taredb/tare/internal/panics"
)

// Serve accepts connections on the listener until the server stops, as grpc.Server.Serve does. Unlike with
// that, response bytes of a cancelled call that the transport still keeps are charged to Options.Responses, and
// the connection of a client that does not take them is closed.
func (a *API) Serve(s *grpc.Server, l net.Listener) error {
	if err := s.Serve(&listener{l}); err != nil {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// A listener accepts connections that calls can find.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // gRPC checks its type
	}
	return &connection{Conn: c, closed: make(chan struct{})}, nil
}

// A connection is a client's connection. Its remote address refers to it.
type connection struct {
	net.Conn
	once   sync.Once
	closed chan struct{} // closed by Close
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close() //nolint:wrapcheck // a net.Conn
}

// RemoteAddr implements net.Conn.
func (c *connection) RemoteAddr() net.Addr { return &connectionAddr{c.Conn.RemoteAddr(), c} }

// A connectionAddr is the remote address of a connection.
type connectionAddr struct {
	net.Addr
	connection *connection
}

// connectionOf returns the connection of a call, or nil if its server was not started by Serve.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if addr, ok := p.Addr.(*connectionAddr); ok {
			return addr.connection
		}
	}
	return nil
}

// abandon charges n bytes of a call that has failed, which gRPC keeps until the client has taken them or ends
// the call: until taken has a value or the connection is closed. It closes the connection if there is no room
// in Options.Responses, and after Options.WriteTimeout.
func (a *API) abandon(ctx context.Context, n int64, taken <-chan struct{}) {
	c := connectionOf(ctx)
	if c == nil {
		return
	}
	if !a.options.Responses.Reserve(n, 0) {
		_ = c.Close()
		return
	}
	go func() {
		defer a.options.Responses.Release(n)
		_ = panics.Guard(func() error { return c.closeUnless(taken, a.options.WriteTimeout) })
	}()
}

// closeUnless closes the connection if taken has no value within the limit. It returns when the connection is
// closed or taken has a value.
func (c *connection) closeUnless(taken <-chan struct{}, limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-taken:
	case <-c.closed:
	case <-t.C:
		return c.Close()
	}
	return nil
}
