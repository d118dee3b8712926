package serverstats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// newReader returns a Reader of a server that is not there, at noon.
func newReader(t *testing.T, change func(*Options)) *Reader {
	t.Helper()
	o := Options{
		Login: func() mysqlconn.Config { return mysqlconn.Config{Addr: "127.0.0.1:1"} },
		Now:   func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	r, err := New(o)
	must(t, err)
	t.Cleanup(r.client.Close)
	return r
}

// TestEachStatementFails has a server fail to execute each statement of each reading, in turn: none goes unnoticed.
func TestEachStatementFails(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, append(opts, testmysql.WithPerformanceSchema())...)
			must(t, s.Exec("CREATE TABLE orders (id INT PRIMARY KEY, customer INT, KEY k (customer))", "SELECT * FROM orders WHERE id = 1"))
			proxy := testproxy.StartFaulty(t, s.Addr)
			reader := func() *Reader {
				return newReader(t, func(o *Options) {
					o.Login = func() mysqlconn.Config {
						return mysqlconn.Config{Addr: proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
					}
					o.TablesOf = func(string, string) []string { return nil }
				})
			}
			for what, do := range map[string]func(*Reader) error{
				"statements": func(r *Reader) error {
					problem, err := r.tryStatements(t.Context(), noon)
					if err == nil && (problem != "" || !r.status.At.Equal(noon)) {
						return fmt.Errorf("problem %q, status %+v", problem, r.status)
					}
					return err
				},
				"locks": func(r *Reader) error {
					found, _, err := r.tryLocks(t.Context(), noon)
					if err == nil && len(found) > 0 {
						return fmt.Errorf("waits for locks: %+v", found)
					}
					return err
				},
				"a holder": func(r *Reader) error {
					conn, err := r.client.Conn(t.Context())
					if err != nil {
						return err
					}
					defer r.client.Release()
					_, err = r.describe(t.Context(), conn, pileUp{holder: 1, waiters: []uint32{2}}, noon)
					return err
				},
				"tables": func(r *Reader) error {
					all, err := r.readTables(t.Context(), []string{testmysql.DefaultSchema + ".orders", testmysql.DefaultSchema + ".none", "noschema"}, noon)
					if err == nil && (len(all) != 3 || all[0].Missing || len(all[0].Indexes) != 2 || !all[1].Missing || !all[2].Missing) {
						return fmt.Errorf("tables %+v", all)
					}
					return err
				},
			} {
				t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
					proxy.EachFails(t, func() error {
						r := reader()
						defer r.client.Close()
						return do(r)
					}, "SELECT VERSION(), CONNECTION_ID(),") // repeated without variables that the server does not have
				})
			}
		})
	}
}

// TestScan stores values of rows, NULL as the zero value; it does not take other numbers of columns, nor malformed ones.
func TestScan(t *testing.T) {
	var s string
	var b bool
	var u32 uint32
	var u64 uint64
	var i int
	var i64 int64
	var f float64
	all := []any{&s, &b, &u32, &u64, &i, &i64, &f}
	got := func() string { return strings.TrimSuffix(fmt.Sprintln(s, b, u32, u64, i, i64, f), "\n") }
	row := func(text string) (row mysqlwire.TextRow) {
		for v := range strings.SplitSeq(text, " ") {
			if v == "NULL" {
				row = append(row, nil)
			} else {
				row = append(row, []byte(v))
			}
		}
		return row
	}
	for text, want := range map[string]string{
		"x 1 4294967295 18446744073709551615 -5 -6 1.5": "x true 4294967295 18446744073709551615 -5 -6 1.5",
		"y 0 0 0 0 0 0":                      "y false 0 0 0 0 0",
		"NULL NULL NULL NULL NULL NULL NULL": " false 0 0 0 0 0",
		"z 2 1 1 1 1 1":                      "z true 1 1 1 1 1",
	} {
		s, b, u32, u64, i, i64, f = "old", true, 9, 9, 9, 9, 9
		if err := scan(row(text), all...); err != nil || got() != want {
			t.Errorf("%s: %s (%v), want %s", text, got(), err, want)
		}
	}
	for _, text := range []string{
		"x 1 1 1 1 1", "x 1 1 1 1 1 1 1", "x 1 4294967296 1 1 1 1", "x 1 -1 1 1 1 1", "x 1 1 -1 1 1 1", "x 1 1 1 a 1 1", "x 1 1 1 1 a 1", "x 1 1 1 1 1 a",
	} {
		if err := scan(row(text), all...); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// TestReasons has the kind of each error, without the server's text.
func TestReasons(t *testing.T) {
	const refuses, lacks, long = "refuses the account of option control", "lacks a right", "took longer than 1.5 s"
	for number, want := range map[uint16]string{
		1045: refuses, 1698: refuses, 1049: refuses, 1044: lacks, 1142: lacks, 1143: lacks, 1227: lacks, 1317: long, 1028: long, 3024: long, 1969: long, 1064: "failed (error 1064)",
	} {
		err := fmt.Errorf("read: %w", &mysqlconn.ServerError{Number: mysqlwire.Errno(number), Message: "secret"})
		if got := reason(err); !strings.Contains(got, want) || strings.Contains(got, "secret") || ErrorNumber(err) != number {
			t.Errorf("error %d: %s", number, got)
		}
	}
	if got := reason(fmt.Errorf("limit: %w", ErrServer)); got != ErrServer.Error() {
		t.Errorf("another server: %s", got)
	}
	if got := reason(io.EOF); !strings.Contains(got, "cannot be reached") || ErrorNumber(io.EOF) != 0 {
		t.Errorf("a lost connection: %s", got)
	}
	key := &mysqlconn.ServerKeyError{}
	if got := Unreachable(fmt.Errorf("log in: %w", key)); !errors.Is(got, key) {
		t.Errorf("another key: %v", got)
	}
	secure := &mysqlconn.TLSError{}
	if got := Unreachable(fmt.Errorf("log in: %w", secure)); !errors.Is(got, secure) {
		t.Errorf("no TLS: %v", got)
	}
}

// TestUpdates has the intervals of a statement over readings: with resets, new rows and other servers.
func TestUpdates(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	type step struct {
		calls  uint64 // of the row; 0: it is not read
		first  int    // minute
		addr   string
		cut    bool
		other  uint64 // calls of the row without digest; 0: there is none
		want   string // intervals: from-to:calls
		reset  bool
		missed uint64 // calls without a digest
	}
	for name, steps := range map[string][]step{
		"called":           {{calls: 5}, {calls: 7, want: "0-1:2"}, {calls: 7, want: "0-1:2"}, {calls: 8, want: "0-1:2 2-3:1"}},
		"not read":         {{calls: 5}, {}, {calls: 9, want: "1-2:4"}},
		"new":              {{}, {calls: 3, first: 0, want: "0-1:3"}, {calls: 4, first: 0, want: "0-1:3 1-2:1"}},
		"new to a cut one": {{cut: true}, {calls: 3, first: 0}, {calls: 4, want: "1-2:1"}},
		"old":              {{}, {calls: 3, first: -1}, {calls: 4, first: -1, want: "1-2:1"}},
		"reset":            {{calls: 5}, {calls: 7, want: "0-1:2"}, {calls: 1, reset: true}, {calls: 3, want: "2-3:2", reset: true}},
		"another server":   {{calls: 5}, {calls: 7, want: "0-1:2"}, {calls: 9, addr: "b"}, {calls: 10, addr: "b", want: "2-3:1"}},
		"a full table":     {{other: 5}, {other: 9, missed: 4}, {}, {other: 20}, {other: 21, missed: 1}, {other: 3}, {other: 4, missed: 1}},
	} {
		d := newDigests()
		for i, s := range steps {
			r := &reading{at: at(i), server: at(i).Add(300 * time.Millisecond), addr: s.addr, cut: s.cut}
			if s.calls > 0 {
				r.rows = []readRow{{rowID{"s", "d"}, at(s.first), Counts{Calls: s.calls, Time: s.calls}}}
			}
			if s.other > 0 {
				r.other = &Counts{Calls: s.other}
			}
			unknown, missed := d.update(r)
			found := make(texts)
			for _, digest := range unknown {
				found[digest] = struct{ sample, normalized string }{"", "SELECT ?"}
			}
			d.resolve(found, 0, limits{digest: 1024})
			d.join()
			var got []string
			st := d.statements[keyOf("SELECT ?")]
			if st == nil {
				st = &Statement{}
			}
			for _, in := range st.Intervals {
				got = append(got, fmt.Sprintf("%d-%d:%d", int(in.From.Sub(noon).Minutes()), int(in.To.Sub(noon).Minutes()), in.Counts.Calls))
			}
			if text := strings.Join(got, " "); text != s.want || st.Reset.IsZero() == s.reset || missed != s.missed {
				t.Errorf("%s, reading %d: %s, reset %v, %d missed; want %+v", name, i, text, st.Reset, missed, s)
			}
			rows, unjoined := d.coverage()
			if want := min(int(s.calls), 1); rows != want || unjoined != 0 {
				t.Errorf("%s, reading %d: %d rows, %d not joined", name, i, rows, unjoined)
			}
		}
	}
}

// TestUnjoined keeps rows without a text, and those whose texts are truncated, out of statements.
func TestUnjoined(t *testing.T) {
	d := newDigests()
	read := func(minute int, calls uint64) {
		r := &reading{at: noon.Add(time.Duration(minute) * time.Minute)}
		for _, digest := range []string{"unknown", "truncated", "prepared", "whole", "again"} {
			r.rows = append(r.rows, readRow{rowID{"s", digest}, noon, Counts{Calls: calls, Time: calls}})
		}
		d.update(r)
		d.resolve(texts{
			"truncated": {"", "SELECT ?" + strings.Repeat(" + ?", 500)}, "prepared": {"SELECT ?", "PREPARE SELECT ?"},
			"whole": {"SELECT 1", "SELECT ?"}, "again": {"SELECT 1", "SELECT ?"},
		}, 0, limits{digest: 1024, sample: 1024})
		d.join()
	}
	read(0, 1)
	read(1, 4)
	if rows, unjoined := d.coverage(); rows != 5 || unjoined != 1 || len(d.statements) != 1 {
		t.Errorf("%d rows, %d not joined, %d statements", rows, unjoined, len(d.statements))
	}
	k := keyOf("SELECT ?")
	if s := d.statements[k]; s == nil || len(s.Intervals) != 1 || s.Intervals[0].Counts.Calls != 6 {
		t.Errorf("the calls of two rows: %+v", s)
	}
	if k2 := d.keyOf(sqldigest.OfText([]byte("SELECT ?"))); k2 != k {
		t.Errorf("key %x of the digest, want %x", k2, k)
	}
	if d.keyOf(sqldigest.Digest{}) != (key{}) || d.keyOf(sqldigest.Digest{1}) != (key{}) {
		t.Error("a key of an unknown digest")
	}
	if n := d.heapBytes(); n < 5*416+100+144 {
		t.Errorf("%d bytes", n)
	}
	d.read = d.read.Add(1)
	if rows, _ := d.coverage(); rows != 0 {
		t.Errorf("%d rows of an earlier reading", rows)
	}
	early := Interval{From: noon.Add(-time.Hour), To: noon.Add(time.Minute), Counts: Counts{Calls: 1}}
	if d.add(k, early); len(d.statements[k].Intervals) != 1 || !d.statements[k].Intervals[0].From.Equal(early.From) || d.statements[k].Intervals[0].Counts.Calls != 7 {
		t.Errorf("the same reading: %+v", d.statements[k])
	}
}

// TestEvictions removes the rows read the longest time ago, and the statements with the least time in the last interval.
func TestEvictions(t *testing.T) {
	d := newDigests()
	for i := range keptRows + 2 {
		d.rows[rowID{digest: fmt.Sprint(i)}] = &row{at: noon.Add(time.Duration(i))}
	}
	d.evictRows()
	for i, want := range []bool{false, false, true} {
		if kept := d.rows[rowID{digest: fmt.Sprint(i)}] != nil; kept != want || len(d.rows) != keptRows {
			t.Errorf("row %d of %d is kept: %v", i, len(d.rows), kept)
		}
	}
	for i := range maxStatements {
		d.statements[key{byte(i), byte(i >> 8), 1}] = &Statement{Intervals: []Interval{{To: noon, Counts: Counts{Time: 10}}}}
	}
	d.evictStatements()
	if len(d.statements) != maxStatements {
		t.Errorf("%d statements", len(d.statements))
	}
	d.statements[key{1}] = &Statement{Intervals: []Interval{{To: noon, Counts: Counts{Time: 9}}}}
	d.statements[key{2}] = &Statement{Intervals: []Interval{{To: noon.Add(-1), Counts: Counts{Time: 99}}}}
	d.statements[key{3}] = &Statement{}
	d.statements[key{4}] = &Statement{Intervals: []Interval{{To: noon.Add(1), Counts: Counts{Time: 1}}}}
	if d.evictStatements(); len(d.statements) != maxStatements || d.statements[key{1}] != nil || d.statements[key{2}] != nil || d.statements[key{3}] != nil || d.statements[key{4}] == nil {
		t.Errorf("%d statements", len(d.statements))
	}
}

// TestMergedWaits extends a wait of a recent reading: with the most waiting sessions, the longest wait, and some more statements.
func TestMergedWaits(t *testing.T) {
	first := LockWait{From: noon, To: noon, Kind: RowLock, Table: "s.t", Waiters: 5, Longest: 9 * time.Second, Holder: Holder{Connection: 7, Transaction: 1}, Waiting: []sqldigest.Digest{{1}}}
	for name, c := range map[string]struct {
		change func(*LockWait)
		same   bool
	}{
		"the same":        {func(*LockWait) {}, true},
		"a minute later":  {func(w *LockWait) { w.To = noon.Add(sameWait) }, true},
		"later":           {func(w *LockWait) { w.To = noon.Add(sameWait + 1) }, false},
		"another holder":  {func(w *LockWait) { w.Holder.Connection++ }, false},
		"another kind":    {func(w *LockWait) { w.Kind = MetadataLock }, false},
		"another table":   {func(w *LockWait) { w.Table = "s.u" }, false},
		"fewer, shorter":  {func(w *LockWait) { w.Waiters, w.Longest = 2, time.Second }, true},
		"more, longer":    {func(w *LockWait) { w.Waiters, w.Longest = 8, time.Minute }, true},
		"more statements": {func(w *LockWait) { w.Waiting = []sqldigest.Digest{{1}, {2}, {3}} }, true},
	} {
		var l lockWatch
		l.record(first)
		found := first
		found.Holder.Transaction = 2
		c.change(&found)
		fresh := l.record(found)
		if fresh == c.same || len(l.waits) != map[bool]int{true: 1, false: 2}[c.same] {
			t.Errorf("%s: a new wait: %v", name, fresh)
			continue
		}
		if w := l.waits[0]; c.same && (!w.To.Equal(found.To) || w.Holder.Transaction != 2 || w.Waiters != max(5, found.Waiters) || w.Longest != max(first.Longest, found.Longest) || !slices.Equal(w.Waiting, found.Waiting)) {
			t.Errorf("%s: %+v", name, w)
		}
	}
	var l lockWatch
	l.record(first)
	many := first
	for i := range byte(2 * maxWaiting) {
		many.Waiting = append(many.Waiting, sqldigest.Digest{i + 10})
	}
	if l.record(many); len(l.waits[0].Waiting) != maxWaiting {
		t.Errorf("%d statements wait", len(l.waits[0].Waiting))
	}
}

// TestLockWaitsOfRange returns the waits that overlap a range, the newest first, and what each connection waits for.
func TestLockWaitsOfRange(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	r := newReader(t, nil)
	r.locks.waits = []LockWait{{From: at(0), To: at(10), Table: "a"}, {From: at(20), To: at(30), Table: "b"}, {From: at(25), To: at(40), Table: "c", Waiting: []sqldigest.Digest{{1}}}}
	r.locks.problem = "unknown"
	for span, want := range map[[2]int]string{{0, 100}: "cba", {10, 20}: "ba", {11, 19}: "", {-5, 0}: "a", {31, 50}: "c", {41, 50}: "", {-9, -1}: ""} {
		var got strings.Builder
		all, problem := r.LockWaits(at(span[0]), at(span[1]))
		for _, w := range all {
			got.WriteString(w.Table)
		}
		if got.String() != want || problem != "unknown" {
			t.Errorf("%v: %s, want %s; %s", span, got.String(), want, problem)
		}
	}
	before := r.HeapBytes()
	r.locks.waits = r.locks.waits[:2]
	if n := before - r.HeapBytes(); n < 300+16 {
		t.Errorf("a wait has %d bytes", n)
	}
	r.setBlocked([]edge{{2, 1, RowLock, "s.t"}, {2, 9, MetadataLock, "s.u"}, {3, 3, RowLock, "s.t"}, {4, 0, GlobalLock, ""}})
	read, blocked := r.Blocked()
	if len(blocked) != 2 || blocked[2] != (Block{1, RowLock, "s.t"}) || blocked[4] != (Block{0, GlobalLock, ""}) || read.IsZero() {
		t.Errorf("%+v at %v", blocked, read)
	}
	blocked[5] = Block{}
	if _, again := r.Blocked(); len(again) != 2 {
		t.Error("the result is shared")
	}
	r.locks.read = time.Now().Add(-2*minLockPause - 2*CallTime - time.Second)
	if _, blocked := r.Blocked(); blocked != nil {
		t.Errorf("an old reading: %+v", blocked)
	}
}

// TestFailures pauses after failures, twice as long each time, and logs a problem once.
func TestFailures(t *testing.T) {
	var logged strings.Builder
	r := newReader(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	at := noon
	for i, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, maxPause, maxPause} {
		r.readStatements(t.Context(), at)
		r.readStatements(t.Context(), at.Add(pause-1))
		if got := r.counts[resultFailed]; got != uint64(i+1) || !strings.Contains(r.status.Problem, "cannot be reached") {
			t.Fatalf("%d failures after %d readings; %+v", got, i+1, r.status)
		}
		at = at.Add(pause)
	}
	if n := strings.Count(logged.String(), "counts of the server unavailable"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if _, status, ok := r.Statement(sqldigest.Digest{}, "SELECT ?"); ok || status.Problem == "" {
		t.Errorf("%+v, %v", status, ok)
	}
	if r.readLocks(t.Context(), noon); !strings.HasPrefix(r.locks.problem, "Waits for locks unavailable: ") || r.lockReadings != 1 || !r.locks.next.Equal(noon.Add(minLockPause)) {
		t.Errorf("locks: %q, %d readings, next %v", r.locks.problem, r.lockReadings, r.locks.next)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	before := r.counts[resultFailed]
	r.readStatements(canceled, at)
	if r.readLocks(canceled, at); r.counts[resultFailed] != before || r.lockReadings != 1 {
		t.Error("a canceled reading is counted")
	}
	want := fmt.Sprintf(`
		# HELP tare_server_lock_readings_total Readings of the server's lock waits.
		# TYPE tare_server_lock_readings_total counter
		tare_server_lock_readings_total 1
		# HELP tare_server_readings_total Readings of the server's counts: ok, unavailable (it does not count), failed.
		# TYPE tare_server_readings_total counter
		tare_server_readings_total{result="failed"} %d
		tare_server_readings_total{result="ok"} 0
		tare_server_readings_total{result="unavailable"} 0
		# HELP tare_server_statements Statements for which counts of the server are kept.
		# TYPE tare_server_statements gauge
		tare_server_statements 0
	`, before)
	if err := testutil.CollectAndCompare(r, strings.NewReader(want), "tare_server_lock_readings_total", "tare_server_readings_total", "tare_server_statements"); err != nil {
		t.Error(err)
	}
	descs := make(chan *prometheus.Desc, 10)
	if r.Describe(descs); len(descs) != 4 {
		t.Errorf("%d metrics are described", len(descs))
	}
}

// TestTableCache returns tables while they are fresh, all or none.
func TestTableCache(t *testing.T) {
	r := newReader(t, nil)
	r.tables["s.a"], r.tables["s.b"] = Table{Name: "a", At: noon.Add(1 - tableAge)}, Table{Name: "b", At: noon.Add(-tableAge)}
	for names, want := range map[string]bool{"s.a": true, "s.b": false, "s.a s.b": false, "s.c": false, "": true} {
		if all, ok := r.cachedTables(strings.Fields(names)); ok != want || ok && len(all) != len(strings.Fields(names)) {
			t.Errorf("%q: %+v, %v", names, all, ok)
		}
	}
	table := Table{}
	for _, row := range []string{"PRIMARY 0 id 9", "k 1 a 5", "k 1 NULL 7", "k2 1 b NULL", "k3 0 c -1"} {
		var text mysqlwire.TextRow
		for v := range strings.SplitSeq(row, " ") {
			if text = append(text, []byte(v)); v == "NULL" {
				text[len(text)-1] = nil
			}
		}
		if err := table.addColumn(text); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprintf("%+v", table.Indexes), "[{Name:PRIMARY Columns:[id] Cardinality:9 Unique:true} {Name:k Columns:[a (expression)] Cardinality:7 Unique:false} "+
		"{Name:k2 Columns:[b] Cardinality:0 Unique:false} {Name:k3 Columns:[c] Cardinality:0 Unique:true}]"; !sameFields(got, want) {
		t.Errorf("indexes %s", got)
	}
	for i := range maxIndexes {
		if err := table.addColumn(mysqlwire.TextRow{fmt.Appendf(nil, "x%d", i), []byte("1"), []byte("a"), []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	if len(table.Indexes) != maxIndexes {
		t.Errorf("%d indexes", len(table.Indexes))
	}
	if err := table.addColumn(mysqlwire.TextRow{[]byte("x")}); err == nil {
		t.Error("a row of one column is taken")
	}
	small := Table{Schema: "s", Name: "t", Indexes: []Index{{Name: "k", Columns: []string{"a"}}}}
	if n := small.bytes(); n < 200+4+81+17 || n > 400 {
		t.Errorf("%d bytes", n)
	}
}

// sameFields reports whether two printed structs have the same fields, in any order.
func sameFields(a, b string) bool {
	sorted := func(s string) []string {
		fields := strings.Fields(strings.NewReplacer("{", " ", "}", " ", "[", " ", "]", " ").Replace(s))
		slices.Sort(fields)
		return fields
	}
	return slices.Equal(sorted(a), sorted(b))
}

// TestNames joins schemas and tables, and lists numbers.
func TestNames(t *testing.T) {
	for _, c := range [][3]string{{"s", "t", "s.t"}, {"", "`s`.`t`", "s.t"}, {"", "`s``x`.`t.u`", "s`x.t.u"}, {"", "`s`", "s."}} {
		if got := tableName(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if got := list(nil) + list([]uint32{7}) + list([]uint32{7, 8, 9}); got != "()(7)(7, 8, 9)" {
		t.Error(got)
	}
	log, login, slow := slog.Default(), func() mysqlconn.Config { return mysqlconn.Config{} }, func() int { return 0 }
	for name, o := range map[string]Options{"log": {Login: login}, "login": {Log: log}, "tables": {Log: log, Login: login, Slow: slow}} {
		if _, err := New(o); err == nil {
			t.Errorf("options without %s are taken", name)
		}
	}
}
