package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// An endedSource reports the end of its log with errors.
type endedSource struct {
	binlog.Follower
	positionErr, bytesErr error
}

func (s *endedSource) CurrentPosition(context.Context) (binlog.Position, error) {
	return at(9), s.positionErr
}

func (s *endedSource) LogBytes(context.Context, binlog.Position, binlog.Position) (int64, error) {
	return 8, s.bytesErr
}

// TestEndOfLog measures the lag behind sources that do not report the end of their log, or its length.
func TestEndOfLog(t *testing.T) {
	denied := &mysqlconn.ServerError{Number: 1227, State: "42000", Message: "Access denied"}
	for _, tt := range []struct {
		source endedSource
		end    binlog.Position
		behind int64 // -1: unknown
		fails  bool
	}{
		{endedSource{}, at(9), 8, false},
		{endedSource{bytesErr: io.EOF}, at(9), -1, false},
		{endedSource{positionErr: io.EOF}, binlog.Position{}, -1, false},
		{endedSource{positionErr: &mysqlconn.ServerError{Number: 1053, State: "08S01", Message: "Server shutdown in progress"}}, binlog.Position{}, -1, false},
		{endedSource{positionErr: denied}, at(9), -1, true},
	} {
		f, err := New(Options{Source: &tt.source, From: at(1), Shared: Shared{Waits: &telemetry.Waits{Observe: func(telemetry.Event) {}}, Observe: func(telemetry.Event) {}, Count: func(*Counts) {}}})
		if err != nil {
			t.Fatal(err)
		}
		w := lagWatch{f: f}
		end, behind, err := w.measure(t.Context())
		if end != tt.end || (behind == nil) != (tt.behind < 0) || behind != nil && *behind != tt.behind || (err != nil) != tt.fails || err != nil && !errors.Is(err, denied) {
			t.Errorf("%+v: %v, %v, %v", tt.source, end, behind, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if !tt.fails {
			cancel()
		}
		if err := f.watch(ctx); (err != nil) != tt.fails {
			t.Errorf("%+v: watching ended with %v", tt.source, err)
		}
		cancel()
	}
}

// TestTracker records changes of rows by chunk: those with keys up to 10, up to 20, and above.
func TestTracker(t *testing.T) {
	whole := Ranges{Column: 0, Upto: []int64{10, 20}, Chunks: 3}
	for _, tt := range []struct {
		r             Ranges
		kind          binlog.ChangeKind
		before, after string
		want          string
	}{
		{whole, binlog.Insert, "-", "5 x", "[true false false]"},
		{whole, binlog.Delete, "11 x", "-", "[false true false]"},
		{whole, binlog.Update, "5 x", "21 x", "[true false true]"},
		{whole, binlog.Update, "21 x", "5 x", "[true false true]"},
		{whole, binlog.Insert, "-", "10 x", "[true true false]"}, // further columns of the key decide
		{whole, binlog.Insert, "-", "20 x", "[false true true]"},
		{whole, binlog.Insert, "-", "-7 x", "[true false false]"},
		{whole, binlog.Insert, "-", "word x", "[true true true]"},
		{whole, binlog.Insert, "-", "NULL x", "[true true true]"},
		{whole, binlog.Cascaded, "5 x", "-", "[true true true]"},
		{Ranges{Column: -1, Upto: []int64{10}, Chunks: 2}, binlog.Insert, "-", "5 x", "[true true]"},
		{Ranges{Column: 1, Upto: []int64{10}, Chunks: 2}, binlog.Insert, "-", "99 5", "[true false]"},
		{Ranges{Column: 0, Chunks: 1}, binlog.Insert, "-", "5 x", "[true]"},
	} {
		var b changeBatch
		b.Tables = make([]rowstream.Batch, 1)
		b.Tables[0].Reset(2)
		b.add(0, image(tt.before), image(tt.after))
		c := b.Changes[0]
		if tt.kind == binlog.Cascaded {
			c.Kind = tt.kind
		}
		f := &Follower{}
		f.tracker.record(&c, image(tt.before), image(tt.after)) // nothing is tracked
		if got := f.Changed(); got != nil {
			t.Errorf("%v without Track", got)
		}
		f.Track([]Ranges{tt.r})
		f.tracker.record(&c, image(tt.before), image(tt.after))
		if got := fmt.Sprint(f.Changed()[0]); got != tt.want {
			t.Errorf("%s -> %s by %+v: %s, want %s", tt.before, tt.after, tt.r, got, tt.want)
		}
	}
}

// TestManyKeys records more keys than there is room for at first: each is found again, and is no other table's.
func TestManyKeys(t *testing.T) {
	sql, err := rowstream.NewRowSQL("t", []rowstream.Column{column("id int")}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	a := newApplier([]applyTable{{sql: sql}, {sql: sql}}, 1)
	const n = 5000
	for range 2 {
		for i := range n {
			for table := range int32(2) {
				e := a.entry(table, image(strconv.Itoa(i)))
				if e != &a.keys[2*i+int(table)] || e.table != table {
					t.Fatalf("key %d of table %d: %+v", i, table, e)
				}
			}
		}
	}
	if len(a.keys) != 2*n || len(a.slots) < 2*len(a.keys) || len(a.slots) > 8*len(a.keys) {
		t.Errorf("%d keys in %d slots", len(a.keys), len(a.slots))
	}
	used := 0
	for _, k := range a.slots {
		if k != 0 {
			used++
		}
	}
	if used != len(a.keys) {
		t.Errorf("%d slots of %d keys", used, len(a.keys))
	}
}

// TestWideRow has a row among others that is written from its batch: its statement has no other row.
func TestWideRow(t *testing.T) {
	columns := []rowstream.Column{column("id int"), column("c longtext:utf8mb4_general_ci")}
	sql, err := rowstream.NewRowSQL("t", columns, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	for _, loose := range []bool{false, true} {
		a := newApplier([]applyTable{{sql: sql, loose: loose}}, 1)
		var b changeBatch
		b.Tables = make([]rowstream.Batch, 1)
		b.Tables[0].Reset(2)
		b.add(0, nil, image("1 x"))
		b.add(0, nil, image("2 "+strings.Repeat("y", streamedRow)))
		b.add(0, nil, image("3 z"))
		if err := a.plan(&b.ChangeBatch); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range a.script(0, 0).statements {
			got = append(got, fmt.Sprintf("%d rows, wide %v, %d bytes", s.rows, s.wide, s.to-s.from))
		}
		if len(got) != 3 || !strings.HasPrefix(got[0], "1 rows, wide false") || !strings.HasPrefix(got[1], "1 rows, wide true") || !strings.HasPrefix(got[2], "1 rows, wide false") {
			t.Errorf("loose %v: %q", loose, got)
		}
		if n := len(a.script(0, 0).text); n > streamedRow {
			t.Errorf("loose %v: a script of %d bytes", loose, n)
		}
	}
}

// TestTurnReturned has a transaction that inserts beside several unique keys fail at its start, and one that waits for its turn in vain: the turn is
// not kept.
func TestTurnReturned(t *testing.T) {
	columns := []rowstream.Column{column("id int"), column("n int")}
	sql, err := rowstream.NewRowSQL("t", columns, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	table := applyTable{sql: sql}
	table.guard(t, "t", columns, []int{0}, "owned; unique n")
	a := newApplier([]applyTable{table}, 1)
	var b changeBatch
	b.Tables = make([]rowstream.Batch, 1)
	b.Tables[0].Reset(2)
	b.add(0, nil, image("1 2"))
	if err := a.plan(&b.ChangeBatch); err != nil {
		t.Fatal(err)
	}
	c, err := session.Connect(t.Context(), testrows.Root(testmysql.Start(t)))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close() // its statements fail
	f := &Follower{o: Options{Turn: make(chan struct{}, 1)}}
	w := &state.Writer{Conn: c}
	if err := tryBatch(t.Context(), w, f, a, 0, nil); err == nil || len(f.o.Turn) != 0 {
		t.Errorf("%v, and %d turns are taken", err, len(f.o.Turn))
	}
	f.o.Turn <- struct{}{}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("ended")
	cancel(ended)
	if err := tryBatch(ctx, w, f, a, 0, nil); !errors.Is(err, ended) || len(f.o.Turn) != 1 {
		t.Errorf("%v, and %d turns are taken", err, len(f.o.Turn))
	}
}

// TestApplyStatement executes the statements of a wide row and of others: the server gets each row once. Errors of the server, rows that it does not
// count, statements that are too long for it and images that cannot be read are errors.
func TestApplyStatement(t *testing.T) {
	sql, err := rowstream.NewRowSQL("t", []rowstream.Column{column("id int"), column("c longtext:utf8mb4_general_ci")}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	wide := strings.Repeat("y", streamedRow)
	var b changeBatch
	b.Tables = make([]rowstream.Batch, 1)
	b.Tables[0].Reset(2)
	values := []string{"x", wide, "z"}
	for i, v := range values {
		b.add(0, nil, image(strconv.Itoa(i+1)+" "+v))
	}
	a := newApplier([]applyTable{{sql: sql}}, 1)
	if err := a.plan(&b.ChangeBatch); err != nil {
		t.Fatal(err)
	}
	calls, responses := make(chan string, 1), make(chan []byte, 1)
	addr := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if !testscript.Login(c) {
			return
		}
		for p := testscript.Command(c); p != nil; p = testscript.Command(c) {
			calls <- string(p[1:])
			if c.WriteMessage(<-responses) != nil {
				return
			}
		}
	})
	w := &state.Writer{Conn: testscript.MustConnect(t, addr), Limit: 64 << 20}
	target := &tabledef.Target{Spec: &tabledef.Spec{ToSchema: "d", ToName: "t"}}
	statements := a.script(0, 0).statements
	affected := func(n byte) []byte {
		ok := testscript.OK()
		ok[1] = n
		return ok
	}
	for i := range statements {
		for _, tt := range []struct {
			response []byte
			want     string
		}{
			{affected(1), ""},
			{affected(2), ""},
			{affected(0), "1 were written to d.t, it counted 0"},
			{mysqlwire.NewErr(1062, []byte("refused")).AppendTo(nil), "write to d.t: "},
		} {
			responses <- tt.response
			err := applyStatement(t.Context(), w, target, a, 0, 0, &statements[i])
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("statement %d: %v, want %q", i, err, tt.want)
			}
			sent := testwait.Receive(t, "the statement", calls)
			for n, v := range values {
				if strings.Contains(sent, "'"+v+"'") != (n == i) {
					t.Errorf("statement %d has the row %d: %t", i, n, n != i)
				}
			}
		}
	}
	w.Limit = streamedRow
	if err := applyStatement(t.Context(), w, target, a, 0, 0, &statements[1]); !errors.Is(err, state.ErrRows) || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("a statement that is too long: %v", err)
	}
	w.Limit = 64 << 20
	b.Tables[0].Bytes = b.Tables[0].Bytes[:streamedRow/2]
	if err := applyStatement(t.Context(), w, target, a, 0, 0, &statements[1]); err == nil {
		t.Error("an image without its end is written")
	}
	select {
	case sent := <-calls:
		t.Errorf("the server got %.100q", sent)
	default:
	}
}
