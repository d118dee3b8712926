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
