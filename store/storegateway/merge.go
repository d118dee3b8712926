package storegateway

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/taredb/tare/store/tsblock"
)

// A walker iterates over the series of a set in the order of their labels.
type walker interface {
	// start adds streams, each positioned at its first series.
	start(streams []*stream) error

	// next appends the entries of the next series to front, one per block that has it, in the order of the
	// blocks' times. It appends none at the end.
	next(front []*entry) ([]*entry, error)

	close()
}

// mergedSeries merges the series of streams while they are read.
type mergedSeries struct {
	streams []*stream
	merge   tournament // of stream numbers
	group   []*stream  // streams at the current series; excluded from the merge until the next one
}

// start implements walker.
func (m *mergedSeries) start(streams []*stream) error {
	m.streams, m.group = streams, nil
	if len(streams) == 0 {
		return nil
	}
	m.merge.reset(len(streams), func(a, b int) bool {
		x, y := streams[a], streams[b]
		return x.inMerge() && (!y.inMerge() || CompareLabels(x.now.labels, y.now.labels) < 0)
	})
	return nil
}

// next implements walker.
func (m *mergedSeries) next(front []*entry) ([]*entry, error) {
	for _, s := range m.group {
		if err := s.advance(); err != nil {
			return front, err
		}
		m.put(s, false)
	}
	if len(m.streams) == 1 {
		m.group = m.streams
		if s := m.streams[0]; s.now.held != nil {
			front = append(front, &s.now)
		}
		return front, nil
	}
	m.group = m.group[:0]
	for len(m.group) < len(m.streams) {
		s := m.streams[m.merge.winner()]
		if s.out || s.now.held == nil || len(m.group) > 0 && CompareLabels(s.now.labels, m.group[0].now.labels) != 0 {
			break
		}
		m.group = append(m.group, s)
		front = append(front, &s.now)
		m.put(s, true)
	}
	return front, nil
}

// put excludes a stream from the merge, or includes it again.
func (m *mergedSeries) put(s *stream, out bool) {
	if len(m.streams) > 1 {
		s.out = out
		m.merge.update(s.number - m.streams[0].number)
	}
}

// close implements walker.
func (m *mergedSeries) close() { m.group = nil }

// A ChunkView is one chunk of a series.
type ChunkView struct {
	MinTime, MaxTime int64  // milliseconds, both inclusive
	Encoding         byte   // as in the chunk file; not necessarily a known one
	Data             []byte // view into a batch
}

// appendChunks appends the chunks of series i of a batch. It does not allocate when dst has room.
func appendChunks(dst []ChunkView, b *tsblock.Batch, i int) []ChunkView {
	for j, c := range b.Chunks(i) {
		v := ChunkView{MinTime: c.MinTime, MaxTime: c.MaxTime}
		v.Encoding, v.Data = b.Data(i, j)
		dst = append(dst, v)
	}
	return dst
}

// orderChunks sorts the chunks of one series by time, and drops duplicates. It does not allocate.
func orderChunks(cs []ChunkView) []ChunkView {
	for i := 1; i < len(cs); i++ {
		if cs[i].MinTime <= cs[i-1].MinTime {
			slices.SortFunc(cs, compareChunks)
			return slices.CompactFunc(cs, func(a, b ChunkView) bool { return compareChunks(a, b) == 0 })
		}
	}
	return cs
}

func compareChunks(a, b ChunkView) int {
	return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), cmp.Compare(a.MaxTime, b.MaxTime),
		cmp.Compare(a.Encoding, b.Encoding), bytes.Compare(a.Data, b.Data))
}

// A tournament finds the least of n contestants: a binary tree in which each inner node has the winner of its
// two children. After a change of one contestant, update replays the log n matches on its path to the root.
// (A loser tree plays half as many, but can only replace the winner; this merge takes several equal ones out
// before it puts any back.)
type tournament struct {
	n       int
	winners []int32 // winners of the inner nodes 1 to n-1; leaf i is node n+i
	less    func(a, b int) bool
}

// reset starts a tournament of n contestants. less reports whether contestant a comes before b; ties go to
// the lower number.
func (t *tournament) reset(n int, less func(a, b int) bool) {
	t.n, t.less = n, less
	t.winners = make([]int32, n)
	for node := n - 1; node >= 1; node-- {
		t.play(node)
	}
}

// winner returns the least contestant.
func (t *tournament) winner() int {
	if t.n == 1 {
		return 0
	}
	return int(t.winners[1])
}

// update replays the matches of contestant i.
func (t *tournament) update(i int) {
	for node := (t.n + i) / 2; node >= 1; node /= 2 {
		t.play(node)
	}
}

func (t *tournament) play(node int) {
	a, b := t.at(2*node), t.at(2*node+1)
	if t.less(b, a) || b < a && !t.less(a, b) {
		a = b
	}
	t.winners[node] = int32(a)
}

// at returns the winner of a node, which may be a leaf.
func (t *tournament) at(node int) int {
	if node >= t.n {
		return node - t.n
	}
	return int(t.winners[node])
}
