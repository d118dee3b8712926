package storegateway

import (
	"container/heap"

	"github.com/taredb/tare/store/tsblock"
)

// laneBytes is the assumed size of the iterator of a lane, with its decoders.
const laneBytes = 1 << 10

// A lane is the numbers of some chunks of a series in one block, in their order. They do not overlap. A nil lane has all
// chunks.
type lane []int32

// chunk returns the number of the chunk at index j.
func (l lane) chunk(j int) int {
	if l == nil {
		return j
	}
	return int(l[j])
}

// len returns the number of chunks, of all that there are.
func (l lane) len(all int) int {
	if l == nil {
		return all
	}
	return len(l)
}

// lanesOf divides chunks, in the order of their minimum times, into the least number of lanes.
func lanesOf(chunks []tsblock.Chunk) []lane {
	if !overlap(chunks) {
		return []lane{nil}
	}
	var ends laneEnds
	var lanes []lane
	for j, c := range chunks {
		if len(ends) == 0 || ends[0].maxTime >= c.MinTime {
			heap.Push(&ends, laneEnd{c.MaxTime, len(lanes)})
			lanes = append(lanes, lane{int32(j)})
			continue
		}
		ends[0].maxTime = c.MaxTime
		lanes[ends[0].lane] = append(lanes[ends[0].lane], int32(j))
		heap.Fix(&ends, 0)
	}
	return lanes
}

// overlap reports whether a chunk starts before an earlier one ends.
func overlap(chunks []tsblock.Chunk) bool {
	for j := 1; j < len(chunks); j++ {
		if chunks[j].MinTime <= chunks[j-1].MaxTime { // earlier ones end before that one starts
			return true
		}
	}
	return false
}

// A laneEnd is the end of a lane so far.
type laneEnd struct {
	maxTime int64
	lane    int
}

// laneEnds are a heap.
type laneEnds []laneEnd

var _ heap.Interface = (*laneEnds)(nil)

// Len implements heap.Interface.
func (e laneEnds) Len() int { return len(e) }

// Less implements heap.Interface.
func (e laneEnds) Less(i, j int) bool { return e[i].maxTime < e[j].maxTime }

// Swap implements heap.Interface.
func (e laneEnds) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *laneEnds) Push(x any) { *e = append(*e, x.(laneEnd)) } //nolint:forcetypeassert // lanesOf pushes these only

// Pop implements heap.Interface.
func (e *laneEnds) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
