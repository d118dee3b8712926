package statements_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/querylog"
)

// benchRollups writes seven days of rollups of this many digests into an archive without samples. Each hour
// has all of them, with durations that differ between digests and hours; the current hour is in the table.
func benchRollups(b *testing.B, digests int) (r *rig, now time.Time) {
	b.Helper()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	done := start.Add(7*24*time.Hour + 10*time.Hour)
	now = done.Add(20 * time.Minute)
	rng := rand.New(rand.NewPCG(1, 2))
	r = newRig(b, digests)
	r.options.Now = func() time.Time { return now }
	r.open()
	b.Cleanup(func() { _ = r.archive.Close() })
	up := &rollup.Rollup{}
	for n := range digests {
		k := stmtstats.Key{Schema: "shop", User: "app", Backend: "127.0.0.1:3306"}
		binary.BigEndian.PutUint64(k.Digest[:], rng.Uint64())
		text := fmt.Sprintf("SELECT c%d FROM t WHERE id = ? AND name = ? ORDER BY created LIMIT ?", n)
		up.Rows = append(up.Rows, rollup.Row{Print: rollup.PrintOf(&k), Key: k, Text: text})
		for i := range 20 {
			r.table.Observe(&querylog.Record{
				Start: done.Add(time.Duration(i) * time.Minute), Total: time.Duration(float64(time.Millisecond) * (0.5 + rng.ExpFloat64())),
				Digest: k.Digest, Schema: k.Schema, User: k.User, Backend: k.Backend, Normalized: []byte(text), RowsReturned: 1, BytesOut: 100,
			})
		}
	}
	hour := func(at time.Time, span time.Duration, calls int) {
		up.Start, up.Span = at, span
		for i := range up.Rows {
			row := &up.Rows[i]
			var h stmtstats.Histogram
			median := float64(time.Millisecond) * float64(1+row.Print[0]%20) * (0.5 + rng.Float64())
			for range calls {
				h.Record(time.Duration(median * (0.5 + rng.ExpFloat64())))
			}
			row.Last = at.UnixMilli() + 1000
			row.Counts = stmtstats.Counts{stmtstats.Calls: h.Count(), stmtstats.Nanos: h.Nanos, stmtstats.RowsSent: rng.Uint64N(1000), stmtstats.BytesSent: rng.Uint64N(1e6)}
			row.Counts[int(stmtstats.Errors)+int(stmtstats.ClassDeadlock)] = rng.Uint64N(10)
			row.Spread = h.AppendSpread(nil)
		}
		r.must(r.archive.Instances()[0].Rollups.Write(up))
	}
	for at := start; at.Before(done); at = at.Add(time.Hour) {
		hour(at, rollup.Hour, 200)
		if end := at.Add(time.Hour); end.Truncate(rollup.Day).Equal(end) {
			hour(at.Truncate(rollup.Day), rollup.Day, 2000)
		}
	}
	return r, now
}

// BenchmarkTop ranks 20,000 statements within seven days that start and end within days: from six files of
// days, 24 of hours, and the table's counters for the current hour.
func BenchmarkTop(b *testing.B) {
	r, now := benchRollups(b, 20_000)
	for _, c := range []struct {
		name string
		q    statements.TopQuery
	}{
		{"50 of 7 days", statements.TopQuery{}},
		{"50 of 7 days by errors", statements.TopQuery{By: statements.ByErrors}},
		{"50 of 7 days by rows", statements.TopQuery{By: statements.ByCounter(stmtstats.RowsSent)}},
		{"50 of 7 days by mean", statements.TopQuery{By: statements.ByMean}},
		{"50 of 7 days by p99", statements.TopQuery{By: statements.ByP99}},
		{"50 of 7 days with a word", statements.TopQuery{Filter: "c777"}},
		{"50 of 7 days with points", statements.TopQuery{Points: 84}},
		{"50 of 7 days with points and the time before", statements.TopQuery{Points: 84, Compare: true}},
		{"50 of 3 days by p99 with points and the time before", statements.TopQuery{Points: 84, Compare: true, By: statements.ByP99}},
	} {
		b.Run(c.name, func(b *testing.B) {
			days := 7
			if c.q.Compare && c.q.By == statements.ByP99 {
				days = 3
			}
			c.q.From, c.q.To = now.AddDate(0, 0, -days), now
			b.ReportAllocs()
			for b.Loop() {
				top, err := r.reader.Top(b.Context(), c.q)
				if err != nil || top.Matching == 0 || len(top.Notes) > 0 || len(top.Rows) == 0 {
					b.Fatalf("%+v: %v", top, err)
				}
			}
		})
	}
}
