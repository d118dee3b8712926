package stmtstats

import (
	"errors"
	"log/slog"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testdir"
)

// TestFewDescriptors opens a table that does not exist, one that does and one of another size, while too few files can be opened: the error is
// returned, nothing is set aside, and the next process has all counts.
func TestFewDescriptors(t *testing.T) {
	for name, digests := range map[string]int{"none": 0, "the same": 16, "another": 24} {
		failed := 0
		for n := 0; ; n++ {
			dir := t.TempDir()
			o := Options{Dir: dir, MaxDigests: 16, Bytes: leastBytes(64), Slog: slog.New(slog.DiscardHandler)}
			want := uint64(0)
			if digests > 0 {
				before := o
				before.MaxDigests, want = digests, 5
				countCalls(t, before, int(want))
			}
			o.State = localstate.Open(dir, nil, o.Slog)
			var table *Table
			var err error
			testdir.WithDescriptors(t, n, func() { table, err = OpenTable(o) })
			if err == nil {
				if got := calledOf(t, table); got != want {
					t.Errorf("%s, %d descriptors: %d calls, want %d", name, n, got, want)
				}
				err = table.Close()
				if err != nil || failed == 0 {
					t.Errorf("%s: %v after %d failures", name, err, failed)
				}
				break
			}
			failed++
			if !errors.Is(err, syscall.EMFILE) || len(o.State.Losses()) > 0 {
				t.Errorf("%s, %d descriptors: %v, losses %+v", name, n, err, o.State.Losses())
			}
			o.State = nil
			table = mustOpen(t, o)
			if got := calledOf(t, table); got != want {
				t.Errorf("%s, after %d descriptors: %d calls, want %d", name, n, got, want)
			}
			if err := table.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
