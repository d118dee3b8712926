package tsblock

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/store/sharedcache"
	"github.com/taredb/tare/internal/testmemcached"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// share makes the test's blocks use the servers.
func (d *diskTest) share(t *testing.T, servers ...*testmemcached.Server) {
	t.Helper()
	o := sharedcache.Options{Bucket: sharedcache.Bucket{1}, Timeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler)}
	for _, s := range servers {
		o.Servers = append(o.Servers, s.Addr)
	}
	var err error
	if d.shared, err = sharedcache.Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.shared.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (d *diskTest) sharedWritten(t *testing.T) {
	t.Helper()
	testwait.Equal(t, "bytes that wait to be written", 0, func() int64 { return d.shared.Stats().Queued })
}

// fromShared returns the bytes of index and chunks that came from memcached.
func fromShared(s *Stats) int64 { return s.Postings.Shared + s.Series.Shared + s.Chunks.Shared }

// TestSharedCache reads the same through memcached as without it, and with a local disk in between. Pages that one
// instance has stored make the bucket unnecessary for another; then its own disk makes memcached unnecessary.
func TestSharedCache(t *testing.T) {
	for name, costs := range readings {
		t.Run(name, func(t *testing.T) {
			rng := testseed.Rand(t)
			d := newDiskTest(t, 4, costs)
			servers := []*testmemcached.Server{testmemcached.Start(t), testmemcached.Start(t)}
			for round := range 6 {
				q := randomDiskQuery(rng)
				shared := d.shared
				d.close(t)
				d.shared = nil
				want, _, err := d.read(t, d.block(t), q)
				if err != nil {
					t.Fatal(err)
				}
				if d.shared = shared; shared == nil {
					d.share(t, servers...)
				}
				d.same(t, "cold or in part", d.block(t), q, want)
				d.sharedWritten(t)
				b := d.block(t) // of another instance
				if round%2 == 0 {
					d.dir = t.TempDir()
					d.open(t)
					b = d.block(t)
				}
				d.source.reset(nil)
				stats := d.same(t, "shared", b, q, want)
				bucket, disk := fetched(&stats)
				if calls := d.source.reset(nil); calls > 0 || bucket > 0 || len(want) > 0 && fromShared(&stats) == 0 {
					t.Errorf("%d series: %d reads of the bucket, %d bytes of it, %d from disk, %d from memcached", len(want), calls, bucket, disk, fromShared(&stats))
				}
				if d.disk != nil {
					d.written(t)
					stats = d.same(t, "on disk", d.block(t), q, want)
					if bucket, disk := fetched(&stats); bucket+fromShared(&stats) > 0 || len(want) > 0 && disk == 0 {
						t.Errorf("%d series: %d bytes of the bucket, %d from disk, %d from memcached", len(want), bucket, disk, fromShared(&stats))
					}
				}
				if s := d.shared.Stats(); s.Damaged+s.Failed+s.Skipped+s.Dropped+s.WritesFailed > 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestSharedCacheDamaged damages values, then stops a server: responses are the same.
func TestSharedCacheDamaged(t *testing.T) {
	rng := testseed.Rand(t)
	d := newDiskTest(t, 4, Costs{Gap: 1 << 20, Calls: 4})
	servers := []*testmemcached.Server{testmemcached.Start(t), testmemcached.Start(t)}
	q := diskQuery{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), math.MinInt64, math.MaxInt64}
	want, _, err := d.read(t, d.block(t), q)
	if err != nil {
		t.Fatal(err)
	}
	d.share(t, servers...)
	for range 5 {
		d.same(t, "stored", d.block(t), q, want)
		d.sharedWritten(t)
		for _, s := range servers {
			s.Change(func(_ string, v []byte) []byte {
				switch rng.IntN(4) {
				case 0:
					v[rng.IntN(len(v))] ^= 1 << rng.IntN(8)
				case 1:
					return v[:rng.IntN(len(v))]
				}
				return v
			})
		}
		d.same(t, "damaged", d.block(t), q, want)
		d.sharedWritten(t)
	}
	if s := d.shared.Stats(); s.Damaged == 0 || s.Hits == 0 {
		t.Errorf("%+v", s)
	}
	// Hashes of the ports place the pages: one server may have none of them.
	used := slices.MaxFunc(servers, func(a, b *testmemcached.Server) int { return cmp.Compare(a.Keys(), b.Keys()) })
	used.Stop(t)
	d.same(t, "a server stopped", d.block(t), q, want)
	if s := d.shared.Stats(); s.Failed == 0 {
		t.Errorf("%+v", s)
	}
}

// TestDamagedBeforeTheSharedCache stores damaged pages of the index and of chunks with right checksums in memcached, as an
// instance does that has read damaged bytes. Another instance finds them damaged, reads the bucket and stores the pages
// again.
func TestDamagedBeforeTheSharedCache(t *testing.T) {
	rng := testseed.Rand(t)
	d := newDiskTest(t, 4, Costs{Gap: 1 << 20, Calls: 1})
	q := diskQuery{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), math.MinInt64, math.MaxInt64}
	want, _, err := d.read(t, d.block(t), q)
	if err != nil {
		t.Fatal(err)
	}
	d.share(t, testmemcached.Start(t))
	d.same(t, "stored", d.block(t), q, want)
	d.sharedWritten(t)
	for range 4 {
		b := d.block(t)
		caches := b.caches()
		for _, file := range []string{"index", "chunks/000001"} {
			whole := slices.Clone(d.source.objects[d.name+"/"+file])
			for i := 0; i < len(whole); i += 1 + rng.IntN(8000) { // in most pages
				whole[i] ^= 1
			}
			for at := 0; at < len(whole); at += pageSize {
				d.shared.Set(caches.object(file), uint32(at>>pageBits), whole[at:min(at+pageSize, len(whole))])
			}
		}
		d.sharedWritten(t)
		d.source.reset(nil)
		d.same(t, "damaged before it was stored", b, q, want)
		if d.source.reset(nil) == 0 {
			t.Error("no read of the bucket")
		}
		d.sharedWritten(t)
		b = d.block(t)
		d.source.reset(nil)
		d.same(t, "stored again", b, q, want)
		if n := d.source.reset(nil); n > 0 {
			t.Errorf("%d reads of the bucket", n)
		}
	}
}
