package localdb_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// TestOpenFails opens a database that does not open for a reason that head chunks and write-ahead log have no part in, with
// and without links to their files. Both are where they were, nothing is reported, and the next process has all samples.
func TestOpenFails(t *testing.T) {
	for name, links := range map[string]bool{"with links": true, "without links": false} {
		t.Run(name, func(t *testing.T) {
			l := &lostLog{T: t, path: t.TempDir()}
			l.open()
			all := []series{{"a", 1, false}, {"b", 2, false}}
			l.append(0, all...)
			l.close()
			obstacle := filepath.Join(l.path, "wbl") // of samples out of order: a directory
			if err := os.WriteFile(obstacle, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			log := slog.New(slog.DiscardHandler)
			state := localstate.Open(l.path, nil, log)
			if !links {
				aside := filepath.Join(l.path, localstate.AsideName)
				if err := errors.Join(os.RemoveAll(aside), os.WriteFile(aside, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			dir := localdb.Directory{Path: l.path, State: state, Log: log}
			for range 2 {
				if _, err := dir.Open(func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil }); err == nil {
					t.Fatal("opened")
				}
			}
			if len(state.Losses()) > 0 || len(state.Counts()) > 0 {
				t.Errorf("reported: %v, %v", state.Losses(), state.Counts())
			}
			if aside, err := filepath.Glob(filepath.Join(l.path, "*"+localstate.AsideName+"-*")); err != nil || len(aside) > 0 {
				t.Errorf("set aside: %v, %v", aside, err)
			}
			if err := os.Remove(obstacle); err != nil {
				t.Fatal(err)
			}
			if lost := l.open(); len(lost) > 0 {
				t.Errorf("reported: %v", lost)
			}
			l.check(all...)
			l.close()
		})
	}
}
