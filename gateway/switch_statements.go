package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A session that has moved has other statement numbers at its server. The gateway changes the client's
// numbers in commands to the server's, and the server's number in the response to a PREPARE to a new number
// for the client. Only moved statements and sessions take this path.

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

// translate changes the number in the current command if the session has moved, and adds the parameter types if
// the server has not received them.
func (x *executor) translate(st *preparedStatement) *clientError {
	if st.moved {
		binary.LittleEndian.PutUint32(x.msg.body[1:], st.remote)
	}
	if !st.untyped {
		return nil
	}
	switch x.msg.cmd {
	case mysqlwire.ComStmtExecute:
	case mysqlwire.ComStmtBulkExecute:
		if bulkSendsTypes(x.msg.body) {
			st.untyped = false
			return nil
		}
		return errUnknownTypes
	default:
		return nil
	}
	at, sent := st.typesAt(x.msg.body, x.caps)
	if sent {
		st.untyped = false
		return nil
	}
	types := st.params.AppendTypes(nil, x.caps)
	if st.unread || at == 0 || !x.msg.whole || len(types) == 0 || len(x.msg.body)+len(types) >= mysqlwire.MaxPayload {
		return errUnknownTypes
	}
	x.insertTypes(at, types)
	st.untyped = false
	return nil
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
		if size == 0 || count > 2*0xFFFF {
			return 0, false
		}
		if int(count) != int(st.paramCount) {
			return 0, false // parameters include attributes, whose names are not kept
		}
		at += size
	}
	at += (n + 7) / 8
	if at >= len(body) {
		return 0, false
	}
	return at, body[at] != 0
}

// prepareElsewhere serves a PREPARE of a session that has moved.
func (x *executor) prepareElsewhere() error {
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

// unknownStatement returns an error for a command on a statement that the client does not have. On the server
// that the session has moved to, its number may belong to another statement.
func (x *executor) unknownStatement() error {
	switch x.msg.cmd {
	case mysqlwire.ComStmtClose, mysqlwire.ComStmtSendLongData:
		if x.msg.whole {
			return nil
		}
	}
	if !x.msg.whole {
		return x.violation(x.msg.seq+1, errUnknownPrepare.errno, errUnknownPrepare.msg)
	}
	return x.sendError(x.msg.seq+1, errUnknownPrepare, true)
}
