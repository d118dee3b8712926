package gateway

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

// The prepared statements of a session, known by the backend's ids.
type prepared struct {
	byID  map[uint32]*preparedStatement
	last  uint32 // the id that was prepared last
	top   uint32 // the highest id that the client was given, once the session has moved
	moved bool   // the server's ids are not the client's
	lost  bool   // a statement was not kept
	bytes int    // of texts and parameter types
	heap  int    // bytes that the statements take on the heap, without the map
}

// Bounds of what a session keeps about its prepared statements. Past them statements are
// relayed and counted, without their text or their digest.
const (
	maxPreparedBytes = 1 << 20
	maxPrepared      = 16 << 10
	paramBytes       = 8 // a parameter's type and its bit for long data, with room to grow
	tagEndBytes      = 8
)

type preparedStatement struct {
	id     uint32        // by which the client knows it
	remote uint32        // by which the server does
	plan   *sqlplan.Plan // where there is no text to make it anew from
	digest sqldigest.Digest
	text   []byte               // normalized; empty past maxPreparedBytes
	cut    bool                 // text is only the beginning
	params mysqlwire.StmtParams // not followed past maxPreparedBytes
	kept   int                  // bytes that count against maxPreparedBytes
	heap   int                  // bytes that it takes on the heap

	divergent  bool // servers may read it in two ways: sqldigest.Digester.Divergent
	unreadable bool // it was prepared in a mode that was not known: no text of it is logged

	tagText []byte // as listTags takes them; empty past maxPreparedBytes
	tagEnds []int

	// What it takes to prepare it on another server, kept where there is one.
	sql                 []byte
	schema              string // the default one when it was prepared
	mode                sqldigest.Mode
	rules               uint64 // the epoch of the rules that plan was made under
	paramCount, columns uint16
	cursor              bool // open: rows are still to be fetched
	unread              bool // an execution was not read: the types of the parameters may be other ones

	// moved: the command's id has to be changed. untyped: the server was not told the types
	// of the parameters yet, and the client may think that it was.
	moved, untyped bool
}

// add keeps a statement that was prepared with the given number of parameters. What view
// points to is cloned.
func (p *prepared) add(params uint16, view preparedStatement) {
	p.last = view.id
	if p.byID == nil {
		p.byID = make(map[uint32]*preparedStatement)
	}
	if len(p.byID) >= maxPrepared && !p.moved { // the server has a bound of its own
		p.lost = true
		return
	}
	st := &preparedStatement{
		id: view.id, remote: view.remote, plan: view.plan, digest: view.digest, divergent: view.divergent, unreadable: view.unreadable,
		schema: view.schema, mode: view.mode, rules: view.rules, paramCount: params, columns: view.columns, moved: view.moved,
	}
	kept := len(view.text) + len(view.tagText) + tagEndBytes*len(view.tagEnds) + paramBytes*int(params) + len(view.sql)
	if p.bytes+kept <= maxPreparedBytes {
		st.text, st.cut, st.kept = bytes.Clone(view.text), view.cut, kept
		st.sql = bytes.Clone(view.sql)
		if len(view.tagEnds) > 0 {
			st.tagText, st.tagEnds = bytes.Clone(view.tagText), slices.Clone(view.tagEnds)
		}
		st.params.Reset(int(params))
		p.bytes += kept
	}
	st.heap = int(heapsize.Object(unsafe.Sizeof(*st), true) + heapsize.Bytes(st.text) + heapsize.Bytes(st.sql) + heapsize.Bytes(st.tagText) +
		heapsize.Array(uintptr(cap(st.tagEnds)), tagEndBytes, false) +
		heapsize.Array(uintptr(params), unsafe.Sizeof(mysqlwire.ValueType{}), false))
	p.heap += st.heap
	p.byID[st.id] = st
}

// find is the statement that the body of a command names.
func (p *prepared) find(body []byte) *preparedStatement {
	if len(body) < 5 {
		return nil
	}
	id := statementID(body)
	if id == mysqlwire.LastPreparedID {
		id = p.last
	}
	return p.byID[id]
}

// statementID is the number in the body of a command on a prepared statement, 0 when it has
// none.
func statementID(body []byte) uint32 {
	if len(body) < 5 {
		return 0
	}
	return binary.LittleEndian.Uint32(body[1:])
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
		st.cursor = false
	}
}

func (p *prepared) clear() { *p = prepared{} }

// heapBytes is what all statements take on the heap.
func (p *prepared) heapBytes() int64 {
	return int64(p.heap) + int64(heapsize.MapOf(heapsize.ShapeWith[uint32, *preparedStatement](false, true), p.byID))
}
