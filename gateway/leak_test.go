package gateway

import (
	"context"
	"net"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// liveBytes is what the process holds in heap objects and goroutine stacks.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC() // finalizers of the first have run
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	runtimemetrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestNothingLeaks connects and disconnects 10,000 times, in every way that clients leave.
func TestNothingLeaks(t *testing.T) {
	cycles := 10_000
	if testing.Short() {
		cycles = 500
	}
	g := startGateway(t, startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) }), func(o *Options) { o.Observers = nil })
	cycle := func(i int) error {
		switch i % 4 {
		case 0: // before the login
			nc, err := net.Dial("tcp", g.addr)
			if err == nil {
				nc.Close()
			}
			return err
		case 1: // without a word
			c, err := connectOnce(g.addr)
			if err == nil {
				c.Conn.Close()
			}
			return err
		}
		c, err := connectOnce(g.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Exec(context.Background(), "select 1")
		return err
	}
	run := func(n int) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := w; i < n; i += 4 {
					if err := cycle(i + w); err != nil {
						t.Errorf("cycle %d: %v", i, err)
						return
					}
				}
			})
		}
		wg.Wait()
		for g.Sessions() > 0 {
			time.Sleep(time.Millisecond) // polls: the last sessions end
		}
	}
	run(200)
	goroutines, fds, bytes := settle(t, func() (int, int) { return runtime.NumGoroutine(), descriptors(t) })
	run(cycles)
	goroutines2, fds2, bytes2 := settle(t, func() (int, int) { return runtime.NumGoroutine(), descriptors(t) })
	if goroutines2 > goroutines || fds2 > fds {
		t.Errorf("after %d connections: %d goroutines and %d descriptors, before: %d and %d", cycles, goroutines2, fds2, goroutines, fds)
	}
	if grown := int64(bytes2) - int64(bytes); grown > int64(cycles)*256 {
		t.Errorf("after %d connections %d bytes more are in use: %d a connection", cycles, grown, grown/int64(cycles))
	}
	g.watcher.mu.Lock()
	defer g.watcher.mu.Unlock()
	if n := len(g.watcher.sessions); n != 0 {
		t.Errorf("%d descriptors are still watched", n)
	}
}

// settle reads the counts once they have stopped falling: what a connection leaves behind
// for a moment, the peer's side above all, is gone.
func settle(t *testing.T, counts func() (int, int)) (a, b int, bytes uint64) {
	t.Helper()
	a, b = counts()
	for range 50 {
		time.Sleep(10 * time.Millisecond) // polls: the peers are gone
		a2, b2 := counts()
		a, b = min(a, a2), min(b, b2)
	}
	return a, b, liveBytes()
}

func connectOnce(addr string) (*mysqlconn.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return mysqlconn.Dial(ctx, mysqlconn.Config{Addr: addr, User: "app", TLSMode: mysqlconn.TLSDisabled})
}

// TestIdleConnection states what a client that waits costs in the gateway.
func TestIdleConnection(t *testing.T) {
	const connections, allowed = 400, 40 << 10
	s := testmysql.Shared(t)
	must(t, s.Exec("SET GLOBAL max_connections = 1000"))
	g := startGateway(t, s.Addr, func(o *Options) { o.Observers = nil })
	open := func() net.Conn {
		cfg := s.Config("app")
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: g.addr, User: cfg.User, Password: cfg.Passwd, TLSMode: mysqlconn.TLSDisabled})
		must(t, err)
		if err := roundTripOK(c.Conn); err != nil {
			t.Fatal(err)
		}
		nc := c.NetConn()
		t.Cleanup(func() { nc.Close() })
		return nc // and not c, whose buffers are the test's
	}
	open()
	before := liveBytes()
	conns := make([]net.Conn, 0, connections)
	for range connections {
		conns = append(conns, open())
	}
	each := (liveBytes() - before) / connections
	t.Logf("an idle connection costs %d bytes of heap and stack (the test's own socket included)", each)
	if each > allowed {
		t.Errorf("an idle connection costs %d bytes, want at most %d", each, allowed)
	}
	runtime.KeepAlive(conns)
}

// roundTripOK makes the session work once, so that its buffers have their size.
func roundTripOK(c *mysqlconn.Conn) error {
	c.Seq = 0
	if err := c.WriteMessage(append([]byte{byte(mysqlwire.ComQuery)}, "select 1"...)); err != nil {
		return err
	}
	for range 3 {
		if _, err := c.ReadMessage(1 << 16); err != nil {
			return err
		}
	}
	return nil
}
