package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/sizegen/heapsize"
)

// The prepared statements of a session, known by the backend's ids.
type prepared struct {
	byID   map[uint32]*preparedStatement
	last   uint32 // the most recently prepared id
	top    uint32 // the highest id the client has received, once the session has moved
	remote uint32 // the server's id of the one that is being prepared, if moved
	moved  bool   // the server's ids differ from the client's
	lost   bool   // a statement was not kept
	stale  bool   // the server has a last prepared statement, although a later PREPARE failed
	bytes  int    // size of texts and parameter types
	heap   int    // bytes that the statements take on the heap, without the map

	// Of a session that shares connections: the state in which all statements were prepared, or that they were in different ones, and
	// how many keep its connection.
	schema  string
	reading uint64 // of settings
	mixed   bool
	held    int
}

// Bounds of a session's memory for prepared statements. Statements past them are relayed and counted, without
// their text or digest.
const (
	maxPreparedBytes = 1 << 20
	maxPrepared      = 16 << 10
	paramBytes       = 8 // a parameter's type and its bit for long data, with room to grow
	tagEndBytes      = 8
)

type preparedStatement struct {
	id     uint32        // the client's id
	remote uint32        // the server's id
	plan   *sqlplan.Plan // used if there is no text to recreate it from
	digest sqldigest.Digest
	text   []byte               // normalized; empty past maxPreparedBytes
	cut    bool                 // text is truncated
	params mysqlwire.StmtParams // not tracked past maxPreparedBytes
	kept   int                  // bytes that count against maxPreparedBytes
	heap   int                  // heap size

	divergent  bool // servers may read it in two ways: sqldigest.Digester.Divergent
	unreadable bool // it was prepared in an unknown mode: none of its text is logged
	readsLast  bool // it may read what the server keeps of the statement before

	tagText []byte // in listTags' format; empty past maxPreparedBytes
	tagEnds []int

	// State for preparing it on another server; kept if there is one.
	sql                 []byte
	schema              string // the default schema when it was prepared
	mode                sqldigest.Mode
	rules               uint64 // the epoch of the rules that plan was created under
	paramCount, columns uint16
	cursor              bool // open: it has unfetched rows
	cursored            bool // an execution has opened one
	unread              bool // an execution could not be decoded: the parameter types may have changed

	// Of a session that shares connections.
	key     pool.StatementKey
	on      *pool.Statement // that it was executed on last
	serial  uint64          // distinguishes it from the statements of all sessions
	long    bool            // a value was sent in pieces that no execution has used yet
	refused *clientError    // the value could not be sent

	// moved: the command's id has to be changed. untyped: the server has not received the parameter types
	// yet, although the client may assume so.
	moved, untyped bool
}

// add records a statement that was prepared with the given number of parameters. It clones the slices of
// view.
func (p *prepared) add(params uint16, view preparedStatement) {
	p.last, p.stale = view.id, false
	if p.byID == nil {
		p.byID = make(map[uint32]*preparedStatement)
	}
	if len(p.byID) >= maxPrepared && !p.moved { // the server enforces a bound of its own
		p.lost = true
		return
	}
	st := &preparedStatement{
		id: view.id, remote: view.remote, plan: view.plan, digest: view.digest, divergent: view.divergent, unreadable: view.unreadable, readsLast: view.readsLast,
		schema: view.schema, mode: view.mode, rules: view.rules, paramCount: params, columns: view.columns, moved: view.moved,
		key: view.key, on: view.on, serial: view.serial,
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

// find returns the statement that the body of a command names.
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

// forgetLast records that the last PREPARE failed with an error of the server: there is no last prepared statement.
// A server whose limit of prepared statements is reached keeps the one before, which a pipelined execution would run.
func (p *prepared) forgetLast(errno uint16) {
	p.last, p.stale = mysqlwire.LastPreparedID, errno == errnoMaxPrepared
}

const errnoMaxPrepared = 1461 // ER_MAX_PREPARED_STMT_COUNT_REACHED

// noLast reports whether the body of a command names the last prepared statement and there is none.
func (p *prepared) noLast(body []byte) bool {
	return p.last == mysqlwire.LastPreparedID && statementID(body) == mysqlwire.LastPreparedID
}

// refuseExecution records an execution that the server does not receive: it may lack parameter types that the
// client sends with it.
func (st *preparedStatement) refuseExecution(m *message, caps mysqlwire.Capability) {
	st.cursor = false
	st.params.ClearLong()
	if st.paramCount == 0 { // query attributes have types in each execution
		return
	}
	if m.cmd == mysqlwire.ComStmtBulkExecute {
		st.untyped = st.untyped || bulkSendsTypes(m.body)
	} else if _, sent := st.typesAt(m.body, caps); sent {
		st.untyped = true
	}
}

// executed records an execution, and whether it has opened a cursor.
func (st *preparedStatement) executed(cursor bool) {
	st.cursor = cursor
	st.cursored = st.cursored || cursor
}

// fetched records a fetch of rows, and whether more are left.
func (st *preparedStatement) fetched(more bool) { st.cursor = more }

// skipped records an execution whose values are not decoded.
func (st *preparedStatement) skipped() { st.unread = true }

// decode decodes the values of an execution, as views of it, into slices that it returns.
func (st *preparedStatement) decode(e *mysqlwire.StmtExecute, caps mysqlwire.Capability, values []mysqlwire.BinaryValue, names [][]byte) (
	[]mysqlwire.BinaryValue, [][]byte, bool,
) {
	p := &st.params
	p.Values, p.Names = values, names
	ok := p.Decode(e, caps) == nil
	if !ok {
		st.skipped()
	}
	values, names = p.Values, p.Names
	p.Values, p.Names = nil, nil
	return values, names, ok
}

// lacking returns the parameter types that the server has not received and that m, a command on the statement, does not
// contain, and the offset of their flag in it.
func (st *preparedStatement) lacking(dst []byte, m *message, caps mysqlwire.Capability) (at int, types []byte, e *clientError) {
	if !st.untyped {
		return 0, nil, nil
	}
	switch m.cmd {
	case mysqlwire.ComStmtExecute:
	case mysqlwire.ComStmtBulkExecute:
		if bulkSendsTypes(m.body) {
			st.untyped = false
			return 0, nil, nil
		}
		return 0, nil, errUnknownTypes
	default:
		return 0, nil, nil
	}
	at, sent := st.typesAt(m.body, caps)
	if sent {
		st.untyped = false
		return 0, nil, nil
	}
	types = st.params.AppendTypes(dst, caps)
	if st.unread || at == 0 || !m.whole || len(types) == 0 || len(m.body)+len(types) >= mysqlwire.MaxPayload {
		return 0, nil, errUnknownTypes
	}
	st.untyped = false
	return at, types, nil
}

// statementID returns the statement number in the body of a command, or 0 if the body is too short.
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
	if id := statementID(body); id == p.last || id == mysqlwire.LastPreparedID {
		p.last = mysqlwire.LastPreparedID
	}
}

// cursorUse returns the use of a cursor by the execution in body; st is nil if its statement is unknown.
func cursorUse(body []byte, st *preparedStatement, maria bool) mysqlwire.CursorUse {
	const flagsAt = 5 // after the command and the number
	switch {
	case mysqlwire.Command(body[0]) != mysqlwire.ComStmtExecute:
	case len(body) > flagsAt && mysqlwire.ExecuteFlags(body[flagsAt]).Has(mysqlwire.ExecuteReadOnlyCursor):
		return mysqlwire.CursorRequested
	case st != nil && st.cursored && !maria:
		return mysqlwire.CursorKept
	}
	return mysqlwire.CursorUnused
}

// longData records a parameter whose value was sent by COM_STMT_SEND_LONG_DATA.
func (p *prepared) longData(body []byte) {
	if st := p.find(body); st != nil {
		st.markLong(body)
	}
}

func (st *preparedStatement) markLong(body []byte) {
	var l mysqlwire.StmtLongData
	if l.Decode(body) == nil {
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

// keeps reports whether the statements keep a session that shares connections on its own, with a default schema and settings.
func (p *prepared) keeps(schema string, reading uint64) bool {
	return p.lost || p.held > 0 || len(p.byID) > 0 && (p.mixed || p.schema != schema || p.reading != reading)
}

// prepareIn records the state in which a statement was prepared, that has been added.
func (p *prepared) prepareIn(schema string, reading uint64) {
	if len(p.byID) == 1 {
		p.schema, p.reading, p.mixed = schema, reading, false
		return
	}
	p.mixed = p.mixed || p.schema != schema || p.reading != reading
}

// holds reports whether the statement exists only where it was prepared, or in a state that another connection does not have.
func (st *preparedStatement) holds() bool { return st.sql == nil || st.cursor || st.long || st.unread }

// count updates held after a change of a statement.
func (p *prepared) count(before, now bool) {
	switch {
	case now && !before:
		p.held++
	case before && !now:
		p.held--
	}
}

// heapBytes returns the heap bytes of all statements.
func (p *prepared) heapBytes() int64 {
	return int64(p.heap) + int64(heapsize.MapOf(heapsize.ShapeWith[uint32, *preparedStatement](false, true), p.byID))
}

// keepTypes keeps the parameter types of an execution that is longer than the statement memory, for later ones that do
// not repeat them. They are at its start.
func (st *preparedStatement) keepTypes(body []byte, caps mysqlwire.Capability) {
	var e mysqlwire.StmtExecute
	if e.Decode(body) != nil || st.params.DecodeTypes(&e, caps) != nil {
		st.unread = true
	}
}

// Reasons why prepared statements pin a session.
var (
	errLostStatement  = errors.New("a prepared statement is too large, or there are too many, to be kept")
	errOpenCursor     = errors.New("a cursor is open")
	errUnread         = errors.New("a prepared statement was executed in bulk, or with values too large to be read")
	errOtherModes     = errors.New("a statement was prepared under another sql_mode or character set than is set now")
	errUnknownTypes   = &clientError{errno: mysqlwire.ErrnoUnknown, msg: "Tare has to send the types of a statement's parameters again and does not have them: prepare it again"}
	errUnknownPrepare = &clientError{errno: mysqlwire.ErrnoUnknownStatement, msg: "Unknown prepared statement"}
)

// pinned returns the reason why the statements pin the session, or nil.
func (p *prepared) pinned(mode sqldigest.Mode) *pin {
	if p.lost {
		return &pin{Reason: errLostStatement.Error()}
	}
	for _, st := range p.byID {
		var why error
		switch {
		case st.sql == nil:
			why = errLostStatement
		case st.cursor:
			why = errOpenCursor
		case st.unread:
			why = errUnread
		case st.mode != mode:
			why = errOtherModes
		default:
			continue
		}
		return &pin{Reason: why.Error(), Digest: st.digest}
	}
	return nil
}

// ordered returns the statements in the order of their PREPARE.
func (p *prepared) ordered() []*preparedStatement {
	return slices.SortedFunc(maps.Values(p.byID), func(a, b *preparedStatement) int { return cmp.Compare(a.id, b.id) })
}

// prepareOn prepares the statements on another connection, each in its original default schema, and then selects a schema
// there. It returns the server's numbers by the client's.
func (p *prepared) prepareOn(ctx context.Context, c *mysqlconn.Client, schema string) (ids map[uint32]uint32, err error) {
	at := schema
	ids = make(map[uint32]uint32, len(p.byID))
	for _, st := range p.ordered() {
		if st.schema != at && st.schema != "" {
			if err := useSchema(ctx, c, st.schema); err != nil {
				return nil, err
			}
			at = st.schema
		}
		ok, err := c.Prepare(ctx, st.sql)
		if err != nil {
			return nil, fmt.Errorf("statement with digest %s: %w", st.digest, err)
		}
		if ok.Params != st.paramCount || ok.Columns != st.columns {
			return nil, fmt.Errorf("statement with digest %s has %d parameters and %d columns there, %d and %d here: are the tables the same?",
				st.digest, ok.Params, ok.Columns, st.paramCount, st.columns)
		}
		ids[st.id] = ok.StatementID
	}
	if at != schema {
		return ids, useSchema(ctx, c, schema)
	}
	return ids, nil
}

// moveTo adopts the numbers of another server.
func (p *prepared) moveTo(ids map[uint32]uint32) {
	p.moved = true
	for id, st := range p.byID {
		st.remote, st.moved = ids[id], true
		st.untyped = st.paramCount > 0 && st.params.Typed()
		p.top = max(p.top, id)
	}
	p.top = max(p.top, p.last)
}

// number returns the client's number for a statement that it prepares after the move, for the server's number.
func (p *prepared) number(remote uint32) uint32 {
	p.remote = remote
	for {
		p.top++
		if _, taken := p.byID[p.top]; !taken && p.top != 0 && p.top != mysqlwire.LastPreparedID {
			return p.top
		}
	}
}

// bulkSendsTypes reports whether a COM_STMT_BULK_EXECUTE contains the parameter types.
func bulkSendsTypes(body []byte) bool {
	const sendsTypes, flagsAt = 128, 5
	return len(body) >= flagsAt+2 && binary.LittleEndian.Uint16(body[flagsAt:])&sendsTypes != 0
}

// typesAt returns the offset in an EXECUTE of the flag for following types, and its value; at is 0 if there
// is no flag.
func (st *preparedStatement) typesAt(body []byte, caps mysqlwire.Capability) (at int, sent bool) {
	const fixed = 10 // command, number, flags, iterations
	at, n := fixed, int(st.paramCount)
	if caps.Has(mysqlwire.CapQueryAttributes) && len(body) > fixed {
		count, size := mysqlwire.LenencInt(body[fixed:])
		if size == 0 || count < uint64(n) || count > 2*0xFFFF {
			return 0, false
		}
		at, n = at+size, int(count)
	}
	at += (n + 7) / 8
	if at >= len(body) {
		return 0, false
	}
	if sent = body[at] != 0; !sent && n > int(st.paramCount) {
		return 0, false // parameters include attributes, whose names are not kept
	}
	return at, sent
}

// A session that has moved has other statement numbers at its server. The gateway changes the client's
// numbers in commands to the server's, and the server's number in the response to a PREPARE to a new number
// for the client. Only moved statements and sessions take this path.

// translate changes the number in the current command if the session has moved, and adds the parameter types if
// the server has not received them.
func (x *executor) translate(st *preparedStatement) *clientError {
	if st.moved {
		binary.LittleEndian.PutUint32(x.msg.body[1:], st.remote)
	}
	at, types, e := st.lacking(x.lease.scratch[:0], &x.msg, x.caps)
	x.lease.scratch = types[:0]
	if e == nil && len(types) > 0 {
		x.insertTypes(at, types)
	}
	return e
}

// prepareElsewhere serves a PREPARE of a session that has moved, or that shares connections.
func (x *executor) prepareElsewhere() error {
	if x.pooled && len(x.statements.byID) >= maxPrepared {
		return x.respondError(&clientError{errno: errnoMaxPrepared, msg: fmt.Sprintf("Can't create more than max_prepared_stmt_count statements (current value: %d)", maxPrepared)})
	}
	if e := x.refusal(); e != nil {
		return x.refuseStatement(e)
	}
	err := x.forward(nil)
	if err == nil {
		x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
		if err = x.renumber(&x.statements); err == nil {
			err = x.relay()
		}
	}
	if err == nil {
		x.afterStatement()
	}
	x.record(err)
	return err
}

// noStatement is a number that servers do not assign: it is below LastPreparedID.
const noStatement = mysqlwire.LastPreparedID - 1

// unknownStatement returns an error for a command on a statement that the client does not have. On the server
// that the session has moved to, its number may belong to another statement.
func (x *executor) unknownStatement() error {
	switch x.msg.cmd {
	case mysqlwire.ComStmtClose, mysqlwire.ComStmtSendLongData:
		if x.msg.whole {
			return nil
		}
	}
	if x.pooled && x.lease.shared != nil { // its error stays readable in the server
		if len(x.msg.body) >= 5 {
			binary.LittleEndian.PutUint32(x.msg.body[1:], noStatement)
		}
		return x.exchange()
	}
	if !x.msg.whole {
		return x.violation(x.msg.seq+1, errUnknownPrepare.errno, errUnknownPrepare.msg)
	}
	return x.sendError(x.msg.seq+1, errUnknownPrepare, true)
}
