package follow

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Ranges are the chunks of a table whose changes are tracked.
type Ranges struct {
	Chunks int

	// Column of the images has the first column of the key, an integer, and Upto the last value of each chunk but the last one, in ascending order. -1: a change counts
	// for all chunks.
	Column int
	Upto   []int64
}

// A tracker records in which chunks rows have changed.
type tracker struct {
	on      atomic.Bool // something is tracked
	mu      sync.Mutex
	ranges  []Ranges // nil: nothing is tracked
	changed [][]bool
}

// Track starts to record in which chunks of the tables rows change.
func (f *Follower) Track(tables []Ranges) {
	f.tracker.mu.Lock()
	defer f.tracker.mu.Unlock()
	f.tracker.ranges, f.tracker.changed = tables, make([][]bool, len(tables))
	for i := range tables {
		f.tracker.changed[i] = make([]bool, tables[i].Chunks)
	}
	f.tracker.on.Store(true)
}

// Changed returns in which chunks rows have changed since Track, by table and number, and ends that. nil: nothing was tracked.
func (f *Follower) Changed() [][]bool {
	f.tracker.mu.Lock()
	defer f.tracker.mu.Unlock()
	changed := f.tracker.changed
	f.tracker.ranges, f.tracker.changed = nil, nil
	f.tracker.on.Store(false)
	return changed
}

// record records a change, of which the images are given.
func (t *tracker) record(c *binlog.Change, before, after mysqlwire.TextRow) {
	if !t.on.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranges == nil {
		return
	}
	if c.Before >= 0 {
		t.row(c, before)
	}
	if c.After >= 0 {
		t.row(c, after)
	}
}

// row records a row of a change.
func (t *tracker) row(c *binlog.Change, row mysqlwire.TextRow) {
	r, changed := &t.ranges[c.Table], t.changed[c.Table]
	if r.Column >= 0 && c.Kind != binlog.Cascaded {
		if v, err := strconv.ParseInt(string(row[r.Column]), 10, 64); err == nil {
			i, _ := slices.BinarySearch(r.Upto, v)
			for changed[i] = true; i < len(r.Upto) && r.Upto[i] == v; i++ { // further columns of the key decide
				changed[i+1] = true
			}
			return
		}
	}
	for i := range changed { // a key that is no integer, or that the image does not have
		changed[i] = true
	}
}
