package gateway

import (
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// A transaction is the unit of work that a session has open. Times are since the server's start.
type transaction struct {
	number uint64           // 0 outside a transaction
	since  time.Duration    // the start of its first statement
	waits  time.Duration    // the end of its last statement
	last   sqldigest.Digest // of its last statement; zero if that was unreadable

	longOpen bool // a value was sent in pieces and not executed with yet
	nextOnly bool // SET TRANSACTION was executed for the next transaction only
}

// note records that the statement of r has finished at a time, with the server's status. It numbers the transaction, from
// the statement that started it to the one that ended it. It does not allocate.
func (t *transaction) note(st mysqlwire.Status, r *querylog.Record, now, started time.Time, numbers *atomic.Uint64) {
	open := st.Has(mysqlwire.StatusInTrans)
	if open && t.number == 0 {
		t.number = numbers.Add(1)
		t.since = r.Start.Sub(started)
		t.nextOnly = false
	}
	if open {
		t.waits, t.last = now.Sub(started), r.Digest
	}
	r.TransactionID = t.number
	if !open {
		t.number = 0
	}
}

// hide forgets the last statement's digest.
func (t *transaction) hide() { t.last = sqldigest.Digest{} }

// rollBack records that the server has rolled back.
func (t *transaction) rollBack() { t.number = 0 }

// reset records that the server has reset the session.
func (t *transaction) reset() { t.longOpen, t.nextOnly = false, false }

// sendsLong records whether a value was sent in pieces that no statement was executed with.
func (t *transaction) sendsLong(open bool) { t.longOpen = open }

// startsNext records that a SET TRANSACTION was executed for the next transaction.
func (t *transaction) startsNext() { t.nextOnly = true }

// continues reports whether the next command continues an open unit of work: a transaction, the pieces of a long
// value, or the transaction that SET TRANSACTION prepared.
func (t *transaction) continues(st mysqlwire.Status) bool {
	return st.Has(mysqlwire.StatusInTrans) || t.longOpen || t.nextOnly
}
