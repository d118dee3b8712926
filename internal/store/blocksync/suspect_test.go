package blocksync

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/store/tsblock"
)

// TestShrunkListing removes three of eight blocks without a mark, as the listing of another bucket would: they are
// named until the time is over. Marked ones, and a single one, leave at once.
func TestShrunkListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := objstore.NewInMemBucket()
		names := []string{"A", "B", "C", "D", "E", "F", "G", "H"}
		for _, n := range names {
			uploadBlock(t, bucket, n)
			at := int64(n[0]) * 7_200_000
			name := blockID(n).String() + "/" + metaName
			meta := strings.Replace(object(t, bucket, name), `"minTime":0,"maxTime":7200000`, fmt.Sprintf(`"minTime":%d,"maxTime":%d`, at, at+7_200_000), 1)
			testbucket.Upload(t, bucket, name, meta)
		}
		o := testOptions(t, bucket)
		o.Layout = LayoutThanos
		g := newSyncer(t, o)
		remove := func(name string) {
			t.Helper()
			for _, object := range []string{metaName, indexName, "chunks/000001"} {
				if err := bucket.Delete(t.Context(), blockID(name).String()+"/"+object); err != nil && !bucket.IsObjNotFoundErr(err) {
					t.Fatal(err)
				}
			}
		}
		sync := func(blocks, gone int, failed bool) (warnings string) {
			t.Helper()
			err := g.Sync(t.Context())
			s := g.Status()
			if len(g.Blocks()) != blocks || s.Gone != gone || (err != nil) != failed {
				t.Errorf("%d blocks, %d gone, error %v; want %d, %d, %t", len(g.Blocks()), s.Gone, err, blocks, gone, failed)
			}
			_, tenant := g.Open("", 0, 0, Raw)
			return strings.Join(tenant.Missing(-1<<62, 1<<62, Raw, nil, nil).Warnings(), "\n")
		}
		if w := sync(8, 0, false); w != "" {
			t.Errorf("before: %s", w)
		}
		remove("A")
		sync(7, 0, false)
		for _, n := range names[1:4] {
			remove(n)
		}
		w := sync(4, 3, true)
		for _, n := range names[1:4] {
			if !strings.Contains(w, blockID(n).String()) {
				t.Errorf("no warning names %s: %s", n, w)
			}
		}
		if strings.Contains(w, blockID("E").String()) {
			t.Errorf("the warning names a listed block: %s", w)
		}
		missing := func(name string) error {
			_, err := g.reader.attributes(t.Context(), blockID(name).String()+"/"+indexName)
			return err
		}
		uploadBlock(t, bucket, "I")
		mark := func(name string) {
			testbucket.Upload(t, bucket, blockID(name).String()+"/"+deletionMarkName, `{"id":"`+blockID(name).String()+`","version":1,"deletion_time":1}`)
		}
		sync(5, 3, true)
		mark("I")
		remove("I")
		if resynced, served := g.ResyncAfter(t.Context(), missing("I")); !resynced || served {
			t.Errorf("a request that read a deleted block while others are missed: resynced %t, served %t", resynced, served)
		}
		if resynced, _ := g.ResyncAfter(t.Context(), fmt.Errorf("%w", &missingError{name: "E/x"})); resynced {
			t.Error("a request that missed an object of no block is retried although the sync failed")
		}
		time.Sleep(maxRetention + time.Second) // paces: fake time
		if w := sync(4, 0, false); w != "" {
			t.Errorf("after: %s", w)
		}
		for _, n := range names[4:7] {
			mark(n)
		}
		sync(1, 0, false)
	})
}

// TestUnlistedWithDamage has all blocks of a bucket be damaged, and the listing fail afterwards: they are named as missing until a sync
// goes through, and never taken for blocks that do not exist.
func TestUnlistedWithDamage(t *testing.T) {
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	for _, n := range []string{"A", "B"} {
		uploadBlock(t, bucket, n)
	}
	o := testOptions(t, bucket)
	o.Layout, o.DamageHold = LayoutThanos, time.Nanosecond
	g := newSyncer(t, o)
	if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != 2 {
		t.Fatal(err, g.Blocks())
	}
	for _, n := range []string{"A", "B"} {
		if !g.SkipDamaged(t.Context(), &tsblock.CorruptError{Block: blockID(n).String(), File: "index", Reason: "checksum"}) {
			t.Fatalf("%s is still served", n)
		}
	}
	bucket.Fail(testbucket.FailRule{Op: "iter", Times: -1, How: testbucket.FailDenied})
	for range 3 {
		if err := g.Sync(t.Context()); err == nil {
			t.Error("a sync without a listing goes through")
		}
		_, tenant := g.Open("", 0, 1<<50, Raw)
		w := strings.Join(tenant.Missing(-1<<62, 1<<62, Raw, nil, nil).Warnings(), "\n")
		if !strings.Contains(w, blockID("A").String()) || !strings.Contains(w, blockID("B").String()) || len(g.Skipped()) != 2 {
			t.Errorf("missing: %q, skipped: %v", w, g.Skipped())
		}
	}
	bucket.Heal()
	if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != 2 || len(g.Skipped()) != 0 {
		t.Errorf("afterwards: %v, blocks %v, skipped %v", err, g.Blocks(), g.Skipped())
	}
}

func object(t *testing.T, b objstore.Bucket, name string) string {
	t.Helper()
	r, err := b.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAutoLayoutSkips denies one meta.json, or makes it unreadable: the other blocks show the layout, and the block is
// skipped with its reason. A bucket whose blocks are all denied names each.
func TestAutoLayoutSkips(t *testing.T) {
	for _, how := range []testbucket.Failure{testbucket.FailDenied, testbucket.FailShort} {
		bucket := testbucket.NewFailing(objstore.NewInMemBucket())
		uploadBlock(t, bucket, "A")
		uploadBlock(t, bucket, "B")
		bucket.Fail(testbucket.FailRule{Op: "get", Name: blockID("A").String(), Times: -1, How: how})
		g := newSyncer(t, testOptions(t, bucket))
		if err := g.Sync(t.Context()); err != nil || !g.Ready() || len(g.Blocks()) != 1 || len(g.Skipped()) != 1 || g.Status().Layout != LayoutThanos {
			t.Errorf("%s: %v, ready %t, blocks %v, skipped %v", how, err, g.Ready(), g.Blocks(), g.Skipped())
		}
		bucket.Fail(testbucket.FailRule{Op: "get", Times: -1, How: how})
		g = newSyncer(t, testOptions(t, bucket))
		if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != 0 || len(g.Skipped()) != 2 || g.Status().Layout != LayoutAuto {
			t.Errorf("%s, all: %v, blocks %v, skipped %v", how, err, g.Blocks(), g.Skipped())
		}
	}
}

// TestNotReadyCause fails the first syncs: the store is not ready, and says why, since when and what to do.
func TestNotReadyCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := testbucket.NewFailing(objstore.NewInMemBucket())
		uploadBlock(t, bucket, "A")
		bucket.Fail(testbucket.FailRule{Times: -1, How: testbucket.FailDenied})
		o := testOptions(t, bucket)
		o.Advice = func(error) string { return "Allow it." }
		g := newSyncer(t, o)
		if err := g.CheckReady(); !errors.Is(err, ErrNotSynced) || !strings.Contains(err.Error(), "under way") {
			t.Errorf("before: %v", err)
		}
		since := time.Now().UTC().Format(time.RFC3339)
		for range 2 {
			if g.Sync(t.Context()) == nil {
				t.Fatal("a sync of a denied bucket succeeded")
			}
			err := g.CheckReady()
			for _, want := range []string{since, "403 access denied", "Allow it."} {
				if !errors.Is(err, ErrNotSynced) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %q", err, want)
				}
			}
			if m := g.Unsynced(); !m.Denies() || !strings.Contains(m.Warnings()[0], "403 access denied") {
				t.Errorf("warnings %q", m.Warnings())
			}
			time.Sleep(time.Hour) // paces: fake time
		}
		bucket.Heal()
		if err := g.Sync(t.Context()); err != nil || g.CheckReady() != nil || g.Status().Failing != nil || g.Status().Advice != "" {
			t.Errorf("%v, %v, %+v", err, g.CheckReady(), g.Status())
		}
	})
}

// TestAbsentTenant chooses a tenant that the bucket does not have.
func TestAbsentTenant(t *testing.T) {
	bucket := objstore.NewInMemBucket()
	testbucket.Upload(t, bucket, "here/"+blockID("A").String()+"/"+indexName, "x")
	o := testOptions(t, bucket)
	o.Layout, o.Tenants = LayoutMimir, []string{"here", "nope"}
	g := newSyncer(t, o)
	if err := g.Sync(t.Context()); err != nil || len(g.Status().Absent) != 1 || g.Status().Absent[0] != "nope" {
		t.Errorf("%v, %+v", err, g.Status())
	}
	for tenant, want := range map[string]bool{"here": false, "nope": true} {
		_, at := g.Open(tenant, 0, 1, Raw)
		if w := strings.Join(at.Missing(0, 1, Raw, nil, nil).Warnings(), ""); strings.Contains(w, "nothing of the tenant") != want {
			t.Errorf("%s: %s", tenant, w)
		}
	}
}
