package binlog

import (
	"time"

	"github.com/taredb/tare/rowstream"
)

// A ChangeKind is what happened to a row.
type ChangeKind uint8

// The kinds of changes.
const (
	Insert ChangeKind = iota + 1
	Update
	Delete

	// Cascaded is the effect of a foreign key of the table after the change before it, where the log does not contain it: on each
	// row whose columns of the key have the values of the row Before, which has no others. It comes of a Follower whose tables
	// have Cascades, over no wire.
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

// A Change is what happened to one row, after the plan's filter and projection: an update of
// a row that only then passes the filter is an Insert, of one that passes no longer a Delete.
type Change struct {
	Table int32 // number in FollowOptions.Tables
	Kind  ChangeKind

	Cascade uint8 // with Cascaded: number in the table's Cascades

	Before int // where the row as it was begins in the table's Batch, for Batch.Row; -1 for Insert
	After  int // where the row as it is begins; -1 for Delete

	// LastOfTransaction marks the last change of a transaction. It is not to be had for a
	// transaction whose end came only after its last change was handed out: then the
	// Boundary of a later batch says it.
	LastOfTransaction bool
}

// A ChangeBatch is what happened to tables, in order. Its room is used again.
type ChangeBatch struct {
	// Upto is where to go on from when all of this batch and the ones before is applied. It
	// is always between transactions: with Boundary false it is the start of the transaction
	// that the batch ends in.
	Upto Position

	// Skip is how many rows of the transaction behind Upto were read, for FollowOptions: 0 between
	// transactions.
	Skip uint64

	// Boundary says that the batch ends where a transaction ends. It is false only in a
	// transaction that is larger than a batch.
	Boundary bool

	// Idle says that the server had nothing more when the batch was handed out: a heartbeat
	// came.
	Idle bool

	// Commit is when the last transaction or event in the log before Upto was logged, by the
	// source's clock, in whole seconds; zero when nothing has come yet.
	Commit time.Time

	// Beat is the number of the last heartbeat of FollowOptions.Run before Upto that was in the log in each schema.
	Beat uint64

	Changes []Change

	// Tables has a batch a table of FollowOptions: before and after images as rows, each in
	// the text of Column.ReadExpr, or text that stores the same value. They are in the order of
	// the changes, the image before ahead of the one after.
	Tables []rowstream.Batch

	// Room is memory that Tables are views of, of the Follower that fills the batch.
	Room any
}

// Reset empties the batch for tables whose rows have the given numbers of columns, and gives
// back room beyond limit bytes a table.
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
	b.Skip, b.Boundary, b.Idle, b.Beat = 0, false, false, 0
}
