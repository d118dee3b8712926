package diskcache

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// smallDisk mounts a tmpfs.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs requires root")
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
		t.Skipf("no small tmpfs: mount %s: %v", disk, err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	return disk
}

// TestFullDisk fills a real disk, before the cache is opened or while it stores pages, and frees it.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "size=2m")
	var log logBuffer
	var now atomic.Int64
	o := Options{Dir: filepath.Join(disk, "cache"), Bytes: 4 << 20, Log: log.logger(), Now: func() time.Time { return time.Unix(now.Load(), 0) }}
	c := open(t, o)
	all := somePages(2, 1, 100)
	fill(t, c, all)
	s := c.Stats()
	if s.Writable || s.Dropped == 0 || s.Entries < 50 || log.lines(slog.LevelWarn) != 1 {
		t.Fatalf("%+v; log:\n%s", s, &log)
	}
	if n := hits(t, c, all); n != int(s.Entries) {
		t.Errorf("%d pages are read, %d were stored", n, s.Entries)
	}
	must(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=8m"))
	now.Add(60)
	fill(t, c, all)
	if n := hits(t, c, all); n < 180 || !c.Stats().Writable {
		t.Errorf("%d of 200 pages when the disk has room: %+v", n, c.Stats())
	}
}

// TestOpenOnFailedDisk opens caches on a full and on a read-only disk: they have no pages, and log one warning.
func TestOpenOnFailedDisk(t *testing.T) {
	for _, how := range []string{"full", "read-only"} {
		t.Run(how, func(t *testing.T) {
			disk := smallDisk(t, "size=64k")
			if how == "full" {
				err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 1<<20), 0o600)
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			} else {
				must(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			}
			var log logBuffer
			c := open(t, Options{Dir: filepath.Join(disk, "cache"), Log: log.logger()})
			all := somePages(1, 1, 3)
			fill(t, c, all)
			c.Forget(testBlock(0))
			c.Retain(nil)
			c.Delete(all[0].object(), 0)
			if n := hits(t, c, all); n != 0 || c.Probe(all[0].object(), 0) || log.lines(slog.LevelWarn) != 1 {
				t.Errorf("%d pages; log:\n%s", n, &log)
			}
			if s := c.Stats(); s.Writable || s.Capacity != 0 || s.Misses != 4 || s.Dropped != 3 {
				t.Errorf("%+v", s)
			}
		})
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
