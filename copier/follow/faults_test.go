package follow

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

var allFaults = flag.Bool("all-faults", false, "TestTargetFaults has a fault at each command, otherwise at every third")

// A fault is the fate of one command of a follower to its target.
type fault string

const (
	lostBefore fault = "lost before it ran"
	lostAfter  fault = "lost after it ran"
	refused    fault = "refused"
	delayed    fault = "delayed"
)

// A faultyTarget is a proxy of a server that has a fault at one of the commands of all connections, counted from 1.
type faultyTarget struct {
	backend string
	l       net.Listener

	mu   sync.Mutex
	all  sync.WaitGroup
	n    int // commands so far
	at   int
	kind fault
	sent string // the command with the fault
}

func startFaulty(t *testing.T, backend string) *faultyTarget {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultyTarget{backend: backend, l: l}
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		testwait.Group(t, "the proxy's connections", &p.all)
	})
	return p
}

// set has a fault at a command from now on; 0: none.
func (p *faultyTarget) set(at int, kind fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.at, p.kind, p.sent = 0, at, kind, ""
}

// result returns the number of commands since set, and the one with the fault.
func (p *faultyTarget) result() (n int, sent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n, p.sent
}

// next returns the fault of the next command.
func (p *faultyTarget) next(packet []byte) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if p.n != p.at {
		return ""
	}
	p.sent = string(packet[mysqlwire.HeaderLen+1:])
	return p.kind
}

func (p *faultyTarget) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.backend)
	if err != nil {
		return
	}
	defer server.Close()
	var drop sync.Once
	dropped := make(chan struct{})
	p.all.Go(func() {
		defer client.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := server.Read(buf)
			select {
			case <-dropped:
				return
			default:
			}
			if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	for login := true; ; {
		packet, err := readPacket(client)
		if err != nil {
			return
		}
		command := packet[3] == 0 && mysqlwire.Command(packet[mysqlwire.HeaderLen]) == mysqlwire.ComQuery
		if login && packet[3] != 0 {
			command = false
		}
		login = login && packet[3] != 0
		kind := fault("")
		if command {
			kind = p.next(packet)
		}
		switch kind {
		case lostBefore:
			return
		case refused:
			text := "\xff\x76\x04#42000the target refuses it" // 1142
			_, _ = client.Write(append([]byte{byte(len(text)), 0, 0, 1}, text...))
			continue
		case lostAfter:
			drop.Do(func() { close(dropped) })
		case delayed:
			select {
			case <-time.After(50 * time.Millisecond): // paces: a slow response
			}
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
	}
}

func readPacket(r io.Reader) ([]byte, error) {
	packet := make([]byte, mysqlwire.HeaderLen)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, err
	}
	n := int(packet[0]) | int(packet[1])<<8 | int(packet[2])<<16
	packet = append(packet, make([]byte, n)...)
	_, err := io.ReadFull(r, packet[mysqlwire.HeaderLen:])
	return packet, err
}

// A scriptedSource has changes of one table in its log: batch i is before position i+1.
type scriptedSource struct {
	binlog.Follower
	batches []map[int]int // rows by key after each batch; 0: no row
	first   map[int]int
}

func (s *scriptedSource) CurrentPosition(context.Context) (binlog.Position, error) {
	return at(int64(len(s.batches)) + 1), nil
}

func (s *scriptedSource) LogBytes(_ context.Context, from, to binlog.Position) (int64, error) {
	return int64(to.Offset) - int64(from.Offset), nil
}

func (s *scriptedSource) Follow(_ context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	return &scriptedLog{s: s, next: int(o.From.Offset) - 1}, nil
}

type scriptedLog struct {
	binlog.Changes
	s    *scriptedSource
	next int
}

func (l *scriptedLog) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	b.Reset([]int{2}, wideKeep)
	b.Boundary = true
	if l.next == len(l.s.batches) {
		select {
		case <-time.After(2 * time.Millisecond): // paces: an idle log
		case <-ctx.Done():
			return ctx.Err()
		}
		b.Idle, b.Upto = true, at(int64(l.next)+1)
		return nil
	}
	before := l.s.first
	if l.next > 0 {
		before = l.s.batches[l.next-1]
	}
	after := l.s.batches[l.next]
	row := func(key, value int) mysqlwire.TextRow {
		if value == 0 {
			return nil
		}
		return mysqlwire.TextRow{[]byte(strconv.Itoa(key)), []byte(strconv.Itoa(value))}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] != after[key] {
			(&changeBatch{*b}).addTo(b, row(key, before[key]), row(key, after[key]))
		}
	}
	l.next++
	b.Upto, b.Commit = at(int64(l.next)+1), time.Unix(int64(l.next), 0)
	return nil
}

func (*scriptedLog) Close() error { return nil }

// addTo appends a change of the first table to b.
func (c *changeBatch) addTo(b *binlog.ChangeBatch, before, after mysqlwire.TextRow) {
	c.add(0, before, after)
	*b = c.ChangeBatch
}

// TestTargetFaults has each of a follower's commands to its target lost before it ran, lost after it ran, refused or
// delayed in turn, with one writer and with several. The target has all rows and the position of all, or the follower
// failed with the cause; following from the recorded position then yields all rows.
func TestTargetFaults(t *testing.T) {
	const keys, batches = 24, 4
	rnd := testseed.Rand(t)
	server := testmysql.Start(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(server.Exec("CREATE DATABASE src", "CREATE DATABASE dst", "CREATE TABLE src.a (id INT PRIMARY KEY, n INT NOT NULL)", "CREATE TABLE dst.a (id INT PRIMARY KEY, n INT NOT NULL)"))
	proxy := startFaulty(t, server.Addr)
	direct := mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	through := direct
	through.Addr = proxy.l.Addr().String()
	holder, err := mysqlconn.Dial(t.Context(), direct)
	must(err)
	defer holder.Close()
	spec := &tabledef.Spec{Schema: "src", Name: "a", ToSchema: "dst", ToName: "a"}
	source, err := rowstream.ReadTable(t.Context(), holder, "src", "a")
	must(err)
	table, err := tabledef.DescribeAs(t.Context(), source, holder, tabledef.DescribeOptions{Follow: true}, spec)
	must(err)
	st := state.State{Schema: "_tare"}
	must(st.Create(t.Context(), holder))
	must(st.CreateFollow(t.Context(), holder))
	st.Lease, err = state.AcquireLease(t.Context(), holder, st, []*tabledef.Spec{spec}, time.Second)
	must(err)
	following := st.Followed("source", []tabledef.Spec{*spec})

	script := &scriptedSource{first: map[int]int{}}
	for key := range keys {
		script.first[key] = rnd.IntN(3)
	}
	for rows := script.first; len(script.batches) < batches; script.batches = append(script.batches, rows) {
		rows = maps.Clone(rows)
		for range keys / 2 {
			rows[rnd.IntN(keys)] = rnd.IntN(4)
		}
	}
	content := func() map[int]int {
		rows := map[int]int{}
		_, err := holder.Query(t.Context(), "SELECT id, n FROM dst.a", func(row mysqlwire.TextRow) error {
			id, err := strconv.Atoi(string(row[0]))
			n, err2 := strconv.Atoi(string(row[1]))
			rows[id] = n
			return errors.Join(err, err2)
		})
		must(err)
		return rows
	}
	want := maps.Clone(script.batches[batches-1])
	maps.DeleteFunc(want, func(_, n int) bool { return n == 0 })
	reset := func() {
		var values []string
		for key, n := range script.first {
			if n > 0 {
				values = append(values, fmt.Sprintf("(%d,%d)", key, n))
			}
		}
		must(server.Exec("DELETE FROM dst.a", "INSERT INTO dst.a VALUES "+strings.Join(values, ","), "DELETE FROM _tare.copy_follow"))
	}
	run := func(workers int, cfg mysqlconn.Config) error {
		from, err := following.Position(t.Context(), holder)
		must(err)
		if from.Offset == 0 {
			from = at(1)
		}
		waits := &telemetry.Waits{Observe: func(telemetry.Event) {}}
		f, err := New(Options{
			Source: script, Tables: []*tabledef.Table{table}, From: from, State: following, Workers: workers, Patience: time.Minute,
			Writer: func() *state.Writer {
				return &state.Writer{Cfg: cfg, State: st, Patience: time.Minute, Follows: true, Waits: waits, Observe: func(telemetry.Event) {}}
			},
			UntilCaughtUp: true, Waits: waits, Observe: func(telemetry.Event) {}, Count: func(*Counts) {},
		})
		must(err)
		return f.Run(t.Context())
	}
	outcomes := map[string]int{}
	for _, workers := range []int{1, 3} {
		for _, kind := range []fault{lostBefore, lostAfter, refused, delayed} {
			step := 3
			if *allFaults {
				step = 1
			}
			for k := 1 + rnd.IntN(step); ; k += step {
				reset()
				proxy.set(k, kind)
				err := run(workers, through)
				n, sent := proxy.result()
				if n < k {
					break // the follower sends fewer commands
				}
				proxy.set(0, "")
				place := fmt.Sprintf("%d writers, command %d %s: %.60q", workers, k, kind, bytes.TrimSpace([]byte(sent)))
				position, perr := following.Position(t.Context(), holder)
				must(perr)
				switch rows := content(); {
				case err == nil && (!maps.Equal(rows, want) || position != at(batches+1)):
					t.Errorf("%s: it ended without an error at %v, with rows %v, want %v", place, position, rows, want)
				case err == nil:
					outcomes[string(kind)+": equal"]++
				case kind == lostBefore || kind == lostAfter || kind == delayed:
					t.Errorf("%s: it failed: %v", place, err)
				default:
					outcomes[string(kind)+": failed"]++
					if !strings.Contains(err.Error(), "the target refuses it") {
						t.Errorf("%s: it failed without the cause: %v", place, err)
					}
					if err := run(1, direct); err != nil {
						t.Errorf("%s, run again: %v", place, err)
					}
					if rows := content(); !maps.Equal(rows, want) {
						t.Errorf("%s, run again from %v: rows %v, want %v", place, position, rows, want)
					}
				}
				if t.Failed() {
					return
				}
			}
		}
	}
	t.Log(outcomes)
	if outcomes[string(refused)+": failed"] == 0 || outcomes[string(lostAfter)+": equal"] == 0 {
		t.Error("too few faults")
	}
}
