package diskcache

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testwait"
)

// TestFailedWrites has the disk fail: pages are dropped until the time to retry, one warning is logged, and stored
// pages are still read. When writes succeed again, so does insertion.
func TestFailedWrites(t *testing.T) {
	for _, failure := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO, errors.New("another")} {
		var log logBuffer
		var now atomic.Int64
		d := &fakeDisk{left: -1}
		c := open(t, Options{
			Dir: t.TempDir(), Log: log.logger(), Now: func() time.Time { return time.Unix(now.Load(), 0) }, storage: d.on,
		})
		before, after := somePages(1, 1, 10), somePages(1, 2, 10)[10:]
		fill(t, c, before)
		have := hits(t, c, before)
		d.fail(failure)
		for i := range 5 {
			fill(t, c, after)
			now.Add(int64(i%2) * 60)
		}
		s := c.Stats()
		if s.Writable || s.Errors == 0 || s.Dropped == 0 || log.lines(slog.LevelWarn) != 1 || hits(t, c, before) < have-int(s.Errors) {
			t.Fatalf("%v: %+v; log:\n%s", failure, s, &log)
		}
		d.fail(nil)
		now.Add(60)
		fill(t, c, after)
		if n := hits(t, c, after); n < 8 || !c.Stats().Writable || log.lines(slog.LevelWarn) != 1 || log.lines(slog.LevelInfo) != 1 {
			t.Errorf("%v: %d pages after the failure: %+v; log:\n%s", failure, n, c.Stats(), &log)
		}
	}
}

// TestQueuedWhenAWriteFails has one write fail while others are queued: none of them is tried, so that insertion
// does not seem to work again.
func TestQueuedWhenAWriteFails(t *testing.T) {
	var log logBuffer
	d := &fakeDisk{left: -1, failed: syscall.ENOSPC, once: true, gate: make(chan struct{})}
	c := open(t, Options{Dir: t.TempDir(), Log: log.logger(), Now: func() time.Time { return time.Unix(0, 0) }, storage: d.on})
	all := somePages(1, 1, 10)
	for _, p := range all {
		p.set(c, 0)
	}
	close(d.gate)
	written(t, c)
	s := c.Stats()
	if s.Writable || s.Errors != 1 || s.Dropped != 9 || log.lines(slog.LevelWarn) != 1 || log.lines(slog.LevelInfo) != 0 {
		t.Errorf("%+v; log:\n%s", s, &log)
	}
}

// TestSlowDisk has a disk that completes no write: Set does not wait, and drops what the queue has no room for.
func TestSlowDisk(t *testing.T) {
	d := &fakeDisk{left: -1, gate: make(chan struct{})}
	c := open(t, Options{Dir: t.TempDir(), Bytes: 32 << 20, storage: d.on})
	all := somePages(1, 1, 2*maxQueued)
	for _, p := range all {
		p.set(c, 0)
	}
	if s := c.Stats(); s.Dropped != maxQueued || s.Queued != maxQueued || s.Memory != c.MaxMemory() {
		t.Errorf("%+v", s)
	}
	if n := hits(t, c, all); n != 0 {
		t.Errorf("%d pages before they are written", n)
	}
	close(d.gate)
	written(t, c)
	if n := hits(t, c, all); n < maxQueued*9/10 {
		t.Errorf("%d of %d pages", n, maxQueued)
	}
}

// TestAllocs lists the allocations of lookups and insertions: there are none.
func TestAllocs(t *testing.T) {
	c := open(t, Options{Dir: t.TempDir()})
	p := testPage{page: 1}
	o, data, dst := p.object(), p.content(0), make([]byte, PageSize)
	p.set(c, 0)
	written(t, c)
	alloctest.Run(t, []alloctest.Case{
		{Name: "a hit", Op: func() error {
			if n, ok := c.Get(o, 1, dst); !ok || n != len(data) {
				return fmt.Errorf("%d bytes, %v", n, ok)
			}
			return nil
		}},
		{Name: "a miss", Op: func() error {
			if _, ok := c.Get(o, 2, dst); ok || c.Probe(o, 3) {
				return errors.New("found")
			}
			return nil
		}},
		{Name: "the key of an object", Op: func() error {
			if testBlockName.Object(1, "chunks/000001") == o {
				return errors.New("the same key")
			}
			return nil
		}},
		{Name: "an insertion", Op: func() error {
			c.Set(o, 1, data)
			return nil
		}},
	})
	testwait.Equal(t, "pages that wait to be written", 0, func() int64 { return c.Stats().Queued })
	if s := c.Stats(); s.Errors+s.Damaged > 0 {
		t.Errorf("%+v", s)
	}
}

var testBlockName = BlockOf("01ARZ3NDEKTSV4RRFFQ69G5FAV")
