package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A scriptLog is a server whose log is a list of changes. Its batches are read from a position on, by several readers.
type scriptLog struct {
	*testrows.MemoryLog
	t *testing.T

	mu      sync.Mutex
	events  []scriptEvent
	written *sync.Cond
	follows int
	beats   []binlog.Heartbeat
	deleted int

	closed      bool
	refuses     int   // the number of requests from now on that are refused
	unreachable error // of the common log
}

var errRefused = errors.New("it is refused")

// Close implements binlog.Follower.
func (l *scriptLog) Close() error {
	l.closed = true
	return nil
}

// A scriptEvent is a transaction, or a heartbeat.
type scriptEvent struct {
	changes []scriptChange
	beat    *binlog.Heartbeat
	stop    error
}

// A scriptChange is the change of the row with an id: nil before it is inserted, and after it is deleted.
type scriptChange struct{ before, after mysqlwire.TextRow }

func newScriptLog(t *testing.T) *scriptLog {
	l := &scriptLog{MemoryLog: testrows.NewMemoryLog(nil), t: t}
	l.written = sync.NewCond(&l.mu)
	return l
}

func (l *scriptLog) add(e scriptEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	l.written.Broadcast()
}

func (l *scriptLog) WriteHeartbeat(_ context.Context, h binlog.Heartbeat) error {
	l.mu.Lock()
	l.beats = append(l.beats, h)
	l.mu.Unlock()
	l.add(scriptEvent{beat: &h})
	return nil
}

func (l *scriptLog) DeleteHeartbeat(context.Context, binlog.Heartbeat) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted++
	return nil
}

// position returns the position before an event.
func scriptPosition(n int) binlog.Position {
	return binlog.Position{File: "binlog.000001", Offset: uint64(100 + n)}
}

func (l *scriptLog) Follow(_ context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses > 0 {
		l.refuses--
		return nil, errRefused
	}
	l.follows++
	c := &scriptChanges{l: l, o: o, at: int(o.From.Offset) - 100}
	columns := 3
	if len(o.Plans) > 0 && o.Plans[0] != nil {
		var err error
		if c.filter, err = rowstream.NewFilter(o.Plans[0], columns); err != nil {
			return nil, err
		}
	}
	return c, nil
}

type scriptChanges struct {
	l      *scriptLog
	o      binlog.FollowOptions
	filter *rowstream.Filter
	at     int // the next event
	part   int // changes of it that were returned
	number uint64
	closed bool
}

func (c *scriptChanges) Close() error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.closed = true
	c.l.written.Broadcast()
	return nil
}

// Next returns one change at a time, so that transactions are returned in parts.
func (c *scriptChanges) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.l.written.Broadcast()
	})()
	for c.at == len(c.l.events) && ctx.Err() == nil && !c.closed {
		c.l.written.Wait()
	}
	switch {
	case c.closed:
		return binlog.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	b.Reset([]int{3}, 1<<20)
	e := &c.l.events[c.at]
	if e.stop != nil {
		return e.stop
	}
	if e.beat != nil && e.beat.Run == c.o.Run {
		c.number = e.beat.Number
	}
	if c.part < len(e.changes) {
		one := &e.changes[c.part]
		c.part++
		change := binlog.Change{Before: c.image(b, one.before), After: c.image(b, one.after), LastOfTransaction: c.part == len(e.changes)}
		switch {
		case change.Before >= 0 && change.After >= 0:
			change.Kind = binlog.Update
		case change.Before >= 0:
			change.Kind = binlog.Delete
		case change.After >= 0:
			change.Kind = binlog.Insert
		}
		if change.Kind != 0 {
			b.Changes = append(b.Changes, change)
		}
	}
	if b.Boundary = c.part == len(e.changes); b.Boundary {
		c.at, c.part = c.at+1, 0
	}
	b.Upto, b.Heartbeat, b.Commit = scriptPosition(c.at), c.number, time.Unix(1000, 0)
	return nil
}

func (c *scriptChanges) image(b *binlog.ChangeBatch, row mysqlwire.TextRow) int {
	if row == nil {
		return -1
	}
	if c.filter != nil {
		var ok bool
		if row, ok = c.filter.Apply(row); !ok {
			return -1
		}
	}
	at := len(b.Tables[0].Bytes)
	b.Tables[0].AppendRow(row)
	return at
}

// scriptTable is the table of the changes, which are divided by v.
func scriptTable() *rowstream.Table {
	return &rowstream.Table{
		Schema: "d", Name: "t", Columns: []rowstream.Column{{Name: "id", Type: "int"}, {Name: "v", Type: "int"}, {Name: "pad", Type: "longblob"}}, Key: []int{0},
		Create: "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` int,\n  `pad` longblob,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB",
	}
}

// scriptMember applies the changes of a member to rows, as REPLACE and DELETE by the key do.
type scriptMember struct {
	changes binlog.Changes
	rows    map[string]string
	upto    binlog.Position
	beat    uint64
	err     error
}

func (m *scriptMember) read(ctx context.Context, until binlog.Position, rest func()) {
	var b binlog.ChangeBatch
	var row mysqlwire.TextRow
	for !m.upto.Reaches(until) || !b.Boundary {
		if m.err = m.changes.Next(ctx, &b); m.err != nil {
			return
		}
		if before, _ := b.Upto.Before(m.upto); before {
			m.err = fmt.Errorf("after %s comes %s", m.upto, b.Upto)
			return
		}
		m.upto, m.beat = b.Upto, max(m.beat, b.Heartbeat)
		for _, c := range b.Changes {
			if c.Before >= 0 {
				if _, m.err = b.Tables[0].Row(c.Before, &row); m.err != nil {
					return
				}
				delete(m.rows, string(row[0]))
			}
			if c.After >= 0 {
				if _, m.err = b.Tables[0].Row(c.After, &row); m.err != nil {
					return
				}
				m.rows[string(row[0])] = string(row[1])
			}
		}
		rest()
	}
}

// scriptRun has members with random positions, some of them slow, follow random changes, and compares what they have in the end.
func scriptRun(t *testing.T, rnd *rand.Rand, padding int, patience time.Duration) *scriptLog {
	l := newScriptLog(t)
	members := 2 + rnd.IntN(3)
	pad := strings.Repeat("x", padding)
	all := map[string]string{}
	states := []map[string]string{{}} // of all rows, by event
	row := func(id, v string) mysqlwire.TextRow { return testrows.Row(id, v, pad) }
	for range 40 {
		var e scriptEvent
		for range 1 + rnd.IntN(4) {
			id, v := strconv.Itoa(rnd.IntN(12)), strconv.Itoa(rnd.IntN(1000))
			old, ok := all[id]
			switch {
			case !ok:
				e.changes = append(e.changes, scriptChange{after: row(id, v)})
				all[id] = v
			case rnd.IntN(3) == 0:
				e.changes = append(e.changes, scriptChange{before: row(id, old)})
				delete(all, id)
			default:
				e.changes = append(e.changes, scriptChange{before: row(id, old), after: row(id, v)})
				all[id] = v
			}
		}
		l.events = append(l.events, e)
		states = append(states, maps.Clone(all))
	}
	sources := make([]binlog.Follower, members)
	for i := range sources {
		sources[i] = l
	}
	var heap atomic.Int64
	logs := NewCommonLog(func(context.Context) (binlog.Follower, error) { return l, nil }, "c", sources, &heap)
	logs[0].l.patience = patience
	table := scriptTable()
	var reading sync.WaitGroup
	got, want := make([]scriptMember, members), make([]map[string]string, members)
	lost := rnd.IntN(members)
	leaves := rnd.IntN(members + 2) // one may leave before it follows
	if padding > 0 {
		leaves = -1
	}
	for i := range members {
		plan := &rowstream.Plan{Where: []rowstream.Condition{{Column: 1, Shard: rowstream.Shard{Index: i + 1, Count: members}}}}
		slow := i == lost && padding > 0
		if rnd.IntN(4) == 0 || slow {
			plan = nil
		}
		own := func(rows map[string]string) map[string]string {
			rows = maps.Clone(rows)
			maps.DeleteFunc(rows, func(_, v string) bool { return plan != nil && !plan.Where[0].Shard.Has([]byte(v)) })
			return rows
		}
		from := rnd.IntN(10)
		got[i].rows, want[i] = own(states[from]), own(all)
		rest := func() {}
		if slow {
			rest = sync.OnceFunc(func() {
				testwait.Until(t, "the others not to wait any more", func() bool { return logs[0].l.detached.Load() > 0 })
			})
		}
		reading.Go(func() {
			if i == leaves {
				logs[i].Leave()
				got[i].rows = want[i]
				return
			}
			m := &got[i]
			m.changes, m.err = logs[i].Follow(t.Context(), binlog.FollowOptions{
				From: scriptPosition(from), Tables: []*rowstream.Table{table}, Plans: []*rowstream.Plan{plan}, Before: [][]int{{0}},
				Layouts: [][]int{nil}, Defined: make([]binlog.Position, 1), Starts: []binlog.Position{scriptPosition(from)}, Run: fmt.Sprint("run", i),
			})
			if m.err == nil {
				m.read(t.Context(), scriptPosition(len(l.events)), rest)
				m.err = errors.Join(m.err, m.changes.Close())
			}
		})
	}
	testwait.Group(t, "the members to have all changes", &reading)
	if n := heap.Load(); n != 0 {
		t.Errorf("%d heap bytes are counted in the end", n)
	}
	for i := range got {
		if got[i].err != nil {
			t.Errorf("member %d: %v", i, got[i].err)
		}
		if d := cmp.Diff(want[i], got[i].rows); d != "" {
			t.Errorf("rows of member %d (- wanted, + got)\n%s", i, d)
		}
	}
	return l
}

// TestCommonLog has members of a log apply random changes, from random positions: each has the rows of its plan in the end, and the log is read once.
func TestCommonLog(t *testing.T) {
	seed := testseed.New(t)
	for i := range 50 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		if l := scriptRun(t, rnd, 0, time.Hour); l.follows != 1 {
			t.Errorf("the log was requested %d times", l.follows)
		}
		if t.Failed() {
			t.Fatalf("run %d", i)
		}
	}
}

// TestCommonLogLaggard has one member stop to take its changes: it reads independently after those that wait for it.
func TestCommonLogLaggard(t *testing.T) {
	seed := testseed.New(t)
	for i := range 4 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		if l := scriptRun(t, rnd, 512<<10, 5*time.Millisecond); l.follows < 2 {
			t.Error("no member has read independently")
		}
		if t.Failed() {
			t.Fatalf("run %d", i)
		}
	}
}

// scriptFollow has n members follow the log from its start.
func scriptFollow(t *testing.T, l *scriptLog, n int, change func(*binlog.FollowOptions, int)) []*LogMember {
	t.Helper()
	logs := NewCommonLog(func(context.Context) (binlog.Follower, error) { return l, l.unreachable }, "c", slices.Repeat([]binlog.Follower{l}, n), nil)
	var following sync.WaitGroup
	failed := make([]error, n)
	for i, m := range logs {
		o := binlog.FollowOptions{
			From: scriptPosition(0), Tables: []*rowstream.Table{scriptTable()}, Layouts: [][]int{nil}, Defined: make([]binlog.Position, 1), Starts: make([]binlog.Position, 1),
			Run: fmt.Sprint("run", i),
		}
		change(&o, i)
		following.Go(func() { _, failed[i] = m.Follow(t.Context(), o) })
	}
	testwait.Group(t, "the members to follow", &following)
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	return logs
}

// TestCommonLogFails has a source that cannot be reached for the common log, or refuses it: each member reads the log.
func TestCommonLogFails(t *testing.T) {
	for name, change := range map[string]func(*scriptLog){"unreachable": func(l *scriptLog) { l.unreachable = errRefused }, "refused": func(l *scriptLog) { l.refuses = 1 }} {
		l := newScriptLog(t)
		change(l)
		refused := l.refuses > 0
		logs := scriptFollow(t, l, 2, func(*binlog.FollowOptions, int) {})
		if l.follows != 2 || logs[0].l.common || l.closed != refused {
			t.Errorf("%s: the log was requested %d times, closed %t", name, l.follows, l.closed)
		}
	}
}

// TestCommonLogHeartbeats has two members write heartbeats: each is passed the number that its last one has for it, and the log has one run.
func TestCommonLogHeartbeats(t *testing.T) {
	l := newScriptLog(t)
	logs := scriptFollow(t, l, 2, func(*binlog.FollowOptions, int) {})
	write := func(i int, number uint64) {
		t.Helper()
		if err := logs[i].WriteHeartbeat(t.Context(), binlog.Heartbeat{Copy: fmt.Sprint("copy", i), Run: fmt.Sprint("run", i), Number: number, Schemas: []string{"d"}}); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 7)
	write(1, 3)
	write(0, 8)
	for i, want := range []uint64{8, 3} {
		m := scriptMember{changes: logs[i], rows: map[string]string{}}
		m.read(t.Context(), scriptPosition(3), func() {})
		if m.err != nil || m.beat != want {
			t.Errorf("member %d: heartbeat %d, want %d: %v", i, m.beat, want, m.err)
		}
	}
	for n, b := range l.beats {
		if b.Run != l.beats[0].Run || b.Copy != "c" || b.Number != uint64(n+1) {
			t.Errorf("heartbeat %d is %+v", n, b)
		}
	}
	for _, m := range logs {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if l.deleted != 1 {
		t.Errorf("the heartbeats were deleted %d times", l.deleted)
	}
}

// TestCommonLogStops ends the log of two members with an error, after the changes before it.
func TestCommonLogStops(t *testing.T) {
	l := newScriptLog(t)
	stop := &binlog.StopError{Reason: binlog.StopSchema, Table: "d.t", What: "it was altered"}
	l.events = []scriptEvent{{changes: []scriptChange{{after: testrows.Row("1", "2", "x")}}}, {stop: stop}}
	for i, m := range scriptFollow(t, l, 2, func(*binlog.FollowOptions, int) {}) {
		got := scriptMember{changes: m, rows: map[string]string{}}
		got.read(t.Context(), scriptPosition(2), func() {})
		if !errors.Is(got.err, stop) || got.rows["1"] != "2" {
			t.Errorf("member %d: %v, rows %v", i, got.err, got.rows)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCommonLogApart has members that differ in more than their positions and plans: each reads independently.
func TestCommonLogApart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(o *binlog.FollowOptions, i int)
	}{
		{"another definition", func(o *binlog.FollowOptions, i int) { o.Tables[0].Columns = o.Tables[0].Columns[:3-i] }},
		{"another layout", func(o *binlog.FollowOptions, i int) { o.Layouts[0] = []int{0, 1, 2 - 3*i} }},
		{"no heartbeats", func(o *binlog.FollowOptions, i int) { o.Run = "" }},
		{"a foreign key that acts", func(o *binlog.FollowOptions, i int) {
			o.Tables[0].Create = strings.Replace(o.Tables[0].Create, "(`id`)\n", "(`id`),\n  CONSTRAINT `k` FOREIGN KEY (`v`) REFERENCES `p` (`id`) ON DELETE CASCADE\n", 1)
		}},
		{"positions without an order", func(o *binlog.FollowOptions, i int) {
			o.From.GTID = fmt.Sprintf("3e11fa47-71ca-11e1-9e33-c80aa942956%d:1-5", i)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newScriptLog(t)
			logs := scriptFollow(t, l, 2, tt.change)
			if l.follows != 2 || logs[0].l.common || l.closed {
				t.Errorf("the log was requested %d times", l.follows)
			}
			if err := logs[0].WriteHeartbeat(t.Context(), binlog.Heartbeat{Run: "run0", Number: 5}); err != nil || l.beats[0].Run != "run0" {
				t.Errorf("heartbeats %v: %v", l.beats, err)
			}
		})
	}
}
