package statements

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/panics"
)

// A snapshot has the counts of each Key at one time, as evaluated by PromQL.
type snapshot struct {
	at     int64        // Unix milliseconds
	newest int64        // of the samples, up to at
	rows   []rollup.Row // in the order of their prints, which are unique

	byPrint map[rollup.Print]*rollup.Row // while samples are read
	spreads []byte                       // buffer for new spreads
	bytes   int64                        // of all such buffers
	scratch stmtstats.Histogram
}

// row returns the row of a Key, and adds it if there is none.
func (s *snapshot) row(k stmtstats.Key, kind stmtstats.Kind) *rollup.Row {
	p := printOfKind(&k, kind)
	row := s.byPrint[p]
	if row == nil {
		row = &rollup.Row{Print: p, Key: k}
		s.byPrint[p] = row
	}
	return row
}

func printOfKind(k *stmtstats.Key, kind stmtstats.Kind) rollup.Print {
	switch kind {
	case stmtstats.Other:
		return rollup.OtherPrint()
	case stmtstats.Evicted:
		return rollup.EvictedPrint()
	}
	return rollup.PrintOf(k)
}

// spreadOf appends a histogram's spread to the buffer.
func (s *snapshot) spreadOf(h *stmtstats.Histogram) []byte {
	const room = 64 << 10
	if cap(s.spreads)-len(s.spreads) < stmtstats.MaxSpread {
		s.spreads = make([]byte, 0, room)
		s.bytes += room
	}
	n := len(s.spreads)
	s.spreads = h.AppendSpread(s.spreads)
	return s.spreads[n:len(s.spreads):len(s.spreads)]
}

// order sorts the rows and merges those with the same print: names that are not UTF-8 may become equal in series.
func (s *snapshot) order() error {
	type numbered struct { // is moved instead of the row, which is large
		high, low uint64
		row       int
	}
	order := make([]numbered, len(s.rows))
	for i := range s.rows {
		p := &s.rows[i].Print
		order[i] = numbered{binary.BigEndian.Uint64(p[:]), binary.BigEndian.Uint64(p[8:]), i}
	}
	slices.SortFunc(order, func(a, b numbered) int {
		if a.high != b.high {
			return cmp.Compare(a.high, b.high)
		}
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.row, b.row))
	})
	out := make([]rollup.Row, 0, len(s.rows))
	for _, o := range order {
		row := &s.rows[o.row]
		if len(out) == 0 || out[len(out)-1].Print != row.Print {
			out = append(out, *row)
			continue
		}
		last := &out[len(out)-1]
		last.Counts.Add(&row.Counts)
		last.First, last.Last = min(last.First, row.First), max(last.Last, row.Last)
		s.scratch.Reset()
		if err := errors.Join(s.scratch.AddSpread(last.Spread), s.scratch.AddSpread(row.Spread)); err != nil {
			return err
		}
		last.Spread = s.spreadOf(&s.scratch)
	}
	s.rows = out
	return nil
}

// refreshed is a period in which each series of a process has a sample.
const refreshed = 3 * history.RefreshAge

// snapshotAt reads the samples of five minutes: its cost does not depend on the range of the query. After a
// pause in writing it reads more, because the counters continue after it. With a digest it reads only that.
func snapshotAt(ctx context.Context, db *localdb.Database, at int64, digest *[16]byte) (*snapshot, error) {
	start := localdb.Start(db.Current())
	for back := stmtseries.Lookback.Milliseconds(); ; back *= 8 {
		samples := stmtseries.Range{DB: db, From: at - back + 1, To: at, Counts: readingOf(ctx).counts()}
		if digest != nil {
			samples.Digests = [][16]byte{*digest}
		}
		s, err := snapshotOf(ctx, &samples)
		if err != nil || s.newest-samples.From >= refreshed.Milliseconds() || samples.From <= start {
			return s, err
		}
	}
}

// snapshotOf reads counters and durations concurrently: each is about half of the work.
func snapshotOf(ctx context.Context, samples *stmtseries.Range) (*snapshot, error) {
	s := &snapshot{at: samples.To, byPrint: make(map[rollup.Print]*rollup.Row)}
	spreads := &snapshot{byPrint: make(map[rollup.Print]*rollup.Row)}
	var err, spreadErr error
	var parts sync.WaitGroup
	parts.Go(func() {
		spreadErr = panics.Guard(func() error { return samples.Read(ctx, []stmtseries.Metric{stmtseries.Duration}, spreads.addDurations) })
	})
	err = samples.Read(ctx, stmtseries.Counters, s.addCounter)
	parts.Wait()
	if err := errors.Join(err, spreadErr); err != nil {
		return nil, err
	}
	s.newest = max(s.newest, spreads.newest)
	s.rows = make([]rollup.Row, 0, len(s.byPrint))
	for p, row := range s.byPrint {
		if d := spreads.byPrint[p]; d != nil {
			row.Counts[stmtstats.Nanos], row.Spread = d.Counts[stmtstats.Nanos], d.Spread
			delete(spreads.byPrint, p)
		}
		s.rows = append(s.rows, *row)
	}
	for _, row := range spreads.byPrint {
		s.rows = append(s.rows, *row)
	}
	s.byPrint = nil
	return s, s.order()
}

func (s *snapshot) addCounter(of *stmtseries.Samples) error {
	last := 0.0
	for of.Next() {
		if last = of.V; of.Stale {
			last = 0
		}
		if last > 0 {
			s.newest = max(s.newest, of.T)
		}
	}
	if last == 0 {
		return nil
	}
	k, kind, class, err := of.ID()
	if err != nil {
		return err
	}
	s.row(k, kind).Counts[of.Metric.Counter(class)] = uint64(last)
	return nil
}

func (s *snapshot) addDurations(of *stmtseries.Samples) error {
	live := false
	for of.Next() {
		live = !of.Stale && (of.H.Count > 0 || of.H.Sum > 0)
		if live {
			s.newest = max(s.newest, of.T)
		}
	}
	if !live {
		return nil
	}
	k, kind, _, err := of.ID()
	if err != nil {
		return err
	}
	if err := s.scratch.SetNative(of.H); err != nil {
		return err
	}
	row := s.row(k, kind)
	row.Counts[stmtstats.Nanos], row.Spread = s.scratch.Nanos, s.spreadOf(&s.scratch)
	return nil
}

// since returns the growth since an earlier snapshot, as in an hour's rollup, except that all counts of a Key
// up to its eviction in between belong to Evicted. The rows are sorted.
func (s *snapshot) since(before *snapshot) ([]rollup.Row, error) {
	var out snapshot // s is shared by concurrent requests
	rows := make([]rollup.Row, 0, len(s.rows))
	var lost stmtstats.Counts
	var lostSpread, spread stmtstats.Histogram
	err := pairRows(before.rows, s.rows, func(was, row *rollup.Row) error {
		if was != nil && (row == nil || was.Counts[stmtstats.Calls] > row.Counts[stmtstats.Calls] || row.First > before.at) { // its entry was evicted
			if !was.Print.IsSum() {
				lost.Add(&was.Counts)
				if err := lostSpread.AddSpread(was.Spread); err != nil {
					return err
				}
			}
			was = nil
		}
		if row == nil || was != nil && was.Counts[stmtstats.Calls] == row.Counts[stmtstats.Calls] && !longer(&was.Counts, &row.Counts) {
			return nil // it was neither called nor in flight
		}
		rows = append(rows, *row)
		if was == nil {
			return nil
		}
		spread.Reset()
		if err := spread.AddSpread(was.Spread); err != nil {
			return err
		}
		return out.subtract(&rows[len(rows)-1], &was.Counts, &spread)
	})
	for i := range rows {
		if err == nil && rows[i].Print == rollup.EvictedPrint() {
			err = out.subtract(&rows[i], &lost, &lostSpread)
		}
	}
	return slices.DeleteFunc(rows, func(row rollup.Row) bool { return !row.Counts.Any() }), err
}

// longer reports whether the calls of after took longer than those of before by more than the rounding of seconds.
func longer(before, after *stmtstats.Counts) bool {
	a, b := after[stmtstats.Nanos], before[stmtstats.Nanos]
	return a > b && a-b > a>>48
}

// pairRows visits the rows of each print; the row of a side that lacks the print is nil.
func pairRows(a, b []rollup.Row, visit func(a, b *rollup.Row) error) error {
	for len(a)+len(b) > 0 {
		var pair [2]*rollup.Row
		order := cmp.Compare(len(b), len(a)) // if one side is exhausted
		if len(a) > 0 && len(b) > 0 {
			order = a[0].Print.Compare(b[0].Print)
		}
		if order <= 0 {
			pair[0], a = &a[0], a[1:]
		}
		if order >= 0 {
			pair[1], b = &b[0], b[1:]
		}
		if err := visit(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

// subtract subtracts counts from a row.
func (s *snapshot) subtract(row *rollup.Row, counts *stmtstats.Counts, spread *stmtstats.Histogram) error {
	h := &s.scratch
	h.Reset()
	if err := h.AddSpread(row.Spread); err != nil {
		return err
	}
	h.Subtract(spread)
	row.Counts.Subtract(counts)
	row.Spread = s.spreadOf(h)
	return nil
}
