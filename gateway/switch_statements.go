package gateway

import (
	"encoding/binary"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A session that has moved has other statement numbers at its server. The gateway changes the client's
// numbers in commands to the server's, and the server's number in the response to a PREPARE to a new number
// for the client. Only moved statements and sessions take this path.

// translate changes the number in the current command if the session has moved, and adds the parameter types if
// the server has not received them.
func (x *executor) translate(st *preparedStatement) *clientError {
	if st.moved {
		binary.LittleEndian.PutUint32(x.msg.body[1:], st.remote)
	}
	at, types, e := st.lacking(&x.msg, x.caps)
	if e == nil && len(types) > 0 {
		x.insertTypes(at, types)
	}
	return e
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
