package promapi

import (
	"testing"

	"github.com/prometheus/prometheus/storage"
)

// TestReadHints sends remote reads with hints beyond the time ranges of their queries: the hints do not
// extend the range read.
func TestReadHints(t *testing.T) {
	for _, c := range []struct{ start, end, from, to, wantStart, wantEnd int64 }{
		{10, 20, 10, 20, 10, 20},
		{10, 20, 12, 18, 12, 18},
		{10, 20, 0, 100, 10, 20},
		{10, 20, 30, 40, 30, 20}, // nothing
		{20, 10, 0, 100, 20, 10}, // nothing
	} {
		q := readQuery{start: c.start, end: c.end, hints: &storage.SelectHints{Start: c.from, End: c.to, Func: "series"}}
		if got := q.selectHints(); got.Start != c.wantStart || got.End != c.wantEnd || got.Func != "" {
			t.Errorf("query %d to %d, hints %d to %d: %+v", c.start, c.end, c.from, c.to, got)
		}
	}
}
