package sharedcache

import (
	"net"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestConnections keeps the connections of concurrent calls for later ones, and forgets those that it closes.
func TestConnections(t *testing.T) {
	const calls = 8
	var mu sync.Mutex
	waiting, ended := 0, false
	all := make(chan struct{})
	address := rawServer(t, func(c net.Conn) {
		for request := make([]byte, 4096); ; {
			mu.Lock()
			if waiting++; waiting == calls {
				close(all)
			}
			end := ended
			mu.Unlock()
			if end {
				return // with the connection
			}
			<-all
			if _, err := c.Write([]byte("END\r\n")); err != nil {
				return
			}
			if _, err := c.Read(request); err != nil {
				return
			}
		}
	})
	c := open(t, Options{Servers: []string{address}})
	s := c.servers[0]
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns)
	}
	var wg sync.WaitGroup
	for p := range uint32(calls) {
		wg.Go(func() { get(t, c, objectOf("01A"), p) })
	}
	testwait.Group(t, "calls at the same time", &wg)
	if n := open(); n != calls {
		t.Errorf("%d connections are kept, want %d", n, calls)
	}
	mu.Lock()
	ended = true
	mu.Unlock()
	for p := range uint32(calls) {
		get(t, c, objectOf("01A"), p)
	}
	if n := open(); n > calls-breakerFailures {
		t.Errorf("%d connections are known after %d failed calls", n, breakerFailures)
	}
}
