package wire

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestRequests calls the service with requests that are valid, and with each field of them invalid.
func TestRequests(t *testing.T) {
	log := testrows.NewMemoryLog(nil)
	s := must(NewService(ServiceOptions{Server: log, MaxFollows: 1}))
	described, err := log.Describe(t.Context(), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	table := tableMessage(described)
	unknown := tableMessage(described)
	unknown.Columns[0].Type = "geo"
	const at, wrong = "binlog.1 10", "binlog.1 x"
	v := newServed(t.Context(), must(log.Snapshot(t.Context(), 2, []*rowstream.Table{described})), 2, []*rowstream.Table{described})
	s.snapshots[7] = v
	defer func() { _ = v.close() }()
	_, cut := s.Cut(t.Context(), &rowpb.CutRequest{Snapshot: 7, Table: table})
	for _, c := range []struct {
		name string
		call func(ctx context.Context) error
		code codes.Code
	}{
		{"check", func(ctx context.Context) error {
			_, err := s.CheckFollow(ctx, &rowpb.CheckFollowRequest{From: at, Tables: []*rowpb.Table{table}})
			return err
		}, codes.OK},
		{"check from nowhere", func(ctx context.Context) error {
			_, err := s.CheckFollow(ctx, &rowpb.CheckFollowRequest{From: wrong, Tables: []*rowpb.Table{table}})
			return err
		}, codes.InvalidArgument},
		{"check of an unknown type", func(ctx context.Context) error {
			_, err := s.CheckFollow(ctx, &rowpb.CheckFollowRequest{From: at, Tables: []*rowpb.Table{table, unknown}})
			return err
		}, codes.InvalidArgument},
		{"bytes", func(ctx context.Context) error {
			_, err := s.LogBytes(ctx, &rowpb.LogBytesRequest{From: at, To: at})
			return err
		}, codes.Unknown}, // the log in memory has none
		{"bytes from nowhere", func(ctx context.Context) error {
			_, err := s.LogBytes(ctx, &rowpb.LogBytesRequest{From: wrong, To: at})
			return err
		}, codes.InvalidArgument},
		{"bytes to nowhere", func(ctx context.Context) error {
			_, err := s.LogBytes(ctx, &rowpb.LogBytesRequest{From: at, To: wrong})
			return err
		}, codes.InvalidArgument},
		{"schema changes from nowhere", func(ctx context.Context) error {
			_, err := s.SchemaChanges(ctx, &rowpb.SchemaChangesRequest{From: wrong, To: at, Tables: []*rowpb.Table{table}})
			return err
		}, codes.InvalidArgument},
		{"schema changes to nowhere", func(ctx context.Context) error {
			_, err := s.SchemaChanges(ctx, &rowpb.SchemaChangesRequest{From: at, To: wrong, Tables: []*rowpb.Table{table}})
			return err
		}, codes.InvalidArgument},
		{"schema changes of an unknown type", func(ctx context.Context) error {
			_, err := s.SchemaChanges(ctx, &rowpb.SchemaChangesRequest{From: at, To: at, Tables: []*rowpb.Table{unknown}})
			return err
		}, codes.InvalidArgument},
		{"layout", func(ctx context.Context) error {
			_, err := s.Layout(ctx, &rowpb.LayoutRequest{Table: table})
			return err
		}, codes.OK},
		{"layout of an unknown type", func(ctx context.Context) error {
			_, err := s.Layout(ctx, &rowpb.LayoutRequest{Table: unknown})
			return err
		}, codes.InvalidArgument},
		{"follow nothing", func(ctx context.Context) error {
			_, _, err := s.followedTables(ctx, log, nil)
			return statusOf(err)
		}, status.Code(statusOf(errNoTables))},
		{"follow", func(ctx context.Context) error {
			_, _, err := s.followedTables(ctx, log, []*rowpb.FollowedTable{{Table: table}})
			return statusOf(err)
		}, codes.OK},
		{"follow an unknown type", func(ctx context.Context) error {
			_, _, err := s.followedTables(ctx, log, []*rowpb.FollowedTable{{Table: unknown, Layout: &rowpb.TableLayout{Columns: []int32{0, 1}}}})
			return statusOf(err)
		}, codes.InvalidArgument},
		{"follow with too few columns", func(ctx context.Context) error {
			_, _, err := s.followedTables(ctx, log, []*rowpb.FollowedTable{{Table: table, Layout: &rowpb.TableLayout{Columns: []int32{-1}}}})
			return statusOf(err)
		}, codes.InvalidArgument},
		{"cut", func(context.Context) error { return cut }, status.Code(cut)},
		{"last key of no snapshot", func(ctx context.Context) error {
			_, err := s.LastKey(ctx, &rowpb.LastKeyRequest{Snapshot: 8, Worker: 1, Table: table})
			return err
		}, codes.FailedPrecondition},
		{"last key of another table", func(ctx context.Context) error {
			_, err := s.LastKey(ctx, &rowpb.LastKeyRequest{Snapshot: 7, Worker: 1, Table: &rowpb.Table{Schema: "a", Name: "c"}})
			return err
		}, codes.InvalidArgument},
		{"last key by no worker", func(ctx context.Context) error {
			_, err := s.LastKey(ctx, &rowpb.LastKeyRequest{Snapshot: 7, Worker: 2, Table: table})
			return err
		}, codes.InvalidArgument},
		{"last key by a negative worker", func(ctx context.Context) error {
			_, err := s.LastKey(ctx, &rowpb.LastKeyRequest{Snapshot: 7, Worker: -1, Table: table})
			return err
		}, codes.InvalidArgument},
	} {
		if got := status.Code(c.call(t.Context())); got != c.code {
			t.Errorf("%s: %v, want %v", c.name, got, c.code)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	<-v.workers[1].turn // it is in use
	if _, err := v.acquire(ended, 1); err == nil {
		t.Error("a worker that is in use is acquired")
	}
	v.workers[1].release()
	late := newServed(ended, nil, 0, nil)
	late.workers = []*servedWorker{{turn: make(chan struct{}, 1)}}
	late.workers[0].release()
	if _, err := late.acquire(t.Context(), 0); err == nil || len(late.workers[0].turn) != 1 {
		t.Errorf("a worker of a view that has ended: %v", err)
	}
}

// TestBeatRequests has heartbeats whose run, copy and schemas have the largest permitted size, and others.
func TestBeatRequests(t *testing.T) {
	s := must(NewService(ServiceOptions{Server: testrows.NewMemoryLog(nil)}))
	long := strings.Repeat("x", longestRun)
	schemas := make([]string, mostBeatSchemas)
	for name, c := range map[string]struct {
		m     *rowpb.BeatRequest
		fails bool
	}{
		"least":            {&rowpb.BeatRequest{Run: "r", Copy: "c", Schemas: []string{"s"}, Number: 3, OnReplica: true}, false},
		"most":             {&rowpb.BeatRequest{Run: long, Copy: long, Schemas: schemas}, false},
		"no run":           {&rowpb.BeatRequest{Copy: "c", Schemas: []string{"s"}}, true},
		"no copy":          {&rowpb.BeatRequest{Run: "r", Schemas: []string{"s"}}, true},
		"no schema":        {&rowpb.BeatRequest{Run: "r", Copy: "c"}, true},
		"a long run":       {&rowpb.BeatRequest{Run: long + "x", Copy: "c", Schemas: []string{"s"}}, true},
		"a long copy":      {&rowpb.BeatRequest{Run: "r", Copy: long + "x", Schemas: []string{"s"}}, true},
		"too many schemas": {&rowpb.BeatRequest{Run: "r", Copy: "c", Schemas: append(schemas, "s")}, true},
	} {
		_, h, err := s.heartbeatOf(c.m)
		if (err != nil) != c.fails || err != nil && status.Code(statusOf(err)) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
		if want := (binlog.Heartbeat{Copy: c.m.GetCopy(), Run: c.m.GetRun(), Number: c.m.GetNumber(), Schemas: c.m.GetSchemas(), OnReplica: c.m.GetOnReplica()}); !c.fails && !reflect.DeepEqual(h, want) {
			t.Errorf("%s: %+v", name, h)
		}
		for call, do := range map[string]func(context.Context, *rowpb.BeatRequest) (*rowpb.BeatReply, error){"beat": s.Beat, "check": s.CheckBeat} {
			if _, err := do(t.Context(), c.m); (err != nil) != c.fails {
				t.Errorf("%s, %s: %v", call, name, err)
			}
		}
	}
}

// TestFollowOptionsOf has each field of a request to follow at its bounds, and invalid.
func TestFollowOptionsOf(t *testing.T) {
	table := fullTable()
	compare := uint32(rowstream.Temporal) + 1
	term := &rowpb.Term{Op: uint32(rowstream.IsNull), Column: 1}
	for name, c := range map[string]struct {
		m    *rowpb.FollowRequest
		of   *rowpb.FollowedTable
		want string // of the options, or a part of the error
	}{
		"nothing":            {&rowpb.FollowRequest{}, nil, fmt.Sprintf("%d 0s 0s 0", binlog.DefaultFollowBytes)},
		"small":              {&rowpb.FollowRequest{BatchBytes: 1, HeartbeatMs: 1, PatienceMs: 1}, nil, fmt.Sprintf("%d 10ms 1ms 0", minBatchBytes)},
		"negative":           {&rowpb.FollowRequest{BatchBytes: -1, HeartbeatMs: -1}, nil, fmt.Sprintf("%d 0s 0s 0", minBatchBytes)},
		"large":              {&rowpb.FollowRequest{BatchBytes: math.MaxInt32, HeartbeatMs: 10_001}, nil, fmt.Sprintf("%d 10s 0s 0", maxBatchBytes)},
		"within":             {&rowpb.FollowRequest{BatchBytes: minBatchBytes + 1, HeartbeatMs: 11, PatienceMs: 1e12}, nil, fmt.Sprintf("%d 11ms 24h0m0s 0", minBatchBytes+1)},
		"digests":            {&rowpb.FollowRequest{Ignore: [][]byte{make([]byte, len(sqldigest.Digest{})), make([]byte, len(sqldigest.Digest{}))}}, nil, fmt.Sprintf("%d 0s 0s 2", binlog.DefaultFollowBytes)},
		"a short digest":     {&rowpb.FollowRequest{Ignore: [][]byte{make([]byte, len(sqldigest.Digest{})-1)}}, nil, "a digest of"},
		"a long digest":      {&rowpb.FollowRequest{Ignore: [][]byte{make([]byte, len(sqldigest.Digest{})+1)}}, nil, "a digest of"},
		"a position":         {&rowpb.FollowRequest{From: "b.1 x"}, nil, "position"},
		"where it is":        {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Defined: "b.1 x"}, "position"},
		"where it starts":    {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Start: "b.1 x"}, "position"},
		"a plan":             {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Compare: compare}}}}, "condition 0"},
		"a column of a plan": {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Plan: &rowpb.Plan{Output: []*rowpb.Output{{Column: 2}}}}, "plan of s.t: "},
		"a condition":        {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Match: []*rowpb.Term{{}}}, "no operator 0"},
		"a column":           {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Match: []*rowpb.Term{{Op: uint32(rowstream.IsNull), Column: 2}}}, "plan of s.t: "},
		"a match":            {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Match: []*rowpb.Term{term}}, fmt.Sprintf("%d 0s 0s 0 match", binlog.DefaultFollowBytes)},
		"a plan and a match": {&rowpb.FollowRequest{}, &rowpb.FollowedTable{Plan: &rowpb.Plan{Output: []*rowpb.Output{{Column: 1}}}, Match: []*rowpb.Term{term}}, fmt.Sprintf("%d 0s 0s 0 output match", binlog.DefaultFollowBytes)},
	} {
		var tables []*rowstream.Table
		if c.of != nil {
			c.m.Tables, tables = []*rowpb.FollowedTable{c.of}, []*rowstream.Table{table}
		}
		o, err := followOptionsOf(c.m, tables)
		got := fmt.Sprint(o.BatchBytes, o.Heartbeat, o.Patience, len(o.Ignore))
		for _, p := range o.Plans {
			if p != nil && len(p.Output) > 0 {
				got += " output"
			}
			if p != nil && p.Match != nil {
				got += " match"
			}
		}
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err == nil && (len(o.Plans) != len(tables) || len(o.Defined) != len(tables) || len(o.Starts) != len(tables)) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	plain, err := followOptionsOf(&rowpb.FollowRequest{From: "b.1 4", Skip: 3, Run: "r", Tables: []*rowpb.FollowedTable{{Defined: "b.1 5", Start: "b.1 6"}}}, []*rowstream.Table{table})
	if err != nil || plain.From.Offset != 4 || plain.Skip != 3 || plain.Run != "r" || plain.Defined[0].Offset != 5 || plain.Starts[0].Offset != 6 || plain.Plans[0] != nil || plain.Tables[0] != table {
		t.Errorf("%+v, %v", plain, err)
	}
}

// TestLayoutOf has layouts of a table with two columns that are not generated, and others.
func TestLayoutOf(t *testing.T) {
	for _, c := range []struct {
		columns []int32
		ok      bool
	}{
		{[]int32{0, 1}, true}, {[]int32{-1, 0, -1, 1, -1}, true}, {[]int32{0}, false}, {[]int32{0, 1, 2}, false}, {[]int32{1, 0}, false}, {[]int32{0, 0, 1}, false}, {[]int32{-2, 0, 1}, false}, {nil, false},
	} {
		got, err := layoutOf(&rowpb.TableLayout{Columns: c.columns}, 2)
		if (err == nil) != c.ok || c.ok && fmt.Sprint(got) != fmt.Sprint(c.columns) {
			t.Errorf("%v: %v, %v", c.columns, got, err)
		}
	}
	if got, err := layoutOf(layoutMessage([]int{-1, 0}), 1); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestTableNames has names of a length at which the rest is counted.
func TestTableNames(t *testing.T) {
	table := func(n int) *rowpb.Table { return &rowpb.Table{Schema: "s", Name: strings.Repeat("t", n-2)} }
	for _, c := range []struct {
		lengths []int
		want    string // end
	}{
		{nil, ""}, {[]int{3}, "s.t"}, {[]int{3, 3}, "s.t,s.t"}, {[]int{maxNames, 3}, "t,s.t"}, {[]int{maxNames, 3, 3}, "t,s.t,and 1 more"}, {[]int{maxNames + 1, 3, 3}, "t,and 2 more"}, {[]int{maxNames + 1}, "t"},
	} {
		var tables []*rowpb.Table
		for _, n := range c.lengths {
			tables = append(tables, table(n))
		}
		if got := tableNames(tables); !strings.HasSuffix(got, c.want) || strings.Count(got, "more") > 1 || (c.want == "") != (got == "") {
			t.Errorf("%v: …%s, want …%s", c.lengths, got[max(0, len(got)-30):], c.want)
		}
	}
}

// TestJoin joins the rows of tables, some of which have none.
func TestJoin(t *testing.T) {
	p := &changePacker{}
	for _, rows := range [][]string{{}, {""}, {"a"}, {"", "a", ""}, {"a", "b"}, {"a", "", "b", "c"}, {"", "a", "b", ""}, {"a"}} {
		var b binlog.ChangeBatch
		with := 0
		for _, r := range rows {
			b.Tables = append(b.Tables, rowstream.Batch{Bytes: []byte(r)})
			with += len(r)
		}
		got := p.join(&b)
		if string(got) != strings.Join(rows, "") {
			t.Errorf("%q: %q", rows, got)
		}
		if with == 1 && (len(p.rows) != 0 || string(got) != "a") {
			t.Errorf("%q: the rows of one table are copied", rows)
		}
	}
}

// TestRecordsOfFollow marks a stream of changes in the log at each pause.
func TestRecordsOfFollow(t *testing.T) {
	for pause, want := range map[time.Duration]uint64{time.Hour: 2, 0: 0} { // changes since the last record
		s := must(NewService(ServiceOptions{Server: testrows.NewMemoryLog(nil)}))
		stream := &followed{}
		out := changeSender{stream: stream, call: s.startCall(t.Context(), "follow", nil), pause: pause, packer: changePacker{keep: 100}}
		b := sampleChanges()
		b.Changes, b.Tables = b.Changes[:1], b.Tables[:1]
		b.Tables[0].Reset(2)
		b.Tables[0].AppendRow(testrows.Row("1", nil))
		for range 2 {
			if err := out.send(b); err != nil {
				t.Fatal(err)
			}
		}
		e := out.call.entry
		if e.Changes != want || e.Upto != b.Upto.String() || stream.sent != 2 || pause == 0 && e.From != e.Upto || pause > 0 && (e.From != "" || e.Bytes == 0 || e.Bytes != e.BytesOut) {
			t.Errorf("%v: %+v, %d messages", pause, e, stream.sent)
		}
		if got := s.stats.changes.Load(); got != 2 || s.stats.changeBytes.Load() != 2*int64(len(b.Tables[0].Bytes)) || s.stats.changeSent.Load() != s.stats.changeBytes.Load() {
			t.Errorf("%v: %d changes of %d bytes", pause, got, s.stats.changeBytes.Load())
		}
		stream.err = errTermMissing
		if err := out.send(b); err == nil || s.stats.changes.Load() != 2 {
			t.Errorf("a message that is not sent: %v", err)
		}
	}
}

// A followed stream counts the messages sent.
type followed struct {
	rowpb.Rows_FollowServer
	sent int
	err  error
}

func (f *followed) Send(*rowpb.Changes) error {
	if f.err == nil {
		f.sent++
	}
	return f.err
}
