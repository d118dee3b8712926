package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

// A countingGateway counts calls of statements, and returns those called since a time.
type countingGateway struct {
	began, now time.Time
	rows       []Row
}

func (g *countingGateway) call(n int, calls uint64, each time.Duration) {
	r := &g.rows[n]
	if r.Counts.Calls == 0 {
		r.First = g.now
	}
	r.Last = g.now
	r.Counts.Calls += calls
	r.Counts.Seconds += float64(calls) * each.Seconds()
}

func (g *countingGateway) read(a Ask) *Reading {
	r := &Reading{Ask: a, At: g.now, Statements: Statements{From: g.began, To: g.now, Source: counters}}
	for _, row := range g.rows {
		if row.Counts.Calls == 0 {
			continue
		}
		r.Statements.Matching++
		if !row.Last.Before(a.CalledSince) {
			r.Statements.Statements = append(r.Statements.Statements, row)
		}
	}
	rows := &r.Statements.Statements
	slices.SortFunc(*rows, func(a, b Row) int { return cmp.Compare(b.Counts.Seconds, a.Counts.Seconds) })
	*rows = (*rows)[:min(len(*rows), a.Limit)]
	return r
}

// TestFrameOfManyStatements compares the rates of frames with those of a gateway whose statements are far more than
// a reading has. A statement that was idle for long has its rate from the second reading after its first call.
func TestFrameOfManyStatements(t *testing.T) {
	rnd := testseed.Rand(t)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	g := &countingGateway{began: began, now: began, rows: make([]Row, 4*MaxRows)}
	for n := range g.rows {
		g.rows[n].Digest = fmt.Sprint(n)
		g.call(n, uint64(1000*(len(g.rows)-n)), time.Millisecond)
	}
	g.rows[0].First = began
	idle := len(g.rows) - 1 // the least since the start
	const window = time.Minute
	var h History
	past := make(map[time.Time][]Row)
	read := func() *Frame {
		f := h.Frame(g.read(h.next(ByLoad, "")), window)
		past[g.now] = slices.Clone(g.rows)
		return f
	}
	g.now = g.now.Add(time.Hour)
	read()
	seen := make(map[string]bool)
	for round := range 100 {
		g.now = g.now.Add(time.Duration(1+rnd.IntN(4)) * time.Second)
		for range rnd.IntN(MaxRows / 4) {
			g.call(rnd.IntN(idle), 1+rnd.Uint64N(5), time.Duration(rnd.IntN(100))*time.Millisecond)
		}
		if round >= 70 {
			g.call(idle, 100, 50*time.Millisecond)
		}
		f := read()
		before := past[f.At.Add(-f.Over)]
		for i := range f.Rows {
			l := &f.Rows[i]
			var n int
			_, _ = fmt.Sscan(l.Digest, &n)
			if l.Known && seen[l.Digest] {
				if want := (g.rows[n].Counts.Seconds - before[n].Counts.Seconds) / f.Over.Seconds(); f.Over >= window && math.Abs(l.Load-want) > 1e-6 && len(h.readings[0].rows) < maxKept && h.readings[0].rows[l.Key].at.Equal(h.readings[0].at) {
					t.Fatalf("round %d: statement %d has the load %v over %v, want %v", round, n, l.Load, f.Over, want)
				}
			}
			seen[l.Digest] = true
		}
		f.Sort(ByLoad, false)
		if first := &f.Rows[0]; round > 71 && (first.Digest != fmt.Sprint(idle) || !first.Known || first.Load == 0) {
			t.Fatalf("round %d: the statement with the most load is %+v", round, first)
		}
	}
	if len(seen) < 3*MaxRows {
		t.Errorf("%d statements were read, want most of %d", len(seen), len(g.rows))
	}
}

// TestLine has the changes of a row since the oldest reading that has it, or before its first call.
func TestLine(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	row := func(first int, calls uint64) *Row {
		return &Row{Key: Key{Digest: "a"}, First: at(first), Counts: Counts{Calls: calls, Seconds: 2 * float64(calls), Errors: calls / 2, P99: 3}}
	}
	read := func(second int, calls uint64) past {
		p := past{at: at(second), rows: map[Key]pastRow{}}
		if calls > 0 {
			p.rows[Key{Digest: "a"}] = pastRow{at: p.at, Counts: row(0, calls).Counts}
		}
		return p
	}
	for name, c := range map[string]struct {
		readings []past
		row      *Row
		now      int
		known    bool
		calls    float64 // per second
	}{
		"no reading":                   {nil, row(0, 40), 10, true, 4},
		"a reading":                    {[]past{read(2, 8)}, row(0, 40), 10, true, 4},
		"the oldest of two":            {[]past{read(2, 8), read(6, 32)}, row(0, 40), 10, true, 4},
		"no call at the oldest":        {[]past{read(2, 0), read(6, 32)}, row(3, 40), 10, true, 5},
		"not read by the oldest":       {[]past{read(2, 0), read(6, 32)}, row(1, 40), 10, true, 2},
		"first called with a reading":  {[]past{read(2, 0)}, row(2, 40), 10, false, 0},
		"fewer calls than at the time": {[]past{read(2, 41)}, row(0, 40), 10, false, 0},
		"no time":                      {[]past{read(10, 8)}, row(0, 40), 10, false, 0},
		"a time after":                 {[]past{read(11, 8)}, row(0, 40), 10, false, 0},
	} {
		h := History{readings: c.readings}
		l := h.line(c.row, at(c.now), began)
		if l.Known != c.known || l.Calls != c.calls || l.Load != 2*c.calls || l.Errors != c.calls/2 || l.Total != c.row.Counts || !c.known && l.P99 != 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
