package history

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtstats"
)

// A snapshot is what each Key had counted at one time, as PromQL finds it then.
type snapshot struct {
	at     int64        // Unix milliseconds
	newest int64        // of the samples, up to at
	rows   []rollup.Row // in the order of their prints, one of each

	byPrint map[rollup.Print]*rollup.Row // while samples are read
	spreads []byte                       // where new spreads go
	before  func(*stmtstats.Sample) bool // reports that a first call is unknown
}

// row is the one of a Key, which is made when there is none.
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

// spreadOf keeps a histogram's spread, beside those of other rows.
func (s *snapshot) spreadOf(h *stmtstats.Histogram) []byte {
	const room = 64 << 10
	if cap(s.spreads)-len(s.spreads) < stmtstats.MaxSpread {
		s.spreads = make([]byte, 0, room)
	}
	n := len(s.spreads)
	s.spreads = h.AppendSpread(s.spreads)
	return s.spreads[n:len(s.spreads):len(s.spreads)]
}

// order puts rows in order, and those together that are of one print: names that are not UTF-8 may be the same in series.
func (s *snapshot) order() error {
	slices.SortFunc(s.rows, func(a, b rollup.Row) int { return a.Print.Compare(b.Print) })
	out := s.rows[:0]
	for i := range s.rows {
		row := &s.rows[i]
		if len(out) == 0 || out[len(out)-1].Print != row.Print {
			out = append(out, *row)
			continue
		}
		last := &out[len(out)-1]
		last.Counts.Add(&row.Counts)
		last.First, last.Last = min(last.First, row.First), max(last.Last, row.Last)
		var h stmtstats.Histogram
		if err := errors.Join(h.AddSpread(last.Spread), h.AddSpread(row.Spread)); err != nil {
			return err
		}
		last.Spread = s.spreadOf(&h)
	}
	clear(s.rows[len(out):])
	s.rows = out
	return nil
}

// refreshed is a time in which each series of a process has a sample.
const refreshed = 3 * refreshAge

// snapshotAt reads the samples of five minutes: its cost does not depend on the range of the query. After a pause in writing
// it reads more: the counters continue after it. With a digest it is of that alone.
func snapshotAt(ctx context.Context, db *localdb.Database, at int64, digest *[16]byte) (*snapshot, error) {
	start := localdb.Start(db.Current())
	for back := lookback.Milliseconds(); ; back *= 8 {
		samples := sampleRange{db: db, from: at - back + 1, to: at}
		if digest != nil {
			samples.digests = [][16]byte{*digest}
		}
		s, err := snapshotOf(ctx, &samples)
		if err != nil || s.newest-samples.from >= refreshed.Milliseconds() || samples.from <= start {
			return s, err
		}
	}
}

// snapshotOf reads counters and durations concurrently: each is about half of the work.
func snapshotOf(ctx context.Context, samples *sampleRange) (*snapshot, error) {
	s := &snapshot{at: samples.to, byPrint: make(map[rollup.Print]*rollup.Row)}
	spreads := &snapshot{byPrint: make(map[rollup.Print]*rollup.Row)}
	var err, spreadErr error
	var parts sync.WaitGroup
	parts.Go(func() {
		spreadErr = panics.Guard(func() error { return samples.read(ctx, []*metric{durationsMetric}, spreads.addDurations) })
	})
	err = samples.read(ctx, counterMetrics, s.addCounter)
	parts.Wait()
	if err := errors.Join(err, spreadErr); err != nil {
		return nil, err
	}
	s.rows = make([]rollup.Row, 0, len(s.byPrint))
	for p, row := range s.byPrint {
		if d := spreads.byPrint[p]; d != nil {
			row.Counts.Nanos, row.Spread = d.Counts.Nanos, d.Spread
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

func (s *snapshot) addCounter(of *sampleSeries) error {
	last := 0.0
	for of.next() {
		if last = of.v; of.stale {
			last = 0
		}
		if last > 0 {
			s.newest = max(s.newest, of.t)
		}
	}
	if last == 0 {
		return nil
	}
	k, kind, class, err := of.id()
	if err != nil {
		return err
	}
	*of.count(&s.row(k, kind).Counts, class) = uint64(last)
	return nil
}

func (s *snapshot) addDurations(of *sampleSeries) error {
	live := false
	for of.next() {
		live = !of.stale && of.h.Count > 0
	}
	if !live {
		return nil
	}
	var spread stmtstats.Histogram
	if err := spread.SetNative(of.h); err != nil {
		return err
	}
	k, kind, _, err := of.id()
	if err != nil {
		return err
	}
	row := s.row(k, kind)
	row.Counts.Nanos = spread.Nanos
	row.Spread = s.spreadOf(&spread)
	return nil
}

// A scanner is a Source that can be read while it is collected: a *Table.
type scanner interface {
	Len() int // at least as many rows as a scan visits, but for those that are new
	Scan(s *stmtstats.Sample, visit func(number int)) (whole bool, err error)
	ReadEntry(s *stmtstats.Sample, number int) bool
	EntriesOf(digest [16]byte) []int
	TextAt(number int, id uint64) (text string, cut bool)
}

// snapshotNow reads what the source has counted, of all or of one digest.
func (in *instance) snapshotNow(now time.Time, digest *[16]byte) (*snapshot, error) {
	source := in.options.Source
	s := &snapshot{at: now.UnixMilli(), before: in.before}
	t, ok := source.(scanner)
	if !ok {
		err := source.Each(func(sample *stmtstats.Sample) error {
			if digest == nil || sample.Kind == stmtstats.Tracked && sample.Digest == *digest {
				s.add(sample, sample.Text)
			}
			return nil
		})
		return s, errors.Join(err, s.order())
	}
	var sample stmtstats.Sample
	visit := func(number int) {
		var text string
		if sample.Kind == stmtstats.Tracked {
			text, _ = t.TextAt(number, sample.ID)
		}
		s.add(&sample, text)
	}
	if digest != nil {
		for _, number := range t.EntriesOf(*digest) {
			if t.ReadEntry(&sample, number) && sample.Kind == stmtstats.Tracked && sample.Digest == *digest {
				visit(number)
			}
		}
		return s, s.order()
	}
	s.rows = make([]rollup.Row, 0, t.Len())
	for attempt := 1; ; attempt++ {
		s.rows = s.rows[:0]
		whole, err := t.Scan(&sample, visit)
		if err != nil || whole || attempt == scanAttempts {
			return s, errors.Join(err, s.order())
		}
	}
}

func (s *snapshot) add(sample *stmtstats.Sample, text string) {
	if sample.Calls == 0 {
		return
	}
	k := sample.Key
	for _, name := range [...]*string{&k.Schema, &k.User, &k.Backend} {
		*name = strings.ToValidUTF8(*name, "\uFFFD")
	}
	s.rows = append(s.rows, rollup.Row{
		Print: printOfKind(&k, sample.Kind), Key: k, Text: text, Counts: countsOf(sample), Spread: s.spreadOf(&sample.Histogram),
		First: sample.First.UnixMilli(), Last: sample.Last.UnixMilli(),
	})
	if s.before(sample) {
		s.rows[len(s.rows)-1].First = 0
	}
}

// since is what was counted after another snapshot, as an hourDeriver has it of an hour, but that
// of a Key that has made room meanwhile all of it counts as Evicted's. The rows are in order.
func (s *snapshot) since(before *snapshot) ([]rollup.Row, error) {
	rows := make([]rollup.Row, 0, len(s.rows))
	var lost rollup.Counts
	var lostSpread, h, b stmtstats.Histogram
	lose := func(row *rollup.Row) error {
		if row.Print.IsSum() {
			return nil
		}
		lost.Add(&row.Counts)
		return lostSpread.AddSpread(row.Spread)
	}
	evicted := -1 // its place in rows
	old := before.rows
	for i := range s.rows {
		row := &s.rows[i]
		for len(old) > 0 && old[0].Print.Compare(row.Print) < 0 {
			if err := lose(&old[0]); err != nil {
				return nil, err
			}
			old = old[1:]
		}
		var was *rollup.Row
		if len(old) > 0 && old[0].Print == row.Print {
			was, old = &old[0], old[1:]
		}
		if was != nil && (was.Counts.Calls > row.Counts.Calls || row.First > before.at) { // of another entry, which has made room
			if err := lose(was); err != nil {
				return nil, err
			}
			was = nil
		}
		if was != nil && was.Counts.Calls == row.Counts.Calls {
			continue // it was not called
		}
		if row.Print == rollup.EvictedPrint() {
			evicted = len(rows)
		}
		rows = append(rows, *row)
		if was == nil {
			continue
		}
		h.Reset()
		b.Reset()
		if err := errors.Join(h.AddSpread(row.Spread), b.AddSpread(was.Spread)); err != nil {
			return nil, err
		}
		h.Subtract(&b)
		out := &rows[len(rows)-1]
		out.Counts.Subtract(&was.Counts)
		out.Spread = s.spreadOf(&h)
	}
	for i := range old {
		if err := lose(&old[i]); err != nil {
			return nil, err
		}
	}
	if evicted >= 0 {
		out := &rows[evicted]
		h.Reset()
		if err := h.AddSpread(out.Spread); err != nil {
			return nil, err
		}
		h.Subtract(&lostSpread)
		lost.Nanos = min(lost.Nanos, out.Counts.Nanos)
		out.Counts.Subtract(&lost)
		if out.Spread = s.spreadOf(&h); out.Counts.Calls == 0 {
			rows = slices.Delete(rows, evicted, evicted+1)
		}
	}
	return rows, nil
}
