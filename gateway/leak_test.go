package gateway_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// liveBytes returns the bytes of the process in heap objects and goroutine stacks.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC() // after finalizers of the first cycle
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

// TestNothingLeaks connects and disconnects 10,000 times, in every way a client can disconnect.
func TestNothingLeaks(t *testing.T) {
	cycles := 10_000
	if testing.Short() {
		cycles = 500
	}
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), func(o *gateway.Options) { o.Observers = nil })
	cycle := func(i int) error {
		switch i % 4 {
		case 0: // before the login
			nc, err := net.Dial("tcp", g.addr)
			if err == nil {
				nc.Close()
			}
			return err
		case 1: // sends nothing
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
		testwait.Group(t, "the clients", &wg)
		testwait.Equal(t, "the last session to end", 0, g.Sessions)
	}
	run(200)
	goroutines, fds := settle(t)
	bytes := heapObjects()
	// A leak grows in every round. Pools and the scheduler's records grow in some of the first.
	var grown int64
	for range 10 {
		run(cycles)
		testwait.UntilState(t, "no more goroutines and descriptors than before", func() (string, bool) {
			g, f := runtime.NumGoroutine(), descriptors(t)
			return fmt.Sprintf("%d goroutines and %d descriptors, before: %d and %d", g, f, goroutines, fds), g <= goroutines && f <= fds
		})
		bytes2 := heapObjects()
		if grown, bytes = bytes2-bytes, bytes2; grown <= int64(cycles)*256 {
			break
		}
	}
	if grown > int64(cycles)*256 {
		t.Errorf("each of ten rounds of %d connections leaves bytes in use, the last %d: %d a connection", cycles, grown, grown/int64(cycles))
	}
}

// settle returns the counts of goroutines and descriptors once they have stopped falling, after the peers'
// ends.
func settle(t *testing.T) (goroutines, fds int) {
	t.Helper()
	goroutines, fds = runtime.NumGoroutine(), descriptors(t)
	for same := 0; same < 20; same++ {
		time.Sleep(10 * time.Millisecond) // polls: until the peers have finished
		if g, f := runtime.NumGoroutine(), descriptors(t); g < goroutines || f < fds {
			goroutines, fds, same = min(g, goroutines), min(f, fds), 0
		}
	}
	return goroutines, fds
}

func connectOnce(addr string) (*mysqlconn.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return mysqlconn.Dial(ctx, mysqlconn.Config{Addr: addr, User: "app", TLSMode: mysqlconn.TLSDisabled})
}

// TestIdleConnection states the cost of an idle client in the gateway.
func TestIdleConnection(t *testing.T) {
	const connections, allowed = 400, 12 << 10
	s := testmysql.Shared(t)
	must(t, s.Exec("SET GLOBAL max_connections = 1000"))
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Observers = nil })
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
		return nc // without c, whose buffers belong to the test
	}
	open()
	before := liveBytes()
	conns := make([]net.Conn, 0, connections)
	for range connections {
		conns = append(conns, open())
	}
	_, shared := g.HeldBytes()                                          // up to a bound
	each := (int64(liveBytes()) - int64(before) - shared) / connections // other tests' memory may be freed meanwhile
	t.Logf("an idle connection costs %d bytes of heap and stack (the test's own socket included); the loops share %d", each, shared)
	if each > allowed {
		t.Errorf("an idle connection costs %d bytes, want at most %d", each, allowed)
	}
	runtime.KeepAlive(conns)
}

// roundTripOK performs one command, so that the session's buffers reach their size.
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
