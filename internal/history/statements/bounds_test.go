package statements

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststmt"
)

// TestBounds takes queries at each bound, and refuses them beyond.
func TestBounds(t *testing.T) {
	from, to := axisStart, axisStart.Add(1)
	digest := strings.Repeat("a", 32)
	for _, c := range []struct {
		name string
		q    TopQuery
		ok   bool
	}{
		{"shortest range", TopQuery{From: from, To: to}, true},
		{"no range", TopQuery{From: from, To: from}, false},
		{"limit -1", TopQuery{From: from, To: to, Limit: -1}, false},
		{"limit 1", TopQuery{From: from, To: to, Limit: 1}, true},
		{"limit", TopQuery{From: from, To: to, Limit: MaxTopLimit}, true},
		{"limit + 1", TopQuery{From: from, To: to, Limit: MaxTopLimit + 1}, false},
		{"offset", TopQuery{From: from, To: to, Offset: MaxTopOffset}, true},
		{"offset + 1", TopQuery{From: from, To: to, Offset: MaxTopOffset + 1}, false},
		{"points", TopQuery{From: from, To: to, Points: MaxPoints}, true},
		{"points + 1", TopQuery{From: from, To: to, Points: MaxPoints + 1}, false},
		{"last measure", TopQuery{From: from, To: to, By: Measure(numMeasures - 1)}, true},
		{"measure + 1", TopQuery{From: from, To: to, By: Measure(numMeasures)}, false},
		{"filter", TopQuery{From: from, To: to, Filter: strings.Repeat("a", maxFilter)}, true},
		{"filter + 1", TopQuery{From: from, To: to, Filter: strings.Repeat("a", maxFilter+1)}, false},
		{"malformed filter", TopQuery{From: from, To: to, Filter: `"a`}, false},
		{"unknown field", TopQuery{From: from, To: to, Filter: "table=t"}, false},
	} {
		if err := c.q.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.ok && c.q.Limit == 0 {
			t.Errorf("%s: no limit is set", c.name)
		}
	}
	for _, c := range []struct {
		name string
		q    StatementQuery
		ok   bool
	}{
		{"shortest range", StatementQuery{Digest: digest, From: from, To: to}, true},
		{"no range", StatementQuery{Digest: digest, From: from, To: from}, false},
		{"digest", StatementQuery{Digest: digest[1:], From: from, To: to}, false},
		{"points -1", StatementQuery{Digest: digest, From: from, To: to, Points: -1}, false},
		{"points", StatementQuery{Digest: digest, From: from, To: to, Points: MaxPoints}, true},
		{"points + 1", StatementQuery{Digest: digest, From: from, To: to, Points: MaxPoints + 1}, false},
	} {
		if err := c.q.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if s := Measure(numMeasures).String(); s != fmt.Sprintf("measure %d", numMeasures) {
		t.Errorf("an unknown measure is called %q", s)
	}
}

// TestFilterFields matches each field of a Key, and names those that only single calls have.
func TestFilterFields(t *testing.T) {
	k := stmtstats.Key{Digest: [16]byte{0xab, 0xcd}, Schema: "shop", User: "app", Backend: "db:3306"}
	for text, want := range map[string]bool{
		"":                true,
		"digest=abcd00":   true,
		"digest=abce":     false,
		"schema=shop":     true,
		"schema=app":      false,
		"user=app":        true,
		"user=shop":       false,
		"backend=db:3306": true,
		"backend=app":     false,
		"normalized~from": true,
		"normalized~app":  false,
		"from":            true,
		"-from":           false,
	} {
		f, err := parseFilter(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := f.matches(&k, "select a from t"); got != want {
			t.Errorf("%q matches: %v", text, got)
		}
		if words := strings.Contains(text, "from") || strings.Contains(text, "normalized"); f.wantText != words {
			t.Errorf("%q wants the text: %v", text, f.wantText)
		}
	}
	for text, want := range map[string]string{
		"client=10.0.0.1":        "client is a field of single calls",
		"user=app -client=a":     "client is a field of single calls",
		"color=red":              "color",
		`user=app "unterminated`: "quot",
	} {
		if _, err := parseFilter(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "single calls") != strings.Contains(want, "single calls") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestUncovered describes the first part without samples that is longer than the gap.
func TestUncovered(t *testing.T) {
	const gap = 100
	at := func(ms int64) string { return clockOf(ms) }
	for _, c := range []struct {
		name            string
		times           []int64
		start, from, to int64
		want            string
	}{
		{"covered", []int64{1100, 1200}, 0, 1000, 1300, ""},
		{"a gap at the end", []int64{1100, 1200}, 0, 1000, 1301, "there are no samples from " + at(1200) + " to " + at(1301)},
		{"a gap between", []int64{1100, 9000}, 0, 1000, 9000, "there are no samples from " + at(1100) + " to " + at(9000)},
		{"a gap at the start", []int64{9000}, 0, 1000, 9000, "there are no samples from " + at(1000) + " to " + at(9000)},
		{"the history starts later", []int64{9000}, 9000, 1000, 9000, "the history starts at " + at(9000)},
		{"the history starts within the gap", []int64{9000}, 1100, 1000, 9000, "there are no samples from " + at(1000) + " to " + at(9000)},
		{"the history starts just after the gap", []int64{9000}, 1101, 1000, 9000, "the history starts at " + at(1101)},
		{"none", nil, 0, 1000, 5000, "there are no samples from " + at(1000) + " to " + at(5000)},
		{"a short range", nil, 0, 1000, 1100, ""},
		{"samples before", []int64{500, 1100}, 0, 1000, 1200, ""},
		{"samples just before", []int64{950, 1080}, 0, 1000, 1180, ""},
	} {
		if got := uncovered(c.times, c.start, c.from, c.to, gap); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	p := &plan{from: axisStart, to: axisStart.Add(2 * time.Hour)}
	for lag, want := range map[time.Duration]string{0: "", time.Minute: "", time.Minute + 1: "no rollup of the time from 2026-03-01 01:00:00"} {
		p.files = []*planned{
			{begin: axisStart.Add(time.Hour + lag), end: axisStart.Add(2 * time.Hour)},
			{begin: axisStart, end: axisStart.Add(time.Hour)},
			{begin: axisStart, end: axisStart.Add(time.Minute)},
		}
		if got := uncoveredHours(p); got != want {
			t.Errorf("a file that begins %v later: %q, want %q", lag, got, want)
		}
	}
	if got, want := uncoveredHours(&plan{from: p.from, to: p.to}), "no rollup of the time from 2026-03-01 00:00:00"; got != want {
		t.Errorf("no files: %q", got)
	}
}

// TestTotals returns the mean of no calls, and quantiles that are not below the mean of up to 100 and 1,000 calls.
func TestTotals(t *testing.T) {
	if m := (&Totals{Seconds: 1}).Mean(); m != 0 {
		t.Errorf("the mean of no calls is %v", m)
	}
	if m := (&Totals{Calls: 4, Seconds: 2}).Mean(); m != time.Second/2 {
		t.Errorf("the mean of two seconds in four calls is %v", m)
	}
	h := histogramOf(time.Millisecond)
	for calls, exact := range map[uint64][3]bool{1: {true, true, true}, 2: {false, true, true}, 100: {false, true, true}, 101: {false, false, true}, 1000: {false, false, true}, 1001: {}} {
		c := stmtstats.Counts{stmtstats.Calls: calls, stmtstats.Nanos: calls * 1e9}
		c[int(stmtstats.Errors)+int(stmtstats.ClassDeadlock)] = 3
		got := newTotals(&c, h)
		if is := [3]bool{got.P50 == time.Second, got.P99 == time.Second, got.P999 == time.Second}; is != exact || got.Errors != 3 {
			t.Errorf("%d calls: %+v", calls, got)
		}
	}
}

// TestTableSums counts calls without an entry, which are no row; from the first call of a statement on.
func TestTableSums(t *testing.T) {
	now := axisStart
	table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: 100, Bytes: 2 << 20, Now: func() time.Time { return now.Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	of := TableReader{table}
	q := TopQuery{From: now.Add(10 * time.Second), To: now.Add(time.Hour), Durations: true}
	observe := func(n int, after time.Duration) {
		r := teststmt.Record(n, time.Second)
		if r.Start = now.Add(after); n < 0 {
			r.Digest = [16]byte{}
		}
		table.Observe(r)
	}
	observe(-1, 20*time.Second)
	top, err := of.Top(t.Context(), q)
	if err != nil || top.Total.Calls != 1 || len(top.Rows) != 0 || top.Matching != 0 || !top.From.Equal(now.Add(21*time.Second)) {
		t.Fatalf("a call without a digest: %+v (%v)", top, err)
	}
	observe(1, 30*time.Second)
	observe(2, 9*time.Second)
	observe(3, 8*time.Second)
	observe(3, 50*time.Second)
	if top, err = of.Top(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if top.Total.Calls != 5 || len(top.Rows) != 3 || top.Matching != 3 || !top.From.Equal(now.Add(9*time.Second)) || !top.To.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v", top)
	}
	for _, r := range top.Rows {
		n := r.Digest[3]
		if want := map[byte]bool{1: true, 2: true, 3: false}[n]; r.New != want { // the call of 2 ended at the start of the range
			t.Errorf("statement %d, first seen %v: new %v", n, r.First, r.New)
		}
		if len(r.Durations) != 1 || r.Durations[0].Count != r.Calls {
			t.Errorf("statement %d: durations %v", n, r.Durations)
		}
	}
	if _, err := of.Top(t.Context(), TopQuery{}); err == nil {
		t.Error("a query without a range is taken")
	}
	q.Durations, q.Filter = false, "normalized~?"
	if top, err = of.Top(t.Context(), q); err != nil || len(top.Rows) != 3 || top.Rows[0].Durations != nil || top.Total.Calls != 5 {
		t.Errorf("%+v (%v)", top, err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := of.Top(t.Context(), q); err == nil {
		t.Error("a closed table is ranked")
	}
}

// TestSeen extends the time between calls; an unknown first call changes nothing.
func TestSeen(t *testing.T) {
	at := func(s int) time.Time { return axisStart.Add(time.Duration(s) * time.Second) }
	var st Statement
	for _, c := range []struct{ first, last, wantFirst, wantLast time.Time }{
		{time.Time{}, at(5), time.Time{}, at(5)},
		{at(4), at(5), at(4), at(5)},
		{at(3), at(4), at(3), at(5)},
		{at(4), at(6), at(3), at(6)},
		{time.Time{}, time.Time{}, at(3), at(6)},
	} {
		if st.seen(c.first, c.last); !st.First.Equal(c.wantFirst) || !st.Last.Equal(c.wantLast) {
			t.Errorf("calls from %v to %v: from %v to %v", c.first, c.last, st.First, st.Last)
		}
	}
	var all stmtstats.Counts
	st.Parts = []StatementPart{
		{Key: stmtstats.Key{Schema: "b", User: "a", Backend: "a"}},
		{Key: stmtstats.Key{Schema: "a", User: "b", Backend: "a"}},
		{Key: stmtstats.Key{Schema: "a", User: "a", Backend: "b"}},
		{Key: stmtstats.Key{Schema: "a", User: "a", Backend: "a"}},
		{Key: stmtstats.Key{Schema: "z"}, Totals: Totals{Seconds: 1}},
	}
	st.finish(&all, new(stmtstats.Histogram))
	var order []string
	for _, p := range st.Parts {
		order = append(order, p.Schema+p.User+p.Backend)
	}
	if got := strings.Join(order, " "); got != "z aaa aab aba baa" {
		t.Errorf("parts in the order %s", got)
	}
}

// A blockingRanker blocks until it is released or the request is canceled.
type blockingRanker struct {
	entered, returned atomic.Int32
	release           chan struct{}
}

func (b *blockingRanker) Top(ctx context.Context, _ TopQuery) (*Top, error) {
	b.entered.Add(1)
	select {
	case <-b.release:
		return &Top{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestRequestsAtOnce runs two requests at once. One whose client disconnects, while it waits or runs, has no response, and
// leaves its turn to another one.
func TestRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blockingRanker{release: make(chan struct{})}
		h := NewHandler(HandlerOptions{Ranker: b, Counters: b})
		ask := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			go func() {
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/statements", nil))
				b.returned.Add(1)
			}()
			synctest.Wait()
			return w
		}
		check := func(entered, returned int32) {
			t.Helper()
			if synctest.Wait(); b.entered.Load() != entered || b.returned.Load() != returned {
				t.Fatalf("%d requests entered and %d returned, want %d and %d", b.entered.Load(), b.returned.Load(), entered, returned)
			}
		}
		running, disconnect := context.WithCancel(t.Context())
		waiting, cancel := context.WithCancel(t.Context())
		first, second, third := ask(running), ask(t.Context()), ask(waiting)
		check(2, 0)
		cancel()
		check(2, 1)
		fourth := ask(t.Context())
		check(2, 1)
		disconnect()
		check(3, 2)
		close(b.release)
		check(3, 4)
		for i, w := range []*httptest.ResponseRecorder{first, second, third, fourth} {
			if responded := w.Body.Len() > 0; responded != (w == second || w == fourth) || responded && w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("request %d: %q", i, w.Body)
			}
		}
	})
}
