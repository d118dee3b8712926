package storegateway

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/taredb/tare/tsblock"
)

// A ChunkView is one chunk of a series.
type ChunkView struct {
	MinTime, MaxTime int64  // milliseconds, both inclusive
	Encoding         byte   // as in the chunk file; not necessarily one that we know
	Data             []byte // a view of a batch
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

// orderChunks puts the chunks that several blocks have of one series into the order of time, and
// drops those that are identical. It does not allocate.
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

// A tournament finds the least of n contestants: a binary tree in which each inner node has the
// winner of its two children. When one contestant changes, the matches on its way up are played
// again, log n of them. (A loser tree plays half as many, but can replace none but the winner; a
// merge that takes several equal ones out before it puts any back needs to.)
type tournament struct {
	n       int
	winners []int32 // of the inner nodes 1 to n-1; leaf i is node n+i
	less    func(a, b int) bool
}

// reset has n contestants play. less says whether contestant a comes before b; ties go to
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

// update plays the matches of contestant i again.
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
