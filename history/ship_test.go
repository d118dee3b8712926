package history

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/stmtstats"
)

// makeBlocks writes n blocks to dir through a head, and returns them.
func makeBlocks(t *testing.T, dir string, n int) []tsdb.BlockMeta {
	t.Helper()
	db, err := localdb.OpenHead(dir, slog.New(slog.DiscardHandler), nil, func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var h stmtstats.Histogram
	l := stmtseries.NewLabeller(map[string]string{"instance": "gw-1"})
	step := BlockRange / 8
	for i := range 8*n + 12 {
		at := int64(i+1) * step.Milliseconds()
		h.Record(time.Duration(i) * time.Millisecond)
		app := db.AppenderV2(t.Context())
		for s := range 20 {
			l.SetSeries(stmtstats.Tracked, &stmtstats.Key{Digest: [16]byte{byte(s)}}, int(stmtseries.Queries))
			must(t, app, l.Labels(), at, float64(i), nil)
			l.SetSeries(stmtstats.Tracked, &stmtstats.Key{Digest: [16]byte{byte(s)}}, int(stmtseries.Duration))
			must(t, app, l.Labels(), at, 0, h.Native())
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	metas := db.BlockMetas()
	if len(metas) != n {
		t.Fatalf("%d blocks, want %d", len(metas), n)
	}
	return metas
}

func must(t *testing.T, app storage.AppenderV2, ls labels.Labels, at int64, v float64, h *histogram.Histogram) {
	t.Helper()
	if _, err := app.Append(0, ls, 0, at, v, h, nil, storage.AOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newTestShipper(t *testing.T, b *flakyBucket, dir string) *shipper {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := newShipper(b, dir, map[string]string{"instance": "gw-1"}, localstate.Open(dir, nil, log), log)
	s.pause = 0
	return s
}

// wantShipped compares every object of the bucket with the blocks.
func wantShipped(t *testing.T, bucketDir, dir string, blocks []tsdb.BlockMeta) {
	t.Helper()
	var got, want []string
	err := filepath.WalkDir(bucketDir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(bucketDir, name)
			got = append(got, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range blocks {
		local := filepath.Join(dir, m.ULID.String())
		files, err := blockFiles(local)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := thanosMeta(local, map[string]string{"instance": "gw-1"}, files)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(files, blockFile{Name: "meta.json"}) {
			want = append(want, filepath.Join(m.ULID.String(), f.Name))
			text, err := os.ReadFile(filepath.Join(bucketDir, m.ULID.String(), f.Name))
			if err != nil {
				t.Fatal(err)
			}
			original := meta
			if f.Name != "meta.json" {
				if original, err = os.ReadFile(filepath.Join(local, f.Name)); err != nil {
					t.Fatal(err)
				}
			}
			if string(text) != string(original) {
				t.Errorf("%s/%s differs from the block's", m.ULID, f.Name)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the bucket has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ids, err := readShipped(dir)
	if err != nil || len(ids) != len(blocks) {
		t.Errorf("%d blocks are noted as shipped (%v), want %d", len(ids), err, len(blocks))
	}
}

// TestShipCrash stops the process at each call to the bucket, which takes effect without a response, and
// continues with a new one: each block is shipped completely and once.
func TestShipCrash(t *testing.T) {
	dir := t.TempDir()
	blocks := makeBlocks(t, dir, 2)
	for dead := 1; ; dead++ {
		bucketDir := t.TempDir()
		if err := os.RemoveAll(filepath.Join(dir, shippedName)); err != nil {
			t.Fatal(err)
		}
		plain, err := filesystem.NewBucket(bucketDir)
		if err != nil {
			t.Fatal(err)
		}
		first := newTestShipper(t, &flakyBucket{Bucket: plain, dead: dead}, dir)
		died := first.ship(t.Context(), blocks) != nil
		second := newTestShipper(t, &flakyBucket{Bucket: plain}, dir)
		if err := second.ship(t.Context(), blocks); err != nil {
			t.Fatalf("after a crash at call %d: %v", dead, err)
		}
		wantShipped(t, bucketDir, dir, blocks)
		if n := first.counts.blocks + second.counts.blocks; n > uint64(len(blocks)) {
			t.Errorf("crash at call %d: %d blocks were shipped, there are %d", dead, n, len(blocks))
		}
		if !died {
			if dead < 10 {
				t.Errorf("shipping took %d calls", dead)
			}
			return
		}
	}
}

// TestShipFlaky ships to a bucket whose every call may fail, with, without or with partial effect.
func TestShipFlaky(t *testing.T) {
	dir := t.TempDir()
	blocks := makeBlocks(t, dir, 3)
	for seed := range uint64(12) {
		bucketDir := t.TempDir()
		if err := os.RemoveAll(filepath.Join(dir, shippedName)); err != nil {
			t.Fatal(err)
		}
		plain, err := filesystem.NewBucket(bucketDir)
		if err != nil {
			t.Fatal(err)
		}
		b := &flakyBucket{Bucket: plain, rand: rand.New(rand.NewPCG(seed, 1)), rate: 0.4}
		tries := 0
		for {
			s := newTestShipper(t, b, dir) // as after a restart
			if err = s.ship(t.Context(), blocks); err == nil {
				break
			}
			// A block that can be read is complete.
			for _, m := range blocks {
				if there, _ := newTestShipper(t, &flakyBucket{Bucket: plain}, dir).isThere(t.Context(), m.ULID); there {
					if files, err := blockFiles(filepath.Join(dir, m.ULID.String())); err != nil {
						t.Fatal(err)
					} else {
						for _, f := range files {
							info, err := os.Stat(filepath.Join(bucketDir, m.ULID.String(), f.Name))
							if err != nil || info.Size() != f.Bytes {
								t.Errorf("seed %d: meta.json is there, and %s is not whole: %v", seed, f.Name, err)
							}
						}
					}
				}
			}
			if tries++; tries > 500 {
				t.Fatalf("seed %d: never shipped: %v", seed, err)
			}
		}
		wantShipped(t, bucketDir, dir, blocks)
	}
}

// TestShipOnce checks that blocks that a compactor has replaced are not shipped again.
func TestShipOnce(t *testing.T) {
	dir, bucketDir := t.TempDir(), t.TempDir()
	blocks := makeBlocks(t, dir, 2)
	plain, err := filesystem.NewBucket(bucketDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := newTestShipper(t, &flakyBucket{Bucket: plain}, dir).ship(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(bucketDir, blocks[0].ULID.String())
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	s := newTestShipper(t, &flakyBucket{Bucket: plain}, dir)
	if err := s.ship(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); err == nil || s.counts.blocks != 0 {
		t.Errorf("a block that was removed from the bucket is shipped again (%d)", s.counts.blocks)
	}

	// If the record is damaged, the bucket is queried, and its objects are not sent again.
	if err := os.WriteFile(filepath.Join(dir, shippedName), []byte(`{"version":1,"upl`), 0o600); err != nil {
		t.Fatal(err)
	}
	s = newTestShipper(t, &flakyBucket{Bucket: plain}, dir)
	if err := s.ship(t.Context(), blocks[1:]); err != nil || s.counts.blocks != 0 {
		t.Errorf("with a damaged note: %v, %d blocks sent", err, s.counts.blocks)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, localstate.AsideName, "*", shippedName)); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v (%v)", aside, err)
	}
}

// TestShipEnds ends the context while the bucket fails.
func TestShipEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		blocks := makeBlocks(t, dir, 1)
		plain, err := filesystem.NewBucket(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		s := newTestShipper(t, &flakyBucket{Bucket: plain, rand: rand.New(rand.NewPCG(1, 1)), rate: 1}, dir)
		s.pause = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := s.ship(ctx, blocks); err == nil {
			t.Error("shipped to a bucket that fails")
		}
	})
}
