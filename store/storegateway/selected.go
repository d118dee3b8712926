package storegateway

import (
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
)

// selected are the series of one select without their chunks. It keeps references of chunks per block: blocks
// are read in groups, and their labels are in memory only while their group is merged.
type selected struct {
	set        *SeriesSet
	mint, maxt int64 // milliseconds, both inclusive

	key    string // see keyOf
	filled bool   // all references were read

	parts []*selected // selects that share series and places with this one

	trim     bool        // drop samples outside of the time range
	mixed    bool        // some blocks are downsampled
	reads    aggregation // samples that are read from those
	windows  *windows
	series   []oneSeries
	places   []batchPos // rest of the slab that places are allocated from
	reserved int64
	copies   int64 // part of reserved: copies of a series' chunks in one block

	like *selected // another select of the querier that has some of the same labels; nil: none
}

// A oneSeries is a series in some blocks.
type oneSeries struct {
	of     *selected
	labels labels.Labels
	places []batchPos // sorted by the blocks' times
}

// A batchPos is the position of a series in a batch, which has its chunks.
type batchPos struct {
	held *sharedBatch
	i    int
}

const (
	// placeSlab is the number of places per allocation.
	placeSlab = 1024

	// groupBlocks bounds the blocks that are read concurrently: each takes about 12 KiB meanwhile, plus some
	// pages of its index until its last batch is read.
	groupBlocks = 64
)

// fill reads the series and plans their chunks.
func (l *selected) fill() error {
	streams := l.set.streams
	size := groupBlocks
	sorted := l.set.sorted()
	if sorted {
		size = max(len(streams), 1) // they were read before
	}
	for from := 0; from < len(streams); from += size {
		if !sorted {
			if err := l.set.startStreams(streams[from:min(from+size, len(streams))]); err != nil {
				return err
			}
		}
		if err := l.readGroup((len(streams) + size - 1) / size); err != nil {
			return err
		}
	}
	return l.set.planLazily(l.windows)
}

// readGroup reads the series of the open blocks. It adds places to series that earlier blocks had too.
func (l *selected) readGroup(groups int) error {
	added, err := l.readAdded(groups)
	l.add(added) // after an error too: they keep batches until the query ends
	if err != nil {
		return err
	}
	return l.set.checkCount(len(l.series))
}

// readAdded returns the series that earlier blocks did not have, also those before an error.
func (l *selected) readAdded(groups int) (added []oneSeries, err error) {
	b := labels.NewScratchBuilder(16)
	before, like := l.series, l.likely()
	for l.set.step() {
		b.Reset()
		text := int64(0)
		for _, label := range l.set.At().Labels {
			b.Add(label.Name, label.Value)
			text += int64(len(label.Name) + len(label.Value) + 2)
		}
		own := b.Labels()
		before = tailFrom(before, own)
		if len(before) > 0 && labels.Equal(before[0].labels, own) {
			if before[0].places, err = l.appendPlaces(before[0].places, groups); err != nil {
				return added, err
			}
			continue
		}
		if like = tailFrom(like, own); len(like) > 0 && labels.Equal(like[0].labels, own) {
			own, text = like[0].labels, 0
		}
		if err := l.reserve(int64(unsafe.Sizeof(oneSeries{})) + text); err != nil {
			return added, err
		}
		places, err := l.appendPlaces(nil, groups)
		if err != nil {
			return added, err
		}
		added = append(added, oneSeries{of: l, labels: own, places: places})
	}
	return added, l.set.err
}

// tailFrom returns the tail of sorted series that starts at or after the labels.
func tailFrom(series []oneSeries, ls labels.Labels) []oneSeries {
	for len(series) > 0 && labels.Compare(series[0].labels, ls) < 0 {
		series = series[1:]
	}
	return series
}

func (l *selected) likely() []oneSeries {
	if l.like == nil {
		return nil
	}
	return l.like.series
}

// add merges series that earlier blocks did not have, and cuts the list at the limit of the request.
func (l *selected) add(added []oneSeries) {
	switch {
	case len(l.series) == 0:
		l.series = added
	case len(added) > 0:
		all := make([]oneSeries, 0, len(l.series)+len(added))
		old := l.series
		for len(old) > 0 && len(added) > 0 {
			if labels.Compare(old[0].labels, added[0].labels) < 0 {
				all, old = append(all, old[0]), old[1:]
			} else {
				all, added = append(all, added[0]), added[1:]
			}
		}
		l.series = append(append(all, old...), added...)
	}
	if limit := l.set.request.Limit; limit > 0 && len(l.series) > limit {
		for i := range l.series[limit:] {
			l.series[limit+i].release()
		}
		l.series = slices.Delete(l.series, limit, len(l.series))
	}
}

// appendPlaces appends the places of the current series and pins the chunks of their batches.
func (l *selected) appendPlaces(run []batchPos, groups int) ([]batchPos, error) {
	if l.set.mode == noChunks {
		return nil, nil
	}
	n := len(l.set.front)
	switch {
	case len(run)+n <= cap(run):
	case groups > 1:
		// Most series occur in as many blocks of the remaining groups.
		size := len(run) + max(n*groups, cap(run)/2)
		if run == nil {
			size = min(n*groups, len(l.set.streams))
		}
		if err := l.reserve(int64(size-cap(run)) * int64(unsafe.Sizeof(batchPos{}))); err != nil {
			return run, err
		}
		run = append(make([]batchPos, 0, size), run...)
	default:
		if len(l.places) < n {
			size := max(n, placeSlab)
			if err := l.reserve(int64(size) * int64(unsafe.Sizeof(batchPos{}))); err != nil {
				return nil, err
			}
			l.places = make([]batchPos, size)
		}
		run = l.places[:0:n]
		l.places = l.places[n:]
	}
	for _, e := range l.set.front {
		e.held.retainChunks()
		run = append(run, batchPos{e.held, e.i})
	}
	return run, nil
}

func (l *selected) reserve(n int64) error {
	if err := l.set.query.quota.Reserve(slab.Series, n); err != nil {
		return err
	}
	l.reserved += n
	return nil
}

// reserveCopies reserves n bytes for copies of chunks, which replace the previous copies.
func (l *selected) reserveCopies(n int64) error {
	if n <= l.copies {
		return nil
	}
	if err := l.reserve(n - l.copies); err != nil {
		return err
	}
	l.copies = n
	return nil
}

func (s *oneSeries) release() {
	for _, p := range s.places {
		p.held.releaseChunks()
	}
	s.places = nil
}

func (l *selected) close() {
	for _, p := range l.parts {
		l.set.query.quota.Return(slab.Series, p.reserved)
	}
	l.set.cancel()
	l.windows.close(l.set.streams)
	for i := range l.series {
		l.series[i].release()
	}
	l.set.query.quota.Return(slab.Series, l.reserved)
	l.set.Close()
}

// overlaps reports whether a chunk starts before an earlier one, of any block, ends.
func (s *oneSeries) overlaps() bool {
	last := int64(math.MinInt64)
	first := true
	for _, p := range s.places {
		for _, c := range p.held.batch.Chunks(p.i) {
			if !first && c.MinTime <= last {
				return true
			}
			first, last = false, max(last, c.MaxTime)
		}
	}
	return false
}
