package gateway_test

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// swallowingBackend reads commands of any length through a small buffer. It responds to each with OK, and to
// a PREPARE with a statement without parameters.
func swallowingBackend(_ int, c *mysqlconn.Conn) {
	if !testscript.Login(c) {
		return
	}
	prepared := byte(0)
	for {
		if n := mysqlwire.HeaderLen + 1 + len(testscript.ModesQuery); c.Need(mysqlwire.HeaderLen) == nil &&
			mysqlwire.ParseHeader(c.Buffered()).Len == n-mysqlwire.HeaderLen && c.Need(n) == nil && string(c.Buffered()[5:n]) == testscript.ModesQuery {
			c.Discard(n)
			if _, err := c.Write(testscript.ModesResult); err != nil {
				return
			}
		}
		first, last := true, false
		var cmd mysqlwire.Command
		seq := uint8(0)
		for !last {
			if c.Need(mysqlwire.HeaderLen) != nil {
				return
			}
			h := mysqlwire.ParseHeader(c.Buffered())
			c.Discard(mysqlwire.HeaderLen)
			last, seq = h.Len < mysqlwire.MaxPayload, h.Seq
			for left := h.Len; left > 0; {
				if len(c.Buffered()) == 0 && c.Fill() != nil {
					return
				}
				if first {
					cmd, first = mysqlwire.Command(c.Buffered()[0]), false
				}
				n := min(left, len(c.Buffered()))
				c.Discard(n)
				left -= n
			}
		}
		reply := testscript.OK()
		switch cmd {
		case mysqlwire.ComQuit:
			return
		case mysqlwire.ComStmtClose:
			continue
		case mysqlwire.ComStmtPrepare:
			prepared++
			reply = []byte{0, prepared, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		}
		if _, err := c.Write(testscript.Packets(seq+1, reply)); err != nil {
			return
		}
	}
}

// importOnce sends a statement and reads the OK, whose sequence number follows the packets'.
func importOnce(t *testing.T, c *mysqlconn.Conn, statement []byte) {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	c.Seq = 0
	for range 1 + (len(statement)-mysqlwire.HeaderLen)/(mysqlwire.MaxPayload+mysqlwire.HeaderLen) {
		c.Seq++
	}
	_, err := c.Write(statement)
	must(t, err)
	p, err := c.ReadMessage(1 << 16)
	must(t, err)
	if !bytes.Equal(p, testscript.OK()) {
		t.Fatalf("reply %x, want an OK", p)
	}
	must(t, c.SetDeadline(time.Time{}))
}

func readMetric(name string) int64 {
	s := []runtimemetrics.Sample{{Name: name}}
	runtimemetrics.Read(s)
	return int64(s[0].Value.Uint64())
}

func heapObjects() int64 {
	for range 3 {
		runtime.GC() // victims of a pool survive one cycle
	}
	return readMetric("/memory/classes/heap/objects:bytes")
}

// TestLargeInsertLeavesItsPlan sends INSERTs of two megabytes, buffered whole and streamed, whose plan is
// cached: afterwards the heap has the plan and nothing else of them.
func TestLargeInsertLeavesItsPlan(t *testing.T) {
	for _, k := range []struct {
		name   string
		memory int
		kept   int64 // bound of the relay buffers kept by the pool
	}{
		{"streamed", 1 << 20, 1},
		{"held", 4 << 20, 1},
		{"held in a kept buffer", 4 << 20, 16 << 20},
	} {
		t.Run(k.name, func(t *testing.T) {
			var planner *sqlplan.Planner
			g := startGateway(t, testscript.Start(t, swallowingBackend), func(o *gateway.Options) {
				o.StatementMemory, o.BufferBytes, o.Observers = k.memory, k.kept, nil
				planner = o.Planner
			})
			c := testscript.MustConnect(t, g.addr).Conn
			heapObjects() // starts the collector's workers
			statement := testscript.Insert(2 << 20)
			for range 10 { // lets the caches of session and runtime reach their size
				importOnce(t, c, testscript.Insert(32<<10))
				planner.Invalidate()
			}
			idle(t, g)
			heap, plans := heapObjects(), planner.Bytes()
			keptBefore, _ := g.BufferBytes()
			importOnce(t, c, statement)
			if n := planner.Stats().Cache.Entries; n != 1 {
				t.Fatalf("%d plans are kept, want 1", n)
			}
			idle(t, g)
			kept, lent := g.BufferBytes()
			grown, plan := heapObjects()-heap-(kept-keptBefore), planner.Bytes()-plans
			t.Logf("heap grew by %d bytes, the plan is accounted with %d; %d bytes of buffers are kept", grown, plan, kept)
			if lent != 0 {
				t.Errorf("%d bytes of relay buffers are lent", lent)
			}
			if grown > plan+16<<10 { // the runtime's lists of waiting goroutines vary by some KiB
				t.Errorf("heap grew by %d bytes, the plan is accounted with %d", grown, plan)
			}
			runtime.KeepAlive(statement)
		})
	}
}

// idle waits until all sessions wait for a command: records, counters and buffers of earlier commands are
// settled.
func idle(t *testing.T, g *rig) {
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

// TestStreamedStatementIsNotHeld sends a statement of sixteen megabytes through a gateway that buffers one
// megabyte: a session with its buffers in place allocates no memory for it.
func TestStreamedStatementIsNotHeld(t *testing.T) {
	const relaySize = 64 << 10 // of a relay buffer
	const size = 16 << 20
	g := startGateway(t, testscript.Start(t, swallowingBackend), func(o *gateway.Options) { o.Observers = nil })
	c := testscript.MustConnect(t, g.addr).Conn
	statement := testscript.Insert(size)
	importOnce(t, c, testscript.Insert(2<<20))
	idle(t, g)
	taken := int64(math.MaxInt64)
	for range 5 { // the counter covers the process: an allocation by the statement occurs each time
		before := readMetric("/gc/heap/allocs:bytes")
		importOnce(t, c, statement)
		idle(t, g)
		taken = min(taken, readMetric("/gc/heap/allocs:bytes")-before)
	}
	kept, _ := g.BufferBytes()
	t.Logf("%d bytes allocated for a statement of %d; relay buffers: %d", taken, len(statement), kept)
	if taken > relaySize {
		t.Errorf("%d bytes were allocated for a statement of %d bytes, want at most %d", taken, len(statement), relaySize)
	}
	if kept > relaySize {
		t.Errorf("%d bytes of relay buffers for a streamed statement, want %d", kept, relaySize)
	}
}

// TestSessionBytes checks the account of sessions' heap bytes: it grows with a session's state and shrinks at
// its end.
func TestSessionBytes(t *testing.T) {
	g := startGateway(t, testscript.Start(t, swallowingBackend), func(o *gateway.Options) { o.Observers = nil })
	empty := g.SessionBytes()
	c := testscript.MustConnect(t, g.addr).Conn
	importOnce(t, c, testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, "DO 1"...)))
	idle(t, g)
	one := g.SessionBytes()
	if want := empty + gateway.NewSessionBytes(); one < want || one > want+8<<10 {
		t.Errorf("a session is accounted with %d bytes, want %d and its digester", one-empty, want-empty)
	}
	text := "SELECT " + strings.Repeat("a_column_of_the_table, ", 400) + "b FROM t"
	for id := range byte(20) {
		if err := testscript.RoundTrip(c, testscript.Packets(0, append([]byte{byte(mysqlwire.ComStmtPrepare)}, text...)),
			testscript.Packets(1, []byte{0, id + 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})); err != nil {
			t.Fatal(err)
		}
	}
	idle(t, g)
	if grown := g.SessionBytes() - one; grown < 20*int64(len(text)) {
		t.Errorf("twenty statements of %d bytes were prepared, and the account grew by %d", len(text), grown)
	}
	for id := range byte(20) {
		if _, err := c.Write(testscript.Packets(0, []byte{byte(mysqlwire.ComStmtClose), id + 1, 0, 0, 0})); err != nil {
			t.Fatal(err)
		}
	}
	importOnce(t, c, testscript.Packets(0, []byte{byte(mysqlwire.ComPing)}))
	idle(t, g)
	if left := g.SessionBytes() - one; left > 32<<10 {
		t.Errorf("the statements were closed, and the account still has %d bytes of them", left)
	}
	c.Close()
	testwait.Equal(t, "the session to end", 0, g.Sessions)
	if n, _ := g.HeldBytes(); n != 0 {
		t.Errorf("%d bytes are accounted for sessions that have ended", n)
	}
}

// TestIdleSessionsHoldNoText has sessions wait after a statement whose normalized form is long too: they keep
// neither form.
func TestIdleSessionsHoldNoText(t *testing.T) {
	const sessions, length = 20, 512 << 10
	g := startGateway(t, testscript.Start(t, swallowingBackend), func(o *gateway.Options) { o.Observers, o.BufferBytes = nil, 1 })
	body := append([]byte{byte(mysqlwire.ComQuery)}, "SELECT "...)
	for i := 0; len(body) < length; i++ {
		body = fmt.Appendf(body, "column_%d, ", i)
	}
	statement := testscript.Packets(0, append(body, "1"...))
	conns := make([]net.Conn, 0, sessions)
	open := func() {
		c := testscript.MustConnect(t, g.addr).Conn
		importOnce(t, c, statement)
		conns = append(conns, c.NetConn())
	}
	for range 3 {
		open()
	}
	idle(t, g)
	before := heapObjects()
	for range sessions {
		open()
	}
	idle(t, g)
	each := (heapObjects() - before) / sessions
	t.Logf("an idle session costs %d bytes of heap, the test's side and the backend's included", each)
	if each > 64<<10 {
		t.Errorf("a session that waits holds %d bytes after a statement of %d", each, length)
	}
	runtime.KeepAlive(conns)
	runtime.KeepAlive(statement)
}
