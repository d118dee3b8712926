package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A followTarget is a target with a lease, and the proxy of its server.
type followTarget struct {
	t         *testing.T
	proxy     *testproxy.Faulty
	through   mysqlconn.Config
	holder    *mysqlconn.Client
	table     *tabledef.Table
	following *state.Following
	events    []string
	counts    Counts
}

func newFollowTarget(t *testing.T) *followTarget {
	server := testmysql.Start(t)
	f := &followTarget{t: t, proxy: testproxy.StartFaulty(t, server.Addr)}
	f.through = mysqlconn.Config{Addr: f.proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	f.holder = testrows.Connect(t, testrows.Root(server))
	testrows.Exec(t, f.holder, "CREATE DATABASE src", "CREATE DATABASE dst", "CREATE TABLE src.a (id INT PRIMARY KEY, n INT NOT NULL)", "CREATE TABLE dst.a (id INT PRIMARY KEY, n INT NOT NULL)")
	spec := &tabledef.Spec{Schema: "src", Name: "a", ToSchema: "dst", ToName: "a"}
	source, err := rowstream.ReadTable(t.Context(), f.holder, "src", "a")
	f.must(err)
	f.table, err = tabledef.DescribeAs(t.Context(), source, f.holder, tabledef.DescribeOptions{Follow: true}, spec)
	f.must(err)
	st := state.State{Schema: "_tare"}
	f.must(st.Create(t.Context(), f.holder))
	f.must(st.CreateFollow(t.Context(), f.holder))
	st.Lease, err = state.AcquireLease(t.Context(), f.holder, st, []*tabledef.Spec{spec}, time.Second)
	f.must(err)
	f.following = st.Followed("source", []tabledef.Spec{*spec})
	return f
}

func (f *followTarget) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// follower returns a follower of a source from its first position.
func (f *followTarget) follower(source binlog.Follower, workers int) *Follower {
	f.t.Helper()
	testrows.Exec(f.t, f.holder, "DELETE FROM dst.a", "DELETE FROM _tare.copy_follow")
	f.events, f.counts = nil, Counts{}
	observe := func(e telemetry.Event) { f.events = append(f.events, fmt.Sprintf("%s %s", e.Kind, e.Text)) }
	waits := &telemetry.Waits{Observe: observe}
	one, err := New(Options{
		Source: source, Tables: []*tabledef.Table{f.table}, From: at(1), State: f.following,
		Writer: func() *state.Writer {
			return &state.Writer{Cfg: f.through, State: f.following.State, Patience: time.Minute, Follows: true, Waits: waits, Observe: observe}
		},
		UntilCaughtUp: true, Shared: Shared{Workers: workers, Patience: time.Minute, Waits: waits, Observe: observe, Count: func(c *Counts) {
			for kind, n := range c {
				f.counts[kind] += n
			}
		}},
	})
	f.must(err)
	return one
}

// twoBatches has inserts, updates and deletes of two transactions.
func twoBatches() *scriptedSource {
	return &scriptedSource{first: map[int]int{}, batches: []map[int]int{{1: 10, 2: 20, 3: 30, 4: 40}, {1: 11, 2: 20, 3: 0, 4: 41}}}
}

// TestEachStatementFails has the target fail to execute each statement of a follower in turn, with one writer and with several: it fails with the
// cause.
func TestEachStatementFails(t *testing.T) {
	f := newFollowTarget(t)
	for _, workers := range []int{1, 3} {
		f.proxy.EachFails(t, func() error {
			one := f.follower(twoBatches(), workers)
			err := one.Run(t.Context())
			if ended := one.Err(); err == nil && !errors.Is(ended, ErrEnded) || err != nil && !errors.Is(ended, err) {
				t.Errorf("it ended with %v, which is reported as %v", err, ended)
			}
			return err
		}, "SELECT VERSION(), CONNECTION_ID(),", "SET @@SESSION.max_error_count", "ROLLBACK")
	}
}

// TestApplied applies two transactions: the statements to the target, the rows, the position and the counts are those of the changes.
func TestApplied(t *testing.T) {
	f := newFollowTarget(t)
	one := f.follower(twoBatches(), 1)
	f.proxy.Set(0, "")
	f.must(one.Run(t.Context()))
	var statements []string
	for _, sql := range f.proxy.Packets() {
		if verb, _, _ := strings.Cut(sql, " "); !strings.HasPrefix(sql, "SELECT") && verb != "SET" && verb != "login" && !strings.Contains(sql, "copy_follow") {
			statements = append(statements, sql)
		}
	}
	want := []string{
		"START TRANSACTION", "COMMIT", // of the first position
		"START TRANSACTION", "REPLACE INTO `dst`.`a` (`id`, `n`) VALUES (_binary'1',_binary'10'),(_binary'2',_binary'20'),(_binary'3',_binary'30'),(_binary'4',_binary'40')", "COMMIT",
		"START TRANSACTION", "DELETE FROM `dst`.`a` WHERE `id` IN (3)", "REPLACE INTO `dst`.`a` (`id`, `n`) VALUES (_binary'1',_binary'11'),(_binary'4',_binary'41')", "COMMIT",
		"START TRANSACTION", "COMMIT", // of the last position
	}
	for i := range statements {
		statements[i] = strings.Join(strings.Fields(statements[i]), " ")
	}
	if diff := cmp.Diff(want, statements); diff != "" {
		t.Error(diff)
	}
	rows := testrows.Column(t, f.holder, "SELECT CONCAT(id, ' ', n) FROM dst.a ORDER BY id")
	position, err := f.following.Position(t.Context(), f.holder)
	if diff := cmp.Diff([]string{"1 11", "2 20", "4 41"}, rows); diff != "" || position != at(3) || err != nil {
		t.Errorf("%v, %v: %s", position, err, diff)
	}
	if want := (Counts{binlog.Insert: 4, binlog.Update: 2, binlog.Delete: 1}); f.counts != want {
		t.Errorf("counted %v, want %v", f.counts, want)
	}
	if !slices.ContainsFunc(f.events, func(e string) bool {
		return strings.HasPrefix(e, string(telemetry.EventCaughtUp)+" the target has caught up after 7 changes, at log.000001 3")
	}) {
		t.Errorf("events: %q", f.events)
	}
}

// An endingSource fails, or its log ends, after a number of batches.
type endingSource struct {
	*scriptedSource
	followErr, positionErr, nextErr error
	after                           int
}

func (s *endingSource) CurrentPosition(ctx context.Context) (binlog.Position, error) {
	if s.positionErr != nil {
		return binlog.Position{}, s.positionErr
	}
	return s.scriptedSource.CurrentPosition(ctx)
}

func (s *endingSource) Follow(ctx context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	changes, err := s.scriptedSource.Follow(ctx, o)
	return &endingLog{changes, s, 0}, errors.Join(err, s.followErr)
}

type endingLog struct {
	binlog.Changes
	s     *endingSource
	calls int
}

func (l *endingLog) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	if l.calls++; l.s.nextErr != nil && l.calls > l.s.after {
		return l.s.nextErr
	}
	return l.Changes.Next(ctx, b)
}

// TestEndings has sources fail at each call, and logs end: the follower fails with the cause, and what it has applied is recorded if the log ended.
func TestEndings(t *testing.T) {
	f := newFollowTarget(t)
	lost, stop := errors.New("lost"), &binlog.StopError{Reason: binlog.StopSchema, Table: "src.a", What: "it was altered"}
	denied := &mysqlconn.ServerError{Number: 1227, Message: "denied"}
	for _, tt := range []struct {
		name   string
		source endingSource
		err    error
		at     int64 // the recorded position; 0: any
	}{
		{"nothing", endingSource{}, nil, 3},
		{"Follow", endingSource{followErr: lost}, lost, 1},
		{"Next", endingSource{nextErr: lost}, lost, 1},
		{"the log before a change", endingSource{nextErr: stop}, stop, 1},
		{"the log after one", endingSource{nextErr: stop, after: 1}, stop, 2},
		{"the log after both", endingSource{nextErr: stop, after: 2}, stop, 3},
		{"the position", endingSource{positionErr: denied}, denied, 0},
	} {
		tt.source.scriptedSource = twoBatches()
		one := f.follower(&tt.source, 1)
		err := one.Run(t.Context())
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		ended := one.WaitCaughtUp(t.Context())
		if tt.err == nil && ended != nil || tt.at < 3 && !errors.Is(ended, tt.err) { // at 3 it may have caught up before
			t.Errorf("%s: WaitCaughtUp returns %v", tt.name, ended)
		}
		want := tt.err
		if want == nil {
			want = ErrEnded
		}
		if err := errors.Join(one.Err(), one.Err()); !errors.Is(err, want) {
			t.Errorf("%s: Err returns %v", tt.name, err)
		}
		position, perr := f.following.Position(t.Context(), f.holder)
		if perr != nil || tt.at > 0 && position != at(tt.at) {
			t.Errorf("%s: recorded is %v, %v", tt.name, position, perr)
		}
		for _, w := range one.writers {
			if w.Conn != nil {
				t.Errorf("%s: a connection is left open", tt.name)
			}
		}
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	if err := f.follower(twoBatches(), 1).Run(gone); !errors.Is(err, lost) && !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	one := f.follower(&endingSource{scriptedSource: twoBatches()}, 1)
	one.End()
	f.must(one.Run(t.Context()))
}

// TestParts plans batches for several writers: they are applied in parts until the target has caught up, and then by one. One that cannot be planned
// again is not applied.
func TestParts(t *testing.T) {
	f := newFollowTarget(t)
	source := &scriptedSource{first: map[int]int{}, batches: []map[int]int{{}}}
	for key := range 40 {
		source.batches[0][key] = key + 1
	}
	for _, single := range []bool{false, true} {
		one := f.follower(source, 3)
		if err := one.Err(); err != nil {
			t.Errorf("before it runs: %v", err)
		}
		plan := func() *slot {
			changes, err := source.Follow(t.Context(), binlog.FollowOptions{From: at(1)})
			f.must(err)
			s := &slot{applier: newApplier(one.tables, 3)}
			f.must(changes.Next(t.Context(), &s.batch))
			s.applier.spread(3)
			f.must(s.applier.plan(&s.batch))
			return s
		}
		s := plan()
		one.single = single
		busy, err := one.busyWriters(s)
		f.must(err)
		if (len(busy) > 1) == single || one.parts == single {
			t.Errorf("single %t: the writers %v, in parts %t", single, busy, one.parts)
		}
		f.must(one.apply(t.Context(), s))
		rows := testrows.Column(t, f.holder, "SELECT CONCAT(COUNT(*), ' ', SUM(n - id)) FROM dst.a")
		position, err := f.following.Position(t.Context(), f.holder)
		f.must(err)
		recorded := at(2)
		if !single {
			recorded = at(1) // the others may be killed before they commit
		}
		if one.parts || rows[0] != "40 40" || one.Applied() != at(2) || position != recorded || one.recorded != recorded || !one.boundary {
			t.Errorf("single %t: in parts %t, rows %q, applied %v, recorded %v and %v", single, one.parts, rows, one.Applied(), position, one.recorded)
		}
		broken := plan()
		broken.batch.Tables[0].Bytes = broken.batch.Tables[0].Bytes[:1]
		if single {
			if err := one.apply(t.Context(), broken); err == nil {
				t.Error("a batch that cannot be planned is applied")
			}
		}
		for _, w := range one.writers {
			w.Close()
		}
	}
}

// A firstSource fails at one call of Heartbeat.First.
type firstSource struct {
	*slowSource
	fails  string
	closed int
}

var errFirst = errors.New("the source fails")

func (s *firstSource) err(call string) error {
	if s.fails == call {
		return errFirst
	}
	return nil
}

func (s *firstSource) CurrentPosition(ctx context.Context) (binlog.Position, error) {
	p, err := s.slowSource.CurrentPosition(ctx)
	return p, errors.Join(err, s.err("CurrentPosition"))
}

func (s *firstSource) Follow(ctx context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	changes, err := s.slowSource.Follow(ctx, o)
	return &firstLog{changes, s}, errors.Join(err, s.err("Follow"))
}

type firstLog struct {
	binlog.Changes
	s *firstSource
}

func (l *firstLog) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	return errors.Join(l.Changes.Next(ctx, b), l.s.err("Next"))
}

func (l *firstLog) Close() error {
	l.s.closed++
	return l.s.err("Close")
}

// TestFirstFails has a source fail at each call for the first heartbeat.
func TestFirstFails(t *testing.T) {
	for _, fails := range []string{"", "CurrentPosition", "Follow", "Next", "Close"} {
		s := &firstSource{slowSource: &slowSource{}, fails: fails}
		h := NewHeartbeat(HeartbeatOptions{Source: s, Copy: "copy", Patience: time.Minute, Observe: func(telemetry.Event) {}, Waits: &telemetry.Waits{Observe: func(telemetry.Event) {}}})
		mark, err := h.First(t.Context(), nil)
		if errors.Is(err, errFirst) != (fails != "") || fails == "" && (err != nil || mark != "mark" || len(h.sent) != 0) || (s.closed == 1) != (fails != "CurrentPosition" && fails != "Follow") {
			t.Errorf("%q fails: %q, %v, closed %d times", fails, mark, err, s.closed)
		}
	}
}

// TestLagOf reports the age of the last commit, also of a source whose clock is ahead, and counts.
func TestLagOf(t *testing.T) {
	f, err := New(Options{Source: &endedSource{}, From: at(1), Shared: Shared{Observe: func(telemetry.Event) {}, Count: func(*Counts) {}}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	f.now = func() time.Time { return now }
	for ago, want := range map[time.Duration]float64{-5 * time.Second: 0, 0: 0, 500 * time.Millisecond: 0.5, time.Hour: 3600} {
		w := lagWatch{f: f, caughtUp: true}
		lag := w.lag(at(7), nil, 9, now.Add(-ago))
		if lag.CommitAge == nil || *lag.CommitAge != want || lag.Bytes != nil || lag.Changes != 9 || !lag.CaughtUp || lag.Position != at(7).String() || lag.Seconds != nil || lag.Confirmed != nil {
			t.Errorf("%v: %+v", ago, lag)
		}
	}
	if lag := (&lagWatch{f: f}).lag(at(7), nil, 0, time.Time{}); lag.CommitAge != nil || lag.CaughtUp {
		t.Errorf("without a commit: %+v", lag)
	}
	for age, want := range map[time.Duration]bool{0: true, lagUnknown: true, lagUnknown + time.Second: false} {
		var lag telemetry.Lag
		if f.prove(&lag, now.Add(-age)); lag.Confirmed == nil || *lag.Confirmed != age.Seconds() || (lag.Seconds != nil) != want {
			t.Errorf("%v: %+v", age, lag)
		}
	}
}

// TestMemberImages adds images of rows to a member of a log: those that its plan selects, without the columns that are not needed before a change.
func TestMemberImages(t *testing.T) {
	table := scriptTable()
	plan := &rowstream.Plan{Where: []rowstream.Condition{{Column: 0, Equal: []byte("1")}}}
	row := func(id string) mysqlwire.TextRow { return testrows.Row(id, "2", "x") }
	for _, tt := range []struct {
		name          string
		plan          *rowstream.Plan
		before        []int // columns of images before a change; nil: all
		old, new      mysqlwire.TextRow
		kind          binlog.ChangeKind
		oldRow, newer string
	}{
		{"an insert", nil, nil, nil, row("1"), binlog.Insert, "", "1 2 x"},
		{"an update", nil, nil, row("1"), row("2"), binlog.Update, "1 2 x", "2 2 x"},
		{"a delete", nil, nil, row("1"), nil, binlog.Delete, "1 2 x", ""},
		{"an update with a key", nil, []int{0}, row("1"), row("2"), binlog.Update, "1 NULL NULL", "2 2 x"},
		{"no column", nil, []int{}, row("1"), nil, binlog.Delete, "NULL NULL NULL", ""},
		{"a row that enters", plan, nil, row("2"), row("1"), binlog.Insert, "", "1 2 x"},
		{"a row that leaves", plan, nil, row("1"), row("2"), binlog.Delete, "1 2 x", ""},
		{"a row of others", plan, nil, row("2"), row("3"), 0, "", ""},
		{"an insert of others", plan, nil, nil, row("3"), 0, "", ""},
	} {
		o := binlog.FollowOptions{Tables: []*rowstream.Table{table}, Plans: []*rowstream.Plan{tt.plan}}
		if tt.before != nil {
			o.Before = [][]int{tt.before}
		}
		m := &LogMember{o: o}
		if err := m.prepare(); err != nil {
			t.Fatal(err)
		}
		var raw binlog.ChangeBatch
		raw.Reset([]int{3}, 1<<20)
		change := binlog.Change{Before: -1, After: -1, LastOfTransaction: true}
		for _, image := range []struct {
			row mysqlwire.TextRow
			at  *int
		}{{tt.old, &change.Before}, {tt.new, &change.After}} {
			if image.row != nil {
				*image.at = len(raw.Tables[0].Bytes)
				raw.Tables[0].AppendRow(image.row)
			}
		}
		if err := m.change(&raw, &change); err != nil {
			t.Fatal(err)
		}
		var got []string
		kind := binlog.ChangeKind(0)
		for _, c := range m.pending.Changes {
			kind = c.Kind
			for _, at := range []int{c.Before, c.After} {
				if at < -1 {
					t.Errorf("%s: an image at %d", tt.name, at)
				}
				if at < 0 {
					got = append(got, "")
					continue
				}
				var image mysqlwire.TextRow
				if _, err := m.pending.Tables[0].Row(at, &image); err != nil {
					t.Fatal(err)
				}
				var texts []string
				for _, v := range image {
					text := string(v)
					if v == nil {
						text = "NULL"
					}
					texts = append(texts, text)
				}
				got = append(got, strings.Join(texts, " "))
			}
			if !c.LastOfTransaction {
				t.Errorf("%s: it does not end its transaction", tt.name)
			}
		}
		want := []string{tt.oldRow, tt.newer}
		if tt.kind == 0 {
			want = nil
		}
		if kind != tt.kind || cmp.Diff(want, got) != "" {
			t.Errorf("%s: kind %v, %q", tt.name, kind, got)
		}
		// Images that cannot be read stop the member.
		raw.Tables[0].Bytes = raw.Tables[0].Bytes[:1]
		var stop *binlog.StopError
		if err := m.change(&raw, &change); !errors.As(err, &stop) || stop.Reason != binlog.StopUnknown || stop.Table != table.FullName() || stop.Err == nil {
			t.Errorf("%s: a cut row: %v", tt.name, err)
		}
	}
}

// TestMemberNext has a member wait for changes, take them, and end.
func TestMemberNext(t *testing.T) {
	lost := errors.New("lost")
	m := &LogMember{o: binlog.FollowOptions{Tables: []*rowstream.Table{scriptTable()}}, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
	if err := m.prepare(); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	var b binlog.ChangeBatch
	if err := m.Next(gone, &b); !errors.Is(err, lost) {
		t.Errorf("nothing comes: %v", err)
	}
	m.pending.Tables[0].AppendRow(testrows.Row("1", "2", "3"))
	m.pending.Changes = append(m.pending.Changes, binlog.Change{Kind: binlog.Insert, Before: -1})
	m.pending.Upto, m.news, m.first, m.err = at(7), true, 1, lost
	if err := m.Next(t.Context(), &b); err != nil || len(b.Changes) != 1 || b.Upto != at(7) || b.Tables[0].Rows != 1 {
		t.Errorf("changes: %+v, %v", b, err)
	}
	if m.news || m.first != 0 || len(m.pending.Changes) != 0 || len(m.pending.Tables) != 1 || len(m.taken) != 1 {
		t.Errorf("after they are taken: news %t, first %d, %d changes, %d signals", m.news, m.first, len(m.pending.Changes), len(m.taken))
	}
	if err := m.Next(t.Context(), &b); !errors.Is(err, lost) {
		t.Errorf("the end: %v", err)
	}
	m.closed = true
	if err := m.Next(t.Context(), &b); !errors.Is(err, binlog.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
