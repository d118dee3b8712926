package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestEachStatementFails has the servers fail to execute each different statement of a verification in turn: it fails with the cause. One that
// follows is repeated for the patience, of which there is none.
func TestEachStatementFails(t *testing.T) {
	c := newCopied(t)
	c.follow()
	only := [][]bool{{true, false, true, false, false}, {false, false, false, false, true}}
	c.changed = func(o *Options) { o.Patience, o.Only = -1, only }
	for _, v := range []verification{
		c.once("the target's writers", c.direct, c.direct, c.through, 1), c.once("the source", c.through, c.direct, c.direct, 1), c.once("the state", c.direct, c.through, c.direct, 1),
		c.pass("following, the target", c.direct, c.through), c.pass("following, the source", c.through, c.direct), c.changing(),
		c.generated("generated columns of the source", c.through, c.direct), c.generated("generated columns of the target", c.direct, c.through),
	} {
		end := v.prepare()
		c.proxy.Set(0, "")
		if _, err := v.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		packets := c.proxy.Packets()
		end()
		var cells []testproxy.Cell
		seen := make(map[string]bool)
		for i, sql := range packets {
			kind := strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return -1
				}
				return r
			}, sql)
			mayFail := sql == "" || slices.ContainsFunc([]string{"login", "SELECT VERSION(), CONNECTION_ID(),", "SET @@SESSION.max_error_count", "ROLLBACK", "KILL "}, func(begin string) bool { return strings.HasPrefix(sql, begin) })
			if !mayFail && !seen[kind] {
				seen[kind] = true
				cells = append(cells, testproxy.Cell{Fault: testproxy.Failed, At: i + 1})
			}
		}
		end = func() {}
		c.proxy.Each(cells, func() {
			end()
			end = v.prepare()
		}, func() error {
			_, err := v.do(t.Context())
			return err
		}, func(cell testproxy.Cell, err error) {
			if err == nil || !strings.Contains(err.Error(), testproxy.RefusedText) {
				t.Errorf("%s, %s: %v", v.name, cell, err)
			}
			for _, chunk := range testrows.Column(t, c.holder, "SELECT CONCAT(target_table, chunk) FROM _tare.copy_verified") {
				if chunk == "a0" || chunk == "a2" {
					t.Errorf("%s, %s: %s is recorded as equal", v.name, cell, chunk)
				}
			}
		})
		end()
		if len(cells) < 2 {
			t.Errorf("%s: %d statements", v.name, len(cells))
		}
	}
}

// TestReports compares all rows, once and in a pass: the reports, the events and the checksums are those of the rows.
func TestReports(t *testing.T) {
	c := newCopied(t)
	c.follow()
	var sums [2]uint64
	for i, table := range c.tables {
		for row, err := range rowstream.SumRowsOf(t.Context(), c.holder, table.Source, rowstream.Chunk{}, rowstream.SumOptions{Columns: []int{0, 1, 2}}) {
			c.must(err)
			sums[i] ^= row.Sum
		}
	}
	row := func(kind MismatchKind, key string) RowMismatch { return RowMismatch{Key: []string{key}, Kind: kind} }
	c.tables[0].State.Chunks[2].Copied = true // by an earlier run
	for _, passes := range []bool{false, true} {
		var v verification
		var texts []string
		c.changed = func(o *Options) {
			observe := o.Observe
			o.Only, o.Observe = nil, func(e telemetry.Event) {
				observe(e)
				texts = append(texts, fmt.Sprintf("%s %d %s %d %s", e.Table, e.Chunk, e.Kind, e.Rows, e.Text))
			}
		}
		c.raw = nil
		if v = c.once("once", c.direct, c.direct, c.direct, 1); passes {
			v = c.pass("a pass", c.direct, c.direct)
		}
		end := v.prepare()
		_, err := v.do(t.Context())
		c.must(err)
		end()
		for i, r := range c.raw {
			want := &Report{Of: 5, Chunks: 5, Rows: 60, Checksum: sumText(sums[i]), Position: r.Position, Different: []ChunkMismatch{}}
			if passes {
				want.Passes = 1
			}
			if i == 0 {
				want.Missing, want.Extra, want.Changed = 1, 2, 2
				want.Different = []ChunkMismatch{
					{Chunk: 0, Upto: []string{"12"}, Source: SumReport{Rows: 12}, Target: SumReport{Rows: 12}, Rows: []RowMismatch{row(RowMissing, "5"), row(RowChanged, "6"), row(RowExtra, "-1")}},
					{Chunk: 2, After: []string{"24"}, Upto: []string{"36"}, Source: SumReport{Rows: 12}, Target: SumReport{Rows: 12}, Rows: []RowMismatch{row(RowChanged, "30")}},
					{Chunk: 4, After: []string{"48"}, Source: SumReport{Rows: 12}, Target: SumReport{Rows: 13}, Rows: []RowMismatch{row(RowExtra, "100")}},
				}
			}
			got := *r
			got.Different = slices.Clone(r.Different)
			for j := range got.Different {
				d := &got.Different[j]
				if d.Source.Checksum == d.Target.Checksum || len(d.Source.Checksum) != 16 || (d.Position != "") != passes || d.Earlier != (!passes && d.Chunk == 2) {
					t.Errorf("passes %t: %+v", passes, d)
				}
				d.Source.Checksum, d.Target.Checksum, d.Position, d.Earlier = "", "", "", false
			}
			if diff := gocmp.Diff(want, &got, unexported); diff != "" || r.Position == "" && passes {
				t.Errorf("passes %t: %s", passes, diff)
			}
		}
		slices.Sort(texts)
		want := []string{
			"src.a 0 differs 12 rows missing in the target: 1, only there: 1, with other values: 1", "src.a 1 verified 12 ", "src.a 2 differs 12 rows missing in the target: 0, only there: 0, with other values: 1", "src.a 3 verified 12 ",
			"src.a 4 differs 12 rows missing in the target: 0, only there: 1, with other values: 0", "src.b 0 verified 12 ", "src.b 1 verified 12 ", "src.b 2 verified 12 ", "src.b 3 verified 12 ", "src.b 4 verified 12 ",
		}
		if diff := gocmp.Diff(want, texts); diff != "" {
			t.Errorf("passes %t: %s", passes, diff)
		}
	}
}

// TestRun runs passes until the context is done, and without it until following ends: the reports of the whole pass are the result.
func TestRun(t *testing.T) {
	c := newCopied(t)
	c.follow()
	o := c.options(c.direct, 1)
	source := testrows.Direct(t, c.direct)
	o.Source, o.View, o.Only = source, noView{}, [][]bool{{true, false, false, false, false}, make([]bool, 5)}
	v := NewFollowing(o, c.follower)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	if v.Passed() || len(v.Result()) != 0 {
		t.Errorf("before it has run: %v, %v", v.Passed(), v.Result())
	}
	go func() { ended <- v.Run(ctx) }()
	testwait.Until(t, "a pass", v.Passed)
	if r := v.Result(); len(r) != 2 || r[0].Passes != 1 || r[0].Mismatches() != 3 || r[1].Mismatches() != 0 {
		t.Errorf("%+v", r)
	}
	if s := c.progress(); s.Mismatches != 3 || s.Compared != 1 || s.Chunks != 1 {
		t.Errorf("progress: %+v", s)
	}
	cancel()
	c.must(testwait.Receive(t, "the end", ended))
	// The result is the current pass's once it has found something.
	equal, differs := &Report{}, &Report{Extra: 1}
	for _, tt := range []struct{ whole, now, want *Report }{{nil, equal, equal}, {nil, differs, differs}, {equal, equal, equal}, {differs, equal, differs}, {equal, differs, differs}} {
		f := Following{passes: 4}
		if f.reports = []*Report{tt.now}; tt.whole != nil {
			f.whole = []*Report{tt.whole}
		}
		if got := f.Result(); len(got) != 1 || got[0] != tt.want || got[0].Passes != 4 {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
	lost := errors.New("lost")
	gone, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		ctx       context.Context
		err, want error
	}{{t.Context(), nil, nil}, {t.Context(), lost, lost}, {t.Context(), fmt.Errorf("x: %w", follow.ErrEnded), nil}, {gone, lost, nil}} {
		if got := ignoreShutdown(tt.ctx, tt.err); !errors.Is(got, tt.want) {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// TestFailed has several errors of workers: the first one counts that is not a consequence of another.
func TestFailed(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	for _, tt := range []struct {
		errs []error
		want error
	}{{[]error{one, two}, one}, {[]error{context.Canceled, two, one}, two}, {[]error{fmt.Errorf("x: %w", context.Canceled), one}, one}, {[]error{one, context.Canceled}, one}} {
		v := &verifier{queue: make([]verifyChunk, 3)}
		for _, err := range tt.errs {
			v.fail(err)
		}
		if _, more := v.next(); !errors.Is(v.err, tt.want) || more {
			t.Errorf("%v: %v, more chunks %t", tt.errs, v.err, more)
		}
	}
	v := &verifier{queue: []verifyChunk{{table: 1}, {table: 2}}}
	first, ok := v.next()
	second, also := v.next()
	if _, more := v.next(); !ok || !also || more || first.table != 1 || second.table != 2 {
		t.Errorf("%+v, %+v, more %t", first, second, more)
	}
}

// TestUnexplained describes chunks whose sums differ and whose rows do not explain it.
func TestUnexplained(t *testing.T) {
	a, b, other := rowstream.Checksum{Rows: 1, Sum: 1}, rowstream.Checksum{Rows: 2, Sum: 2}, rowstream.Checksum{Rows: 3, Sum: 3}
	for want, e := range map[string]UnexplainedError{
		"chunk 4 of s.t (all keys): the source has ":                                          {Source: a, Target: b, SourceRows: a, TargetRows: b},
		"(after key (1, x)): the source":                                                      {After: []string{"1", "x"}, Source: a, Target: b, SourceRows: a, TargetRows: b},
		"(up to key (2)): the source":                                                         {Upto: []string{"2"}, Source: a, Target: b, SourceRows: a, TargetRows: b},
		"(after key (1), up to key (2)): ":                                                    {After: []string{"1"}, Upto: []string{"2"}, Source: a, Target: b, SourceRows: a, TargetRows: b},
		", which the 1 differing rows do not explain; compare the rows":                       {Source: a, Target: b, SourceRows: a, TargetRows: b, Mismatches: 1},
		fmt.Sprintf("; the rows that the source returns in the same snapshot are %v;", other): {Source: a, Target: b, SourceRows: other, TargetRows: b},
		fmt.Sprintf("; the rows that the target returns in the same snapshot are %v;", other): {Source: a, Target: b, SourceRows: a, TargetRows: other},
	} {
		e.Table, e.Chunk = "s.t", 4
		text := e.Error()
		if !strings.Contains(text, want) || strings.Contains(text, "differing") != (e.Mismatches > 0) || strings.Count(text, "in the same snapshot") > 1 || e.SourceRows == a && e.TargetRows == b && strings.Contains(text, "snapshot") {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
	n := narrowing{c: &comparison{t: &tabledef.Table{Spec: &tabledef.Spec{Schema: "s", Name: "t"}}}, counts: &Report{Missing: 1}, source: a, target: b}
	for _, tt := range []struct {
		source, target rowstream.Checksum
		missing        int64
		explained      bool
	}{{a, b, 1, true}, {a, b, 0, false}, {other, b, 1, false}, {a, other, 1, false}} {
		n.counts.Missing = tt.missing
		err := n.explain(rowstream.Chunk{Number: 3}, tt.source, tt.target)
		if unexplained, ok := errors.AsType[*UnexplainedError](err); ok == tt.explained || ok && (unexplained.Chunk != 3 || unexplained.Table != "s.t" || unexplained.Mismatches != tt.missing) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestRanges has chunks of tables with keys of different types and orders.
func TestRanges(t *testing.T) {
	table := func(kind string, descending, copied bool) *comparison {
		c := &comparison{t: &tabledef.Table{Spec: &tabledef.Spec{}, Source: &rowstream.Table{Columns: []rowstream.Column{{Name: "n", Type: "int"}, {Name: "id", Type: kind}}, Key: []int{1}, Descending: []bool{descending}}}}
		c.t.Target.Columns, c.source.Columns = make([]rowstream.Column, 2), []int{0, 1}
		if !copied {
			c.t.Target.Columns, c.source.Columns = make([]rowstream.Column, 1), []int{0, 1} // the key is compared, but not a column of the target
		}
		return c
	}
	noKey := table("int", false, true)
	noKey.t.Source.Key, noKey.t.Source.Descending = nil, nil
	for _, tt := range []struct {
		c      *comparison
		column int
	}{
		{table("tinyint", false, true), 1},
		{table("smallint", false, true), 1},
		{table("mediumint", false, true), 1},
		{table("int", false, true), 1},
		{table("bigint", false, true), 1},
		{table("varchar", false, true), -1},
		{table("decimal", false, true), -1},
		{table("int", true, true), -1},
		{table("int", false, false), -1},
		{noKey, -1},
	} {
		if got := tt.c.integerKey(); got != tt.column {
			t.Errorf("%+v: %d, want %d", tt.c.t.Source, got, tt.column)
		}
	}
	v := &Following{verifier: verifier{o: Options{Tables: make([]*tabledef.Table, 3)}, comparisons: []*comparison{table("int", false, true), table("varchar", false, true), table("bigint", false, true)}}}
	for _, k := range []struct {
		table int
		upto  mysqlwire.TextRow
	}{{0, testrows.Row("10")}, {0, testrows.Row("20")}, {0, nil}, {1, testrows.Row("a")}, {1, nil}, {2, testrows.Row("18446744073709551615")}, {2, testrows.Row("5")}} {
		v.queue = append(v.queue, verifyChunk{table: k.table, chunk: rowstream.Chunk{Upto: k.upto}})
	}
	got := v.ranges()
	if got[2].Column != -1 || got[2].Chunks != 2 {
		t.Errorf("a bound beyond BIGINT: %+v", got[2])
	}
	want := []follow.Ranges{{Chunks: 3, Column: 1, Upto: []int64{10, 20}}, {Chunks: 2, Column: -1}}
	if diff := gocmp.Diff(want, got[:2]); diff != "" {
		t.Error(diff)
	}
}

// TestSteady keeps the rows that differ in the same way in each comparison.
func TestSteady(t *testing.T) {
	row := func(kind MismatchKind, key string, sum uint64) RowMismatch {
		return RowMismatch{Kind: kind, Key: []string{key}, sum: sum}
	}
	a, b, c := row(RowMissing, "1", 7), row(RowChanged, "2", 8), row(RowExtra, "3", 0)
	for _, tt := range []struct{ before, now, want []RowMismatch }{
		{nil, []RowMismatch{a, b}, []RowMismatch{a, b}},
		{[]RowMismatch{a, b, c}, []RowMismatch{a, b, c}, []RowMismatch{a, b, c}},
		{[]RowMismatch{a}, []RowMismatch{b, a}, []RowMismatch{a}},
		{[]RowMismatch{a}, []RowMismatch{row(RowMissing, "1", 9)}, nil},
		{[]RowMismatch{a}, []RowMismatch{row(RowChanged, "1", 7)}, nil},
		{[]RowMismatch{c}, nil, nil},
	} {
		got := inBoth(tt.before, slices.Clone(tt.now))
		if !slices.EqualFunc(got, tt.want, func(a, b RowMismatch) bool { return a.name() == b.name() && a.sum == b.sum }) {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
	if got := keyText(mysqlwire.TextRow{[]byte("ü"), []byte("\xff\x01"), nil}); !slices.Equal(got, []string{"ü", "0xff01", ""}) || keyText(nil) != nil {
		t.Errorf("%q", got)
	}
}

// TestExpired has views that have expired when something fails, or not.
func TestExpired(t *testing.T) {
	lost := errors.New("lost")
	for _, tt := range []struct {
		cause, err error
		expired    bool
	}{{nil, lost, false}, {rowstream.ErrViewExpired, lost, true}, {rowstream.ErrViewExpired, nil, false}, {context.Canceled, lost, false}} {
		life, end := context.WithCancelCause(t.Context())
		if tt.cause != nil {
			end(tt.cause)
		}
		h := &held{life: life}
		if err := h.explain(tt.err); errors.Is(err, rowstream.ErrViewExpired) != tt.expired || (err == nil) != (tt.err == nil) || tt.err != nil && !errors.Is(err, lost) {
			t.Errorf("%+v: %v", tt, err)
		}
		end(nil)
	}
}

// TestViews has views of the source that expire during comparisons, once or each time.
func TestViews(t *testing.T) {
	c := newCopied(t)
	c.follow()
	o := c.options(c.direct, 1)
	o.Source, o.View = testrows.Direct(t, c.direct), noView{}
	lost := errors.New("lost")
	for _, tt := range []struct {
		name  string
		err   error
		times int // that do fails
		calls int
		want  error
	}{
		{"no failure", nil, 0, 1, nil}, {"another error", lost, 1, 1, lost}, {"expired once", rowstream.ErrViewExpired, 1, 2, nil}, {"expired nine times", rowstream.ErrViewExpired, 9, 10, nil}, {"expired always", rowstream.ErrViewExpired, 99, 10, errViewTooShort},
	} {
		v := NewFollowing(o, c.follower)
		w := v.newWorker()
		c.must(w.pace.Begin(t.Context()))
		calls, views := 0, make(map[rowstream.View]bool)
		err := v.inView(t.Context(), w, c.tables[0], false, func(context.Context) error {
			calls++
			views[v.held.view] = true
			if calls <= tt.times {
				return tt.err
			}
			return nil
		})
		w.pace.End()
		w.writer.Close()
		if !errors.Is(err, tt.want) || calls != tt.calls || len(views) != tt.calls {
			t.Errorf("%s: %v after %d calls in %d views", tt.name, err, calls, len(views))
		}
		if (v.held != nil) != (tt.want == nil) {
			t.Errorf("%s: a view is held: %t", tt.name, v.held != nil)
		}
		c.must(v.release())
	}
	// A view serves for a table and a time, and is as old as permitted.
	v := NewFollowing(o, c.follower)
	c.must(v.hold(t.Context(), c.tables[0], false))
	first := v.held
	deadline, _ := first.life.Deadline()
	if left := time.Until(deadline); left > o.MaxViewAge*9/10 || left < o.MaxViewAge*8/10 {
		t.Errorf("it lives for %v of %v", left, o.MaxViewAge)
	}
	for _, tt := range []struct {
		compared int
		fresh    bool
		table    int
		holds    time.Duration
		same     bool
	}{{0, true, 0, 0, true}, {0, false, 0, 0, true}, {1, false, 0, time.Hour, true}, {1, true, 0, time.Hour, false}, {1, false, 0, 0, false}, {0, false, 1, time.Hour, false}} {
		before := v.held
		v.held.compared, v.holds = tt.compared, tt.holds
		v.held.t = c.tables[0]
		c.must(v.hold(t.Context(), c.tables[tt.table], tt.fresh))
		if (v.held == before) != tt.same {
			t.Errorf("%+v: the same view %t", tt, v.held == before)
		}
	}
	before := v.held
	before.end()
	c.must(v.hold(t.Context(), before.t, false))
	if v.held == before {
		t.Error("an expired view serves")
	}
	c.must(v.release())
	c.must(v.release())
}
