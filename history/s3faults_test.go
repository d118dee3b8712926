package history_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/tsblock"
)

var faultRounds = flag.Int("s3-fault-rounds", 1, "rounds of TestShipS3Faults and TestMove; from 2 each fault alone too")

// s3Bucket opens a bucket behind a proxy.
func s3Bucket(t *testing.T, p *testbucket.Proxy) objstore.Bucket {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	u, err := bucketurl.Parse("s3://metrics/tsdb?region=eu-test&path_style=true&insecure=true&endpoint=" + p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

// halfBlocks returns the errors of a server's blocks: those with a meta.json must be complete, byte for byte.
func (r *shipRig) halfBlocks(s *testbucket.Server, blocks []tsdb.BlockMeta) (whole int, wrong []string) {
	r.t.Helper()
	for _, m := range blocks {
		prefix := "tsdb/" + m.ULID.String() + "/"
		if _, ok := s.Get(prefix + tsblock.MetaFile); !ok {
			continue
		}
		whole++
		for name, want := range r.objectsOf(m.ULID) {
			if got, _ := s.Get(prefix + name); !sameObject(name, got, want) {
				wrong = append(wrong, prefix+name)
			}
		}
	}
	return whole, wrong
}

// TestShipS3Faults ships blocks to an S3 server behind a proxy with faults, each alone and all together: a
// block with a meta.json is complete, and after the faults every block is there once.
func TestShipS3Faults(t *testing.T) {
	seed := testseed.New(t)
	dir := t.TempDir()
	blocks := makeBlocks(t, dir, 2)
	server := testbucket.NewServer()
	proxy := testbucket.StartProxy(t, seed, server, server.Get)
	bucket := s3Bucket(t, proxy)
	r := newShipRig(t, dir)
	rounds := []testbucket.Rules{{Kinds: testbucket.All, Rate: 0.3}}
	for _, kind := range testbucket.All {
		if *faultRounds > 1 && kind != testbucket.Lacks { // a shipper lists nothing
			rounds = append(rounds, testbucket.Rules{Kinds: []testbucket.Fault{kind}, Rate: 0.5})
		}
	}
	for _, rules := range rounds {
		server.Delete("tsdb/")
		if err := os.RemoveAll(filepath.Join(dir, shippedFile)); err != nil {
			t.Fatal(err)
		}
		proxy.Break(rules)
		for range 3 {
			r.open(bucket) // as after a restart
			r.archive.LimitCalls(0, 200*time.Millisecond)
			failed := r.archive.Ship(t.Context())
			r.close()
			whole, wrong := r.halfBlocks(server, blocks)
			if len(wrong) > 0 || failed == nil && whole != len(blocks) {
				t.Fatalf("%v: shipping returns %v, %d of %d blocks have a meta.json; different from the local files: %v", rules.Kinds, failed, whole, len(blocks), wrong)
			}
			if ids := readShipped(t, dir); len(ids) > whole {
				t.Fatalf("%v: %d blocks are recorded as shipped, %d are", rules.Kinds, len(ids), whole)
			}
		}
		proxy.Heal()
		if _, err := r.shipOnce(bucket); err != nil {
			t.Fatalf("after %v: %v", rules.Kinds, err)
		}
		if whole, wrong := r.halfBlocks(server, blocks); whole != len(blocks) || len(wrong) > 0 {
			t.Errorf("after %v: %d of %d blocks, different: %v", rules.Kinds, whole, len(blocks), wrong)
		}
	}
	t.Logf("faults: %v", proxy.Done())
}

// newS3Hourglass returns an hourglass whose bucket is an S3 server behind a proxy. limit bounds each call to
// the bucket.
func newS3Hourglass(t *testing.T, seed uint64, limit time.Duration) (*hourglass, *testbucket.Proxy, *testbucket.Server) {
	t.Helper()
	server := testbucket.NewServer()
	proxy := testbucket.StartProxy(t, seed, server, server.Get)
	bucket := s3Bucket(t, proxy)
	o := teststore.Options(t, bucket)
	teststore.ForHistory(&o)
	o.PlainBucket, o.CallTimeout, o.CallTries, o.Cache = true, limit, 2, tsblock.NewCache(256<<10)
	g := teststore.New(t, o)
	h := newHourglass(t, func(o *history.ArchiveOptions) {
		o.Interval, o.LocalAge = time.Minute, 2*time.Hour
		o.Bucket, o.Gateway = bucket, g
	})
	h.archive.LimitCalls(0, limit)
	h.must(g.Sync(t.Context())) // before it, results lack what the bucket may have
	h.rig.gateway = g
	return h, proxy, server
}

// evaluate returns the result of an expression, and the error or the warnings that name unreadable data.
func (h *hourglass) evaluate(ctx context.Context, expr string, at time.Time) (string, error) {
	q, err := h.engine.NewInstantQuery(ctx, h.archive.Queryable(), nil, expr, at)
	if err != nil {
		return "", err
	}
	defer q.Close()
	r := q.Exec(ctx)
	if len(r.Warnings) > 0 && r.Err == nil {
		return fmt.Sprint(r.Value), fmt.Errorf("warnings: %v", r.Warnings)
	}
	return fmt.Sprint(r.Value), r.Err
}

// TestMove moves samples from the head to blocks, to the bucket, and out of the local directory, while a
// bucket refuses, stalls, damages and lies, and queries run: each result is the previous one, or an error
// that names a block and the bucket. After the faults all results are as before.
func TestMove(t *testing.T) {
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 1))
	h, proxy, server := newS3Hourglass(t, seed, 200*time.Millisecond)
	for n := range 11 * 60 {
		for range 1 + r.IntN(3) {
			h.model.call(r.IntN(5), h.now.Add(time.Second), time.Duration(1+r.IntN(50))*time.Millisecond, r.IntN(9) == 0)
		}
		if n%200 == 150 {
			h.model.evict(r.IntN(5), h.now)
		}
		h.round(time.Minute)
	}
	h.rolledUp(h.now.Add(time.Hour)) // rollups need no further samples

	type question struct {
		expr, want string
		at         time.Time
	}
	var questions []question
	exprs := []string{
		"sum(tare_queries_total)", "sum by (digest) (tare_queries_total)", "sum(increase(tare_queries_total[1h]))", "count(tare_queries_total)",
		"sum(histogram_count(tare_query_duration_seconds))", "sum by (digest) (count_over_time(tare_queries_total[90m]))",
		"max_over_time(sum(tare_queries_total)[3h:10m])", `tare_query_errors_total{class="deadlock"}`, "sum(resets(tare_queries_total[5h]))",
	}
	for range 40 {
		q := question{expr: exprs[r.IntN(len(exprs))], at: h.now.Add(-time.Duration(r.IntN(600)) * time.Minute)}
		var err error
		if q.want, err = h.evaluate(t.Context(), q.expr, q.at); err != nil {
			t.Fatal(err)
		}
		questions = append(questions, q)
	}
	wrong := func(when string, faults bool) (failed int) {
		t.Helper()
		for _, q := range questions {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got, err := h.evaluate(ctx, q.expr, q.at)
			for err != nil && !faults && ctx.Err() == nil { // a busy machine may be slower than the limit of a call
				got, err = h.evaluate(ctx, q.expr, q.at)
			}
			cancel()
			switch {
			case err != nil && faults && (strings.Contains(err.Error(), "bucket metrics") || strings.Contains(err.Error(), "incomplete result")) && slices.ContainsFunc(server.Keys(), func(key string) bool { return strings.Contains(err.Error(), key[5:31]) }):
				failed++
			case err != nil:
				t.Errorf("%s: %s at %v: %v", when, q.expr, q.at, err)
			case got != q.want:
				t.Errorf("%s: %s at %v is\n%s\nwant\n%s", when, q.expr, q.at, got, q.want)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
		return failed
	}
	h.must(h.archive.Maintain(t.Context()))
	wrong("in blocks", false)
	kinds := slices.DeleteFunc(slices.Clone(testbucket.All), func(f testbucket.Fault) bool { return f == testbucket.Flip || f == testbucket.Short }) // damaged blocks name no bucket
	proxy.Break(testbucket.Rules{Kinds: kinds, Rate: 0.3})
	failed, rounds := 0, 3**faultRounds
	for range rounds {
		_ = h.archive.Ship(t.Context())         // it may fail
		_ = h.rig.gateway.Sync(t.Context())     // it may fail
		h.must(h.archive.Maintain(t.Context())) // deletes local blocks that are served
		failed += wrong("while shipping", true)
	}
	proxy.Heal()
	h.archive.LimitCalls(0, time.Minute)
	h.must(h.archive.Ship(t.Context()))
	for h.rig.gateway.Sync(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal("no sync goes through")
		}
	}
	h.must(h.archive.Maintain(t.Context()))
	wrong("afterwards", false)
	if start := localdb.NewDatabase(h.db()).WholeStart(); start < h.now.Add(-6*time.Hour).UnixMilli() || len(h.rig.gateway.Blocks()) < 4 {
		t.Errorf("local data begins at %v; the bucket serves %d blocks: nothing has moved", time.UnixMilli(start), len(h.rig.gateway.Blocks()))
	}
	t.Logf("%d of %d results failed; faults: %v", failed, rounds*len(questions), proxy.Done())
}

// TestUnlistedBlock checks that a shipped block stays local while the bucket's listings lack it, until the
// gateway serves it.
func TestUnlistedBlock(t *testing.T) {
	h, proxy, server := newS3Hourglass(t, 1, time.Minute) // no fault delays a call
	for range 9 * 60 {
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.round(time.Minute)
	}
	h.rolledUp(h.now.Add(time.Hour)) // rollups need no further samples
	h.must(h.archive.Maintain(t.Context()))
	h.must(h.archive.Ship(t.Context()))
	blocks := h.db().BlockMetas()
	old := blocks[:len(blocks)-1] // all of them are older than LocalAge
	proxy.Break(testbucket.Rules{Kinds: []testbucket.Fault{testbucket.Lacks}, Rate: 1})
	h.must(h.rig.gateway.Sync(t.Context()))
	h.must(h.archive.Maintain(t.Context()))
	isLocal := func(id ulid.ULID) bool {
		return slices.ContainsFunc(h.db().BlockMetas(), func(m tsdb.BlockMeta) bool { return m.ULID == id })
	}
	var unserved []ulid.ULID
	for _, m := range old {
		served := h.rig.gateway.Serves("", m.ULID)
		if isLocal(m.ULID) == served {
			t.Errorf("block %s is local: %v; the gateway serves it: %v", m.ULID, !served, served)
		}
		if !served {
			unserved = append(unserved, m.ULID)
		}
	}
	if n := len(unserved); n == 0 || n == len(old) {
		t.Fatalf("%d of %d blocks are not served", n, len(old))
	}
	proxy.Heal()
	// A block deleted by a compactor need not be served under its id.
	server.Delete("tsdb/" + unserved[0].String())
	h.must(h.rig.gateway.Sync(t.Context()))
	h.must(h.archive.Ship(t.Context()))
	h.must(h.archive.Maintain(t.Context()))
	for _, m := range old {
		if isLocal(m.ULID) {
			t.Errorf("block %s is still local", m.ULID)
		}
	}
}
