package diskcache

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testdir"
)

// TestFullDisk fills a real disk, before the cache is opened or while it stores pages, and frees it.
func TestFullDisk(t *testing.T) {
	disk := testdir.Small(t, 2<<20)
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
			disk := testdir.Small(t, 64<<10)
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
