package tsblock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// A diskTest is a block in memory that is read with and without a disk cache.
type diskTest struct {
	env    *testEnv
	name   string
	source *noisyObjects
	quota  *slab.Quota
	dir    string // of the disk cache
	bytes  int64
	disk   *diskcache.Cache
	shared *sharedcache.Cache
}

// noisyObjects counts reads of a block's index and chunks after the header was built, and changes their bytes.
type noisyObjects struct {
	*memorySource
	costs Costs

	guard sync.Mutex
	calls int
	noise func(call int, dst []byte)
}

func (s *noisyObjects) Costs() Costs { return s.costs }

func (s *noisyObjects) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	n, err := s.memorySource.ReadRange(ctx, name, off, dst)
	if strings.HasSuffix(name, MetaFile) {
		return n, err
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.calls++
	if s.noise != nil && n > 0 {
		s.noise(s.calls, dst[:n])
	}
	return n, err
}

// reset returns the number of calls since the previous reset, and sets the noise.
func (s *noisyObjects) reset(noise func(call int, dst []byte)) int {
	s.guard.Lock()
	defer s.guard.Unlock()
	n := s.calls
	s.calls, s.noise = 0, noise
	return n
}

func newDiskTest(t *testing.T, seed uint64, costs Costs) *diskTest {
	t.Helper()
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 80, Samples: 1500, Step: 15_000}
	id, err := testblock.Write(dir, slices.Values(testblock.Random(rand.New(rand.NewPCG(seed, 4)), o)), testblock.Options{
		ChunkRange: o.ChunkRange(), SegmentBytes: 100 << 10, External: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &memorySource{objects: make(map[string][]byte)}
	err = filepath.WalkDir(filepath.Join(dir, id.String()), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		m.objects[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &diskTest{env: newEnv(t), name: id.String(), source: &noisyObjects{memorySource: m, costs: costs}, dir: t.TempDir(), bytes: 16 << 20}
	d.quota, err = d.env.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.quota.Close)
	t.Cleanup(func() { d.close(t) })
	return d
}

// open opens the disk cache again.
func (d *diskTest) open(t *testing.T) {
	t.Helper()
	d.close(t)
	var err error
	d.disk, err = diskcache.Open(diskcache.Options{Dir: d.dir, Bytes: d.bytes, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
}

func (d *diskTest) close(t *testing.T) {
	t.Helper()
	if d.disk == nil {
		return
	}
	if err := d.disk.Close(); err != nil {
		t.Error(err)
	}
	d.disk = nil
}

func (d *diskTest) written(t *testing.T) {
	t.Helper()
	testwait.Equal(t, "pages that wait to be written", 0, func() int64 { return d.disk.Stats().Queued })
}

// block opens the block with an empty cache in memory.
func (d *diskTest) block(t *testing.T) *Block {
	t.Helper()
	o := d.env.options
	o.Cache, o.Disk, o.Shared = NewCache(64<<20), d.disk, d.shared
	b, err := openBlock(t.Context(), d.source, d.name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// A diskQuery selects series of the block.
type diskQuery struct {
	matcher    *labels.Matcher
	mint, maxt int64
}

func randomDiskQuery(rng *rand.Rand) diskQuery {
	q := diskQuery{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), math.MinInt64, math.MaxInt64}
	if rng.IntN(3) > 0 {
		q.matcher = labels.MustNewMatcher(labels.MatchRegexp, "__name__", fmt.Sprintf(".*[%c%c].*", 'a'+rng.IntN(26), '0'+rng.IntN(10)))
	}
	if rng.IntN(3) > 0 {
		q.mint = rng.Int64N(1500 * 15_000)
		q.maxt = q.mint + rng.Int64N(200*15_000)
	}
	return q
}

// read returns all series of a query with their chunks, as text, and the counts.
func (d *diskTest) read(t *testing.T, b *Block, q diskQuery) (all []string, stats Stats, err error) {
	t.Helper()
	r := b.Reader(d.quota)
	defer r.Close()
	p, err := r.Postings(t.Context(), q.matcher)
	if err != nil {
		return nil, r.Stats(), err
	}
	series := r.Series(p, Select{MinTime: q.mint, MaxTime: q.maxt, BatchBytes: 4 << 10})
	for {
		batch, err := series.Next(t.Context())
		if errors.Is(err, ErrNoMoreSeries) {
			return all, r.Stats(), nil
		}
		if err == nil {
			err = r.LoadChunks(t.Context(), batch)
		}
		if err != nil {
			return nil, r.Stats(), err
		}
		for i := range batch.Len() {
			text := fmt.Appendf(nil, "%s", promLabels(batch.Labels(i)))
			for j := range batch.Chunks(i) {
				encoding, data := batch.Data(i, j)
				text = fmt.Appendf(text, " %d:%x", encoding, data)
			}
			all = append(all, string(text))
		}
		batch.Release()
	}
}

// same reads the query and fails the test if the result is not the wanted one.
func (d *diskTest) same(t *testing.T, what string, b *Block, q diskQuery, want []string) Stats {
	t.Helper()
	got, stats, err := d.read(t, b, q)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: %s", what, diff)
	}
	for kind, u := range map[string]Usage{"postings": stats.Postings, "series": stats.Series, "chunks": stats.Chunks} {
		if u.Wasted < 0 || d.disk == nil && u.Disk > 0 || d.shared == nil && u.Shared > 0 {
			t.Fatalf("%s: %s: %+v", what, kind, u)
		}
	}
	return stats
}

// fetched returns the bytes of index and chunks that came from the bucket, and those from the disk cache.
func fetched(s *Stats) (bucket, disk int64) {
	for _, u := range []Usage{s.Postings, s.Series, s.Chunks} {
		bucket += u.Fetched
		disk += u.Disk
	}
	return bucket, disk
}

// TestDiskCache reads the same with and without a disk cache, when it is cold, warm, and after a restart. A warm one
// makes the bucket unnecessary.
func TestDiskCache(t *testing.T) {
	for name, costs := range readings {
		t.Run(name, func(t *testing.T) {
			rng := testseed.Rand(t)
			d := newDiskTest(t, 4, costs)
			for round := range 8 {
				q := randomDiskQuery(rng)
				d.close(t)
				want, _, err := d.read(t, d.block(t), q)
				if err != nil {
					t.Fatal(err)
				}
				d.open(t)
				d.same(t, "cold or in part", d.block(t), q, want)
				d.written(t)
				if round%2 == 0 {
					d.open(t) // a restart
				}
				b := d.block(t)
				d.source.reset(nil)
				stats := d.same(t, "warm", b, q, want)
				bucket, disk := fetched(&stats)
				if calls := d.source.reset(nil); calls > 0 || bucket > 0 || len(want) > 0 && disk == 0 {
					t.Errorf("a warm read of %d series takes %d reads of the bucket, %d bytes of it and %d of the disk cache", len(want), calls, bucket, disk)
				}
				if s := d.disk.Stats(); s.Damaged+s.Errors+s.Dropped > 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestDiskCacheTooSmall reads through a cache that has room for some pages of the block.
func TestDiskCacheTooSmall(t *testing.T) {
	rng := testseed.Rand(t)
	d := newDiskTest(t, 4, Costs{Gap: 4 << 10, Calls: 4})
	d.bytes = diskcache.MinBytes
	all := randomDiskQuery(rand.New(rand.NewPCG(0, 0)))
	all.matcher, all.mint, all.maxt = labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), math.MinInt64, math.MaxInt64
	for range 20 {
		q := randomDiskQuery(rng)
		d.close(t)
		want, _, err := d.read(t, d.block(t), q)
		if err != nil {
			t.Fatal(err)
		}
		wantAll, _, err := d.read(t, d.block(t), all)
		if err != nil {
			t.Fatal(err)
		}
		d.open(t)
		d.same(t, "a part", d.block(t), q, want)
		d.same(t, "all", d.block(t), all, wantAll)
	}
}

// TestDiskCacheDamaged changes bytes of the cache's file, while it is open and while it is not.
func TestDiskCacheDamaged(t *testing.T) {
	rng := testseed.Rand(t)
	d := newDiskTest(t, 4, Costs{Gap: 4 << 10, Calls: 4})
	d.bytes = 4 << 20
	damaged := uint64(0)
	for round := range 20 {
		q := randomDiskQuery(rng)
		d.close(t)
		want, _, err := d.read(t, d.block(t), q)
		if err != nil {
			t.Fatal(err)
		}
		d.open(t)
		d.same(t, "cold or in part", d.block(t), q, want)
		d.written(t)
		if round%2 == 0 {
			d.close(t)
		}
		path := filepath.Join(d.dir, "pages")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 400 {
			text[rng.IntN(len(text))] ^= byte(1 + rng.IntN(255))
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if d.disk == nil {
			d.open(t)
		}
		d.same(t, "damaged", d.block(t), q, want)
		damaged += d.disk.Stats().Damaged
	}
	if damaged == 0 {
		t.Error("no damaged page was read")
	}
}

// TestDamagedBeforeTheDiskCache damages one read of the bucket, for every third one, so that a damaged page may be
// stored: no query fails, and none has another result, then and later.
func TestDamagedBeforeTheDiskCache(t *testing.T) {
	rng := testseed.Rand(t)
	d := newDiskTest(t, 4, Costs{Gap: 256 << 10, Calls: 1})
	q := diskQuery{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*[a-m].*"), math.MinInt64, math.MaxInt64}
	all := q
	all.matcher = labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*")
	plain := d.block(t)
	d.source.reset(nil)
	want, _, err := d.read(t, plain, q)
	if err != nil {
		t.Fatal(err)
	}
	calls := d.source.reset(nil)
	wantAll, _, err := d.read(t, plain, all)
	if err != nil {
		t.Fatal(err)
	}
	if calls < 4 {
		t.Fatalf("%d reads", calls)
	}
	for call := 1 + rng.IntN(3); call <= calls; call += 3 {
		d.close(t)
		d.dir = t.TempDir()
		d.open(t)
		b := d.block(t)
		d.source.reset(func(n int, dst []byte) {
			if n == call {
				for i := 0; i < len(dst); i += 1 + rng.IntN(8000) { // in most pages, those of gaps too
					dst[i] ^= 1
				}
			}
		})
		d.same(t, fmt.Sprintf("read %d damaged", call), b, q, want)
		d.source.reset(nil)
		d.written(t)
		d.same(t, "later", d.block(t), q, want)
		d.same(t, "later, all", d.block(t), all, wantAll)
	}
}

// TestDiskCacheOfAnotherIndex opens a block that was written again under its ULID, with other series and an index of
// another size: none of the former pages is used.
func TestDiskCacheOfAnotherIndex(t *testing.T) {
	d := newDiskTest(t, 4, Costs{Gap: 4 << 10, Calls: 1})
	d.open(t)
	q := diskQuery{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), math.MinInt64, math.MaxInt64}
	if _, _, err := d.read(t, d.block(t), q); err != nil {
		t.Fatal(err)
	}
	d.written(t)
	other := newDiskTest(t, 5, d.source.costs)
	want, _, err := other.read(t, other.block(t), q)
	if err != nil {
		t.Fatal(err)
	}
	// The other block, whose index is followed by unused bytes, under the name of the first.
	for name, object := range other.source.objects {
		if strings.HasSuffix(name, "/index") {
			toc := len(object) - 52
			object = slices.Concat(object[:toc], make([]byte, 100), object[toc:])
		}
		if strings.HasSuffix(name, MetaFile) {
			object = bytes.ReplaceAll(object, []byte(other.name), []byte(d.name))
		}
		d.source.objects[strings.Replace(name, other.name, d.name, 1)] = object
	}
	d.env.options.LocalDir = t.TempDir()
	d.same(t, "the other index", d.block(t), q, want)
}

// TestRemoveForgetsPages removes a block: its pages leave the disk cache. Close keeps them.
func TestRemoveForgetsPages(t *testing.T) {
	d := newDiskTest(t, 4, Costs{Gap: 4 << 10, Calls: 1})
	d.open(t)
	q := diskQuery{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), math.MinInt64, math.MaxInt64}
	b := d.block(t)
	if _, _, err := d.read(t, b, q); err != nil {
		t.Fatal(err)
	}
	d.written(t)
	b.Close()
	pages := d.disk.Stats().Entries
	if pages < 10 {
		t.Fatalf("%d pages", pages)
	}
	d.block(t).Remove()
	testwait.Equal(t, "pages of the removed block", 0, func() int64 { return d.disk.Stats().Entries })
}

// TestAlignRanges widens random ranges: they start and end at pages, contain the former ones in order, share at most
// a page, and stay below the maximum.
func TestAlignRanges(t *testing.T) {
	rng := testseed.Rand(t)
	for range 500 {
		var ranges []Range
		off, segment, ref := int64(0), uint32(0), 0
		for range 1 + rng.IntN(20) {
			if rng.IntN(5) == 0 {
				segment, off = segment+1, 0
			}
			off += rng.Int64N(3) * rng.Int64N(40<<10)
			r := Range{Off: off, Len: 1 + rng.Int64N([]int64{100, 50 << 10, defaultMaxRange}[rng.IntN(3)]), Segment: segment, First: ref, End: ref + 1 + rng.IntN(3)}
			off, ref = off+r.Len, r.End
			ranges = append(ranges, r)
		}
		got := alignRanges(slices.Clone(ranges))
		k := 0
		for i, g := range got {
			if g.Off%pageSize != 0 || g.Len%pageSize != 0 || g.Len > defaultMaxRange+pageSize || i > 0 && g.First != got[i-1].End {
				t.Fatalf("%+v became %+v", ranges, got)
			}
			if i > 0 && g.Segment == got[i-1].Segment && g.Off < got[i-1].Off+got[i-1].Len-pageSize {
				t.Fatalf("%+v and %+v share more than a page", got[i-1], g)
			}
			for ; k < len(ranges) && ranges[k].End <= g.End; k++ {
				if r := ranges[k]; r.Segment != g.Segment || r.Off < g.Off || r.Off+r.Len > g.Off+g.Len {
					t.Fatalf("%+v is not in %+v", r, g)
				}
			}
		}
		if k != len(ranges) {
			t.Fatalf("%+v became %+v", ranges, got)
		}
	}
}

// TestDiskCacheAllocs lists the allocations of loading chunks: as many from the disk cache as from the bucket.
func TestDiskCacheAllocs(t *testing.T) {
	for _, cached := range []bool{false, true} {
		d := newDiskTest(t, 4, Costs{Gap: 1 << 20, Calls: 1})
		if cached {
			d.open(t)
		}
		testLoadAllocs(t, d)
	}
}

func testLoadAllocs(t *testing.T, d *diskTest) {
	t.Helper()
	b := d.block(t)
	r := b.Reader(d.quota)
	defer r.Close()
	p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := r.Series(p, Select{MinTime: 0, MaxTime: 100 * 15_000, BatchBytes: 4 << 10}).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	load := func() error {
		batch.DropChunks()
		return r.LoadChunks(t.Context(), batch)
	}
	if err := load(); err != nil {
		t.Fatal(err)
	}
	if d.disk != nil {
		d.written(t)
	}
	d.source.reset(nil)
	alloctest.Run(t, []alloctest.Case{{Name: fmt.Sprintf("the chunks of a batch, disk cache %v", d.disk != nil), PerThousand: 16_000, Op: load}})
	if calls := d.source.reset(nil); d.disk != nil && calls > 0 {
		t.Errorf("%d reads of the bucket", calls)
	}
}
