package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
)

// A retainRig is an archive with a bucket of blocks that a test has created.
type retainRig struct {
	*hourglass
	bucket objstore.Bucket
	next   int
}

func newRetainRig(t *testing.T, bucket objstore.Bucket, limits history.BucketRetention) *retainRig {
	t.Helper()
	h := newHourglass(t, func(o *history.ArchiveOptions) { o.Bucket, o.Retention = bucket, limits })
	h.rolledUp(h.now)
	h.archive.LimitCalls(0, 0)
	return &retainRig{hourglass: h, bucket: bucket}
}

func (r *retainRig) put(name, text string) {
	r.t.Helper()
	r.must(r.bucket.Upload(r.t.Context(), name, strings.NewReader(text)))
}

// block creates a block of the given age.
func (r *retainRig) block(age time.Duration, change func(meta map[string]any)) ulid.ULID {
	r.t.Helper()
	r.next++
	var id ulid.ULID
	r.must(id.SetTime(uint64(r.next)))
	end := r.now.Add(-age).UnixMilli()
	meta := map[string]any{
		"version": 1, "ulid": id, "minTime": end - history.BlockRange.Milliseconds(), "maxTime": end, "compaction": map[string]any{"level": 1},
		"thanos": map[string]any{
			"version": 1, "source": "tare", "labels": r.archive.Options().Labels,
			"files": []map[string]any{
				{"rel_path": "index", "size_bytes": 400}, {"rel_path": "chunks/000001", "size_bytes": 600}, {"rel_path": "meta.json"},
			},
		},
	}
	if change != nil {
		change(meta)
	}
	text, err := json.Marshal(meta)
	r.must(err)
	r.put(path.Join(id.String(), "chunks/000001"), "chunks")
	r.put(path.Join(id.String(), "index"), "index")
	r.put(path.Join(id.String(), "meta.json"), string(text))
	return id
}

// objects returns the names of all objects.
func (r *retainRig) objects() map[string]bool {
	r.t.Helper()
	names := make(map[string]bool)
	r.must(r.bucket.Iter(r.t.Context(), "", func(name string) error {
		names[name] = true
		return nil
	}, objstore.WithRecursiveIter()))
	return names
}

func (r *retainRig) has(id ulid.ULID) (block, mark bool) {
	names := r.objects()
	return names[path.Join(id.String(), "meta.json")], names[path.Join(id.String(), "deletion-mark.json")]
}

// mark returns the deletion mark of a block.
func (r *retainRig) mark(id ulid.ULID) []byte {
	r.t.Helper()
	reader, err := r.bucket.Get(r.t.Context(), path.Join(id.String(), "deletion-mark.json"))
	r.must(err)
	text, err := io.ReadAll(reader)
	r.must(errors.Join(err, reader.Close()))
	return text
}

// restart opens the archive again, as another process does, with changed options.
func (r *retainRig) restart(change func(*history.ArchiveOptions)) {
	r.t.Helper()
	r.must(r.archive.Close())
	r.reopenAs(change)
	r.archive.LimitCalls(0, 0)
}

// later advances the time.
func (r *retainRig) later(d time.Duration) { r.now, r.elapsed = r.now.Add(d), r.elapsed+d }

func foreign(key string, value any) func(map[string]any) {
	return func(meta map[string]any) { meta["thanos"].(map[string]any)[key] = value }
}

func retainBuckets(t *testing.T) map[string]objstore.Bucket {
	dir, err := filesystem.NewBucket(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]objstore.Bucket{"memory": objstore.NewInMemBucket(), "file": dir}
}

// TestBucketRetention deletes blocks and rollups by age: they are marked first, and deleted after the delay.
// Objects that have other labels or another source, or are too young, stay unchanged.
func TestBucketRetention(t *testing.T) {
	const day = 24 * time.Hour
	for name, bucket := range retainBuckets(t) {
		t.Run(name, func(t *testing.T) {
			r := newRetainRig(t, bucket, history.BucketRetention{Age: 30 * day, Delay: 48 * time.Hour})
			old, older, young := r.block(31*day, nil), r.block(50*day, nil), r.block(29*day, nil)
			r.block(0, nil)
			stays := []ulid.ULID{
				r.block(60*day, foreign("labels", map[string]string{"instance": "gw-2", "cluster": "eu"})),
				r.block(60*day, foreign("labels", map[string]string{"instance": "gw-1"})),
				r.block(60*day, foreign("source", "sidecar")),
				young,
			}
			roll := func(end time.Time, labels map[string]string) string {
				n := rollup.Name{Start: end.Truncate(rollup.Hour).Unix(), Span: rollup.Hour}
				object := path.Join(rollup.Prefix, rollup.LabelsHash(labels), ulid.ULID{1}.String(), n.String())
				r.put(object, "rollup")
				return object
			}
			oldRollup := roll(r.now.Add(-40*day), r.archive.Options().Labels)
			keptRollups := []string{
				roll(r.now.Add(-31*day), r.archive.Options().Labels), roll(r.now.Add(-40*day), map[string]string{"instance": "gw-2"}),
			}
			before := r.objects()
			r.must(r.archive.Retain(t.Context()))
			for _, id := range []ulid.ULID{old, older} {
				if block, mark := r.has(id); !block || !mark {
					t.Errorf("block %s: there %v, marked %v; want both", id, block, mark)
				}
			}
			var mark map[string]any
			text := r.mark(old)
			r.must(json.Unmarshal(text, &mark))
			if mark["id"] != old.String() || mark["version"] != 1.0 || mark["deletion_time"] != float64(r.now.Unix()) {
				t.Errorf("the mark is %s", text)
			}
			r.later(47 * time.Hour)
			r.must(r.archive.Retain(t.Context()))
			if block, _ := r.has(old); !block {
				t.Error("deleted before the delay")
			}
			r.later(2 * time.Hour)
			r.must(r.archive.Retain(t.Context()))
			after := r.objects()
			for object := range before {
				gone := strings.HasPrefix(object, old.String()) || strings.HasPrefix(object, older.String()) || object == oldRollup
				if after[object] == gone {
					t.Errorf("%s: there %v, want %v", object, after[object], !gone)
				}
			}
			for object := range after {
				if !before[object] {
					t.Errorf("%s is left", object)
				}
			}
			for _, id := range stays {
				if block, mark := r.has(id); !block || mark {
					t.Errorf("block %s: there %v, marked %v; want it untouched", id, block, mark)
				}
			}
			for _, object := range keptRollups {
				if !after[object] {
					t.Errorf("%s is deleted", object)
				}
			}
			if n := r.metric("retention_deleted_blocks_total"); n != 2 {
				t.Errorf("%v blocks deleted, want 2", n)
			}
		})
	}
}

// TestBucketRetentionBytes deletes the oldest blocks beyond a size, removes marks when the limit is raised,
// and leaves blocks that another process has marked.
func TestBucketRetentionBytes(t *testing.T) {
	r := newRetainRig(t, objstore.NewInMemBucket(), history.BucketRetention{Bytes: 2500, Delay: 48 * time.Hour})
	ids := []ulid.ULID{r.block(90*time.Hour, nil), r.block(80*time.Hour, nil), r.block(70*time.Hour, nil), r.block(0, nil)}
	foreign := fmt.Sprintf(`{"id":%q,"version":1,"deletion_time":1,"details":"by hand"}`, ids[0])
	r.put(path.Join(ids[0].String(), "deletion-mark.json"), foreign)
	r.must(r.archive.Retain(t.Context()))
	var marks []bool
	for _, id := range ids {
		_, mark := r.has(id)
		marks = append(marks, mark)
	}
	if !slices.Equal(marks, []bool{true, true, false, false}) {
		t.Fatalf("marked: %v, want the two oldest", marks)
	}
	r.restart(func(o *history.ArchiveOptions) { o.Retention.Bytes = 10_000 })
	r.later(100 * time.Hour)
	r.must(r.archive.Retain(t.Context()))
	if block, mark := r.has(ids[1]); !block || mark {
		t.Errorf("with a higher limit: there %v, marked %v; want the mark removed", block, mark)
	}
	if text := r.mark(ids[0]); string(text) != foreign {
		t.Errorf("the mark of another process is %s", text)
	}
}

// TestBucketRetentionRollupBytes counts rollups towards the size: hours are deleted with the blocks of their
// time, days after everything larger, and the newest 8 days stay. A dry run reports the same without deleting
// anything.
func TestBucketRetentionRollupBytes(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name          string
		limit         int64
		blocks        []bool // marked, of those created below
		hours, days   []bool // left
		rollups, free int    // deleted rollups and their bytes
	}{
		{"within it", 6000, []bool{false, false, false}, []bool{true, true, true}, []bool{true, true}, 0, 0},
		{"an hour more", 5999, []bool{false, false, false}, []bool{false, true, true}, []bool{true, true}, 1, 600},
		{"a block more", 5399, []bool{true, false, false}, []bool{false, true, true}, []bool{true, true}, 1, 600},
		{"all but the newest", 2800, []bool{true, true, false}, []bool{false, false, true}, []bool{true, true}, 2, 1200},
		{"days too", 1799, []bool{true, true, true}, []bool{false, false, true}, []bool{false, true}, 3, 1800},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			for _, dry := range []bool{true, false} {
				var log bytes.Buffer
				r := newRetainRig(t, objstore.NewInMemBucket(), history.BucketRetention{Bytes: c.limit, Delay: 48 * time.Hour, DryRun: dry})
				r.restart(func(o *history.ArchiveOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
				begin := r.now.Truncate(rollup.Day)
				r.now = begin.Add(12 * time.Hour) // blocks are created relative to it
				ids := []ulid.ULID{r.block(40*day, nil), r.block(20*day, nil), r.block(10*day, nil)}
				put := func(n rollup.Name) string {
					object := path.Join(rollup.Prefix, rollup.LabelsHash(r.archive.Options().Labels), ulid.ULID{1}.String(), n.String())
					r.put(object, strings.Repeat("x", 600))
					return object
				}
				var hours, days []string
				for _, age := range []time.Duration{50 * day, 15 * day} {
					hours = append(hours, put(rollup.Name{Start: begin.Add(-age).Unix(), Span: rollup.Hour}))
					days = append(days, put(rollup.Name{Start: begin.Add(-age).Unix(), Span: rollup.Day}))
				}
				hours = append(hours, put(rollup.Name{Start: begin.Unix(), Span: rollup.Hour}))
				r.must(r.archive.Retain(t.Context()))
				there := r.objects()
				check := func(what string, objects []string, want []bool) {
					for i, object := range objects {
						if there[object] != (want[i] || dry) {
							t.Errorf("dry run %v: %s %d is there: %v", dry, what, i, there[object])
						}
					}
				}
				check("hour", hours, c.hours)
				check("day", days, c.days)
				pending := 0
				for i, id := range ids {
					if c.blocks[i] {
						pending++
					}
					if _, mark := r.has(id); mark != (c.blocks[i] && !dry) {
						t.Errorf("dry run %v: block %d is marked: %v", dry, i, mark)
					}
				}
				if bytes, blocks := r.metric("retention_bytes"), r.metric("retention_pending_blocks"); bytes != 6000 || blocks != float64(pending) {
					t.Errorf("dry run %v: %v bytes, %v blocks pending; want 6000, %d", dry, bytes, blocks, pending)
				}
				if want := fmt.Sprintf("blocks=%d bytes=%d rollups=%d rollup_bytes=%d ", pending, pending*1000, c.rollups, c.free); dry && pending+c.rollups > 0 && !strings.Contains(log.String(), want) {
					t.Errorf("the dry run logs %s, want %s", log.String(), want)
				}
				if n := r.metric("retention_deleted_rollups_total"); !dry && n != float64(c.rollups) {
					t.Errorf("%v rollups deleted, want %d", n, c.rollups)
				}
			}
		})
	}
}

// TestBucketRetentionRefused changes nothing in a bucket with a compactor, in a dry run, or when the clock
// jumps.
func TestBucketRetentionRefused(t *testing.T) {
	limits := history.BucketRetention{Age: 240 * time.Hour, Delay: 48 * time.Hour}
	for _, c := range []struct {
		name    string
		change  func(meta map[string]any) // of another block
		limits  func(*history.BucketRetention)
		later   time.Duration
		refused bool
	}{
		{"a compacted block", func(m map[string]any) { m["compaction"] = map[string]any{"level": 2} }, nil, 0, true},
		{"a compactor's block", foreign("source", "compactor"), nil, 0, true},
		{"a repaired block of others", func(m map[string]any) {
			foreign("source", "compactor.repair")(m)
			foreign("labels", map[string]string{"x": "y"})(m)
		}, nil, 0, true},
		{"a downsampled block", foreign("downsample", map[string]any{"resolution": 300_000}), nil, 0, true},
		{"a dry run", nil, func(b *history.BucketRetention) { b.DryRun = true }, 0, false},
		{"a clock ahead", nil, func(b *history.BucketRetention) { b.Age = 12 * 24 * time.Hour }, 10 * 365 * 24 * time.Hour, false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			l := limits
			if c.limits != nil {
				c.limits(&l)
			}
			r := newRetainRig(t, objstore.NewInMemBucket(), l)
			r.block(11*24*time.Hour, nil)
			r.block(0, nil)
			if c.change != nil {
				r.block(time.Hour, c.change)
			}
			before := r.objects()
			r.later(c.later)
			err := r.archive.Retain(t.Context())
			refused := err != nil && strings.Contains(err.Error(), "a compactor owns the bucket")
			if refused != c.refused || err != nil && !c.refused || r.metric("retention_refused") == 1 != c.refused {
				t.Errorf("the run returns %v", err)
			}
			if n := r.metric("retention_pending_blocks"); l.DryRun && n != 1 {
				t.Errorf("a dry run finds %v blocks, want 1", n)
			}
			if after := r.objects(); !maps.Equal(before, after) {
				t.Errorf("the bucket has %v, want %v", after, before)
			}
		})
	}
}

// A dyingBucket fails every call after the given number of deletions.
type dyingBucket struct {
	objstore.Bucket
	left int
}

func (b *dyingBucket) Delete(ctx context.Context, name string) error {
	if b.left--; b.left < 0 {
		return errFlaky
	}
	return b.Bucket.Delete(ctx, name)
}

// TestBucketRetentionKilled stops a deletion after each object: the rest is no block, and the next run
// deletes it.
func TestBucketRetentionKilled(t *testing.T) {
	for left := range 4 {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			bucket := &dyingBucket{Bucket: objstore.NewInMemBucket(), left: left}
			r := newRetainRig(t, bucket, history.BucketRetention{Age: 240 * time.Hour, Delay: 48 * time.Hour})
			id := r.block(300*time.Hour, nil)
			r.block(0, nil)
			r.must(r.archive.Retain(t.Context()))
			r.later(49 * time.Hour)
			if err := r.archive.Retain(t.Context()); !errors.Is(err, errFlaky) {
				t.Fatalf("the run returns %v", err)
			}
			if block, mark := r.has(id); block != (left == 0) || !mark {
				t.Errorf("after %d deletions: meta.json %v, mark %v", left, block, mark)
			}
			bucket.left = 100
			r.restart(func(*history.ArchiveOptions) {})
			r.must(r.archive.Retain(t.Context()))
			for object := range r.objects() {
				if strings.HasPrefix(object, id.String()) {
					t.Errorf("%s is left", object)
				}
			}
		})
	}
}

// TestBucketRetentionReaders runs queries while blocks of a bucket are marked and deleted: each returns all
// samples that it returned before, until the gateway has dropped the block.
func TestBucketRetentionReaders(t *testing.T) {
	h := newHourglass(t, func(o *history.ArchiveOptions) {
		o.Interval, o.LocalAge = time.Minute, 2*time.Hour
		o.Retention = history.BucketRetention{Age: 4 * time.Hour, Delay: 2 * time.Hour}
	})
	for range 15 * 60 {
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.round(time.Minute)
	}
	h.rolledUp(h.now)
	h.must(h.archive.Maintain(t.Context()))
	h.must(h.archive.Ship(t.Context()))
	h.must(h.rig.gateway.Sync(t.Context()))
	h.must(h.archive.Maintain(t.Context())) // deletes local blocks
	start := localdb.NewDatabase(h.db()).WholeStart()
	blocks := len(h.rig.gateway.Blocks())
	if blocks < 5 || start < h.now.Add(-6*time.Hour).UnixMilli() {
		t.Fatalf("%d blocks in the bucket, local ones since %v", blocks, time.UnixMilli(start))
	}
	count := `count_over_time(tare_queries_total[15h])`
	want := h.value(count, h.now)
	h.must(h.archive.Retain(t.Context()))
	if got := h.value(count, h.now); got != want || want < 15*60 {
		t.Errorf("with marks %v samples, want %v", got, want)
	}
	at := h.now
	h.now = h.now.Add(3 * time.Hour)
	h.must(h.archive.Retain(t.Context()))
	if n := h.metric("retention_deleted_blocks_total"); n < 3 {
		t.Fatalf("%v blocks deleted", n)
	}
	// The gateway has not synced: it still lists the blocks. A query is complete, or fails, or has a warning.
	q, err := h.engine.NewInstantQuery(t.Context(), h.archive.Queryable(), nil, count, at)
	h.must(err)
	defer q.Close()
	res := q.Exec(t.Context())
	if v, err := res.Vector(); err == nil && len(res.Warnings) == 0 && (len(v) != 1 || v[0].F != want) {
		t.Errorf("a query over deleted blocks returns %v without a warning, want %v", v, want)
	}
	if err := h.rig.gateway.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "without a mark") { // which it has not seen
		t.Errorf("a sync after the deletion: %v", err)
	}
	if got := h.value(count, at); got == 0 || got >= want {
		t.Errorf("after the deletion %v samples, want some of %v", got, want)
	}
}
