package copier

import (
	"sync/atomic"
	"unsafe"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/sizegen/heapsize"
)

// runBytes is the heap of a run that is not counted otherwise, as determined by profiles: its goroutines, contexts and timers, samples
// of the lag, the control socket, and the tables of encoding/json for the records of its state.
const runBytes = 64 << 10

// HeapBytes are the heap bytes of a copy, by owner.
type HeapBytes struct {
	// Connections counts those of the connections to servers whose mysqlconn.Config.Heap it is, with the rows that are read from
	// and written to them.
	Connections atomic.Int64

	// Changes counts those of batches of changes and their statements.
	Changes atomic.Int64

	// Definitions counts those of the tables' definitions, the records of their chunks, the target's collations, and the run itself.
	Definitions atomic.Int64
}

// changeBytes returns the counter of changes; nil if there are no metrics.
func (m *Metrics) changeBytes() *atomic.Int64 {
	if m == nil {
		return nil
	}
	return &m.Heap.Changes
}

// weigh counts the run's definitions, until it is closed.
func (j *job) weigh() {
	if j.o.Metrics == nil {
		return
	}
	n := int64(runBytes)
	if j.dialect != nil {
		n += int64(heapsize.Map(j.dialect.Known))
		for name := range j.dialect.Known {
			n += int64(heapsize.String(name))
		}
	}
	for _, t := range j.tables {
		n += int64(tableBytes(t))
	}
	j.o.Metrics.Heap.Definitions.Add(n - j.weighed)
	j.weighed = n
}

// unweigh ends the count of weigh.
func (j *job) unweigh() {
	if j.o.Metrics != nil {
		j.o.Metrics.Heap.Definitions.Add(-j.weighed)
		j.weighed = 0
	}
}

// tableBytes returns the heap bytes of a table's definitions on both sides and of its chunks.
func tableBytes(t *tabledef.Table) uintptr {
	n := heapsize.Object(unsafe.Sizeof(*t), true) + definitionBytes(t.Source) + heapsize.String(t.Create) + heapsize.Slice(t.Target.Columns)
	if t.Written != t.Source {
		n += definitionBytes(t.Written)
	}
	if t.State == nil {
		return n
	}
	n += heapsize.Object(unsafe.Sizeof(*t.State), true) + heapsize.Slice(t.State.Chunks)
	for i := range t.State.Chunks {
		upto := t.State.Chunks[i].Upto // the next chunk's After
		n += heapsize.Slice(upto)
		for _, v := range upto {
			n += heapsize.Bytes(v)
		}
	}
	return n
}

// definitionBytes returns the heap bytes of a table's definition on one side, without what is derived from it.
func definitionBytes(t *rowstream.Table) uintptr {
	if t == nil {
		return 0
	}
	n := heapsize.Object(unsafe.Sizeof(*t), true) + heapsize.String(t.Create) + heapsize.Slice(t.Columns) + heapsize.Slice(t.Generated)
	for _, columns := range [...][]rowstream.Column{t.Columns, t.Generated} {
		for i := range columns {
			c := &columns[i]
			n += heapsize.String(c.Name) + heapsize.String(c.Type) + heapsize.String(c.FullType) + heapsize.String(c.Charset) + heapsize.String(c.Collation) +
				heapsize.String(c.Expression)
		}
	}
	return n
}
