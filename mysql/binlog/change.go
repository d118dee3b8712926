package binlog

import (
	"time"

	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A ChangeKind is the kind of a change of a row.
type ChangeKind uint8

// The kinds of changes.
const (
	Insert ChangeKind = iota + 1
	Update
	Delete

	// Cascaded is the effect of a foreign key of the table after the previous change, if the log does not
	// contain it: on each row whose columns of the key have the values of the row Before, which has no
	// others. Only a Follower whose tables have Cascades returns it, and never over a wire.
	Cascaded
)

func (k ChangeKind) String() string {
	switch k {
	case Insert:
		return "insert"
	case Update:
		return "update"
	case Delete:
		return "delete"
	case Cascaded:
		return "cascade"
	}
	return "no change"
}

// A Change is the change of one row, after the plan's filter and projection: an update is an Insert if only
// the new row passes the filter, and a Delete if only the old one does.
type Change struct {
	Table int32 // index in FollowOptions.Tables
	Kind  ChangeKind

	Cascade uint8 // with Cascaded: index in the table's Cascades

	Before int // offset of the old row in the table's Batch, for Batch.Row; -1 for Insert
	After  int // offset of the new row; -1 for Delete

	// LastOfTransaction marks the last change of a transaction. It is not set if the transaction's end was
	// read only after its last change was returned: then the Boundary of a later batch marks the end.
	LastOfTransaction bool
}

// A ChangeBatch has changes of tables, in the order of the log. Its memory is reused.
type ChangeBatch struct {
	// Upto is the position from which to resume once this batch and the previous ones are applied. It is
	// always between transactions: if Boundary is false, it is the start of the transaction in which the
	// batch ends.
	Upto Position

	// Skip is the number of rows of the transaction after Upto that were read, for FollowOptions: 0 between
	// transactions.
	Skip uint64

	// Boundary reports whether the batch ends at the end of a transaction. It is false only within a
	// transaction that is larger than a batch.
	Boundary bool

	// Idle reports that the server had nothing more when the batch was returned: a heartbeat event arrived.
	Idle bool

	// Commit is the time at which the last transaction or event before Upto was logged, by the source's
	// clock, in whole seconds; zero if there is none yet.
	Commit time.Time

	// Heartbeat is the number of the last heartbeat of FollowOptions.Run before Upto that was in the log in each
	// schema.
	Heartbeat uint64

	Changes []Change

	// Tables has one batch per table of FollowOptions: before and after images as rows, each value in the
	// text of Column.ReadExpr, or text that stores the same value. The rows are in the order of the changes,
	// the before image first.
	Tables []rowstream.Batch

	// Room is the memory that Tables are views of. It belongs to the Follower that fills the batch.
	Room any
}

// ReleaseWide empties the batch if the rows of a table take more than limit bytes, releases their memory, and reports
// whether it did.
func (b *ChangeBatch) ReleaseWide(limit int) bool {
	wide := false
	for i := range b.Tables {
		wide = wide || cap(b.Tables[i].Bytes) > limit
	}
	if !wide {
		return false
	}
	for i := range b.Tables {
		t := &b.Tables[i]
		t.Reset(t.Columns)
		t.Shrink(limit)
	}
	b.Changes = b.Changes[:0]
	return true
}

// HeapBytes returns the heap bytes of the batch's memory, without Room.
func (b *ChangeBatch) HeapBytes() int64 {
	n := int64(heapsize.Slice(b.Changes) + heapsize.Slice(b.Tables))
	for i := range b.Tables {
		n += b.Tables[i].HeapBytes()
	}
	return n
}

// Reset empties the batch for tables whose rows have the given numbers of columns, and releases memory beyond
// limit bytes per table.
func (b *ChangeBatch) Reset(columns []int, limit int) {
	if cap(b.Tables) < len(columns) {
		b.Tables = make([]rowstream.Batch, len(columns))
	}
	b.Tables = b.Tables[:len(columns)]
	for i, n := range columns {
		b.Tables[i].Reset(n)
		b.Tables[i].Shrink(limit)
	}
	b.Changes = b.Changes[:0]
	b.Skip, b.Boundary, b.Idle, b.Heartbeat = 0, false, false, 0
}
