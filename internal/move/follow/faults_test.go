package follow

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

var allFaults = flag.Bool("all-faults", false, "TestTargetFaults has all faults at each packet, otherwise some")

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

// addTo appends a change of the first table, and has all be the batch.
func (b *changeBatch) addTo(all *binlog.ChangeBatch, before, after mysqlwire.TextRow) {
	b.add(0, before, after)
	*all = b.ChangeBatch
}

// TestTargetFaults has a fault of each kind at each of a follower's packets to its target in turn, with one writer and with several. The target has all rows and the position of all, or the follower
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
	proxy := testproxy.StartFaulty(t, server.Addr)
	direct := mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	through := direct
	through.Addr = proxy.Addr
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
			Source: script, Tables: []*tabledef.Table{table}, From: from, State: following,
			Writer: func() *state.Writer {
				return &state.Writer{Cfg: cfg, State: st, Patience: time.Minute, Follows: true, Waits: waits, Observe: func(telemetry.Event) {}}
			},
			UntilCaughtUp: true, Shared: Shared{Workers: workers, Patience: time.Minute, Waits: waits, Observe: func(telemetry.Event) {}, Count: func(*Counts) {}},
		})
		must(err)
		err = f.Run(t.Context())
		if err == nil && f.recorded != f.applied {
			t.Errorf("%v is applied, and the follower has recorded %v", f.applied, f.recorded)
		}
		return err
	}
	outcomes := map[string]int{}
	for _, workers := range []int{1, 3} {
		reset()
		proxy.Set(0, "")
		must(run(workers, through))
		cells := testproxy.AllFaults(proxy.Packets(), 1)
		if !*allFaults {
			rnd.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
			cells = append(testproxy.SomeFaults(rnd, proxy.Packets(), map[string]bool{}), cells[:30]...)
		}
		proxy.Each(cells, reset, func() error { return run(workers, through) }, func(cell testproxy.Cell, err error) {
			place := fmt.Sprintf("%d writers, %s", workers, cell)
			position, perr := following.Position(t.Context(), holder)
			must(perr)
			switch rows := content(); {
			case err == nil && (!maps.Equal(rows, want) || position != at(batches+1)):
				t.Errorf("%s: it ended without an error at %v, with rows %v, want %v", place, position, rows, want)
			case err == nil:
				outcomes[string(cell.Fault)+": equal"]++
			case cell.Fault != testproxy.Refused:
				t.Errorf("%s: it failed: %v", place, err)
			default:
				outcomes[string(cell.Fault)+": failed"]++
				if !strings.Contains(err.Error(), testproxy.RefusedText) {
					t.Errorf("%s: it failed without the cause: %v", place, err)
				}
				if err := run(1, direct); err != nil {
					t.Errorf("%s, run again: %v", place, err)
				}
				if rows := content(); !maps.Equal(rows, want) {
					t.Errorf("%s, run again from %v: rows %v, want %v", place, position, rows, want)
				}
			}
		})
	}
	t.Log(outcomes)
	if outcomes[string(testproxy.Refused)+": failed"] == 0 || *allFaults && outcomes[string(testproxy.LostAfter)+": equal"] == 0 {
		t.Error("too few faults")
	}
}
