package blocksync

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
)

// A forgetfulBucket omits objects from its listings although it has them.
type forgetfulBucket struct {
	objstore.Bucket
	lacks string // part of the omitted names; "" for none
}

func (b *forgetfulBucket) Iter(ctx context.Context, dir string, f func(string) error, o ...objstore.IterOption) error {
	return b.Bucket.Iter(ctx, dir, func(name string) error {
		if b.lacks != "" && strings.Contains(name, b.lacks) {
			return nil
		}
		return f(name)
	}, o...)
}

// TestUnlisted lets listings of the bucket omit objects that exist: served blocks stay served. They do not
// when the objects cannot be read by name either.
func TestUnlisted(t *testing.T) {
	for _, lacks := range []string{metaName, blockID("A").String(), "/"} {
		bucket := &forgetfulBucket{Bucket: objstore.NewInMemBucket()}
		uploadBlock(t, bucket, "A")
		uploadBlock(t, bucket, "B")
		o := testOptions(t, bucket)
		o.Layout = LayoutThanos
		g := newSyncer(t, o)
		check := func(when string, blocks int) {
			t.Helper()
			if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != blocks {
				t.Errorf("lists without %q, %s: %d blocks, %v, skipped %v", lacks, when, len(g.Blocks()), err, g.Skipped())
			}
		}
		check("before", 2)
		bucket.lacks = lacks
		check("that exists", 2)
		if err := bucket.Delete(t.Context(), blockID("A").String()+"/"+metaName); err != nil {
			t.Fatal(err)
		}
		check("and one is gone", 1)
	}
}

// A flippingBucket changes the first read of each meta.json.
type flippingBucket struct {
	objstore.Bucket
	seen map[string]bool
}

func (b *flippingBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, name)
	if err != nil || b.seen[name] {
		return r, err
	}
	b.seen[name] = true
	text, err := io.ReadAll(r)
	return io.NopCloser(strings.NewReader(strings.Replace(string(text), `"maxTime":7`, `"maxTime":3`, 1))), err
}

// TestConfirmedMeta lets a network change a digit of a block's times in the first read of its meta.json.
func TestConfirmedMeta(t *testing.T) {
	bucket := &flippingBucket{objstore.NewInMemBucket(), make(map[string]bool)}
	uploadBlock(t, bucket, "A")
	o := testOptions(t, bucket)
	o.Layout, o.PlainBucket = LayoutThanos, true
	g := newSyncer(t, o)
	if err := g.Sync(t.Context()); err == nil || len(g.Blocks()) != 0 || !strings.Contains(err.Error(), "different bytes") {
		t.Errorf("%v, blocks %v", err, g.Blocks())
	}
	if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != 1 || g.Blocks()[0].MaxTime != 7_200_000 {
		t.Errorf("%v, blocks %v", err, g.Blocks())
	}
}

// TestMissingObjectRequestsSync reads an object that was deleted since the last sync: the read requests
// another sync.
func TestMissingObjectRequestsSync(t *testing.T) {
	bucket := objstore.NewInMemBucket()
	uploadBlock(t, bucket, "A")
	o := testOptions(t, bucket)
	o.Layout = LayoutThanos
	s := newSyncer(t, o)
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := bucket.Delete(t.Context(), blockID("A").String()+"/index"); err != nil {
		t.Fatal(err)
	}
	handles := pinned(s, "", 0, 1)
	defer ReleaseAll(handles)
	if err := s.LoadHeaders(t.Context(), handles); !IsNotFound(err) {
		t.Errorf("load of a header without its index: %v", err)
	}
	if len(s.nudged) != 1 {
		t.Error("no sync is requested")
	}
}
