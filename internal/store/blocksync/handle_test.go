package blocksync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
)

func TestMatchExternal(t *testing.T) {
	h := &Handle{block: &block{external: labels.FromStrings("cluster", "eu", "replica", "a")}}
	eq := func(name, value string) *labels.Matcher {
		return labels.MustNewMatcher(labels.MatchEqual, name, value)
	}
	for _, c := range []struct {
		ms   []*labels.Matcher
		rest string
		ok   bool
	}{
		{nil, "[]", true},
		{[]*labels.Matcher{eq("job", "x")}, `[job="x"]`, true},
		{[]*labels.Matcher{eq("cluster", "eu")}, "[]", true},
		{[]*labels.Matcher{eq("cluster", "us")}, "[]", false},
		{[]*labels.Matcher{eq("cluster", "eu"), eq("job", "x")}, `[job="x"]`, true},
		{[]*labels.Matcher{eq("job", "x"), eq("cluster", "eu")}, `[job="x"]`, true},
		{[]*labels.Matcher{eq("job", "x"), eq("cluster", "eu"), eq("a", "b"), eq("replica", "a"), eq("c", "d")}, `[job="x" a="b" c="d"]`, true},
		{[]*labels.Matcher{eq("job", "x"), eq("cluster", "eu"), eq("a", "b"), eq("replica", "b"), eq("c", "d")}, "[]", false},
		{[]*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "cluster", "eu"), eq("job", "x")}, "[]", false},
		{[]*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "replica", "a|b"), eq("job", "x")}, `[job="x"]`, true},
	} {
		before := fmt.Sprint(c.ms)
		rest, ok := h.MatchExternal(c.ms)
		if got := fmt.Sprint(rest); got != c.rest || ok != c.ok {
			t.Errorf("%s: %s, %t; want %s, %t", c.ms, got, ok, c.rest, c.ok)
		}
		if after := fmt.Sprint(c.ms); after != before {
			t.Errorf("the matchers %s are %s afterwards", before, after)
		}
	}
}

// TestReleaseRemovesDropped removes the local files of a block with its last reference if it left the bucket and is not
// served again, and keeps them otherwise.
func TestReleaseRemovesDropped(t *testing.T) {
	for _, c := range []struct{ dropped, served, kept bool }{
		{false, false, true}, {false, true, true}, {true, true, true}, {true, false, false},
	} {
		dir := t.TempDir()
		if _, err := testblock.Write(dir, testblock.SameSeries(0, 5, 10), testblock.Options{External: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
		bucket, err := filesystem.NewBucket(dir)
		if err != nil {
			t.Fatal(err)
		}
		o := testOptions(t, bucket)
		o.Layout, o.EagerHeaders = LayoutThanos, true
		s := newSyncer(t, o)
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		set := s.current()
		for b := range set.all() {
			b.refs.Add(1)
			if !c.served {
				s.mu.Lock()
				s.set = newBlockSet()
				s.mu.Unlock()
				b.refs.Add(-1) // that of the set
			}
			b.dropped.Store(c.dropped)
			if c.served {
				b.refs.Add(-1)
			}
			b.release()
			local := filepath.Join(o.DataDir, b.id.String(), "index-header")
			if _, err := os.Stat(local); errors.Is(err, os.ErrNotExist) == c.kept {
				t.Errorf("%+v: %v", c, err)
			}
			if c.served {
				b.refs.Add(1) // that of the set
			}
		}
	}
}

// TestSyncCanceled reads nothing if its context ends while another sync runs.
func TestSyncCanceled(t *testing.T) {
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	s := newSyncer(t, testOptions(t, bucket))
	for name, sync := range map[string]func(context.Context) error{"Sync": s.Sync, "Resync": s.Resync} {
		if err := s.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(os.ErrClosed)
		if err := sync(ctx); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v, want the cause of the context's end", name, err)
		}
		s.unlock()
	}
	if n := bucket.Calls.Load(); n != 0 {
		t.Errorf("%d calls of the bucket", n)
	}
}

// TestDetectBound takes the layout from the first blocks that can be read, up to a bound.
func TestDetectBound(t *testing.T) {
	for readable, want := range map[int]Layout{0: LayoutThanos, maxDetect - 1: LayoutThanos, maxDetect: LayoutAuto, maxDetect + 5: LayoutAuto} {
		bucket := objstore.NewInMemBucket()
		for i := range maxDetect + 6 {
			var id ulid.ULID
			if err := id.SetTime(uint64(i + 1)); err != nil {
				t.Fatal(err)
			}
			text := "not uploaded yet"
			if i == readable {
				text = `{"ulid":"` + id.String() + `","version":1,"minTime":0,"maxTime":1,"thanos":{"labels":{"a":"b"}}}`
			}
			testbucket.Upload(t, bucket, id.String()+"/"+metaName, text)
		}
		s := newSyncer(t, testOptions(t, bucket))
		if got, blocks, err := s.detect(t.Context()); got != want || !blocks || err != nil {
			t.Errorf("block %d can be read: layout %v, blocks %t, %v; want %v", readable, got, blocks, err, want)
		}
	}
}
