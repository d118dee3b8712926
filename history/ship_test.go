package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
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
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/store/tsblock"
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
	step := history.BlockRange / 8
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

// shippedFile lists the blocks of a directory that were shipped.
const shippedFile = "thanos.shipper.json"

// readShipped returns the shipped blocks; none if there is no list.
func readShipped(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, shippedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Uploaded []string }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list.Uploaded
}

// A shipRig is a directory with blocks, and archives over it, one after the other.
type shipRig struct {
	*rig
	t       *testing.T
	archive *history.Archive
}

func newShipRig(t *testing.T, dir string) *shipRig {
	t.Helper()
	return &shipRig{rig: newRig(t, t.TempDir(), dir), t: t}
}

// open opens an archive that ships to a bucket, as a process that starts does, without pauses.
func (r *shipRig) open(bucket objstore.Bucket) {
	r.t.Helper()
	o := r.options(newModel())
	o.Bucket, o.ReserveBytes = bucket, 1<<20
	var err error
	if r.archive, err = history.OpenArchive(o); err != nil {
		r.t.Fatal(err)
	}
	r.archive.LimitCalls(0, 0)
}

// close closes the archive, and returns how many blocks it has shipped.
func (r *shipRig) close() float64 {
	r.t.Helper()
	n := archiveMetric(r.t, r.archive, "blocks_shipped_total")
	if err := r.archive.Close(); err != nil {
		r.t.Error(err)
	}
	return n
}

// shipOnce ships by an archive that is opened and closed, and returns how many blocks.
func (r *shipRig) shipOnce(bucket objstore.Bucket) (float64, error) {
	r.t.Helper()
	r.open(bucket)
	err := r.archive.Ship(r.t.Context())
	return r.close(), err
}

// objectsOf returns the objects of a local block in a bucket, by name below the block's.
func (r *shipRig) objectsOf(id ulid.ULID) map[string][]byte {
	r.t.Helper()
	objects := make(map[string][]byte)
	var files []map[string]any
	for _, pattern := range []string{"chunks/*", "index", tsblock.MetaFile} {
		names, err := fs.Glob(os.DirFS(filepath.Join(r.dir, id.String())), pattern)
		if err != nil || len(names) == 0 {
			r.t.Fatalf("block %s has no %s (%v)", id, pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(r.dir, id.String(), name))
			if err != nil {
				r.t.Fatal(err)
			}
			objects[name] = text
			file := map[string]any{"rel_path": name}
			if name != tsblock.MetaFile {
				file["size_bytes"] = len(text)
			}
			files = append(files, file)
		}
	}
	var meta map[string]any
	err := json.Unmarshal(objects[tsblock.MetaFile], &meta)
	if err == nil {
		meta["thanos"] = map[string]any{
			"version": 1, "labels": r.options(nil).Labels, "downsample": map[string]any{"resolution": 0}, "source": "tare", "files": files,
		}
		objects[tsblock.MetaFile], err = json.Marshal(meta)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return objects
}

// sameObject reports whether an object has the given text, or JSON with the same content.
func sameObject(name string, got, want []byte) bool {
	if name != tsblock.MetaFile {
		return bytes.Equal(got, want)
	}
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal(want, &b) == nil && reflect.DeepEqual(a, b)
}

// wantShipped compares every object of a bucket with the blocks.
func (r *shipRig) wantShipped(bucketDir string, blocks []tsdb.BlockMeta) {
	r.t.Helper()
	var got, want []string
	err := filepath.WalkDir(bucketDir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(bucketDir, name)
			got = append(got, rel)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range blocks {
		for name, original := range r.objectsOf(m.ULID) {
			want = append(want, filepath.Join(m.ULID.String(), name))
			text, err := os.ReadFile(filepath.Join(bucketDir, m.ULID.String(), name))
			if err != nil {
				r.t.Fatal(err)
			}
			if !sameObject(name, text, original) {
				r.t.Errorf("%s/%s differs from the block's", m.ULID, name)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("the bucket has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if ids := readShipped(r.t, r.dir); len(ids) != len(blocks) {
		r.t.Errorf("%d blocks are noted as shipped, want %d", len(ids), len(blocks))
	}
}

// TestShipCrash stops the process at each call to the bucket, which takes effect without a response, and
// continues with a new one: each block is shipped completely and once.
func TestShipCrash(t *testing.T) {
	made := t.TempDir()
	blocks := makeBlocks(t, made, 2)
	for dead := 1; ; dead++ {
		r := newShipRig(t, copyOf(t, made))
		first, died := r.shipOnce(&flakyBucket{Bucket: r.bucket, dead: dead})
		second, err := r.shipOnce(r.bucket)
		if err != nil {
			t.Fatalf("after a crash at call %d: %v", dead, err)
		}
		r.wantShipped(r.bucketDir, blocks)
		if n := first + second; n > float64(len(blocks)) {
			t.Errorf("crash at call %d: %v blocks were shipped, there are %d", dead, n, len(blocks))
		}
		if died == nil {
			if dead < 10 {
				t.Errorf("shipping took %d calls", dead)
			}
			return
		}
	}
}

// copyOf returns a copy of a directory.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestShipFlaky ships to a bucket whose every call may fail, with, without or with partial effect.
func TestShipFlaky(t *testing.T) {
	made := t.TempDir()
	blocks := makeBlocks(t, made, 3)
	for seed := range uint64(12) {
		r := newShipRig(t, copyOf(t, made))
		b := &flakyBucket{Bucket: r.bucket, rand: rand.New(rand.NewPCG(seed, 1)), rate: 0.4}
		tries := 0
		for {
			_, err := r.shipOnce(b) // as after a restart
			if err == nil {
				break
			}
			// A block that can be read is complete.
			for _, m := range blocks {
				text, err := os.ReadFile(filepath.Join(r.bucketDir, m.ULID.String(), tsblock.MetaFile))
				if err != nil {
					continue
				}
				if meta, err := tsblock.ParseMeta(text); err != nil || meta.Thanos.Labels == nil {
					continue // it is there in part
				}
				for name, want := range r.objectsOf(m.ULID) {
					got, err := os.ReadFile(filepath.Join(r.bucketDir, m.ULID.String(), name))
					if err != nil || !sameObject(name, got, want) {
						t.Errorf("seed %d: meta.json is there, and %s is not whole: %v", seed, name, err)
					}
				}
			}
			if tries++; tries > 500 {
				t.Fatalf("seed %d: never shipped: %v", seed, err)
			}
		}
		r.wantShipped(r.bucketDir, blocks)
	}
}

// TestShipOnce checks that blocks that a compactor has replaced are not shipped again.
func TestShipOnce(t *testing.T) {
	dir := t.TempDir()
	blocks := makeBlocks(t, dir, 2)
	r := newShipRig(t, dir)
	if _, err := r.shipOnce(r.bucket); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(r.bucketDir, blocks[0].ULID.String())
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	n, err := r.shipOnce(r.bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); err == nil || n != 0 {
		t.Errorf("a block that was removed from the bucket is shipped again (%v)", n)
	}

	// If the record is damaged, the bucket is queried, and its objects are not sent again.
	if err := os.RemoveAll(filepath.Join(dir, blocks[0].ULID.String())); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, shippedFile), []byte(`{"version":1,"upl`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := r.shipOnce(r.bucket); err != nil || n != 0 {
		t.Errorf("with a damaged note: %v, %v blocks sent", err, n)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, localstate.AsideName, "*", shippedFile)); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v (%v)", aside, err)
	}
}

// TestShipEnds ends the context while the bucket fails.
func TestShipEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		makeBlocks(t, dir, 1)
		r := newShipRig(t, dir)
		r.open(&flakyBucket{Bucket: r.bucket, rand: rand.New(rand.NewPCG(1, 1)), rate: 1})
		r.archive.LimitCalls(time.Hour, 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := r.archive.Ship(ctx); err == nil {
			t.Error("shipped to a bucket that fails")
		}
		r.close()
	})
}

// TestShipCanceled counts no failure of the blocks that are left when the context ends.
func TestShipCanceled(t *testing.T) {
	dir := t.TempDir()
	makeBlocks(t, dir, 2)
	r := newShipRig(t, dir)
	r.open(r.bucket)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.archive.Ship(ctx); err != nil {
		t.Errorf("shipping: %v", err)
	}
	if n := archiveMetric(t, r.archive, "ship_failures_total"); n != 0 {
		t.Errorf("%v failures, want none", n)
	}
	if n := r.close(); n != 0 {
		t.Errorf("%v blocks were shipped", n)
	}
}
