package gateway

import (
	"encoding/binary"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/sizegen/heapsize"
)

// Prepared statements: the client's numbers are not the server's. A statement is prepared on each connection on which it is executed,
// once for all sessions that prepare the same text in the same state.

// sharePrepared shares a new statement of the client's.
func (x *executor) sharePrepared(st *preparedStatement) {
	x.statements.prepareIn(x.modes.schema, x.carried.sets.reading)
	if st.sql == nil {
		x.statements.count(false, true)
		return
	}
	st.key = pool.NewStatementKey(x.modes.schema, x.carried.sets.decisive(), st.sql)
	if on, err := x.putStatement(st.key, st.remote); err == nil { // a broken connection fails the next command
		st.on, on.Owner = on, st.serial
	}
}

// putStatement records a statement of the connection, and closes others for it.
func (x *executor) putStatement(key pool.StatementKey, id uint32) (*pool.Statement, error) {
	c := x.lease.shared.Value
	on, closed := c.statements.Put(key, id, x.srv.opts.Pool.Statements)
	c.charge(x.srv)
	return on, x.closeStatements(closed...)
}

// closeStatements closes statements of the server.
func (x *executor) closeStatements(ids ...uint32) error {
	b := x.lease.scratch[:0]
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(append(b, 5, 0, 0, 0, byte(mysqlwire.ComStmtClose)), id)
	}
	x.lease.scratch = b
	if len(b) == 0 {
		return nil
	}
	if _, err := x.backend.Write(b); err != nil {
		return x.writeFailed(err)
	}
	return nil
}

// attachStatement finds the statement on the session's connection, or prepares it there.
func (x *executor) attachStatement(st *preparedStatement) (*clientError, error) {
	if st.holds() {
		x.clashes(st, st.on)
		return nil, nil
	}
	c := x.lease.shared.Value
	on := c.statements.Find(&st.key)
	if on != nil && (on.Cursored && on.Owner != st.serial || x.clashes(st, on)) { // its responses would differ
		c.statements.Remove(&st.key)
		if err := x.closeStatements(on.ID); err != nil {
			return nil, err
		}
		on = nil
	}
	if on == nil {
		id, e, err := x.prepareLike(st)
		if e != nil && e.errno == errnoMaxPrepared {
			if err := x.closeStatements(c.statements.RemoveIdle()...); err != nil {
				return nil, err
			}
			id, e, err = x.prepareLike(st)
		}
		if e != nil || err != nil {
			return e, err
		}
		if on, err = x.putStatement(st.key, id); err != nil {
			return nil, err
		}
		x.clashes(st, on)
	}
	st.use(on)
	return nil, nil
}

// clashes records the types of the current command's values for the statement, if it has any: on is that of the connection. It reports
// whether the executions of other clients would decide their types on a MySQL server.
func (x *executor) clashes(st *preparedStatement, on *pool.Statement) bool {
	n := int(st.paramCount)
	if n == 0 || on == nil || x.modes.maria {
		return false
	}
	switch x.msg.cmd {
	case mysqlwire.ComStmtSendLongData: // after which the statement cannot be prepared again
		for i := range n {
			if t := pool.ParamTypeOf(st.params.TypeOf(i)); t == 0 && !on.Params.Unused() || !on.Params.Fits(st.serial, i, t) {
				return on.Owner != st.serial
			}
		}
	case mysqlwire.ComStmtExecute:
		fits, known := st.fits(on, x.msg.body, x.caps)
		if !fits && !st.holds() {
			return true
		}
		if !known {
			on.Params.Blur()
		}
	}
	return false
}

// fits reports whether the types of an execution fit those of others on the connection's statement, and records them then. known: body has
// them.
func (st *preparedStatement) fits(on *pool.Statement, body []byte, caps mysqlwire.Capability) (fits, known bool) {
	const fixed = 10 // command, number, flags, iterations
	n, named := int(st.paramCount), caps.Has(mysqlwire.CapQueryAttributes)
	on.Params.Executed(st.serial, n)
	at, all := fixed, n
	if named && len(body) > fixed {
		count, size := mysqlwire.LenencInt(body[fixed:])
		if count < uint64(n) || count > 2*0xFFFF {
			return true, false
		}
		at, all = at+size, int(count)
	}
	nulls := at
	if at += (all + 7) / 8; at >= len(body) {
		return true, false
	}
	sent := body[at] != 0
	at++
	fits = true
	for i := range n {
		v := st.params.TypeOf(i)
		if sent {
			if len(body)-at < 2 {
				return fits, false
			}
			v = mysqlwire.ValueType{Type: mysqlwire.ColumnType(body[at]), Unsigned: body[at+1]&0x80 != 0}
			at += 2
			if named {
				_, size := mysqlwire.LenencString(body[at:])
				at += size
			}
		}
		if body[nulls+i/8]&(1<<(i%8)) == 0 {
			t := pool.ParamTypeOf(v)
			fits = fits && on.Params.Fits(st.serial, i, t)
			on.Params.Set(i, t)
		}
	}
	return fits, true
}

// use has the next execution be of a connection's statement.
func (st *preparedStatement) use(on *pool.Statement) {
	if st.on != on || on.Owner != st.serial {
		st.on, st.remote, st.cursored = on, on.ID, false
		st.untyped = st.paramCount > 0 && st.params.Typed()
		on.Owner = st.serial
	}
}

// errOtherSettings refuses an execution of a statement that is not prepared on the session's connection.
var errOtherSettings = &clientError{errno: errnoNotSupported, msg: "Tare shares connections: the statement was prepared before a change of the character set, sql_mode or " +
	"default schema, on a connection that was closed since; prepare it again"}

// prepareLike prepares a statement on the session's connection as it was prepared for the client: with the same default schema.
func (x *executor) prepareLike(st *preparedStatement) (id uint32, refused *clientError, err error) {
	switch {
	case pool.NewStatementKey(st.schema, x.carried.sets.decisive(), st.sql) != st.key, st.schema != x.modes.schema && (st.schema == "" || x.modes.schema == ""):
		return 0, errOtherSettings, nil
	case st.schema == x.modes.schema:
		return x.prepareHere(st)
	}
	if refused, err = x.selectSchema(st.schema); refused != nil || err != nil {
		return 0, refused, err
	}
	if id, refused, err = x.prepareHere(st); err != nil {
		return 0, nil, err
	}
	back, err := x.selectSchema(x.modes.schema)
	if back != nil {
		return 0, nil, x.backendBroken(back)
	}
	return id, refused, err
}

// selectSchema selects a default schema on the session's connection.
func (x *executor) selectSchema(name string) (refused *clientError, err error) {
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	b := append(mysqlwire.OpenPacket(x.lease.scratch[:0]), byte(mysqlwire.ComInitDB))
	x.lease.scratch = mysqlwire.ClosePacket(append(b, name...), 0, 0)
	if _, err := x.backend.Write(x.lease.scratch); err != nil {
		return nil, x.writeFailed(err)
	}
	x.internal, x.lease.executes = true, true // it may wait for a lock
	defer func() { x.internal, x.lease.executes = false, false }()
	failed, err := x.skipInternal()
	if failed == nil || err != nil {
		return nil, err
	}
	return ofServer(failed), nil
}

// attachAll prepares the session's statements on its connection, before a statement that changes how their texts are read.
func (x *executor) attachAll() error {
	for _, st := range x.statements.byID {
		if _, err := x.attachStatement(st); err != nil {
			return err // one that cannot be prepared is refused when it is executed
		}
	}
	return nil
}

// prepareHere prepares a statement on the session's connection.
func (x *executor) prepareHere(st *preparedStatement) (id uint32, refused *clientError, err error) {
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	b := append(mysqlwire.OpenPacket(x.lease.scratch[:0]), byte(mysqlwire.ComStmtPrepare))
	x.lease.scratch = mysqlwire.ClosePacket(append(b, st.sql...), 0, 0)
	if _, err := x.backend.Write(x.lease.scratch); err != nil {
		return 0, nil, x.writeFailed(err)
	}
	x.internal, x.lease.executes = true, true // it may wait for a lock
	defer func() { x.internal, x.lease.executes = false, false }()
	var r mysqlwire.Response
	r.Begin(mysqlwire.ComStmtPrepare, x.caps, 1)
	for first := true; ; {
		p, _, err := cutPacket(x.backend.Buffered())
		if first && err == nil {
			if first = false; len(p) > 0 && p[0] == mysqlwire.MarkErr {
				failed, err := x.skipInternal()
				if err != nil {
					return 0, nil, err
				}
				return 0, ofServer(failed), nil
			}
		}
		n, ev, err := r.Scan(x.backend.Buffered())
		if err != nil {
			return 0, nil, x.backendBroken(err)
		}
		x.backend.Discard(n)
		if ev == mysqlwire.EventDone {
			break
		}
		if err := x.fillBackend(); err != nil {
			return 0, nil, err
		}
	}
	if r.Params != st.paramCount {
		return 0, errUnknownPrepare, x.closeStatements(r.StatementID)
	}
	return r.StatementID, nil, nil
}

// executeShared serves an execution or a fetch of rows.
func (x *executor) executeShared(st *preparedStatement) error {
	before := st.holds()
	x.lease.statement = st
	e, err := st.refused, error(nil)
	if st.refused = nil; e == nil && !x.lease.sent {
		e, err = x.attachStatement(st)
	}
	switch {
	case err != nil:
		x.record(err)
	case e != nil:
		x.refuseShared(st)
		err = x.respondError(e)
	default:
		if x.msg.cmd == mysqlwire.ComStmtExecute {
			x.msg.columns = st.columns
		}
		if err = x.executePrepared(st); x.resp.Prepared != 0 {
			st.columns = x.resp.Prepared
		}
		if x.failed != nil && st.long && err == nil { // refused: the server has values that a later execution would use
			x.lease.shared.Value.statements.Remove(&st.key)
			err = x.closeStatements(st.remote)
			st.on = nil
		}
		st.long = st.long && x.msg.cmd == mysqlwire.ComStmtFetch
		st.show()
	}
	x.statements.count(before, st.holds())
	return err
}

// refuseShared records the parameter types of an execution that is refused before any connection has them: clients do not repeat them.
func (x *executor) refuseShared(st *preparedStatement) {
	if x.msg.cmd != mysqlwire.ComStmtExecute {
		return
	}
	if _, sent := st.typesAt(x.msg.body, x.caps); sent {
		st.keepTypes(x.msg.body, x.caps)
		st.untyped = true
	}
}

// show updates what the connection knows of the statement.
func (st *preparedStatement) show() {
	if st.on != nil {
		st.on.Cursored, st.on.Busy = st.on.Cursored || st.cursored, st.cursor || st.long
	}
}

// sharedCommand serves the other commands on a prepared statement.
func (x *executor) sharedCommand(st *preparedStatement) error {
	before, long := st.holds(), x.msg.cmd == mysqlwire.ComStmtSendLongData
	if x.msg.cmd == mysqlwire.ComStmtClose {
		x.statements.close(x.msg.body)
		x.statements.count(before, false)
		if !before {
			return x.discardRest() // it stays on the connection for others
		}
		x.lease.shared.Value.statements.Remove(&st.key)
		return x.closeStatements(st.remote)
	}
	e, err := x.attachStatement(st)
	if err != nil {
		return err
	}
	if e != nil {
		if err := x.discardRest(); err != nil || long {
			st.refused = e
			return err
		}
		return x.sendError(x.msg.seq+1, e, true)
	}
	binary.LittleEndian.PutUint32(x.msg.body[1:], st.remote)
	if long {
		st.markLong(x.msg.body)
		err = x.forward(nil)
	} else {
		st.refused, st.cursor = nil, false
		st.params.ClearLong()
		err = x.exchange()
	}
	st.long = long
	st.show()
	x.statements.count(before, st.holds())
	if err != nil || !long {
		return err
	}
	return x.unsolicited()
}

// charge updates the heap bytes of the statements, and of those to be sent behind others.
func (c *sharedConn) charge(srv *Server) {
	const statementBytes = 192 // with its part of the map
	n := c.base + int64(c.statements.Len())*statementBytes + int64(heapsize.Bytes(c.pipe.out))
	if below := collectorOf(c.conn); below != nil {
		_, size := below.Collected()
		n += int64(size)
	}
	if n == c.heap {
		return
	}
	srv.held.Add(n - c.heap)
	c.heap = n
}
