package gateway

import (
	"bytes"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A query is a session's current command with its response, and memory that consecutive statements reuse. Each part of a
// session records in it what the next ones need: awaitCommand the message, the executor the plan and the record, the relayer
// the response. Sessions that wait for a command have none: see giveQuery.
type query struct {
	msg      message
	resp     mysqlwire.Response
	digester sqldigest.Digester
	rec      querylog.Record

	plan       *sqlplan.Plan
	sent       time.Time    // the statement was forwarded
	firstByte  time.Time    // of the response
	lastByte   time.Time    // the response's last read
	failed     *clientError // the gateway's response
	sqlState   string
	parts      *parts // of a text longer than the statement memory, if rules judge its statements one by one
	divergent  bool   // the text may be read in two ways: sqldigest.Digester.Divergent
	unreadable bool   // the statement was read in an unknown mode: it is logged without text
	tagText    []byte
	tagEnds    []int
	tagList    []querylog.Tag
	values     []mysqlwire.BinaryValue
	names      [][]byte

	account account // in Server.queryBytes
}

// begin resets the query for the statement in msg.
func (q *query) begin() {
	r := &q.rec
	*r = querylog.Record{} // a literal with the fields would be built on the stack and copied
	r.Start, r.Command, r.BytesIn = q.msg.start, q.msg.cmd, q.msg.bytes
	q.plan, q.failed, q.sent, q.firstByte = nil, nil, time.Time{}, time.Time{}
	q.unreadable, q.parts = false, nil
	q.resp = mysqlwire.Response{}
}

// beginBare resets the query for the command in msg, which has no record.
func (q *query) beginBare() { q.plan, q.failed = nil, nil }

// fail records the error that the gateway responds with.
func (q *query) fail(e *clientError) { q.failed = e }

// newQuery returns a query for a login.
func newQuery(srv *Server) *query {
	q := &query{}
	q.weigh(srv)
	return q
}

// giveQuery lends the session's query to the loop; no statement is in progress. As with read buffers, waiting
// sessions have none, and active ones reuse the most recently used, which are in the CPU's caches. A session with
// private read buffers keeps its query.
func (x *relayer) giveQuery() {
	q := x.query
	x.query, q.msg = nil, message{}
	if !x.readers.putQuery(q) {
		q.account.charge(&x.srv.queryBytes, 0)
	}
}

// takeQuery undoes giveQuery.
func (x *relayer) takeQuery() {
	if x.query = x.readers.getQuery(); x.query == nil {
		x.query = newQuery(x.srv)
	}
}

// dropQuery leaves the query of a session that ends to the garbage collector: a panic may have left anything in it.
func (x *relayer) dropQuery() {
	if q := x.query; q != nil {
		q.account.charge(&x.srv.queryBytes, 0)
	}
}

// clear drops all views and the digester's text.
func (q *query) clear() {
	q.rec = querylog.Record{}
	q.resp.Last = nil
	clear(q.values[:cap(q.values)])
	clear(q.names[:cap(q.names)])
	q.digester.Reset(0)
}

// bytesOf returns the bytes of the buffers, unrounded.
func (q *query) bytesOf() int {
	n := cap(q.tagText) + cap(q.tagEnds) + cap(q.tagList) + cap(q.values) + cap(q.names)
	for _, size := range q.digester.HeapObjects() {
		n += size
	}
	return n
}

// weigh updates the server's account to the query's current heap bytes. Called between commands, it costs a few
// nanoseconds if nothing has grown. It does not allocate.
func (q *query) weigh(srv *Server) {
	n := q.bytesOf()
	if q.account.isCurrent(n) && q.account.charged != 0 {
		return
	}
	bytes := heapsize.Object(unsafe.Sizeof(*q), true)
	for _, size := range q.digester.HeapObjects() {
		bytes += heapsize.Object(uintptr(size), false)
	}
	bytes += heapsize.Bytes(q.tagText) + heapsize.Array(uintptr(cap(q.tagEnds)), unsafe.Sizeof(int(0)), false) +
		heapsize.Array(uintptr(cap(q.tagList)), unsafe.Sizeof(querylog.Tag{}), true) +
		heapsize.Array(uintptr(cap(q.values)), unsafe.Sizeof(mysqlwire.BinaryValue{}), true) +
		heapsize.Array(uintptr(cap(q.names)), unsafe.Sizeof([]byte(nil)), true)
	q.account.charge(&srv.queryBytes, int64(bytes))
}

// received records the arrival time of response bytes.
func (q *query) received() {
	q.lastByte = time.Now()
	if q.firstByte.IsZero() {
		q.firstByte = q.lastByte
	}
}

// collectTags copies the statement's sqlcommenter tags to the session's memory.
func (q *query) collectTags() []querylog.Tag {
	q.tagText, q.tagEnds = q.tagText[:0], q.tagEnds[:0]
	for key, value := range q.digester.Tags() {
		q.tagText = append(q.tagText, key...)
		q.tagEnds = append(q.tagEnds, len(q.tagText))
		q.tagText = append(q.tagText, value...)
		q.tagEnds = append(q.tagEnds, len(q.tagText))
	}
	return q.listTags(q.tagText, q.tagEnds)
}

// listTags returns tags as views of their text; ends are the end offsets of each key and each value.
func (q *query) listTags(text []byte, ends []int) []querylog.Tag {
	q.tagList = q.tagList[:0]
	for i, at := 0, 0; i < len(ends); i += 2 {
		key, end := ends[i], ends[i+1]
		q.tagList = append(q.tagList, querylog.Tag{Key: text[at:key:key], Value: text[key:end:end]})
		at = end
	}
	return q.tagList
}

// refusal returns the error for a statement that the rules forbid, and counts the rule's hit.
func (q *query) refusal() *clientError {
	verdict, rule := q.plan.Verdict()
	if verdict == sqlplan.VerdictPass {
		return nil
	}
	q.rec.Rule, q.rec.RuleAction = rule, q.plan.Hit()
	if !verdict.Refuses() {
		return nil
	}
	why := q.plan.Message()
	switch verdict {
	case sqlplan.VerdictDenied:
		msg := "Tare refused this statement: no allow rule matches it"
		if why := q.plan.Lacking(); why != "" {
			msg += "; " + why
		}
		return &clientError{errno: mysqlwire.ErrnoSpecificAccessDenied, msg: msg}
	case sqlplan.VerdictReadOnly:
		if why == "" {
			why = "only statements that change nothing may pass"
		}
		return &clientError{errno: mysqlwire.ErrnoReadOnly, msg: fmt.Sprintf("Tare refused this statement by its read-only rule %q: %s", rule, why)}
	}
	if why == "" {
		why = "it is blocked"
	}
	return &clientError{errno: mysqlwire.ErrnoSpecificAccessDenied, msg: fmt.Sprintf("Tare refused this statement by its rule %q: %s", rule, why)}
}

// changesModes reports whether the statement may have changed how later ones are read without its text saying
// so. CALL cannot: servers restore character sets and sql_mode at the end of a stored program.
func (q *query) changesModes() bool {
	return q.plan.Effects().Has(sqlplan.EffectUnknown) && q.plan.Type() != sqlplan.TypeCall
}

// recordError reads the backend's ERR packet into the record.
func (q *query) recordError() {
	var e mysqlwire.Err
	if e.Decode(q.resp.Last) != nil {
		return
	}
	q.rec.ErrorText = e.Message
	if e.HasState {
		if q.sqlState != string(e.State[:]) { // mostly the same as before: no new string
			q.sqlState = string(e.State[:])
		}
		q.rec.SQLState = q.sqlState
	}
}

// keepViews copies the record's views of the client's buffer, which the client's next packets overwrite.
func (q *query) keepViews() {
	r := &q.rec
	r.Text, r.StatementName = bytes.Clone(r.Text), bytes.Clone(r.StatementName)
	r.Binds, r.BindNames = slices.Clone(r.Binds), slices.Clone(r.BindNames)
	for i := range r.Binds {
		r.Binds[i].Data = bytes.Clone(r.Binds[i].Data)
	}
	for i := range r.BindNames {
		r.BindNames[i] = bytes.Clone(r.BindNames[i])
	}
}

// refusedParts overwrites a refused one of several statements in a piece that is not the last. It reports whether the
// server receives nothing of the text, since it has received nothing and the first statement is refused.
func (q *query) refusedParts(piece []byte, in int, sent bool) (discard bool) {
	j := q.parts
	if j == nil || j.refused == nil {
		return false
	}
	if !sent && j.start == 0 {
		return true
	}
	j.blank(piece, in, false)
	return false
}

// withoutSignal returns the end of a refused text's response without the error in place of the refused statement.
// Another end is the result of the command.
func (q *query) withoutSignal(b []byte) []byte {
	if q.parts.failed(&q.resp) {
		return b[:len(b)-mysqlwire.HeaderLen-len(q.resp.Last)]
	}
	q.failed = nil
	return b
}

// dropViews drops views of the finished statement. They point into buffers that may belong to the pool, where
// they would show the next session's bytes, or that the pool has dropped and the views would keep alive: an
// idle session retains no text.
func (x *relayer) dropViews() {
	x.plan = nil
	if !x.borrowed[clientSide] && !x.borrowed[backendSide] && x.digester.HeapObjects()[0] <= keptDigest {
		return
	}
	x.clear()
}

// keptDigest is the longest normalized text that stays with an idle session, in bytes.
const keptDigest = 16 << 10

// awaitBytes waits until a side is readable. Meanwhile it lends the loop the side's read buffer if that is
// empty and shared; between commands, that is at the client's side, it lends both sides' buffers and the query. It
// does not allocate if the loop has free ones.
func (x *relayer) awaitBytes(at side) {
	if x.readers == nil {
		return
	}
	nc := onLoop(x.conn(at))
	if nc.Ready() || !x.lendsBuffer(at) {
		return
	}
	both := at == clientSide && x.lendsBuffer(backendSide)
	x.giveBuffer(at)
	if both {
		x.giveBuffer(backendSide)
	}
	if at == clientSide {
		x.giveQuery()
	}
	nc.AwaitRead()
	if at == clientSide {
		x.takeQuery()
	}
	x.takeBuffer(at)
	if both {
		x.takeBuffer(backendSide)
	}
}

// bind decodes the values of an execution as views of the message. Undecodable values are left to the backend
// to refuse.
func (q *query) bind(st *preparedStatement, caps mysqlwire.Capability) {
	var e mysqlwire.StmtExecute
	if e.Decode(q.msg.body) != nil {
		return
	}
	values, names, ok := st.decode(&e, caps, q.values, q.names)
	if ok {
		q.rec.Binds, q.rec.BindNames = values, names
	}
	q.values, q.names = values[:0], names[:0]
	if cap(q.values) > maxKeptValues {
		q.values, q.names = nil, nil
	}
}

// maxKeptValues bounds the room for values that a session keeps between statements.
const maxKeptValues = 256
