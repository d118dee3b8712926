package binlog

import (
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// hold has the reader's memory counted with the connection: decompressed events, images before a filter, descriptions of tables, and
// prepared transactions.
func (c *changes) hold() {
	if c.events != nil {
		c.events.Hold(c.r.heapBytes())
	}
}

// heapBytes returns the heap bytes of the memory that the reader keeps between batches, besides that for the tables that it follows.
func (r *logReader) heapBytes() int64 {
	n := r.mapBytes + r.row.HeapBytes() + int64(heapsize.Bytes(r.inflate.out)+heapsize.Bytes(r.unpack.out)+heapsize.Slice(r.view)+heapsize.Slice(r.savepoints))
	if r.xas.open != nil {
		n += r.xas.open.heapBytes()
	}
	for id, x := range r.xas.prepared {
		n += int64(heapsize.String(id)) + x.heapBytes()
	}
	return n
}

// heapBytes returns the heap bytes of a transaction.
func (x *preparedXA) heapBytes() int64 {
	return int64(heapsize.Object(unsafe.Sizeof(*x), true)) + x.rows.HeapBytes()
}

// tableMaps are the descriptions of the tables' rows, by the ids of the log.
type tableMaps struct {
	maps     map[uint64]*tableMap
	mapBytes int64 // heap bytes of its elements
}

// forget removes the description of a table.
func (t *tableMaps) forget(id uint64) {
	if m := t.maps[id]; m != nil {
		t.mapBytes -= m.heapBytes()
		delete(t.maps, id)
	}
}

// clear removes the descriptions of tables.
func (t *tableMaps) clear() {
	clear(t.maps)
	t.mapBytes = 0
}

// heapBytes returns the heap bytes of a description.
func (m *tableMap) heapBytes() int64 {
	return int64(heapsize.Object(unsafe.Sizeof(*m), true) + heapsize.Bytes(m.body) + heapsize.Slice(m.columns))
}
