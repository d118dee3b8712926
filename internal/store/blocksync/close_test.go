package blocksync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/testbucket"
)

// A pausedBucket calls paused before its n-th call.
type pausedBucket struct {
	objstore.Bucket
	n      int
	paused func()
}

func (b *pausedBucket) step() {
	if b.n--; b.n == 0 {
		b.paused()
	}
}

func (b *pausedBucket) Iter(ctx context.Context, dir string, visit func(string) error, o ...objstore.IterOption) error {
	b.step()
	return b.Bucket.Iter(ctx, dir, visit, o...)
}

func (b *pausedBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	b.step()
	return b.Bucket.Get(ctx, name)
}

func (b *pausedBucket) Attributes(ctx context.Context, name string) (objstore.ObjectAttributes, error) {
	b.step()
	return b.Bucket.Attributes(ctx, name)
}

// TestCloseDuringSync closes a Syncer, cancels its sync, or both, before each bucket call of a sync that keeps a block,
// adds one, and removes one. Every block is released once: another release would panic.
func TestCloseDuringSync(t *testing.T) {
	for n := 1; ; n++ {
		reached := false
		for _, how := range []string{"close", "cancel", "both"} {
			memory := objstore.NewInMemBucket()
			bucket := &pausedBucket{Bucket: memory}
			uploadBlock(t, memory, "A")
			uploadBlock(t, memory, "B")
			o := testOptions(t, bucket)
			o.Layout, o.Concurrency, o.CallTries = LayoutThanos, 1, 1
			g := newSyncer(t, o)
			if err := g.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			handles, _ := g.Open("", 0, 1, Raw)
			uploadBlock(t, memory, "C")
			if err := memory.Delete(t.Context(), blockID("B").String()+"/"+metaName); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			called := false
			bucket.n, bucket.paused = n, func() {
				called = true
				if how != "cancel" {
					if err := g.Close(); err != nil {
						t.Error(err)
					}
				}
				if how != "close" {
					cancel()
				}
			}
			err := g.Sync(ctx)
			cancel()
			want := context.Canceled
			if how == "close" {
				want = errClosed
			}
			if called && !errors.Is(err, want) {
				t.Errorf("%s at call %d: %v", how, n, err)
			}
			if how != "cancel" && called && len(g.Blocks()) != 0 {
				t.Errorf("%s at call %d: a closed Syncer serves %v", how, n, g.Blocks())
			}
			ReleaseAll(handles)
			reached = reached || called
		}
		if !reached {
			if n <= 3 {
				t.Errorf("the sync made %d calls only", n-1)
			}
			return
		}
	}
}

// TestUnreadableMark has deletion marks that are no marks. They count from when they were written, also after a
// restart, and a later readable one counts in their place.
func TestUnreadableMark(t *testing.T) {
	for _, text := range []string{"", "{", "<html>", `{"version":2,"deletion_time":1}`, `{"version":1}`, `{"version":1,"deletion_time":-5}`, `{"version":1,"deletion_time":"x"}`} {
		synctest.Test(t, func(t *testing.T) {
			bucket := objstore.NewInMemBucket()
			uploadBlock(t, bucket, "A")
			uploadBlock(t, bucket, "B") // else the bucket would be suspiciously empty
			mark := blockID("A").String() + "/" + deletionMarkName
			written := time.Now()
			testbucket.Upload(t, bucket, mark, text)
			o := testOptions(t, bucket)
			o.Layout, o.DeletionDelay = LayoutThanos, time.Hour
			check := func(g *Syncer, blocks int, at time.Time) {
				t.Helper()
				if err := g.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				served := g.Blocks()
				if len(served) != blocks {
					t.Fatalf("%q, %v after the mark: %d blocks, want %d", text, time.Since(written), len(served), blocks)
				}
				if blocks == 2 && (served[0].Marked == nil || served[0].Marked.Unix() != at.Unix()) {
					t.Errorf("%q: marked at %v, want %v", text, served[0].Marked, at)
				}
			}
			time.Sleep(40 * time.Minute) // paces: fake time
			g := newSyncer(t, o)
			check(g, 2, written)
			again := newSyncer(t, o)
			time.Sleep(10 * time.Minute) // paces: fake time
			check(again, 2, written)
			check(g, 2, written)
			if text == "{" { // replaced by a readable one
				at := time.Now().Add(-20 * time.Minute)
				testbucket.Upload(t, bucket, mark, fmt.Sprintf(`{"id":%q,"version":1,"deletion_time":%d}`, blockID("A"), at.Unix()))
				check(g, 2, at)
				return
			}
			time.Sleep(11 * time.Minute) // paces: fake time
			check(g, 1, written)
			check(newSyncer(t, o), 1, written)
			if s := g.Skipped(); len(s) != 1 || s[0].Reason != SkipMarked || !strings.Contains(s[0].Detail, written.UTC().Format(time.RFC3339)) {
				t.Errorf("%q: %+v", text, s)
			}
		})
	}
}
