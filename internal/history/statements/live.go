package statements

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/parallel"
)

const (
	// liveFor is how long the counters of all digests are reused, and kept in memory. They are read by requests only.
	liveFor = time.Second

	// baseFor is how long the counters to which changes are added are kept in memory after the last request.
	baseFor = 30 * time.Second

	// mostChanged is the fraction of the rows, as a divisor, that may have changed since the base before all are read again.
	mostChanged = 4
)

// settled is the minimum age of a sample when the counters are read that are compared with it, unless they are read
// after it: a round's samples have the time of its start, and the values of the time at which it reads them.
const settled = time.Minute

// A liveCounters has the table's counters of all digests, as read by recent requests.
type liveCounters struct {
	sync.Mutex
	of       *localdb.Database
	at       time.Time
	snapshot *snapshot   // of the table at that time; nil: none
	rest     *restOfHour // nil: none

	base   *liveBase   // nil: none
	expiry *time.Timer // drops base

	held atomic.Int64 // bytes of all
}

// A restOfHour has the data newer than the last rollup.
type restOfHour struct {
	of         *localdb.Database
	begin, end time.Time
	files      []*planned // the growth up to the base, and since
}

// A liveBase has the counters of all entries at one time. Later readings add the entries that have changed since.
type liveBase struct {
	*snapshot
	of     *localdb.Database
	marks  []stmtstats.Mark // of the entries before they were read, by number
	prints []rollup.Print   // of the entries' rows, by number
	known  []bool           // whether an entry has a row, by number
	begin  time.Time        // of file
	file   *planned         // the growth from begin to the snapshot; nil: not computed
}

// A liveRows collects the counters of the table's entries.
type liveRows struct {
	*snapshot
	table   *stmtstats.Table
	lastID  uint64 // first calls of earlier entries are unknown: they were counted before the first samples of the instance
	sample  stmtstats.Sample
	numbers []int                // of the rows' entries
	sums    map[int]rollup.Print // rows of no Key
}

func (a *ArchiveReader) liveRows(in *history.Instance, now time.Time) *liveRows {
	return &liveRows{snapshot: &snapshot{at: now.UnixMilli()}, table: a.table, lastID: in.LastID, sums: make(map[int]rollup.Print)}
}

// reset discards the rows.
func (l *liveRows) reset() {
	l.rows, l.numbers = l.rows[:0], l.numbers[:0]
	clear(l.sums)
}

// add adds the sample of an entry.
func (l *liveRows) add(number int) {
	sample := &l.sample
	if !sample.Counts.Any() {
		return
	}
	row := rollup.Row{Key: sample.Key, Counts: sample.Counts, Spread: l.spreadOf(&sample.Histogram), Last: sample.Last.UnixMilli()}
	if sample.ID > l.lastID {
		row.First = sample.First.UnixMilli()
	}
	if sample.Kind == stmtstats.Tracked {
		row.Text, _ = l.table.TextAt(number, sample.ID)
	} else {
		l.sums[len(l.rows)] = printOfKind(&row.Key, sample.Kind)
	}
	l.rows, l.numbers = append(l.rows, row), append(l.numbers, number)
}

// finish sets the prints of the rows.
func (l *liveRows) finish() error {
	if err := printRows(l.rows); err != nil {
		return err
	}
	for i, p := range l.sums {
		l.rows[i].Print = p
	}
	return nil
}

// snapshotNow reads the counters of a digest from the table.
func (a *ArchiveReader) snapshotNow(in *history.Instance, now time.Time, digest [16]byte) (*snapshot, error) {
	l := a.liveRows(in, now)
	a.table.ReadDigest(&l.sample, digest, l.add)
	if err := l.finish(); err != nil {
		return nil, err
	}
	return l.snapshot, l.order()
}

// printRows sets the prints of rows, in two halves at once: a page waits for it.
func printRows(rows []rollup.Row) error {
	half := len(rows) / 2
	return parallel.ForEach(context.Background(), 2, [][]rollup.Row{rows[:half], rows[half:]}, func(_ context.Context, rows []rollup.Row) error {
		for i := range rows {
			row := &rows[i]
			for _, name := range [...]*string{&row.Key.Schema, &row.Key.User, &row.Key.Backend} {
				*name = rollup.ValidName(*name)
			}
			row.Print = rollup.PrintOf(&row.Key)
		}
		return nil
	})
}

// reusable reports whether the counters of all digests were read less than liveFor before now. The caller holds the lock.
func (l *liveCounters) reusable(in *history.Instance, now time.Time) bool {
	return l.snapshot != nil && l.of == in.Samples && isRecent(l.at, now)
}

func isRecent(at, now time.Time) bool {
	age := now.Sub(at)
	return age >= 0 && age < liveFor
}

// readLive reads the counters of all digests, to be reused. The caller holds the lock of a.counters.
func (a *ArchiveReader) readLive(in *history.Instance, now time.Time) error {
	c := &a.counters
	c.snapshot, c.rest, c.base = nil, nil, nil
	b := &liveBase{of: in.Samples, marks: make([]stmtstats.Mark, a.table.Numbers()), prints: make([]rollup.Print, a.table.Numbers()), known: make([]bool, a.table.Numbers())}
	l := a.liveRows(in, now)
	l.rows = make([]rollup.Row, 0, a.table.Len())
	if err := a.table.ScanChanges(&l.sample, nil, func() { l.reset(); clear(b.marks) }, func(number int, m stmtstats.Mark, live bool) {
		if b.marks[number] = m; live {
			l.add(number)
		}
	}); err != nil {
		return err
	}
	if err := l.finish(); err != nil {
		return err
	}
	for i, number := range l.numbers {
		b.prints[number], b.known[number] = l.rows[i].Print, true
	}
	if err := l.order(); err != nil {
		return err
	}
	c.of, c.at, c.snapshot = in.Samples, now, l.snapshot
	if b.snapshot = l.snapshot; len(b.rows) == len(l.numbers) { // rows of several entries have no growth of one entry
		c.base = b
	}
	a.expire()
	return nil
}

// expire drops the counters some time after the last request, and counts their bytes. The caller holds the lock of a.counters.
func (a *ArchiveReader) expire() {
	c := &a.counters
	snapshot, rest := c.snapshot, c.rest
	time.AfterFunc(liveFor, func() {
		c.Lock()
		defer c.Unlock()
		if c.snapshot == snapshot {
			c.snapshot = nil
		}
		if c.rest == rest {
			c.rest = nil
		}
		c.weigh()
	})
	if c.expiry != nil {
		c.expiry.Stop()
	}
	base := c.base
	var expiry *time.Timer
	expiry = time.AfterFunc(baseFor, func() {
		c.Lock()
		defer c.Unlock()
		if c.base == base {
			c.base = nil
		}
		if c.expiry == expiry {
			c.expiry = nil // a timer keeps its function, and with it base
		}
		c.weigh()
	})
	c.expiry = expiry
	c.weigh()
}

// liveSnapshot returns the counters of all digests and the time at which they were read. They are compared with the
// samples at the given time.
func (a *ArchiveReader) liveSnapshot(in *history.Instance, from time.Time) (*snapshot, time.Time, error) {
	c := &a.counters
	c.Lock()
	defer c.Unlock()
	if now := a.archive.Now(); !c.reusable(in, now) || c.at.Sub(from) < settled {
		if err := a.readLive(in, now); err != nil {
			return nil, c.at, err
		}
	}
	return c.snapshot, c.at, nil
}

// planRest returns data newer than the last rollup: the table's counters less their values at the end of the
// last hour.
func (a *ArchiveReader) planRest(ctx context.Context, in *history.Instance, done time.Time) (*restOfHour, error) {
	before, err := a.atClose(ctx, in, done.UnixMilli())
	if err != nil {
		return nil, err
	}
	c := &a.counters
	c.Lock()
	defer c.Unlock()
	now := a.archive.Now()
	if r := c.rest; r != nil && r.of == in.Samples && r.begin.Equal(done) && isRecent(r.end, now) {
		return r, nil
	}
	r := &restOfHour{of: in.Samples, begin: done, end: now}
	if b := c.base; b != nil && b.of == in.Samples && b.file != nil && b.begin.Equal(done) && b.at <= now.UnixMilli() {
		file, err := a.changesSince(in, b, now)
		if err != nil {
			return nil, err
		}
		if file != nil {
			r.files = []*planned{file, b.file}
		}
	}
	if r.files == nil {
		if err := a.readLive(in, now); err != nil { // after the counts before: none of them exceeds its counter
			return nil, err
		}
		rows, err := c.snapshot.since(before)
		if err != nil {
			return nil, err
		}
		file, err := memoryFile("the current hour", done, c.at, rows)
		if err != nil {
			return nil, err
		}
		if r.end, r.files = c.at, []*planned{file}; c.base != nil && c.base.snapshot == c.snapshot {
			c.base.begin, c.base.file = done, file
		}
	}
	c.rest = r
	a.expire()
	return r, nil
}

// changesSince returns a file of the growth since a base; nil if an entry of the base was evicted: its counts then belong to
// Evicted from the start of the hour. If many entries have changed, the base is dropped.
func (a *ArchiveReader) changesSince(in *history.Instance, b *liveBase, now time.Time) (*planned, error) {
	before := &snapshot{at: b.at}
	l := a.liveRows(in, now)
	evicted := false
	reset := func() {
		l.reset()
		before.rows = before.rows[:0]
	}
	if err := a.table.ScanChanges(&l.sample, b.marks, reset, func(number int, m stmtstats.Mark, live bool) {
		if b.known[number] {
			evicted = evicted || !live || m.ID() != b.marks[number].ID()
			i, _ := slices.BinarySearchFunc(b.rows, b.prints[number], func(row rollup.Row, p rollup.Print) int { return row.Print.Compare(p) })
			before.rows = append(before.rows, b.rows[i])
		}
		if live {
			l.add(number)
		}
	}); err != nil || evicted {
		return nil, err
	}
	if err := l.finish(); err != nil {
		return nil, err
	}
	slices.SortFunc(before.rows, func(a, b rollup.Row) int { return a.Print.Compare(b.Print) })
	if err := l.order(); err != nil {
		return nil, err
	}
	rows, err := l.since(before)
	if err != nil {
		return nil, err
	}
	if mostChanged*len(l.rows) > len(b.rows) {
		a.counters.base = nil
	}
	return memoryFile("the current hour", b.begin, now, rows)
}
