package teststore

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// Options returns the options of a gateway over a bucket: four queries of 16 MiB.
func Options(tb testing.TB, bucket objstore.Bucket) storegateway.Options {
	return storegateway.Options{
		Options: blocksync.Options{
			Bucket:  bucket,
			DataDir: tb.TempDir(),
			Cache:   tsblock.NewCache(4 << 20),
			Pool:    slab.NewPool(slab.PoolOptions{}),
			Entries: tsblock.NewEntries(slab.EntriesOptions{}),
			Log:     slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20}),
	}
}

// New returns a gateway that is closed at the end of the test, with all bytes of queries and slabs returned.
func New(tb testing.TB, o storegateway.Options) *storegateway.Gateway {
	tb.Helper()
	g, err := storegateway.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
		if s := o.Gate.Stats(); s.Held != 0 || s.Running != 0 || s.Misused != 0 {
			tb.Errorf("the gate is left with %+v", s)
		}
		if out := o.Pool.Stats().OutBytes + g.Entries().Stats().OutBytes; out != 0 {
			tb.Errorf("%d bytes of slabs are left out", out)
		}
	})
	return g
}

// OverDir returns the bucket in a directory and a gateway over it that has not synced. change, if not nil,
// changes the options of the gateway.
func OverDir(tb testing.TB, dir string, change func(*storegateway.Options)) (objstore.Bucket, *storegateway.Gateway) {
	tb.Helper()
	url, err := bucketurl.Parse("file://" + dir)
	if err != nil {
		tb.Fatal(err)
	}
	bucket, err := url.Open()
	if err != nil {
		tb.Fatal(err)
	}
	o := Options(tb, bucket)
	o.LocalBucket = dir
	if change != nil {
		change(&o)
	}
	return bucket, New(tb, o)
}

// ForHistory are options of OverDir: the gateway of an archive.
func ForHistory(o *storegateway.Options) {
	o.Layout, o.Cache = blocksync.LayoutThanos, tsblock.NewCache(8<<20)
	o.SyncInterval = 10 * time.Minute // each reads the whole bucket
	o.Gate = slab.NewGate(slab.GateOptions{Bytes: 256 << 20, PerQuery: 64 << 20})
}

// Open returns a gateway that has synced with a directory of blocks. change, if not nil, changes its options.
func Open(tb testing.TB, dir string, change func(*storegateway.Options)) *storegateway.Gateway {
	tb.Helper()
	_, g := OverDir(tb, dir, change)
	if err := g.Sync(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return g
}

// WaitForIdle waits until no query runs: handlers return after their clients. Then nothing may be reserved.
func WaitForIdle(tb testing.TB, g *storegateway.Gateway) {
	tb.Helper()
	n := testwait.Value(tb, "all queries to end", g.Gate().Stats, func(n slab.GateStats) bool { return n.Running == 0 })
	if n.Held != 0 || n.Misused != 0 {
		tb.Errorf("after all queries: %+v", n)
	}
}

// RandomBlocks copies overlapping blocks of the same random series into dir.
func (s *Shared) RandomBlocks(tb testing.TB, dir string, external map[string]string) {
	tb.Helper()
	blocks := s.Dir(tb, fmt.Sprintf("random blocks of %q", external), func(dir string) error {
		o := testblock.RandomOptions{Series: 120, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
		series := testblock.Random(rand.New(rand.NewPCG(7, 7)), o)
		end := o.Start + int64(o.Samples)*2*o.Step
		for _, part := range [][2]int64{{o.Start, o.Start + 2_000_000}, {o.Start + 1_500_000, o.Start + 3_000_000}, {o.Start + 3_000_000, end}} {
			if _, err := testblock.Write(dir, testblock.Between(series, part[0], part[1]), testblock.Options{External: external, ChunkRange: o.ChunkRange()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err := os.CopyFS(dir, os.DirFS(blocks)); err != nil {
		tb.Fatal(err)
	}
}

// Shared are directories of blocks that several tests of a package read and none modifies. The zero value is
// ready.
type Shared struct {
	mu   sync.Mutex
	root string
	dirs map[string]string // by name
}

// Dir returns the directory of that name. The first test that calls it writes the directory.
func (s *Shared) Dir(tb testing.TB, name string, write func(dir string) error) string {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == "" {
		root, err := os.MkdirTemp("", "teststore-") //nolint:usetesting // it outlives the first test
		if err != nil {
			tb.Fatal(err)
		}
		s.root, s.dirs = root, make(map[string]string)
	}
	if dir := s.dirs[name]; dir != "" {
		return dir
	}
	dir := filepath.Join(s.root, strconv.Itoa(len(s.dirs)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := write(dir); err != nil {
		tb.Fatal(err)
	}
	s.dirs[name] = dir
	return dir
}

// Remove removes the directories, at the end of TestMain.
func (s *Shared) Remove() {
	if s.root != "" {
		_ = os.RemoveAll(s.root)
	}
}
