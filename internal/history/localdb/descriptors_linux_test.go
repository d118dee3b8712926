package localdb_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testdir"
)

// TestFewDescriptors opens a database with a checkpoint, with and without blocks, while too few files can be opened: each call that
// opens one fails in turn. The error is returned, nothing is set aside, and the next process has all samples.
func TestFewDescriptors(t *testing.T) {
	l := &lostLog{T: t, path: t.TempDir()}
	for range 4 { // segments that a checkpoint replaces
		l.open()
		l.close()
	}
	all := []series{{"a", 1, false}, {"b", 2, false}}
	l.open()
	l.append(0, all...)
	if err := l.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.close()
	base := l.path
	blocks, err := filepath.Glob(filepath.Join(base, "01*"))
	checkpoints, err2 := filepath.Glob(filepath.Join(base, localdb.WALName, "checkpoint.*"))
	if err != nil || err2 != nil || len(blocks) == 0 || len(checkpoints) != 1 {
		t.Fatalf("%d blocks, checkpoints %v", len(blocks), checkpoints)
	}
	// A checkpoint of two segments takes more files at a time than what is read before it.
	if err := os.WriteFile(filepath.Join(checkpoints[0], "00000001"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.open() // records the files' sizes
	l.close()
	for _, withBlocks := range []bool{true, false} {
		failed := 0
		for n := 0; ; n++ {
			l.path = filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(l.path, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			if !withBlocks {
				for _, b := range blocks {
					if err := os.RemoveAll(filepath.Join(l.path, filepath.Base(b))); err != nil {
						t.Fatal(err)
					}
				}
			}
			log := slog.New(slog.DiscardHandler)
			state := localstate.Open(l.path, nil, log)
			missing := len(state.Losses()) // blocks
			dir := localdb.Directory{Path: l.path, State: state, Log: log}
			var db *tsdb.DB
			var err error
			testdir.WithDescriptors(t, n, func() {
				db, err = dir.Open(func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
			})
			if err == nil {
				closeDB(t, db)
			} else if !errors.Is(err, syscall.EMFILE) {
				t.Errorf("%d descriptors: %v", n, err)
			}
			if lost := state.Losses(); len(lost) > missing {
				t.Errorf("%d descriptors: %+v", n, lost[missing:])
			}
			if lost := l.open(); len(lost) > missing {
				t.Errorf("after %d descriptors: %+v", n, lost[missing:])
			}
			l.check(all...)
			l.close()
			if err == nil {
				break
			}
			failed++
		}
		if failed < 2 {
			t.Errorf("blocks %t: %d descriptors are enough", withBlocks, failed)
		}
	}
}
