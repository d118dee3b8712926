package gateway

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/taredb/tare/heapsize"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

// The prepared statements of a session, known by the backend's ids.
type prepared struct {
	byID  map[uint32]*preparedStatement
	last  uint32 // the id that was prepared last
	bytes int    // of texts and parameter types
	heap  int    // bytes that the statements take on the heap, without the map
}

// Bounds of what a session keeps about its prepared statements. Past them statements are
// relayed and counted, without their text or their digest.
const (
	maxPreparedBytes = 1 << 20
	maxPrepared      = 16 << 10
	paramBytes       = 8 // a parameter's type and its bit for long data, with room to grow
)

type preparedStatement struct {
	id     uint32
	plan   *sqlplan.Plan // where there is no text to make it anew from
	digest sqldigest.Digest
	text   []byte               // normalized; empty past maxPreparedBytes
	params mysqlwire.StmtParams // not followed past maxPreparedBytes
	kept   int                  // bytes that count against maxPreparedBytes
	heap   int                  // bytes that it takes on the heap

	divergent bool // servers may read it in two ways: sqlplan.Divergent
}

// add keeps a statement that was prepared with the given number of parameters.
func (p *prepared) add(id uint32, params uint16, plan *sqlplan.Plan, d sqldigest.Digest, text []byte, divergent bool) {
	p.last = id
	if p.byID == nil {
		p.byID = make(map[uint32]*preparedStatement)
	}
	if len(p.byID) >= maxPrepared {
		return
	}
	st := &preparedStatement{id: id, plan: plan, digest: d, divergent: divergent}
	if kept := len(text) + paramBytes*int(params); p.bytes+kept <= maxPreparedBytes {
		st.text, st.kept = bytes.Clone(text), kept
		st.params.Reset(int(params))
		p.bytes += kept
	}
	if len(st.text) == 0 {
		st.plan = plan
	}
	st.heap = int(heapsize.Object(unsafe.Sizeof(*st), true) + heapsize.Bytes(st.text) +
		heapsize.Array(uintptr(params), unsafe.Sizeof(mysqlwire.ValueType{}), false))
	p.heap += st.heap
	p.byID[id] = st
}

// find is the statement that the body of a command names.
func (p *prepared) find(body []byte) *preparedStatement {
	if len(body) < 5 {
		return nil
	}
	id := binary.LittleEndian.Uint32(body[1:])
	if id == mysqlwire.LastPreparedID {
		id = p.last
	}
	return p.byID[id]
}

func (p *prepared) close(body []byte) {
	if st := p.find(body); st != nil {
		p.bytes -= st.kept
		p.heap -= st.heap
		delete(p.byID, st.id)
	}
}

// longData notes a parameter whose value went by itself.
func (p *prepared) longData(body []byte) {
	var l mysqlwire.StmtLongData
	if st := p.find(body); st != nil && l.Decode(body) == nil {
		st.params.MarkLong(l.Param)
	}
}

func (p *prepared) reset(body []byte) {
	if st := p.find(body); st != nil {
		st.params.ClearLong()
	}
}

func (p *prepared) clear() { *p = prepared{} }

// heapBytes is what all statements take on the heap.
func (p *prepared) heapBytes() int64 {
	return int64(p.heap) + int64(heapsize.MapOf(heapsize.ShapeWith[uint32, *preparedStatement](false, true), p.byID))
}
