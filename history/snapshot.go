package history

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A snapshot is what each Key had counted at one time, as PromQL finds it then.
type snapshot struct {
	at   int64 // Unix milliseconds
	rows map[keyPrint]*rollupRow
}

// row is the one of a Key, which is made when there is none.
func (s *snapshot) row(k Key, kind Kind) *rollupRow {
	p := printOf(&k)
	switch kind {
	case Other:
		p = otherPrint()
	case Evicted:
		p = evictedPrint()
	}
	row := s.rows[p]
	if row == nil {
		row = &rollupRow{print: p, key: k}
		s.rows[p] = row
	}
	return row
}

// snapshotAt reads the samples of five minutes: its cost does not depend on what the answer spans. When nothing was
// written in them, it looks further back: counters go on after a pause. With a digest it is of that alone.
func snapshotAt(ctx context.Context, db *tsdb.DB, at int64, digest *[16]byte) (*snapshot, error) {
	var of []*labels.Matcher
	if digest != nil {
		of = append(of, labels.MustNewMatcher(labels.MatchEqual, labelDigest, hex.EncodeToString(digest[:])))
	}
	start := localStart(db)
	for back := lookback.Milliseconds(); ; back *= 8 {
		s, err := snapshotOf(ctx, db, at-back+1, at, of)
		if err != nil || len(s.rows) > 0 || at-back < start {
			return s, err
		}
	}
}

func snapshotOf(ctx context.Context, db storage.Queryable, from, at int64, of []*labels.Matcher) (*snapshot, error) {
	s := &snapshot{at: at, rows: make(map[keyPrint]*rollupRow)}
	q, err := db.Querier(from, at)
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	var it chunkenc.Iterator
	for _, c := range derivedCounters {
		set := selectName(ctx, q, c.name, of...)
		for set.Next() {
			it = set.At().Iterator(it)
			last := 0.0
			for it.Next() == chunkenc.ValFloat {
				if _, last = it.At(); value.IsStaleNaN(last) {
					last = 0
				}
			}
			if err := it.Err(); err != nil {
				return nil, fmt.Errorf("read %s: %w", c.name, err)
			}
			k, kind, class, err := keyOfSeries(set.At().Labels())
			if err != nil {
				return nil, err
			}
			if last > 0 {
				*c.count(&s.row(k, kind).counts, class) = uint64(last)
			}
		}
		if err := set.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", c.name, err)
		}
	}
	return s, s.durations(ctx, q, of)
}

func (s *snapshot) durations(ctx context.Context, q storage.Querier, of []*labels.Matcher) error {
	set := selectName(ctx, q, nameDuration, of...)
	var it chunkenc.Iterator
	var spread Histogram
	h := &histogram.Histogram{}
	for set.Next() {
		it = set.At().Iterator(it)
		live := false
		for it.Next() == chunkenc.ValHistogram {
			_, h = it.AtHistogram(h)
			live = !value.IsStaleNaN(h.Sum)
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read %s: %w", nameDuration, err)
		}
		if !live || h.Count == 0 {
			continue
		}
		if err := spread.setNative(h); err != nil {
			return err
		}
		k, kind, _, err := keyOfSeries(set.At().Labels())
		if err != nil {
			return err
		}
		row := s.row(k, kind)
		row.counts.nanos = spread.nanos
		row.spread = spread.appendSpread(nil)
	}
	return set.Err()
}

// A scanner is a Source that can be read while it is collected: a *Table.
type scanner interface {
	scan(s *Sample, visit func(number int)) (whole bool, err error)
	scanEntry(s *Sample, number int) bool
	numbersOf(digest [16]byte) []int
	textOfNumber(number int, id uint64) (text string, cut bool)
}

// snapshotNow reads what the source has counted, of all or of one digest.
func snapshotNow(source Source, now time.Time, digest *[16]byte) (*snapshot, error) {
	s := &snapshot{at: now.UnixMilli(), rows: make(map[keyPrint]*rollupRow)}
	t, ok := source.(scanner)
	if !ok {
		return s, source.Each(func(sample *Sample) error {
			if digest == nil || sample.Kind == Tracked && sample.Digest == *digest {
				s.add(sample, sample.Text)
			}
			return nil
		})
	}
	var sample Sample
	visit := func(number int) {
		var text string
		if sample.Kind == Tracked {
			text, _ = t.textOfNumber(number, sample.ID)
		}
		s.add(&sample, text)
	}
	if digest != nil {
		for _, number := range t.numbersOf(*digest) {
			if t.scanEntry(&sample, number) && sample.Kind == Tracked && sample.Digest == *digest {
				visit(number)
			}
		}
		return s, nil
	}
	for attempt := 1; ; attempt++ {
		clear(s.rows)
		whole, err := t.scan(&sample, visit)
		if err != nil || whole || attempt == scanAttempts {
			return s, err
		}
	}
}

func (s *snapshot) add(sample *Sample, text string) {
	if sample.Calls == 0 {
		return
	}
	k := sample.Key
	for _, name := range [...]*string{&k.Schema, &k.User, &k.Backend} {
		*name = strings.ToValidUTF8(*name, "\uFFFD")
	}
	row := s.row(k, sample.Kind)
	row.counts = countsOf(sample)
	row.spread = sample.Histogram.appendSpread(nil)
	row.first, row.last, row.text = sample.First.UnixMilli(), sample.Last.UnixMilli(), text
}

// since is what was counted after another snapshot, as an hourDeriver has it of an hour, but that
// of a Key that has made room meanwhile all of it counts as Evicted's.
func (s *snapshot) since(before *snapshot) ([]rollupRow, error) {
	var rows []rollupRow
	var lost counts
	var lostSpread, h, b Histogram
	lose := func(row *rollupRow) error {
		lost.add(&row.counts)
		return lostSpread.addSpread(row.spread)
	}
	for p, row := range before.rows {
		after := s.rows[p]
		if !p.isSum() && (after == nil || after.counts.calls < row.counts.calls || after.first > before.at) {
			if err := lose(row); err != nil {
				return nil, err
			}
		}
	}
	for p, row := range s.rows {
		out := *row
		if was := before.rows[p]; was != nil && was.counts.calls <= row.counts.calls && row.first <= before.at {
			h.Reset()
			b.Reset()
			if err := h.addSpread(row.spread); err != nil {
				return nil, err
			}
			if err := b.addSpread(was.spread); err != nil {
				return nil, err
			}
			h.subtract(&b)
			out.counts.subtract(&was.counts)
			out.spread = h.appendSpread(nil)
		}
		if p == evictedPrint() {
			h.Reset()
			if err := h.addSpread(out.spread); err != nil {
				return nil, err
			}
			h.subtract(&lostSpread)
			lost.nanos = min(lost.nanos, out.counts.nanos)
			out.counts.subtract(&lost)
			out.spread = h.appendSpread(nil)
		}
		if out.counts.calls > 0 {
			rows = append(rows, out)
		}
	}
	return rows, nil
}
