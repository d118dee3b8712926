package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A change in a layout is table << 3 | last of its transaction << 2 | kind; see rows.proto.
const (
	layoutLast  = 1 << 2
	layoutKind  = layoutLast - 1
	layoutTable = 3 // number of lower bits
)

// A changePacker builds messages from batches. A message is valid until the next one is built.
type changePacker struct {
	zstd *zstd.Encoder // nil: rows are not compressed
	keep int           // maximum bytes of memory that are kept

	message rowpb.Changes
	rows    []byte // buffer for the rows of several tables
	packed  []byte
	next    []int // by table: minimum offset of the next image
	images  []int // by table: number of images
}

// pack builds the message of a batch. It does not allocate per change.
func (p *changePacker) pack(b *binlog.ChangeBatch) (*rowpb.Changes, error) {
	m := &p.message
	m.Upto, m.Skip, m.Boundary, m.Idle, m.Beat, m.Commit = b.Upto.String(), b.Skip, b.Boundary, b.Idle, b.Heartbeat, 0
	if !b.Commit.IsZero() {
		m.Commit = b.Commit.Unix()
	}
	if err := p.layOut(b); err != nil {
		return nil, err
	}
	m.Rows, m.Unpacked = p.join(b), 0
	if p.zstd != nil && len(m.Rows) > 0 {
		m.Rows, m.Unpacked = pack(m.Rows, p.zstd, p.packed)
		p.packed = m.Rows
	}
	return m, nil
}

// layOut writes the message's layout. Images that are not in the order of their changes could not be located
// by the receiver, and are an error.
func (p *changePacker) layOut(b *binlog.ChangeBatch) error {
	l := p.message.Layout[:0]
	p.next, p.images = slices.Grow(p.next[:0], len(b.Tables))[:len(b.Tables)], slices.Grow(p.images[:0], len(b.Tables))[:len(b.Tables)]
	clear(p.next)
	clear(p.images)
	for i := range b.Tables {
		l = binary.AppendUvarint(l, uint64(len(b.Tables[i].Bytes)))
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		v := uint64(c.Table)<<layoutTable | uint64(c.Kind)
		if c.LastOfTransaction {
			v |= layoutLast
		}
		l = binary.AppendUvarint(l, v)
		if c.Kind < binlog.Insert || c.Kind > binlog.Delete || c.Table < 0 || int(c.Table) >= len(b.Tables) ||
			!p.image(c.Table, c.Before, c.Kind != binlog.Insert) || !p.image(c.Table, c.After, c.Kind != binlog.Delete) {
			return fmt.Errorf("%w: change %d of table %d", errImageOrder, i, c.Table)
		}
	}
	for i := range b.Tables {
		if p.images[i] != b.Tables[i].Rows {
			return fmt.Errorf("%w: table %d has %d rows, its changes %d", errImageOrder, i, b.Tables[i].Rows, p.images[i])
		}
	}
	p.message.Layout = l
	return nil
}

var errImageOrder = errors.New("the images of a batch of changes are not in the order of the changes")

// image records an image and reports whether its offset is valid.
func (p *changePacker) image(table int32, at int, there bool) bool {
	if !there {
		return at < 0
	}
	if at < p.next[table] || at > 0 && p.images[table] == 0 {
		return false
	}
	p.next[table] = at + 1
	p.images[table]++
	return true
}

// join returns the rows of all tables, without a copy if only one table has rows.
func (p *changePacker) join(b *binlog.ChangeBatch) []byte {
	var only []byte
	p.rows = p.rows[:0]
	for i := range b.Tables {
		switch rows := b.Tables[i].Bytes; {
		case len(rows) == 0:
		case only == nil:
			only = rows
		default:
			if len(p.rows) == 0 {
				p.rows = append(p.rows, only...)
			}
			p.rows = append(p.rows, rows...)
		}
	}
	if len(p.rows) == 0 {
		return only
	}
	return p.rows
}

// shrink releases the memory of a large transaction.
func (p *changePacker) shrink() {
	p.message.Rows = nil // it belongs to the batch, or is one of the following
	if cap(p.rows) > p.keep {
		p.rows = nil
	}
	if cap(p.packed) > p.keep {
		p.packed = nil
	}
	if cap(p.message.Layout) > p.keep {
		p.message.Layout = nil
	}
}

// A changeRoom is the memory of a batch received over a wire: its tables are views of it.
type changeRoom struct {
	message  rowpb.Changes
	unpacked []byte
	at       []int // by table: offset of the next image
}

// roomOf returns the changeRoom of a batch.
func roomOf(b *binlog.ChangeBatch) *changeRoom {
	room, ok := b.Room.(*changeRoom)
	if !ok {
		room = new(changeRoom)
		b.Room = room
	}
	return room
}

// reset empties the message and keeps its memory, unless that is larger than keep bytes.
func (r *changeRoom) reset(keep int) {
	m := &r.message
	m.Upto, m.Skip, m.Boundary, m.Idle, m.Beat, m.Commit, m.Unpacked = "", 0, false, false, 0, 0, 0
	m.Layout, m.Rows = m.Layout[:0], m.Rows[:0]
	if cap(m.Rows) > keep {
		m.Rows = nil
	}
	if cap(m.Layout) > keep {
		m.Layout = nil
	}
	if cap(r.unpacked) > keep {
		r.unpacked = nil
	}
}

var (
	errLayout = errors.New("the layout of changes is cut off or of no known form")
	errLaid   = errors.New("the rows of changes are not as their layout says")
)

// open decodes the message into b, for tables whose rows have the given numbers of columns. The message is
// untrusted and is checked completely. It does not allocate per change if the batch has enough capacity.
func (r *changeRoom) open(b *binlog.ChangeBatch, columns []int, p *zstd.Decoder, limit int) (err error) {
	m := &r.message
	var rows []byte
	if rows, r.unpacked, err = unpack(m.Rows, m.Unpacked, p, r.unpacked, limit); err != nil {
		return err
	}
	b.Skip, b.Boundary, b.Idle, b.Heartbeat, b.Commit = m.Skip, m.Boundary, m.Idle, m.Beat, time.Time{}
	if m.Commit != 0 {
		b.Commit = time.Unix(m.Commit, 0)
	}
	layout, err := r.splitRows(b, m.Layout, rows, columns)
	if err != nil {
		return err
	}
	b.Changes = b.Changes[:0]
	for len(layout) > 0 {
		v, n := binary.Uvarint(layout)
		if n <= 0 || v>>layoutTable >= uint64(len(columns)) {
			return errLayout
		}
		layout = layout[n:]
		c := binlog.Change{Table: int32(v >> layoutTable), Kind: binlog.ChangeKind(v & layoutKind), Before: -1, After: -1, LastOfTransaction: v&layoutLast != 0}
		if c.Kind < binlog.Insert {
			return errLayout
		}
		if c.Kind != binlog.Insert {
			c.Before = r.nextImage(b, c.Table)
		}
		if c.Kind != binlog.Delete && c.Before != noImage {
			c.After = r.nextImage(b, c.Table)
		}
		if c.Before == noImage || c.After == noImage {
			return errLaid
		}
		b.Changes = append(b.Changes, c)
	}
	for i := range b.Tables {
		if r.at[i] != len(b.Tables[i].Bytes) {
			return errLaid
		}
	}
	return nil
}

// splitRows splits rows into those of the tables and returns the rest of the layout.
func (r *changeRoom) splitRows(b *binlog.ChangeBatch, layout, rows []byte, columns []int) ([]byte, error) {
	b.Tables = slices.Grow(b.Tables[:0], len(columns))[:len(columns)]
	r.at = slices.Grow(r.at[:0], len(columns))[:len(columns)]
	clear(r.at)
	for i := range b.Tables {
		size, n := binary.Uvarint(layout)
		if n <= 0 {
			return nil, errLayout
		}
		if size > uint64(len(rows)) {
			return nil, errLaid
		}
		b.Tables[i] = rowstream.Batch{Columns: columns[i], Bytes: rows[:size:size]}
		layout, rows = layout[n:], rows[size:]
	}
	if len(rows) > 0 {
		return nil, errLaid
	}
	return layout, nil
}

// noImage is the offset of a missing image.
const noImage = -2

// nextImage returns the offset of the table's next image, noImage if there is no complete one.
func (r *changeRoom) nextImage(b *binlog.ChangeBatch, table int32) int {
	t := &b.Tables[table]
	from := r.at[table]
	at := from
	for range t.Columns {
		_, n := mysqlwire.TextValue(t.Bytes[at:])
		if n == 0 {
			return noImage
		}
		at += n
	}
	if at == from {
		return noImage // without columns: the number of images would be unbounded
	}
	r.at[table] = at
	t.Rows++
	return from
}
