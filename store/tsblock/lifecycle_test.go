package tsblock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
)

func everything() *labels.Matcher { return labels.MustNewMatcher(labels.MatchRegexp, "unique", ".+") }

// testBlock returns a block whose objects are in memory.
func testBlock(t testing.TB, e *testEnv, n int) (*Block, *memorySource) {
	t.Helper()
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(10, uint64(n))), n))
	m := readSource(t, dir, name)
	b, err := openBlock(t.Context(), m, name, e.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, m
}

// TestLoadIsShared requests a header from many goroutines, the first of which give up: the rest get it, and
// the index is read once.
func TestLoadIsShared(t *testing.T) {
	e := newEnv(t)
	b, m := testBlock(t, e, 50)
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		built := 0
		m.fail = func(name string, off int64) error {
			if strings.HasSuffix(name, "/index") && off == 0 {
				built++
				<-proceed
			}
			return nil
		}
		first, cancel := context.WithCancelCause(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if err := b.Load(first); !errors.Is(err, errGaveUp) {
				t.Errorf("the one who gave up: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			asking.Go(func() {
				if err := b.Load(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel(errGaveUp)
		synctest.Wait()
		close(proceed)
		asking.Wait()
		if built != 1 || !b.Loaded() {
			t.Errorf("built %d times", built)
		}
	})
}

var errGaveUp = errors.New("gave up")

// TestAbandonedLoad cancels all callers of a load: the load is cancelled too, and the next caller starts
// a new one.
func TestAbandonedLoad(t *testing.T) {
	e := newEnv(t)
	b, m := testBlock(t, e, 50)
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		m.fail = func(string, int64) error {
			<-ended
			return errors.New("ended with the last of them")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				if err := b.Load(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		asking.Wait()
		close(ended)
		synctest.Wait()
		m.mu.Lock()
		m.fail = nil
		m.mu.Unlock()
		if err := b.Load(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLoadsAreBounded loads more blocks concurrently than the bound allows.
func TestLoadsAreBounded(t *testing.T) {
	e := newEnv(t)
	b, m := testBlock(t, e, 50)
	synctest.Test(t, func(t *testing.T) {
		e.options.Loads = make(chan struct{}, 2)
		var blocks []*Block
		for i := range 6 {
			o := e.options
			o.LocalDir = filepath.Join(e.options.LocalDir, fmt.Sprint(i))
			c, err := New(m, b.Prefix(), b.Meta(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			blocks = append(blocks, c)
		}
		proceed := make(chan struct{})
		var mu sync.Mutex
		now, most := 0, 0
		m.fail = func(_ string, off int64) error {
			if off != 0 {
				return nil
			}
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-proceed
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}
		var asking sync.WaitGroup
		for _, b := range blocks {
			asking.Go(func() {
				if err := b.Load(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if most != 2 {
			t.Errorf("%d loads at once, want 2", most)
		}
		close(proceed)
		asking.Wait()
	})
}

// TestSmallIndexIsReadAtOnce builds the header of a small index: the bucket sees a request for its size and one for
// its bytes, which are read a second time if they are damaged.
func TestSmallIndexIsReadAtOnce(t *testing.T) {
	e := newEnv(t)
	b, m := testBlock(t, e, 50)
	m.reads = 0
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.reads != 2 {
		t.Errorf("%d requests, want 2", m.reads)
	}
	if b.whole.Load() != nil {
		t.Error("the index is kept")
	}

	e = newEnv(t)
	b, m = testBlock(t, e, 50)
	index := b.object("index")
	good := m.objects[index]
	damaged := append([]byte(nil), good...)
	damaged[len(damaged)-indexTOC] ^= 1
	m.objects[index], m.reads = damaged, 0
	if err := b.Load(t.Context()); !isCorrupt(err) || m.reads != 3 {
		t.Errorf("a damaged index: %v after %d requests, want 3", err, m.reads)
	}
	m.objects[index] = good
	if err := b.Load(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHeaderIsKept unloads an idle header and loads it again from its file: the bucket sees only a request
// for the size of the index.
func TestHeaderIsKept(t *testing.T) {
	e := newEnv(t)
	b, m := testBlock(t, e, 50)
	read := func() {
		t.Helper()
		r, done := e.reader(t, b)
		defer done()
		p, err := r.Postings(t.Context(), everything())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(drain(p)); n != 50 {
			t.Fatalf("%d series", n)
		}
	}
	if b.Loaded() || b.UnloadIdle() {
		t.Error("loaded before it is used")
	}
	read()
	if b.UnloadIdle() {
		t.Error("unloaded, though it was used")
	}
	if !b.UnloadIdle() || b.Loaded() {
		t.Error("not unloaded, though it was idle")
	}
	m.mu.Lock()
	before := m.reads
	m.mu.Unlock()
	read()
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := m.reads - before; got != 1 {
		t.Errorf("%d reads of the bucket to load a header that is in its file, want 1", got)
	}
}

// TestStaleHeader replaces the index by another: its header is rebuilt.
func TestStaleHeader(t *testing.T) {
	e := newEnv(t)
	b, m := testBlock(t, e, 50)
	old, closeOld := e.reader(t, b)
	if p, err := old.Postings(t.Context(), everything()); err != nil || len(drain(p)) != 50 {
		t.Fatal(err)
	}
	closeOld()
	left := filepath.Join(b.dir, headerName+".123.tmp")
	if err := os.WriteFile(left, []byte("killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, other := testBlock(t, newEnv(t), 70)
	m.mu.Lock()
	m.objects[b.object("index")] = other.objects[b.object("index")]
	m.mu.Unlock()
	b.Unload() // its pages are still in the cache
	r, done := e.reader(t, b)
	defer done()
	p, err := r.Postings(t.Context(), everything())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(drain(p)); n != 70 {
		t.Errorf("%d series, want 70", n)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that nobody ended is left: %v", err)
	}
}

// TestRemoveUnderReader removes a block while a query reads it, and while a batch is in use.
func TestRemoveUnderReader(t *testing.T) {
	e := newEnv(t)
	b, _ := testBlock(t, e, 50)
	r, done := e.reader(t, b)
	p, err := r.Postings(t.Context(), everything())
	if err != nil {
		t.Fatal(err)
	}
	b.Remove()
	s := r.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Shard: Shard{0, 1}})
	batch, err := s.Next(t.Context())
	if err != nil {
		t.Fatalf("a reader from before: %v", err)
	}
	late := b.Reader(nil)
	if _, err := late.Postings(t.Context(), everything()); !errors.Is(err, errClosed) || !strings.Contains(err.Error(), b.Prefix()) {
		t.Errorf("a reader from afterwards: %v", err)
	}
	late.Close()
	if err := b.Load(t.Context()); err != nil && !errors.Is(err, errClosed) {
		t.Errorf("load: %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, headerName)); err != nil {
		t.Errorf("the header is gone while it is read: %v", err)
	}
	text := promLabels(batch.Labels(0)).String()
	batch.Release()
	if !strings.Contains(text, "unique") {
		t.Errorf("labels of a removed block: %s", text)
	}
	done()
	if _, err := os.Stat(b.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("local files are left: %v", err)
	}
	if n := e.options.Cache.Stats().Entries; n != 0 {
		t.Errorf("%d pages are left in the cache", n)
	}
	b.Remove() // a second time
}

// TestQuota runs queries that need more bytes than their quota: each fails with an error that names the
// purpose, and all bytes are returned.
func TestQuota(t *testing.T) {
	e := newEnv(t)
	b, _ := testBlock(t, e, 3000)
	seen := map[slab.Purpose]int{}
	for bytes := int64(1000); bytes < 4<<20; bytes = bytes * 5 / 4 {
		gate := slab.NewGate(slab.GateOptions{Bytes: bytes, PerQuery: bytes})
		q, err := gate.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = readEverything(t.Context(), b, q)
		var limit *slab.LimitError
		switch {
		case errors.As(err, &limit):
			seen[limit.Purpose]++
		case err != nil:
			t.Fatal(err)
		default:
			seen[slab.Chunks]++ // marks a quota that was sufficient
		}
		if held := q.Used(); held != 0 {
			t.Errorf("with %d bytes: %d are still held", bytes, held)
		}
		q.Close()
	}
	for _, p := range []slab.Purpose{slab.Postings, slab.Series, slab.Chunks} {
		if seen[p] == 0 {
			t.Errorf("no query ended for %s: %v", p, seen)
		}
	}
}

// TestFailingSource fails each call of the source once. The error is the source's and names the block; the
// next query succeeds.
func TestFailingSource(t *testing.T) {
	e := newEnv(t)
	errBroken := errors.New("the line is broken")
	q, err := e.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ended := false
	for call := 0; !ended; call++ {
		if call > 1000 {
			t.Fatal("no end of calls")
		}
		e.options.Cache = NewCache(0)
		e.options.LocalDir = t.TempDir()
		b, m := testBlock(t, e, 300)
		n := 0
		m.fail = func(string, int64) error {
			if n++; n == call+1 {
				return errBroken
			}
			return nil
		}
		want, _, _, err := readEverything(t.Context(), b, q)
		switch {
		case n <= call:
			ended = true
			if err != nil || len(want) == 0 {
				t.Fatal(err)
			}
		case !errors.Is(err, errBroken) || !strings.Contains(err.Error(), b.Prefix()):
			t.Fatalf("call %d: %v", call, err)
		default:
			if _, _, _, err := readEverything(t.Context(), b, q); err != nil {
				t.Fatalf("after call %d failed: %v", call, err)
			}
		}
	}
}

// TestCancel cancels a query at each call.
func TestCancel(t *testing.T) {
	e := newEnv(t)
	e.options.Cache = NewCache(0)
	b, m := testBlock(t, e, 300)
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	q, err := e.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for call := range 4 {
		e.options.Cache.pages.Clear()
		ctx, cancel := context.WithCancelCause(t.Context())
		n := 0
		m.fail = func(string, int64) error {
			if n++; n > call {
				cancel(errGaveUp)
				return ctx.Err()
			}
			return nil
		}
		if _, _, _, err := readEverything(ctx, b, q); err == nil && n > call {
			t.Errorf("call %d: a cancelled query is answered", call)
		}
		cancel(nil)
	}
}
