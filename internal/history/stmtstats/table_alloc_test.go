package stmtstats

import (
	"fmt"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/querylog"
)

// TestAllocs is the table's allocation table: the cost of a finished statement.
func TestAllocs(t *testing.T) {
	table := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = table.Close() }()
	small := mustOpen(t, Options{MaxDigests: 1, Bytes: leastBytes(1)})
	defer func() { _ = small.Close() }()
	small.Observe(teststmt.Record(0, time.Millisecond))
	observe := func(table *Table, of func(n int) *querylog.Record, records int) func() error {
		all := make([]*querylog.Record, records)
		for i := range all {
			all[i] = of(i)
		}
		n := 0
		return func() error {
			before := table.untracked.Load()
			n++
			table.Observe(all[n%len(all)])
			if other := table.untracked.Load() != before; other != (table == small) {
				return fmt.Errorf("counted in Other: %v", other)
			}
			return nil
		}
	}
	failed := func(n int) *querylog.Record {
		r := teststmt.Record(n, time.Millisecond)
		r.ErrorNumber, r.SQLState = 1146, "42S02"
		return r
	}
	slower := teststmt.Record(1, time.Hour)
	alloctest.Run(t, []alloctest.Case{
		{Name: "known", Op: observe(table, func(n int) *querylog.Record { return teststmt.Record(n, time.Millisecond) }, 100)},
		{Name: "failed", Op: observe(table, failed, 100)},
		{Name: "untracked", Op: observe(small, func(n int) *querylog.Record { return teststmt.Record(1+n, time.Millisecond) }, 100)},
		{Name: "new", Op: observe(table, func(n int) *querylog.Record { return teststmt.Record(100+n, time.Millisecond) }, 10_000)},
		{Name: "new octave", Op: observe(table, func(n int) *querylog.Record { return teststmt.Record(n, time.Duration(1+n)<<12) }, 10_000)},
		{Name: "slowest", Op: func() error {
			slower.Total++
			table.Observe(slower)
			return nil
		}},
	})
	hash := table.hash(slower.Digest[:], slower.Schema, slower.User, slower.Backend)
	e, _ := table.find(hash, slower, BucketOf(slower.Total))
	if e == nil || e.floor.Load() < int64(slower.Total)-numSlow {
		t.Errorf("the slowest call was not kept among the slowest")
	}
	e.abandon()
}

// TestCollectAllocs checks that collecting does not allocate, except for the strings of Keys that are
// reported for the first time.
func TestCollectAllocs(t *testing.T) {
	table := mustOpen(t, Options{})
	defer func() { _ = table.Close() }()
	records := make([]*querylog.Record, 100)
	for i := range records {
		records[i] = teststmt.Record(i, time.Millisecond)
	}
	visited := 0
	visit := func(s *Sample) error {
		visited++
		return nil
	}
	alloctest.Run(t, []alloctest.Case{{Name: "a hundred digests", Op: func() error {
		for _, r := range records {
			table.Observe(r)
		}
		visited = 0
		if err := table.Collect(visit); err != nil {
			return err
		}
		if visited != len(records)+2 {
			return fmt.Errorf("%d samples", visited)
		}
		return nil
	}}})
}
