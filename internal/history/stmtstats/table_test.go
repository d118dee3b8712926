package stmtstats

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/teststmt"
)

func mustOpen(t testing.TB, o Options) *Table {
	t.Helper()
	table, err := OpenTable(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestObserveThenCollect(t *testing.T) {
	dir := t.TempDir()
	table := mustOpen(t, Options{Dir: dir})
	for range 5 {
		table.Observe(teststmt.Record(1, 3*time.Millisecond))
	}
	var samples []Sample
	collect := func() {
		samples = nil
		if err := table.Collect(func(s *Sample) error { samples = append(samples, *s); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if len(samples) != 3 || samples[2].Counts[Calls] != 5 || samples[2].Text != "select ?" || samples[2].Counts[RowsSent] != 15 {
		t.Fatalf("got %+v", samples)
	}
	_ = table.Close()
	table = mustOpen(t, Options{Dir: dir})
	collect()
	if len(samples) != 3 || samples[2].Counts[Calls] != 5 || samples[2].Text != "select ?" || samples[2].Schema != "shop" {
		t.Fatalf("got %+v", samples)
	}
	t.Log(table.Stats(), entryBytes, totalsBytes)
	_ = table.Close()
}

// countCalls opens a table, counts n calls of one statement and closes it.
func countCalls(t *testing.T, o Options, n int) {
	t.Helper()
	table := mustOpen(t, o)
	for range n {
		table.Observe(teststmt.Record(1, time.Millisecond))
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
}

// calledOf returns the calls of all statements.
func calledOf(t *testing.T, table *Table) (calls uint64) {
	t.Helper()
	if err := table.Each(func(s *Sample) error { calls += s.Counts[Calls]; return nil }); err != nil {
		t.Fatal(err)
	}
	return calls
}
