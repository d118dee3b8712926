package web

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/querylog"
)

// maxPageBytes bounds a page, uncompressed: the server does not compress.
const maxPageBytes = 150 << 10

// TestPageBytes requests the pages of 20,000 statements, with all that a page shows at most.
func TestPageBytes(t *testing.T) {
	o, f := pageOptions()
	f.rows = 20_000
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxMarks {
		store.Add(markers.Marker{Kind: "deploy", Title: fmt.Sprint("release ", i, " ", strings.Repeat("x", 100)), User: "ci"})
	}
	o.Markers, o.Calls, o.Counts = store, fakeCalls{}, fakeCounts{}
	h := New(o).Handler()
	for _, path := range []string{"/", "/queries", "/queries?page=400", "/query/" + someDigest, "/incident/" + someDigest} {
		for _, span := range []string{"now-15m", "now-7d"} {
			at := path + "?from=" + span
			if strings.Contains(path, "?") {
				at = path + "&from=" + span
			}
			code, body := browse(t, h, at, "")
			if code != 200 || len(body) > maxPageBytes {
				t.Errorf("%s: %d, %d bytes, at most %d are allowed", at, code, len(body), maxPageBytes)
			}
		}
	}
}

// sevenDays writes seven days of rollups of this many statements, and returns their reader, its clock and one of the
// digests.
func sevenDays(b *testing.B, digests int) (reader *statements.ArchiveReader, now *time.Time, digest string) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	done := start.Add(7*24*time.Hour + 10*time.Hour)
	at := done.Add(20 * time.Minute)
	now = &at
	clock := func() time.Time { return *now }
	table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: digests, Bytes: int64(digests+1000) << 12, Now: clock})
	must(err)
	b.Cleanup(func() { _ = table.Close() })
	bucket, gateway := teststore.OverDir(b, b.TempDir(), teststore.ForHistory)
	quiet := slog.New(slog.DiscardHandler)
	archive, err := history.OpenArchive(history.ArchiveOptions{
		Source: table, Dir: b.TempDir(), Labels: map[string]string{history.InstanceLabel: "gw-1"},
		Bucket: bucket, Gateway: gateway, Interval: time.Minute, LocalAge: 5 * time.Hour, Now: clock, Log: quiet,
	})
	must(err)
	b.Cleanup(func() { _ = archive.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	up := &rollup.Rollup{}
	for n := range digests {
		k := stmtstats.Key{Schema: "shop", User: "app", Backend: "127.0.0.1:3306"}
		binary.BigEndian.PutUint64(k.Digest[:], rng.Uint64())
		k.Digest[0] = 2 // version
		digest = hex.EncodeToString(k.Digest[:])
		text := fmt.Sprintf("SELECT c%d FROM t WHERE id = ? AND name = ? ORDER BY created LIMIT ?", n)
		up.Rows = append(up.Rows, rollup.Row{Print: rollup.PrintOf(&k), Key: k, Text: text})
		table.Observe(&querylog.Record{
			Start: done.Add(time.Minute), Total: time.Millisecond, Digest: k.Digest, Schema: k.Schema, User: k.User, Backend: k.Backend,
			Normalized: []byte(text), RowsReturned: 1, BytesOut: 100,
		})
	}
	write := func(at time.Time, span time.Duration) {
		up.Start, up.Span = at, span
		for i := range up.Rows {
			row := &up.Rows[i]
			var h stmtstats.Histogram
			for range 10 {
				h.Record(time.Duration(float64(time.Millisecond) * float64(1+row.Print[0]%20) * rng.ExpFloat64()))
			}
			row.Last = at.UnixMilli() + 1000
			row.Counts = stmtstats.Counts{stmtstats.Calls: h.Count(), stmtstats.Nanos: h.Nanos, stmtstats.RowsSent: rng.Uint64N(1000), stmtstats.BytesSent: rng.Uint64N(1e6)}
			row.Spread = h.AppendSpread(nil)
		}
		must(archive.Instances()[0].Rollups.Write(up))
	}
	for at := start; at.Before(done); at = at.Add(time.Hour) {
		write(at, rollup.Hour)
		if end := at.Add(time.Hour); end.Truncate(rollup.Day).Equal(end) {
			write(at.Truncate(rollup.Day), rollup.Day)
		}
	}
	return statements.NewArchiveReader(archive, table), now, digest
}

// cpuTime returns the CPU time of this process, which other processes do not change much.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkPages renders pages of 20,000 statements over seven days from rollups: the time of the server and the bytes of
// each page, which are bounded. The first page of a second reads the current counters, the next ones share them.
func BenchmarkPages(b *testing.B) {
	reader, now, digest := sevenDays(b, 20_000)
	o := testOptions()
	o.Statements = reader
	o.Now = func() time.Time { return *now }
	h := New(o).Handler()
	for _, path := range []string{"/?from=", "/queries?from=", "/queries?sort=p99&from=", "/queries?group=user&from=", "/queries?filter=calls%3E10&from=", "/query/" + digest + "?from=", "/incident/" + digest + "?from="} {
		for name, step := range map[string]time.Duration{"/first of a second": 2 * time.Second, "/next": 0} {
			b.Run(strings.ReplaceAll(path, digest, "DIGEST")+name, func(b *testing.B) {
				size, n, before := 0, 0, cpuTime(b)
				for b.Loop() {
					n++ // each request has another range, so that no page comes from the cache
					*now = now.Add(step)
					code, body := browse(b, h, path+fmt.Sprint(now.Add(-7*24*time.Hour).Unix()+int64(n))+"&to=now", "")
					if code != 200 || len(body) > maxPageBytes {
						b.Fatalf("%d, %d bytes: %.2000s", code, len(body), body)
					}
					size = max(size, len(body))
				}
				b.ReportMetric(float64(size), "bytes/page")
				b.ReportMetric(float64(cpuTime(b)-before)/float64(n), "cpu-ns/op")
			})
		}
	}
}
