package stmtstats

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/querylog"
)

// seconds returns the seconds that a table has counted of a statement's Key, and its calls; and the same of Other.
func seconds(t *testing.T, table *Table, r *querylog.Record) (own float64, calls uint64, other float64, others uint64) {
	t.Helper()
	var s Sample
	if err := table.Scan(&s, func() {}, func(int) {
		switch {
		case s.Kind == Other:
			other, others = s.Histogram.Sum(), s.Counts[Calls]
		case s.Digest == r.Digest:
			own, calls = own+s.Histogram.Sum(), calls+s.Counts[Calls]
		}
	}); err != nil {
		t.Fatal(err)
	}
	return own, calls, other, others
}

// TestAdvance counts the time of a statement in flight: of a new Key, of one without a digest, and of new Keys without room.
func TestAdvance(t *testing.T) {
	table := mustOpen(t, Options{MaxDigests: 1, Now: func() time.Time { return teststmt.Record(0, 0).Start.Add(time.Minute) }})
	defer func() { _ = table.Close() }()
	check := func(of string, r *querylog.Record, own float64, calls uint64, other float64, others uint64) {
		t.Helper()
		if s, n, o, m := seconds(t, table, r); s != own || n != calls || o != other || m != others {
			t.Errorf("%s: %v s of %d calls, others %v s of %d; want %v of %d, %v of %d", of, s, n, o, m, own, calls, other, others)
		}
	}
	first, second, unknown := teststmt.Record(1, 0), teststmt.Record(2, 0), teststmt.Record(3, 0)
	check("before", first, 0, 0, 0, 0)
	table.Advance(first, 10*time.Second, false)
	check("10 s", first, 10, 0, 0, 0)
	var s Sample
	table.ReadDigest(&s, first.Digest, func(int) {
		if at := first.Start.Add(10 * time.Second); !s.First.Equal(at) || !s.Last.Equal(at) {
			t.Errorf("first %v, last %v; want %v", s.First, s.Last, at)
		}
	})
	table.Advance(first, 10*time.Second, false)
	table.Advance(first, 5*time.Second, false) // a clock that was set back
	check("10 s again", first, 10, 0, 0, 0)
	table.Advance(first, 25*time.Second, false)
	table.Advance(unknown, 3*time.Second, true)
	check("25 s", first, 25, 0, 3, 0)
	unknown.Digest, unknown.Total = [16]byte{}, 4*time.Second
	table.Observe(unknown)
	table.Advance(second, 7*time.Second, false)
	check("no room", second, 0, 0, 11, 1)
	first.Total = 4000 * time.Second
	table.Observe(first)
	second.Total = 8 * time.Second
	table.Observe(second)
	check("finished", first, 4000, 1, 12, 2)
	collected := 0
	if err := table.Collect(func(s *Sample) error {
		if s.Kind == Tracked {
			collected++
			if s.Text != string(first.Normalized) || !s.Born {
				t.Errorf("the sample is %+v", s)
			}
		}
		return nil
	}); err != nil || collected != 1 {
		t.Errorf("%d Keys collected (%v)", collected, err)
	}
}

// TestAdvanceAllocs checks that counting statements in flight does not allocate, those of new Keys included.
func TestAdvanceAllocs(t *testing.T) {
	table := mustOpen(t, Options{})
	defer func() { _ = table.Close() }()
	var records []*querylog.Record
	for n := range 10_000 {
		records = append(records, teststmt.Record(n, 0))
	}
	known, n := records[0], 0
	alloctest.Run(t, []alloctest.Case{
		{Name: "known", Op: func() error {
			table.Advance(known, known.Accounted+1, false)
			return nil
		}},
		{Name: "new", Op: func() error {
			n++
			table.Advance(records[n%len(records)], time.Duration(n), false)
			return nil
		}},
	})
}
