package statements

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststmt"
)

// span returns a range that includes all calls of a test.
func span(now time.Time) (from, to time.Time) { return now.Add(-time.Hour), now.Add(time.Hour) }

// TestTableTop ranks digests by each measure, filters and pages. The result for each digest equals that of
// Each.
func TestTableTop(t *testing.T) {
	table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: 100, Bytes: 2 << 20, MinIdle: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 150 { // a third finds no room
		for range 1 + rng.IntN(40) {
			r := teststmt.Record(n, time.Duration(rng.IntN(1e8)))
			r.User, r.Normalized = fmt.Sprintf("user%d", n%3), fmt.Appendf(nil, "SELECT column_%d FROM t", n)
			r.RowsReturned, r.RowsAffected, r.BytesOut = uint64(rng.IntN(9)), uint64(rng.IntN(9)), uint64(rng.IntN(99))
			if n%10 == 0 {
				r.ErrorNumber = 1213
			}
			table.Observe(r)
		}
	}
	if err := table.Collect(func(*stmtstats.Sample) error { return nil }); err != nil { // evicts some
		t.Fatal(err)
	}
	var each []stmtstats.Sample
	var calls uint64
	if err := table.Each(func(s *stmtstats.Sample) error {
		calls += s.Counts[stmtstats.Calls]
		if s.Kind == stmtstats.Tracked {
			each = append(each, *s)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	from, to := span(teststmt.Record(0, 0).Start)
	for m := range Measure(numMeasures) {
		for _, ascending := range []bool{false, true} {
			want := slices.Clone(each)
			value := func(s *stmtstats.Sample) float64 {
				switch m {
				case ByP99:
					return float64(s.Histogram.Quantile(0.99))
				case ByFirstSeen:
					return float64(s.First.UnixNano())
				}
				return measures[m].value(&s.Counts)
			}
			slices.SortFunc(want, func(a, b stmtstats.Sample) int {
				d := value(&b) - value(&a)
				if ascending {
					d = -d
				}
				switch {
				case d < 0:
					return -1
				case d > 0:
					return 1
				}
				return int(a.ID) - int(b.ID)
			})
			for _, page := range [][2]int{{0, 10}, {10, 10}, {0, 1000}, {len(want) - 1, 5}, {5000, 5}} {
				top, err := (TableReader{table}).Top(t.Context(), TopQuery{From: from, To: to, By: m, Ascending: ascending, Offset: page[0], Limit: page[1]})
				if err != nil {
					t.Fatal(err)
				}
				if top.Total.Calls != calls || top.Matching != len(each) || top.Source != SourceCounters {
					t.Fatalf("%d calls of %d digests, want %d of %d", top.Total.Calls, top.Matching, calls, len(each))
				}
				shown := want[min(page[0], len(want)):min(page[0]+page[1], len(want))]
				if len(top.Rows) != len(shown) {
					t.Fatalf("%v: %d rows, want %d", m, len(top.Rows), len(shown))
				}
				for i, s := range shown {
					r := top.Rows[i]
					if r.Key != s.Key || r.Totals != newTotals(&s.Counts, &s.Histogram) || r.Text != s.Text || !r.First.Equal(s.First) || !r.Last.Equal(s.Last) {
						t.Fatalf("%v, row %d: %+v, want %+v of %v", m, i, r, s.Counts, s.Key)
					}
				}
			}
		}
	}
	for filter, want := range map[string]func(*stmtstats.Sample) bool{
		"":                 func(*stmtstats.Sample) bool { return true },
		"user=user1":       func(s *stmtstats.Sample) bool { return s.User == "user1" },
		"-user=user1 from": func(s *stmtstats.Sample) bool { return s.User != "user1" },
		"COLUMN_7":         func(s *stmtstats.Sample) bool { return strings.Contains(s.Text, "column_7") },
		"column_1 -column_10": func(s *stmtstats.Sample) bool {
			return strings.Contains(s.Text, "column_1") && !strings.Contains(s.Text, "column_10")
		},
		"digest=0100000A":        func(s *stmtstats.Sample) bool { return s.Digest[3] == 10 },
		"schema=shop backend=no": func(*stmtstats.Sample) bool { return false },
		`"a=b"`:                  func(*stmtstats.Sample) bool { return false },
		"user!=user1":            func(s *stmtstats.Sample) bool { return s.User != "user1" },
		"-digest=0100000a":       func(s *stmtstats.Sample) bool { return s.Digest[3] != 10 },
		"normalized~column_7":    func(s *stmtstats.Sample) bool { return strings.Contains(s.Text, "column_7") },
	} {
		n := 0
		for i := range each {
			if want(&each[i]) {
				n++
			}
		}
		top, err := (TableReader{table}).Top(t.Context(), TopQuery{From: from, To: to, Filter: filter})
		if err != nil || top.Matching != n {
			t.Errorf("filter %q: %d match (%v), want %d", filter, top.Matching, err, n)
		}
	}
	since, called := each[len(each)/2].Last, 0
	for i := range each {
		if !each[i].Last.Before(since) {
			called++
		}
	}
	top, err := (TableReader{table}).Top(t.Context(), TopQuery{From: from, To: to, CalledSince: since, Limit: MaxTopLimit})
	if err != nil || len(top.Rows) != called || called == len(each) || top.Matching != len(each) {
		t.Errorf("called since %v: %d of %d rows (%v), want %d of %d", since, len(top.Rows), top.Matching, err, called, len(each))
	}
}

func TestTopQueryRefuses(t *testing.T) {
	from, to := span(time.Now())
	for what, q := range map[string]TopQuery{
		"ends before it starts": {From: to, To: from},
		"measure":               {From: from, To: to, By: Measure(numMeasures)},
		"limit":                 {From: from, To: to, Limit: MaxTopLimit + 1},
		"offset":                {From: from, To: to, Offset: -1},
		"points":                {From: from, To: to, Points: -1},
		"filter":                {From: from, To: to, Filter: strings.Repeat("a ", maxFilter)},
	} {
		if err := q.Validate(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for m := range Measure(numMeasures) {
		if got, err := ParseMeasure(m.String()); got != m || err != nil {
			t.Errorf("%v is parsed as %v (%v)", m, got, err)
		}
	}
	if _, err := ParseMeasure("weight"); err == nil {
		t.Error("an unknown measure is taken")
	}
}

// TestTableStatement merges the Keys of a digest.
func TestTableStatement(t *testing.T) {
	now := teststmt.Record(0, 0).Start
	table, err := stmtstats.OpenTable(stmtstats.Options{Now: func() time.Time { return now.Add(time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	for i := range 12 {
		r := teststmt.Record(7, time.Duration(i+1)*time.Second)
		r.User = []string{"app", "batch", "root"}[i%3]
		r.Start = r.Start.Add(time.Duration(i) * time.Second)
		if i == 4 {
			r.ErrorNumber = 1213
		}
		table.Observe(r)
		table.Observe(teststmt.Record(8, time.Hour))
	}
	from, to := span(now)
	q := StatementQuery{Digest: "01000007" + strings.Repeat("0", 24), From: from, To: to}
	st, err := (TableReader{table}).Statement(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if st.Calls != 12 || st.Seconds != 78 || st.Errors != 1 || st.Classes[stmtstats.ClassDeadlock] != 1 || st.Text != "select ?" {
		t.Errorf("got %+v", st)
	}
	if len(st.Parts) != 3 || st.Parts[0].User != "root" || st.Parts[0].Calls != 4 || st.Parts[2].User != "app" {
		t.Errorf("parts: %+v", st.Parts)
	}
	if !st.First.Equal(now.Add(time.Second)) || !st.Last.Equal(now.Add(23*time.Second)) || !st.From.Equal(st.First) {
		t.Errorf("from %v to %v", st.First, st.Last)
	}
	if len(st.Slow) == 0 || st.Slow[0].Duration != 12*time.Second || !slices.IsSortedFunc(st.Slow, func(a, b stmtstats.SlowCall) int { return int(b.Duration - a.Duration) }) {
		t.Errorf("slow calls: %+v", st.Slow)
	}
	q.Digest = strings.Repeat("9", 32)
	if _, err := (TableReader{table}).Statement(t.Context(), q); !errors.Is(err, ErrNoStatement) {
		t.Errorf("an unknown digest: %v", err)
	}
	for _, digest := range []string{"", "zz", strings.Repeat("z", 32)} {
		q.Digest = digest
		if _, err := (TableReader{table}).Statement(t.Context(), q); err == nil || errors.Is(err, ErrNoStatement) {
			t.Errorf("digest %q: %v", digest, err)
		}
	}
}

// TestSelectFirst compares with sorting.
func TestSelectFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		rows := make([]int, rng.IntN(60))
		for i := range rows {
			rows[i] = rng.IntN(30)
		}
		n := rng.IntN(len(rows) + 1)
		want := slices.Sorted(slices.Values(rows))[:n]
		all := slices.Clone(rows)
		if selectFirst(rows, n, func(a, b int) int { return a - b }); !slices.Equal(rows[:n], want) {
			t.Fatalf("the first %d of %v: %v, want %v", n, all, rows[:n], want)
		}
		slices.Sort(rows)
		slices.Sort(all)
		if !slices.Equal(rows, all) {
			t.Fatal("rows were lost")
		}
	}
}

// TestQuantilesOfFewCalls expects quantiles of few calls not to be below the exact mean: of one call they are its duration,
// of up to 100 calls p99 is the longest one.
func TestQuantilesOfFewCalls(t *testing.T) {
	rng := testseed.Rand(t)
	for range 2000 {
		var h stmtstats.Histogram
		n := 1 + rng.IntN(100)
		var sum, longest time.Duration
		for range n {
			d := time.Duration(1e3 * math.Exp(18*rng.Float64()))
			h.Record(d)
			sum, longest = sum+d, max(longest, d)
		}
		got := newTotals(&stmtstats.Counts{stmtstats.Calls: uint64(n), stmtstats.Nanos: uint64(sum)}, &h)
		mean := got.Mean()
		if n == 1 && (got.P50 != mean || got.P99 != mean || got.P999 != mean) {
			t.Fatalf("one call of %v: %v, %v, %v", sum, got.P50, got.P99, got.P999)
		}
		if got.P99 < mean || got.P999 < mean || float64(got.P99) > 1.023*float64(longest) {
			t.Fatalf("%d calls of %v on average, at most %v: p99 %v, p99.9 %v", n, mean, longest, got.P99, got.P999)
		}
	}
}
