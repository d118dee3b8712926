package gateway

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A heavy is a client that keeps its loop busy. Each turn of it is one statement.
type heavy struct {
	name   string
	memory int // --statement-memory
	run    func(c *mysqlconn.Client) error
}

const (
	heavyResult    = 64 << 20
	heavyStatement = 15 << 20
)

// heavies are the kinds of sessions that could delay the others of their loop.
func heavies() []heavy {
	insert := testscript.Insert(heavyStatement)
	send := func(c *mysqlconn.Client) error { return testscript.RoundTrip(c.Conn, insert, testscript.OKPacket) }
	n := 0
	return []heavy{
		{"a long result", 1 << 20, func(c *mysqlconn.Client) error { return readResult(c.Conn, heavyResult) }},
		{"a streamed statement", 1 << 20, send},
		{"a buffered statement", 16_777_214, send},
		{"plan misses", 1 << 20, func(c *mysqlconn.Client) error {
			n++
			columns := strings.Repeat(fmt.Sprintf("column_%d + 1, ", n), 1500)
			return testscript.RoundTrip(c.Conn, testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, "INSERT INTO t SELECT "+columns+"1 FROM t"...)), testscript.OKPacket)
		}},
	}
}

// readResult requests a result of a size, and reads it.
func readResult(c *mysqlconn.Conn, size int) error {
	if _, err := c.Write(testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, "select long"...))); err != nil {
		return err
	}
	var end []byte // the last bytes, which arrive in one read or in several
	for read := 0; read < size || !bytes.Equal(end, testscript.End); {
		if err := c.Fill(); err != nil {
			return err
		}
		b := c.Buffered()
		read += len(b)
		end = append(end, b[max(len(b)-len(testscript.End), 0):]...)
		end = end[max(len(end)-len(testscript.End), 0):]
		c.Discard(len(b))
	}
	return nil
}

// heavyBackend responds to "select long" with heavyResult bytes of rows, and to all else with OK.
func heavyBackend(n int, c *mysqlconn.Conn) {
	row := testscript.Packets(0, bytes.Repeat([]byte("\xfa0123456789"), 1000))
	var rows []byte
	for range 250 { // a number of packets whose sequence numbers repeat with 256
		rows = append(rows, row...)
	}
	long := func() error {
		head := testscript.Packets(1, []byte{1}, testscript.Column)
		if _, err := c.Write(head); err != nil {
			return err
		}
		seq := uint8(3)
		for sent := 0; sent < heavyResult; sent += len(rows) {
			for at := 3; at < len(rows); at += len(row) {
				rows[at] = seq
				seq++
			}
			if _, err := c.Write(rows); err != nil {
				return err
			}
		}
		end := bytes.Clone(testscript.End)
		_, err := c.Write(testscript.Packets(seq, end))
		return err
	}
	serveHeavy(c, long)
}

// serveHeavy reads commands of any length.
func serveHeavy(c *mysqlconn.Conn, long func() error) {
	if !testscript.Login(c) {
		return
	}
	for c.Need(mysqlwire.HeaderLen) == nil {
		h := mysqlwire.ParseHeader(c.Buffered())
		c.Discard(mysqlwire.HeaderLen)
		var start []byte
		for left := h.Len; left > 0; {
			if len(c.Buffered()) == 0 && c.Fill() != nil {
				return
			}
			b := c.Buffered()[:min(left, len(c.Buffered()))]
			start = append(start, b[:min(len(b), 40-len(start))]...)
			left -= len(b)
			c.Discard(len(b))
		}
		var err error
		switch {
		case strings.HasPrefix(modesQuery, string(start[1:])) && len(start) > 1:
			_, err = c.Write(testscript.ModesResult)
		case string(start[1:]) == "select long":
			err = long()
		case mysqlwire.Command(start[0]) == mysqlwire.ComQuit:
			return
		default:
			_, err = c.Write(testscript.OKPacket)
		}
		if err != nil {
			return
		}
	}
}

// work is the progress of a session in bytes: buffered of the client's command or, if that is streamed, forwarded, and
// relayed to the client.
func (s *session) work() int {
	n := len(s.client.Buffered())
	if s.query != nil && !s.msg.whole {
		n += int(s.rec.BytesIn)
	}
	if s.query != nil {
		n += int(s.rec.BytesOut)
	}
	return n
}

func onlySession(g *inner) (only *session) {
	g.registry.mu.Lock()
	defer g.registry.mu.Unlock()
	for s := range g.registry.sessions {
		only = s
	}
	return only
}

// TestWorkOfASessionIsBounded has a task share a loop with a session that relays a long result or long statements:
// between two turns of the task the session moves at most the loop's budget, twice over for a read and a write that
// each started within it.
func TestWorkOfASessionIsBounded(t *testing.T) {
	const most = 2 * 256 << 10 // netloop's budget
	for _, h := range heavies() {
		if h.name == "plan misses" {
			continue // TestPlanMissLeavesItsLoop
		}
		t.Run(strings.ReplaceAll(h.name, " ", "-"), func(t *testing.T) {
			g := startInner(t, testscript.Start(t, heavyBackend), func(o *Options) {
				o.Loops, o.Observers, o.StatementMemory = 1, nil, h.memory
			})
			if g.loops.Loops() == 0 {
				t.Skip("no loops on this platform")
			}
			c := testscript.MustConnect(t, g.addr)
			awaitIdle(t, g) // on the loop
			heavy := onlySession(g)
			stop, stopped := make(chan struct{}), make(chan [2]int, 1)
			err := g.loops.Go(func(task *netloop.Task) {
				longest, turns, last := 0, 0, heavy.work()
				for {
					select {
					case <-stop:
						stopped <- [2]int{longest, turns}
						return
					default:
					}
					task.Yield()
					now := heavy.work()
					if now > last {
						longest = max(longest, now-last)
						turns++
					}
					last = now
				}
			}, func(*netloop.Conn) {})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := h.run(c); err != nil {
					t.Fatal(err)
				}
			}
			close(stop)
			got := testwait.Receive(t, "the task to end", stopped)
			t.Logf("at most %d bytes between two turns, of which %d saw progress", got[0], got[1])
			if got[0] > most {
				t.Errorf("the session moved %d bytes between two turns of another task, want at most %d", got[0], most)
			}
			if got[1] < 2*heavyStatement/most {
				t.Errorf("only %d turns saw progress", got[1])
			}
		})
	}
}

// TestPlanMissLeavesItsLoop parses statements without a plan, digests long ones, and searches the first for reads of
// diagnostics: between the statement's arrival and its record other tasks of the loop get turns.
func TestPlanMissLeavesItsLoop(t *testing.T) {
	g := startInner(t, testscript.Start(t, heavyBackend), func(o *Options) { o.Loops, o.Observers, o.StatementMemory = 1, nil, 16_777_214 })
	if g.loops.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c := testscript.MustConnect(t, g.addr)
	awaitIdle(t, g) // on the loop
	busy := onlySession(g)
	type seen struct{ searching, digesting, planning int }
	stop, stopped := make(chan struct{}), make(chan seen, 1)
	err := g.loops.Go(func(task *netloop.Task) {
		var n seen
		for {
			select {
			case <-stop:
				stopped <- n
				return
			default:
			}
			task.Yield()
			if busy.modes.unknown && busy.phase.Load() == phaseBusy {
				n.searching++
			}
			// On the loop: the session is suspended, by Block where it has the text and neither waits nor has sent it.
			if q := busy.query; q != nil && len(q.rec.Text) > 0 && q.sent.IsZero() {
				if q.rec.Digest == [16]byte{} {
					n.digesting++
				} else if !q.rec.PlanCached {
					n.planning++
				}
			}
		}
	}, func(*netloop.Conn) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, h := range heavies()[2:] {
		for range 3 {
			if err := h.run(c); err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
		}
	}
	close(stop)
	n := testwait.Receive(t, "the task to end", stopped)
	if n.searching == 0 || n.digesting == 0 || n.planning == 0 {
		t.Errorf("other tasks had %d turns while the first long statement was searched, %d while long ones were digested, and %d while new ones were parsed, want some",
			n.searching, n.digesting, n.planning)
	}
}

// BenchmarkNeighbour reports how long another task of the loop waits for its turn beside each kind of heavy
// session: the 99th percentile and the maximum of the times between two turns in which the session progressed.
func BenchmarkNeighbour(b *testing.B) {
	for _, h := range heavies() {
		b.Run(strings.ReplaceAll(h.name, " ", "-"), func(b *testing.B) {
			g := startInner(b, testscript.Start(b, heavyBackend), func(o *Options) {
				o.Loops, o.Observers, o.StatementMemory = 1, nil, h.memory
			})
			c := testscript.MustConnect(b, g.addr)
			testwait.Equal(b, "the session to be on its loop", phaseIdle, func() uint32 { return onlySession(g).phase.Load() })
			busy := onlySession(g)
			if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
				b.Fatal(err)
			}
			var waits []time.Duration
			var running sync.WaitGroup
			running.Add(1)
			stop := make(chan struct{})
			if err := g.loops.Go(func(task *netloop.Task) {
				defer running.Done()
				at, done, commands := time.Now(), busy.work(), busy.commands.Load()
				for {
					select {
					case <-stop:
						return
					default:
					}
					task.Yield()
					now := time.Now()
					if d, c := busy.work(), busy.commands.Load(); d != done || c != commands { // the session had a turn
						waits = append(waits, now.Sub(at))
						done, commands = d, c
					}
					at = now
				}
			}, func(*netloop.Conn) {}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := h.run(c); err != nil {
					b.Fatal(err)
				}
			}
			close(stop)
			running.Wait()
			if len(waits) == 0 {
				return
			}
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(waits[len(waits)-1].Microseconds()), "max-us")
		})
	}
}
