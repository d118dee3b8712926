package statements_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/querylog"
)

// A rig is a table and the consecutive archives that write it, as after restarts and kills.
type rig struct {
	t       testing.TB
	table   *stmtstats.Table
	evicted map[[16]byte]time.Time // digests, and when they were evicted
	options history.ArchiveOptions
	ahead   atomic.Int64 // of the clock: a Duration
	archive *history.Archive
	reader  *statements.ArchiveReader
	end     func() // stops Run and the gateway
	engine  *promql.Engine
}

// newRig returns a rig that was not started, with a new directory, an empty bucket, and a table for this many
// digests.
func newRig(t testing.TB, digests int) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir(), "gw-1", digests)
}

// newRigIn is newRig with a given bucket.
func newRigIn(t testing.TB, bucketDir, name string, digests int) *rig {
	t.Helper()
	r := &rig{t: t, evicted: make(map[[16]byte]time.Time)}
	now := func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	r.table = openTable(t, stmtstats.Options{MaxDigests: digests, Bytes: int64(digests+1000) << 12, Now: now})
	t.Cleanup(func() { _ = r.table.Close() })
	bucket, gateway := teststore.OverDir(t, bucketDir, teststore.ForHistory)
	r.options = history.ArchiveOptions{
		Source: source{r.table, r}, Dir: t.TempDir(), Labels: map[string]string{history.InstanceLabel: name, "cluster": "eu"},
		Bucket: bucket, Gateway: gateway, Interval: time.Minute, LocalAge: 5 * time.Hour, Now: now, Log: slog.New(slog.DiscardHandler),
	}
	r.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() { _ = r.engine.Close() })
	return r
}

// A source records which digests are evicted.
type source struct {
	*stmtstats.Table
	rig *rig
}

func (s source) Collect(visit func(*stmtstats.Sample) error) error {
	return s.Table.Collect(func(sample *stmtstats.Sample) error {
		if sample.Kind == stmtstats.Removed {
			s.rig.evicted[sample.Digest] = s.rig.options.Now()
		}
		return visit(sample)
	})
}

func openTable(t testing.TB, o stmtstats.Options) *stmtstats.Table {
	t.Helper()
	table, err := stmtstats.OpenTable(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// open opens the archive.
func (r *rig) open() {
	r.t.Helper()
	var err error
	r.archive, err = history.OpenArchive(r.options)
	r.must(err)
	r.reader = statements.NewArchiveReader(r.archive, r.table)
	r.reader.Halve()
}

// start opens and runs the archive.
func (r *rig) start() {
	r.t.Helper()
	r.open()
	ctx, cancel := context.WithCancel(r.t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { _ = r.options.Gateway.Run(ctx) })
	parts.Go(func() { _ = r.archive.Run(ctx) })
	r.end = func() { cancel(); parts.Wait() }
}

// stop shuts the archive down cleanly.
func (r *rig) stop() {
	r.t.Helper()
	r.end()
	if err := r.archive.Close(); err != nil {
		r.t.Error(err)
	}
	r.table.MarkAllChanged()
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// kill simulates a kill: it copies the directory as it is now, and reopens the archive from the copy.
func (r *rig) kill() {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "killed")
	synctest.Wait() // a file that is deleted during the copy would fail it
	r.must(os.CopyFS(dir, os.DirFS(r.options.Dir)))
	r.end()
	for _, in := range r.archive.Instances() {
		r.must(in.Samples.Current().Close()) // its last writes go to the old directory
	}
	r.options.Dir, r.options.State = dir, nil
	r.table.MarkAllChanged()
	r.start()
}

// write writes one round.
func (r *rig) write() {
	r.t.Helper()
	once, cancel := context.WithCancel(r.t.Context())
	cancel() // Run writes a round, and neither ships nor waits
	r.must(r.archive.Run(once))
}

// value returns the result of a query with one number, 0 if it has none.
func (r *rig) value(query string, at time.Time) float64 {
	r.t.Helper()
	for _, v := range r.byDigest(query, at) {
		return v
	}
	return 0
}

// byDigest returns the result of a query with one number per digest.
func (r *rig) byDigest(query string, at time.Time) map[string]float64 {
	r.t.Helper()
	q, err := r.engine.NewInstantQuery(r.t.Context(), r.archive.Queryable(), nil, query, at)
	r.must(err)
	defer q.Close()
	v, err := q.Exec(r.t.Context()).Vector()
	if err != nil {
		r.t.Fatalf("%s at %v: %v", query, at, err)
	}
	values := make(map[string]float64)
	for _, s := range v {
		values[s.Metric.Get("digest")] = s.F
	}
	return values
}

func keyOf(n int) stmtstats.Key {
	return stmtstats.Key{Digest: [16]byte{byte(n >> 8), byte(n), 0xaa}, Schema: "shop", User: []string{"app", "batch"}[n%2], Backend: "db1"}
}

// keyOfDigest is the inverse of keyOf.
func keyOfDigest(digest [16]byte) int { return int(digest[0])<<8 | int(digest[1]) }

func hexOf(n int) string { return fmt.Sprintf("%x", keyOf(n).Digest) }

// call counts a call of the n-th Key that ends now; if n is negative, of a statement without a digest.
func (r *rig) call(n int, took time.Duration, failed bool) called {
	record := &querylog.Record{
		Start: r.options.Now().Add(-took), Total: took, RowsReturned: 3, BytesOut: 100, Schema: "shop", User: "app", Backend: "db1",
	}
	if n >= 0 {
		k := keyOf(n)
		record.Digest, record.User, record.Normalized = k.Digest, k.User, []byte("SELECT "+strings.Repeat("x", n%5+1))
	}
	if failed {
		record.ErrorNumber = 1213
	}
	r.table.Observe(record)
	return called{r.options.Now(), n, took, failed}
}
