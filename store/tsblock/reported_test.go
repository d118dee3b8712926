package tsblock

import (
	"math"
	"testing"
)

// TestReported reads the series of a block in ranges, shards and by a function: the counts are those of the series.
func TestReported(t *testing.T) {
	const n = 60
	e := newEnv(t)
	b, _ := testBlock(t, e, n)
	whole := Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64}
	read := func(s Select) (rows int64, stats Stats) {
		t.Helper()
		r := b.Reader(nil)
		defer r.Close()
		p, err := r.Postings(t.Context(), everything())
		if err != nil {
			t.Fatal(err)
		}
		got, err := readRows(t.Context(), r.Series(p, s))
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(got)), r.Stats()
	}
	all, s := read(whole)
	bare := n - all // series without chunks
	if bare < 0 || bare > n/4 || s.Outside != bare || s.Refs != n || s.Series.Items != n || s.Dropped != 0 || s.Foreign != 0 || s.Series.Touched < n || s.Symbols.Items == 0 || s.Symbols.Touched == 0 || s.Postings.Items == 0 || s.Postings.Touched < 4*n || s.Table.Items == 0 {
		t.Errorf("all: %d rows, %+v", all, s)
	}
	bytes := s.Series.Touched
	none := whole
	none.MinTime = math.MaxInt64
	if rows, s := read(none); rows != 0 || s.Outside != n || s.Series.Items != n || s.Series.Touched != bytes {
		t.Errorf("another time: %d rows, %+v", rows, s)
	}
	kept := 0
	some := whole
	some.Keep = func([]Label) bool { kept++; return kept%3 == 0 }
	if rows, s := read(some); rows+s.Dropped+s.Outside != n || s.Dropped != int64(kept-kept/3) || s.Series.Items != n || kept < n/2 {
		t.Errorf("a third: %d rows of %d, %+v", rows, kept, s)
	}
	var rows, foreign, outside int64
	for i := range uint64(3) {
		part := whole
		part.Shard = Shard{Index: i, Count: 3}
		got, s := read(part)
		rows, foreign, outside = rows+got, foreign+s.Foreign, outside+s.Outside
		if s.Refs != n || s.Foreign+s.Outside+got != n || s.Series.Items != got+s.Outside {
			t.Errorf("shard %d: %d rows, %+v", i, got, s)
		}
	}
	if rows != all || foreign != 2*n || outside != bare {
		t.Errorf("three shards: %d rows, %d of others", rows, foreign)
	}
}
