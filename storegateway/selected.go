package storegateway

import (
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/slab"
)

// selected are the series of one select, their chunks not loaded. Of each block it keeps the references of chunks:
// blocks are read in groups, so that their labels are there only while their group is merged.
type selected struct {
	set        *SeriesSet
	mint, maxt int64 // in milliseconds, both inclusive

	key    string // see keyOf
	filled bool   // everything was read

	parts []*selected // selects with series and places of this one

	trim     bool // samples outside of the time range are not returned
	windows  *windows
	series   []oneSeries
	places   []place // what is left of the slab that places of series lie in
	reserved int64
	copies   int64 // of reserved, for copies of the chunks that a block has of a series

	like *selected // a select of the same querier that has some of the same labels; nil: none
}

// A oneSeries is a series in some blocks.
type oneSeries struct {
	of     *selected
	labels labels.Labels
	places []place // in the order of the blocks' times
}

// A place is where a series is in a batch, whose chunks it holds.
type place struct {
	held *heldBatch
	i    int
}

const (
	// placeSlab is how many places are allocated at once.
	placeSlab = 1024

	// groupBlocks is how many blocks are read side by side: while they are, each takes about 12 KiB, and some pages
	// of its index before its last batch is read.
	groupBlocks = 64
)

// fill reads the series, and plans their chunks.
func (l *selected) fill() error {
	streams := l.set.streams
	size := groupBlocks
	sorted := l.set.sorted()
	if sorted {
		size = max(len(streams), 1) // they are read already
	}
	for from := 0; from < len(streams); from += size {
		if !sorted {
			if err := l.set.enter(streams[from:min(from+size, len(streams))]); err != nil {
				return err
			}
		}
		if err := l.readGroup((len(streams) + size - 1) / size); err != nil {
			return err
		}
	}
	return l.set.planLazily(l.windows)
}

// readGroup reads the series of the blocks that are open: places of series that blocks before had are
// added to them.
func (l *selected) readGroup(groups int) error {
	b := labels.NewScratchBuilder(16)
	before, like := l.series, l.likely()
	var added []oneSeries
	for l.set.step() {
		b.Reset()
		text := int64(0)
		for _, label := range l.set.At().Labels {
			b.Add(label.Name, label.Value)
			text += int64(len(label.Name) + len(label.Value) + 2)
		}
		own := b.Labels()
		before = from(before, own)
		if len(before) > 0 && labels.Equal(before[0].labels, own) {
			var err error
			if before[0].places, err = l.appendPlaces(before[0].places, groups); err != nil {
				return err
			}
			continue
		}
		if like = from(like, own); len(like) > 0 && labels.Equal(like[0].labels, own) {
			own, text = like[0].labels, 0
		}
		if err := l.reserve(int64(unsafe.Sizeof(oneSeries{})) + text); err != nil {
			return err
		}
		places, err := l.appendPlaces(nil, groups)
		if err != nil {
			return err
		}
		added = append(added, oneSeries{of: l, labels: own, places: places})
	}
	if l.set.err != nil {
		return l.set.err
	}
	l.add(added)
	return l.set.counted(len(l.series))
}

// from returns the part of sorted series that begins with those labels, or after them.
func from(series []oneSeries, ls labels.Labels) []oneSeries {
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

// add merges series that blocks before had not, and cuts the list at the limit of the request.
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
			l.series[limit+i].letGo()
		}
		l.series = slices.Delete(l.series, limit, len(l.series))
	}
}

// appendPlaces appends where the series in front is, and holds the chunks of the batches.
func (l *selected) appendPlaces(run []place, groups int) ([]place, error) {
	if l.set.mode == noChunks {
		return nil, nil
	}
	n := len(l.set.front)
	switch {
	case len(run)+n <= cap(run):
	case groups > 1:
		// Most series are in as many blocks of the groups to come.
		size := len(run) + max(n*groups, cap(run)/2)
		if run == nil {
			size = min(n*groups, len(l.set.streams))
		}
		if err := l.reserve(int64(size-cap(run)) * int64(unsafe.Sizeof(place{}))); err != nil {
			return run, err
		}
		run = append(make([]place, 0, size), run...)
	default:
		if len(l.places) < n {
			size := max(n, placeSlab)
			if err := l.reserve(int64(size) * int64(unsafe.Sizeof(place{}))); err != nil {
				return nil, err
			}
			l.places = make([]place, size)
		}
		run = l.places[:0:n]
		l.places = l.places[n:]
	}
	for _, e := range l.set.front {
		e.held.holdChunks()
		run = append(run, place{e.held, e.i})
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

// reserveCopies reserves n bytes for copies of chunks, which take the place of the copies before.
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

func (s *oneSeries) letGo() {
	for _, p := range s.places {
		p.held.letGoChunks()
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
		l.series[i].letGo()
	}
	l.set.query.quota.Return(slab.Series, l.reserved)
	l.set.Close()
}

// overlaps reports whether a block has chunks that begin before those of the blocks before it end.
func (s *oneSeries) overlaps() bool {
	last := int64(math.MinInt64)
	for n, p := range s.places {
		cs := p.held.batch.Chunks(p.i)
		if n > 0 && len(cs) > 0 && cs[0].MinTime <= last {
			return true
		}
		last = max(last, p.maxTime())
	}
	return false
}
