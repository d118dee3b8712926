package gateway

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/querylog"
)

// An inner is a gateway whose mechanisms are tested.
type inner struct {
	*Server
	addr string
}

// startInner runs a gateway in front of the backend until the test ends.
func startInner(t testing.TB, backend string, change func(*Options)) *inner {
	t.Helper()
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	log, err := querylog.New(querylog.Options{RingBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Backend: Backend{Addr: backend}, Planner: planner, Log: log, Diag: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
		defer cancel()
		s.Shutdown(ctx)
		if err := testwait.Receive(t, "Serve to return", served); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := log.Close(ctx); err != nil {
			t.Errorf("close the log: %v", err)
		}
		if n := s.metrics.panics.Load(); n != 0 {
			t.Errorf("%d sessions panicked", n)
		}
	})
	return &inner{s, l.Addr().String()}
}

// awaitIdle waits until all sessions wait for a command.
func awaitIdle(t testing.TB, g *inner) {
	t.Helper()
	testwait.Equal(t, "no busy session", 0, func() (busy int) {
		for _, s := range g.SessionStates() {
			if !s.Waiting {
				busy++
			}
		}
		return busy
	})
}

// A writerCount counts records by their writer.
type writerCount struct {
	mu      sync.Mutex
	writers map[uint64]int
}

func (c *writerCount) Observe(r *querylog.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers[r.Writer]++
}

func (c *writerCount) of(writer uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writers[writer]
}

// TestReadBuffersAreShared opens waiting and active sessions: waiting ones have no read buffer, and the loop
// keeps as many buffers as are active concurrently.
func TestReadBuffersAreShared(t *testing.T) {
	const sessions = 20
	g := startInner(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), func(o *Options) { o.Loops = 1 })
	if g.loops.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	var clients []*mysqlconn.Client
	for range sessions {
		clients = append(clients, testscript.MustConnect(t, g.addr))
	}
	for range 3 {
		for _, c := range clients {
			if _, err := testscript.Exec(t, c, "select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitIdle(t, g)
	for _, c := range clients {
		c.Close()
	}
	testwait.Equal(t, "the sessions to end", 0, g.Sessions)
	free := g.readers[0].free
	want := int64(len(free[clientSide])*clientBuffer + len(free[backendSide])*backendBuffer)
	if got := g.readerBytes.Load(); got != want || want > sessions*(clientBuffer+backendBuffer) {
		t.Errorf("%d bytes of read buffers are accounted, %d are free", got, want)
	}
}

// TestWaitingSessionsHaveNoQuery opens more sessions than are active: those that wait for a command have no query,
// and the account has one for each command that was in progress at the same time.
func TestWaitingSessionsHaveNoQuery(t *testing.T) {
	const sessions = 20
	g := startInner(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), func(o *Options) { o.Loops = 1 })
	if g.loops.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	var clients []*mysqlconn.Client
	for range sessions {
		clients = append(clients, testscript.MustConnect(t, g.addr))
	}
	for _, c := range clients {
		for range 2 {
			if _, err := testscript.Exec(t, c, "select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitIdle(t, g)
	runOnLoop(t, g, func() {
		var free int64
		for _, q := range g.readers[0].queries {
			free += q.account.charged
			if q.msg.body != nil || q.plan != nil {
				t.Error("a free query has a view of a statement")
			}
		}
		g.registry.mu.Lock()
		defer g.registry.mu.Unlock()
		for s := range g.registry.sessions {
			if s.query != nil {
				t.Error("a waiting session has a query")
			}
		}
		if n := g.queryBytes.Load(); n != free {
			t.Errorf("%d bytes of queries are accounted, %d are free", n, free)
		}
	})
	for _, c := range clients {
		c.Close()
	}
	testwait.Equal(t, "the sessions to end", 0, g.Sessions)
}

// runOnLoop runs f on the gateway's only loop, where sessions and free buffers may be read.
func runOnLoop(t *testing.T, g *inner, f func()) {
	t.Helper()
	done := make(chan struct{})
	if err := g.loops.Go(func(*netloop.Task) { f(); close(done) }, func(*netloop.Conn) {}); err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, "the loop", done)
}

// TestLoopsShareNoCounters counts the statements of each loop's sessions in a stripe of the loop's own, live
// ones included, and logs them as one writer.
func TestLoopsShareNoCounters(t *testing.T) {
	const loops, perLoop, statements = 2, 3, 5
	observed := &writerCount{writers: make(map[uint64]int)}
	g := startInner(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), func(o *Options) { o.Loops, o.Observers = loops, []Observer{observed} })
	if g.loops.Loops() != loops {
		t.Skip("no loops on this platform")
	}
	var clients []*mysqlconn.Client
	for range loops * perLoop {
		clients = append(clients, testscript.MustConnect(t, g.addr))
	}
	for _, c := range clients {
		for range statements {
			if _, err := testscript.Exec(t, c, "select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	testwait.Equal(t, "records", loops*perLoop*statements, func() (n int) {
		for loop := range loops {
			n += observed.of(uint64(loop) + 1)
		}
		return n
	})
	for loop := range loops {
		c := &g.metrics.stripes[loop]
		var counted, live uint64
		for i := range c.durations {
			counted += c.durations[i].Load()
		}
		for i := range c.live.slots {
			live += c.live.slots[i].calls.Load()
		}
		const want = perLoop * statements
		if counted != want || live == 0 || observed.of(uint64(loop)+1) != want {
			t.Errorf("loop %d: %d statements counted, %d live, %d by its writer, want %d", loop, counted, live, observed.of(uint64(loop)+1), want)
		}
	}
}
