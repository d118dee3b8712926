package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/testgrpc"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/querylog"
)

// TestFollowCut repeatedly cuts the connection to the service, and drains the service, while large and small
// transactions are read in smaller batches: each change is returned once and in order.
func TestFollowCut(t *testing.T) {
	t.Parallel()
	_, d, c, tables := testrows.FollowServer(t)
	services := make([]*wire.Service, 2)
	addrs := make([]string, 2)
	for i := range services {
		services[i], addrs[i] = serve(t, wire.ServiceOptions{Server: d})
	}
	way := testproxy.Start(t, addrs[0])
	r := testseed.Rand(t)
	remote := open(t, wire.RemoteOptions{Addr: way.Addr, Compression: []wire.Compression{wire.NoCompression, wire.Zstd}[r.IntN(2)]})
	plan := &rowstream.Plan{Match: &rowstream.Predicate{Op: rowstream.NotEqual, Column: 1, Compare: rowstream.Number, Values: testrows.Values("0")}}
	changes := testrows.Follow(t, remote, binlog.FollowOptions{From: testrows.Now(t, d, false), Tables: tables, Plans: []*rowstream.Plan{plan}, BatchBytes: 3000})
	var b binlog.ChangeBatch
	id, next, split := 0, 0, 0
	read := func() {
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
		defer cancel()
		if err := changes.Next(ctx, &b); err != nil {
			t.Fatalf("after %d changes: %v", next, err)
		}
		for _, s := range testrows.ChangesOf(t, &b) {
			if next++; s.Kind != binlog.Insert || string(s.After[0]) != fmt.Sprint(next) {
				t.Fatalf("change %d is %v", next, s)
			}
		}
		if !b.Boundary {
			split++
		}
		if b.Boundary != (b.Skip == 0) {
			t.Fatalf("boundary %v, and %d rows of the transaction behind it", b.Boundary, b.Skip)
		}
	}
	to := addrs[0]
	for round := range 15 {
		testrows.Exec(t, c, "BEGIN")
		for range 1 + r.IntN(6) {
			var rows []string
			for range 1 + r.IntN(150) {
				id++
				rows = append(rows, fmt.Sprintf("(%d, %d, REPEAT('x', %d))", id, id, r.IntN(100)))
				if r.IntN(3) == 0 { // rows that the plan excludes count for resuming
					rows = append(rows, fmt.Sprintf("(%d, 0, 'no')", -id))
				}
			}
			testrows.Exec(t, c, "INSERT INTO a VALUES "+strings.Join(rows, ", "))
		}
		testrows.Exec(t, c, "COMMIT")
		for range r.IntN(8) {
			read()
		}
		if round == 7 { // the first service is drained, the other takes over
			to = addrs[1]
			if left := services[0].Drain(t.Context()); left != 0 {
				t.Errorf("%d snapshots are left", left)
			}
		}
		way.SetUpstream(to)
		way.Cut()
	}
	end := testrows.Now(t, d, false)
	for !b.Boundary || b.Upto.Compare(end) < 0 {
		read()
	}
	if next != id || split == 0 {
		t.Errorf("%d changes of %d, %d batches within a transaction", next, id, split)
	}

	// A table that was altered before the stream is requested again is read by its earlier definition, up to
	// the ALTER.
	id++
	testrows.Exec(t, c, fmt.Sprintf("INSERT INTO a VALUES (%d, 1, 'before')", id), "ALTER TABLE a ADD COLUMN x INT FIRST", "INSERT INTO a VALUES (1, 0, 1, 'after')")
	way.SetUpstream(to)
	way.Cut()
	var stop *binlog.StopError
	for stop == nil {
		err := changes.Next(t.Context(), &b)
		next += len(b.Changes)
		if err != nil && !errors.As(err, &stop) {
			t.Fatal(err)
		}
	}
	if next != id || stop.Reason != binlog.StopSchema || stop.SQL != "ALTER TABLE a ADD COLUMN x INT FIRST" || stop.Change != binlog.ChangeColumns {
		t.Errorf("%d changes of %d, and %+v", next, id, stop)
	}
	testwait.Equal(t, "the drained service to stop following", 0, func() int { return int(services[0].Stats().Following) })
	if s := services[0].Stats(); s.Follows == 0 || s.Changes == 0 {
		t.Errorf("%+v", s)
	}
}

// TestFollowRemote makes the requests of a copy to a service, besides the changes.
func TestFollowRemote(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t)
	r := followers(t, d)["remote"]
	from := testrows.Now(t, d, false)
	testrows.Exec(t, c, "INSERT INTO a VALUES (1, 2, 'x')")
	to, err := r.CurrentPosition(t.Context())
	if err != nil || to != testrows.Now(t, d, false) {
		t.Errorf("the log ends at %v, %v", to, err)
	}
	if n, err := r.LogBytes(t.Context(), from, to); err != nil || n != int64(to.Offset-from.Offset) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := r.LogBytes(t.Context(), to, from); err == nil || !strings.Contains(err.Error(), "does not have all from") {
		t.Errorf("bytes from later to before: %v", err)
	}
	var gone *binlog.StopError
	purged := binlog.Position{File: "binlog.000000", Offset: 4}
	if err := r.CheckFollow(t.Context(), tables, purged); !errors.As(err, &gone) || gone.Reason != binlog.StopLogGone || gone.At != purged {
		t.Errorf("%v", err)
	}
	if changes, err := r.Follow(t.Context(), binlog.FollowOptions{From: purged, Tables: tables}); err == nil {
		var b binlog.ChangeBatch
		for err == nil {
			err = changes.Next(t.Context(), &b)
		}
		if !errors.As(err, &gone) || gone.Reason != binlog.StopLogGone || !strings.Contains(err.Error(), "tare://") || !strings.Contains(err.Error(), "option restart") {
			t.Errorf("%v", err)
		}
		_ = changes.Close()
	} else {
		t.Errorf("the stream began with %v", err)
	}
	old := *tables[0]
	old.Columns = old.Columns[:2]
	for want, o := range map[string]binlog.FollowOptions{
		"has been altered since it was described": {From: from, Tables: []*rowstream.Table{&old}},
		"leave ServerID out":                      {From: from, Tables: tables, ServerID: 7},
		"no start position":                       {Tables: tables},
		"column number 9 is out of range":         {From: from, Tables: tables, Plans: []*rowstream.Plan{{Match: &rowstream.Predicate{Op: rowstream.IsNull, Column: 9}}}},
		"is of the form \"file offset\" or":       {From: binlog.Position{File: "a b c", Offset: 1}, Tables: tables},
		"no tables are named":                     {From: from},
		`GTID "nonsense": want domain-server`:     {From: binlog.Position{GTID: "nonsense"}, Tables: tables},
	} {
		if changes, err := r.Follow(t.Context(), o); err == nil || !strings.Contains(err.Error(), strings.Replace(want, "is of the form", "is not of the form", 1)) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				_ = changes.Close()
			}
		}
	}
	if err := r.CheckFollow(t.Context(), []*rowstream.Table{&old}, from); err == nil || !strings.Contains(err.Error(), "not as it was described") {
		t.Error(err)
	}
	for _, layout := range [][]int{{0, 1}, {0, 1, 2, 3}, {0, 2, 1}, {0, 1, -2, 2}, {}} {
		if _, err := r.Follow(t.Context(), binlog.FollowOptions{From: from, Tables: tables[:1], Layouts: [][]int{layout}}); err == nil || !strings.Contains(err.Error(), "a layout that is none of the table's") {
			t.Errorf("layout %v: %v", layout, err)
		}
	}
}

// TestFollowFlow has a slow client: changes that it does not read wait at the source.
func TestFollowFlow(t *testing.T) {
	const size, batches = 64 << 10, 300
	l := testrows.NewMemoryLog(func(n int) error {
		if n == batches {
			return testrows.ErrWait
		}
		return nil
	})
	l.Updates(1, testrows.Row("1", strings.Repeat("x", size/2)), testrows.Row("2", strings.Repeat("y", size/2)))
	_, changes := followMemory(t, l, wire.ServiceOptions{}, wire.NoCompression)
	const most = 3*wire.StreamWindow/size + 10
	var b binlog.ChangeBatch
	for taken := int64(1); taken <= batches; taken++ {
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if ahead := l.Taken.Load() - taken; ahead > most {
			t.Fatalf("the source is %d batches ahead", ahead)
		}
		if len(b.Changes) != 1 || !bytes.Equal(b.Tables[0].Bytes, l.Changes.Tables[0].Bytes) || b.Upto != l.Changes.Upto || !b.Commit.Equal(l.Changes.Commit) || !b.Boundary || b.Idle {
			t.Fatalf("batch %d: %+v", taken, b)
		}
	}
	if l.Asked.Heartbeat != binlog.DefaultHeartbeat || l.Asked.Patience != 10*time.Millisecond || l.Asked.BatchBytes != binlog.DefaultFollowBytes || l.Asked.ServerID != 0 {
		t.Errorf("the server was asked for %+v", l.Asked)
	}
	done := make(chan error, 1)
	go func() { done <- changes.Next(t.Context(), &b) }()
	if err := changes.Close(); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, "Next to return", done); !errors.Is(err, binlog.ErrClosed) {
		t.Errorf("closed meanwhile: %v", err)
	}
	if err := changes.Next(t.Context(), &b); !errors.Is(err, binlog.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestFollowErrors checks that the source's errors keep their types.
func TestFollowErrors(t *testing.T) {
	stop := &binlog.StopError{Reason: binlog.StopSchema, At: binlog.Position{File: "binlog.1", Offset: 10, GTID: "0-1-5"}, Table: "d.t", What: "it was altered", Try: "copy it anew", Err: errors.New("beneath")}
	l := testrows.NewMemoryLog(func(n int) error {
		if n == 1 {
			return stop
		}
		return nil
	})
	l.Updates(2, testrows.Row("1", nil), testrows.Row("2", ""))
	s, changes := followMemory(t, l, wire.ServiceOptions{}, wire.Zstd)
	var b binlog.ChangeBatch
	if err := changes.Next(t.Context(), &b); err != nil || len(testrows.ChangesOf(t, &b)) != 2 {
		t.Fatalf("%v, %+v", err, b)
	}
	err := changes.Next(t.Context(), &b)
	var got *binlog.StopError
	if !errors.As(err, &got) || got.Error() != stop.Error() || got.Reason != stop.Reason || got.At != stop.At || got.Table != stop.Table {
		t.Errorf("%v, want %v", err, stop)
	}
	if again := changes.Next(t.Context(), &b); !errors.Is(again, err) || len(b.Changes) != 0 {
		t.Errorf("once more: %v", again)
	}
	if st := s.Stats(); st.Follows != 1 || st.FailedFollows != 1 || st.Changes != 2 || st.ChangeBytes != int64(len(l.Changes.Tables[0].Bytes)) || st.ChangeSent == 0 {
		t.Errorf("%+v", st)
	}

	// Images out of order could not be located.
	l = testrows.NewMemoryLog(nil)
	l.Updates(2, testrows.Row("1", "2"), testrows.Row("2", "3"))
	l.Changes.Changes[0], l.Changes.Changes[1] = l.Changes.Changes[1], l.Changes.Changes[0]
	_, changes = followMemory(t, l, wire.ServiceOptions{}, wire.NoCompression)
	if err := changes.Next(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "the images of a batch of changes are not in the order of the changes") {
		t.Errorf("%v", err)
	}
}

// TestFollowRefused checks services that serve no changes, no more streams, or not this client.
func TestFollowRefused(t *testing.T) {
	wait := func(int) error { return testrows.ErrWait }
	l := testrows.NewMemoryLog(wait)
	s, addr := serve(t, wire.ServiceOptions{Server: l, MaxFollows: 1, Token: "rows"})
	changes := followAt(t, addr, wire.RemoteOptions{Token: "rows"})
	if got := s.Stats().Following; got != 1 {
		t.Errorf("%d streams", got)
	}
	table := describe(t, l)
	at := binlog.FollowOptions{From: l.Changes.Upto, Tables: []*rowstream.Table{table}, Patience: time.Millisecond}
	fails := func(name, addr, token, want string) {
		t.Helper()
		r, conn, err := wire.OpenUnchecked(addr, token)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		for what, err := range map[string]error{
			"follow": func() error { _, err := r.Follow(t.Context(), at); return err }(),
			"check":  r.CheckFollow(t.Context(), at.Tables, at.From),
			"end":    func() error { _, err := r.CurrentPosition(t.Context()); return err }(),
		} {
			if name == "limit" && what != "follow" {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "rows secret") {
				t.Errorf("%s, %s: %v, want %q", name, what, err, want)
			}
		}
	}
	fails("limit", addr, "rows", "1 streams of changes are open, which is the limit (option max-follows)")
	fails("token", addr, "rows secret", "the server wants another token")
	_, plain := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(1, testrows.Row("1", "2"))})
	fails("no log", plain, "", "the server has rows and no changes to serve")
	old := grpc.NewServer(grpc.ForceServerCodecV2(vtcodec.Codec{}))
	rowpb.RegisterRowsServer(old, struct{ rowpb.UnimplementedRowsServer }{})
	fails("old", testgrpc.Serve(t, old), "", "the reader is too old for this: update the tare rowstream there")

	var b binlog.ChangeBatch
	if left := s.Drain(t.Context()); left != 0 {
		t.Errorf("%d snapshots are left", left)
	}
	if err := changes.Next(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "the server is shutting down; tried for 10ms") {
		t.Errorf("drained: %v", err)
	}
}

// TestFollowRemoteAllocs follows the same bytes as few changes and as many: both sides together allocate per
// message and not per change.
func TestFollowRemoteAllocs(t *testing.T) {
	const size = 64 << 10
	following := func(n int, text string, c wire.Compression) float64 {
		l := testrows.NewMemoryLog(nil)
		l.Updates(n, testrows.Row("1", text), testrows.Row("2", text))
		_, changes := followMemory(t, l, wire.ServiceOptions{}, c)
		var b binlog.ChangeBatch
		next := func() {
			if err := changes.Next(t.Context(), &b); err != nil || len(b.Changes) != n {
				t.Errorf("%d changes, %v", len(b.Changes), err)
			}
		}
		for range 50 { // batches in flight
			next()
		}
		got := testing.AllocsPerRun(50, next)
		for range 4 { // garbage collections empty the pools in between
			got = min(got, testing.AllocsPerRun(50, next))
		}
		return got
	}
	const many = size / 32
	for _, c := range []wire.Compression{wire.NoCompression, wire.Zstd} {
		base, got := following(1, strings.Repeat("x", size/2), c), following(many, "some text", c)
		t.Logf("a batch of one change: %v allocations, of %d: %v", base, many, got)
		if perChange := (got - base) / many; perChange > 0.1 { // on a busy machine a batch costs up to 70 more: emptied pools are filled again
			t.Errorf("%.3f allocations a change", perChange)
		}
	}
}

// TestFollowLog checks that a stream of changes is logged, and logged at intervals while it lasts.
func TestFollowLog(t *testing.T) {
	log, err := querylog.New(querylog.Options{RingBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l := testrows.NewMemoryLog(func(n int) error {
		if n == 100 { // no more records than the ring stores
			return testrows.ErrWait
		}
		return nil
	})
	l.Updates(3, testrows.Row("1", "it's"), testrows.Row("2", "it's"))
	l.Changes.Tables = append(l.Changes.Tables, rowstream.Batch{Columns: 2}) // without changes
	s, err := wire.NewService(wire.ServiceOptions{Server: l, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRecordPause(0)
	r := open(t, wire.RemoteOptions{Addr: testgrpc.Serve(t, s.NewServer())})
	table := describe(t, r)
	changes, err := r.Follow(t.Context(), binlog.FollowOptions{From: binlog.Position{File: "binlog.1", Offset: 4}, Tables: []*rowstream.Table{table, table}})
	if err != nil {
		t.Fatal(err)
	}
	var b binlog.ChangeBatch
	if err := changes.Next(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := changes.Close(); err != nil {
		t.Fatal(err)
	}
	testwait.Equal(t, "the service to stop following", 0, func() int { return int(s.Stats().Following) })
	if _, err := r.CurrentPosition(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := r.LogBytes(t.Context(), l.Changes.Upto, l.Changes.Upto); err == nil {
		t.Error("there is no such log")
	}
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	log.ServeHTTP(got, httptest.NewRequest("GET", "/debug/querylog?for=0s", nil))
	var follows, sum int64
	at := "binlog.1 4"
	for line := range bytes.Lines(got.Body.Bytes()) {
		var m struct {
			Call, Table, From, Upto, Code string
			Changes, Bytes                int64
			Error                         string `json:"error_text"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch m.Call {
		case "follow":
			follows++
			sum += m.Changes
			if m.From != at || m.Table != "d.t,d.t" || m.Code != "OK" || m.Bytes != m.Changes*int64(len(l.Changes.Tables[0].Bytes))/3 {
				t.Errorf("from %s: %s", at, line)
			}
			at = m.Upto
		case "logend":
			t.Errorf("what is asked again and again is logged: %s", line)
		case "logbytes":
			if !strings.Contains(m.Error, "it is in memory") {
				t.Errorf("%s", line)
			}
		}
	}
	if st := s.Stats(); follows < 2 || sum != st.Changes || st.Follows != 1 || st.FailedFollows != 0 || at != "binlog.1 10" {
		t.Errorf("%d records of %d changes up to %s, %+v", follows, sum, at, st)
	}
}
