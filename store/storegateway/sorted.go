package storegateway

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/tsblock"
)

// sortedSeries iterates over the series of a request whose labels change in a way that breaks their order. It
// reads the labels and chunk references of all of them and sorts; chunks are loaded during the iteration.
type sortedSeries struct {
	set      *SeriesSet
	windows  *windows
	series   []sortedEntry
	group    []*entry        // entries of the current series
	at       int             // index of the next one in series
	labels   []tsblock.Label // rest of the slab that labels of entries are allocated from
	reserved int64
}

// A sortedEntry is a series in one block.
type sortedEntry struct {
	entry
	stream int // number, in the order of the blocks' times
}

// sortedSlab is the number of labels per allocation.
const sortedSlab = 4096

// start implements walker. It reads all series and sorts them.
func (l *sortedSeries) start(streams []*stream) error {
	l.windows = newWindows(l.set.ctx, l.set.query, true)
	for _, s := range streams {
		for s.now.held != nil {
			if err := l.add(s); err != nil {
				return err
			}
			if err := s.advance(); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(l.series, func(a, b sortedEntry) int {
		return cmp.Or(CompareLabels(a.labels, b.labels), cmp.Compare(a.stream, b.stream))
	})
	if l.set.mode != chunksOfSorted {
		return nil // the caller plans them, with its windows
	}
	return l.set.planLazily(l.windows)
}

// add appends the current series of a stream.
func (l *sortedSeries) add(s *stream) error {
	now := s.now.labels
	if len(now) > len(l.labels) {
		n := max(sortedSlab, len(now))
		if err := l.reserve(n * int(unsafe.Sizeof(tsblock.Label{}))); err != nil {
			return err
		}
		l.labels = make([]tsblock.Label, n)
	}
	n := copy(l.labels, now)
	own := l.labels[:n:n]
	l.labels = l.labels[n:]
	if len(l.series) == cap(l.series) {
		grown := max(2*cap(l.series), 256)
		if err := l.reserve((grown - cap(l.series)) * int(unsafe.Sizeof(sortedEntry{}))); err != nil {
			return err
		}
		l.series = slices.Grow(l.series, grown-len(l.series))
	}
	s.now.held.retain()
	l.series = append(l.series, sortedEntry{entry{held: s.now.held, i: s.now.i, labels: own}, s.number})
	return nil
}

func (l *sortedSeries) reserve(n int) error {
	if err := l.set.query.quota.Reserve(slab.Series, int64(n)); err != nil {
		return err
	}
	l.reserved += int64(n)
	return nil
}

// next implements walker.
func (l *sortedSeries) next(front []*entry) ([]*entry, error) {
	l.release()
	for ; l.at < len(l.series); l.at++ {
		e := &l.series[l.at].entry
		if len(l.group) > 0 && CompareLabels(e.labels, l.group[0].labels) != 0 {
			break
		}
		if l.set.mode == chunksOfSorted {
			if err := l.windows.acquire(e.held); err != nil {
				return front, err
			}
		}
		l.group = append(l.group, e)
	}
	return append(front, l.group...), nil
}

// release releases the chunks of the current series.
func (l *sortedSeries) release() {
	if l.set.mode == chunksOfSorted {
		for _, e := range l.group {
			l.windows.release(e.held)
		}
	}
	l.group = l.group[:0]
}

func (l *sortedSeries) close() {
	if l.windows != nil {
		l.windows.close(l.set.streams)
	}
	for i := range l.series {
		l.series[i].release()
	}
	l.series, l.group = nil, nil
	l.set.query.quota.Return(slab.Series, l.reserved)
}
