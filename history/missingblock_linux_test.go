//go:build amd64

package history_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/localdb"
)

// TestNewestBlockMissing loses the newest local block and the write-ahead log, which has its samples too while it is short. The
// samples of the block are read from the bucket, also after further rounds and another start.
func TestNewestBlockMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bucket", "series"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openFaulty(t, dir, 0)
	f.must(err)
	sound := f.run(soundRounds)
	f.must(f.archive.Close())
	blocks, err := filepath.Glob(filepath.Join(dir, "series", "*", "meta.json"))
	if err != nil || len(blocks) < 2 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	newest := filepath.Dir(slices.Max(blocks)) // names have their time of creation
	f.must(errors.Join(os.Remove(filepath.Join(newest, "index")),
		os.RemoveAll(filepath.Join(dir, "series", localdb.WALName)), os.RemoveAll(filepath.Join(dir, "series", localdb.HeadName))))
	var shipped []moment
	for _, w := range sound.Written {
		if w.At.Before(time.UnixMilli(1_700_000_000_000).Truncate(2 * time.Hour).Add(4 * time.Hour)) {
			shipped = append(shipped, moment{w.At, w.Calls, w.Errors, w.Rows})
		}
	}
	for after := soundRounds; after < soundRounds+2*finalRounds; after += finalRounds {
		f, err := openFaulty(t, dir, after)
		f.must(err)
		f.lossy = true
		f.must(f.rig.gateway.Sync(t.Context()))
		f.checkEvery(shipped, time.Minute)
		f.run(finalRounds)
		f.checkEvery(shipped, time.Minute)
		f.must(f.archive.Close())
	}
}
