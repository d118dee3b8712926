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
	if r.xa != nil {
		n += r.xa.heapBytes()
	}
	for id, x := range r.prepared {
		n += int64(heapsize.String(id)) + x.heapBytes()
	}
	return n
}

// heapBytes returns the heap bytes of a transaction.
func (x *preparedXA) heapBytes() int64 {
	return int64(heapsize.Object(unsafe.Sizeof(*x), true)) + x.rows.HeapBytes()
}

// forgetMap removes the description of a table.
func (r *logReader) forgetMap(id uint64) {
	if m := r.maps[id]; m != nil {
		r.mapBytes -= m.heapBytes()
		delete(r.maps, id)
	}
}

// forgetMaps removes the descriptions of tables.
func (r *logReader) forgetMaps() {
	clear(r.maps)
	r.mapBytes = 0
}

// heapBytes returns the heap bytes of a description.
func (m *tableMap) heapBytes() int64 {
	return int64(heapsize.Object(unsafe.Sizeof(*m), true) + heapsize.Bytes(m.body) + heapsize.Slice(m.columns))
}
