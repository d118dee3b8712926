package history

import (
	"testing"
	"time"

	"github.com/taredb/tare/querylog"
)

// record is a statement of digest n that took d.
func record(n int, d time.Duration) *querylog.Record {
	return &querylog.Record{
		Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Total: d,
		Digest: [16]byte{1, byte(n >> 16), byte(n >> 8), byte(n)}, Normalized: []byte("select ?"), Text: []byte("select 1"),
		Schema: "shop", User: "app", Backend: "127.0.0.1:3306",
		RowsReturned: 3, RowsAffected: 2, BytesIn: 20, BytesOut: 300, Warnings: 1,
	}
}

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
		table.Observe(record(1, 3*time.Millisecond))
	}
	var samples []Sample
	collect := func() {
		samples = nil
		if err := table.Collect(func(s *Sample) error { samples = append(samples, *s); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if len(samples) != 3 || samples[2].Calls != 5 || samples[2].Text != "select ?" || samples[2].RowsSent != 15 {
		t.Fatalf("got %+v", samples)
	}
	_ = table.Close()
	table = mustOpen(t, Options{Dir: dir})
	collect()
	if len(samples) != 3 || samples[2].Calls != 5 || samples[2].Text != "select ?" || samples[2].Schema != "shop" {
		t.Fatalf("got %+v", samples)
	}
	t.Log(table.Stats(), entryBytes, totalsBytes)
	_ = table.Close()
}
