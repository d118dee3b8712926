package rowstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// DefaultBatchBytes is the number of bytes of rows after which a batch is returned: large enough that the
// cost of calls and system calls is negligible, small enough for a CPU's cache.
const DefaultBatchBytes = 128 << 10

// ReadOptions select the rows of a chunk to read, and how.
type ReadOptions struct {
	Where string // SQL over the source's columns; empty: all rows
	Plan  *Plan  // nil: rows are unchanged

	// BatchBytes is the number of bytes after which a batch is returned; 0: DefaultBatchBytes. A batch may
	// exceed it by one row.
	BatchBytes int

	// Throttle is checked before each row, at the cost of one atomic read; nil: never.
	Throttle *tick.Throttle

	// Count is increased by each row of the chunk that is read, including rows that the plan excludes; nil:
	// rows are not counted.
	Count *int64
}

// A reader reads chunks over one connection of a snapshot, in reused batches.
type reader struct {
	s      *snapshot
	worker int
	batch  Batch
	wide   Batch // one row in the connection's buffer
	view   mysqlwire.TextRow

	rowsRead int64 // of the current chunk
}

// Reader returns the reader over the connection with a number.
func (s *snapshot) Reader(worker int) ViewReader { return &reader{s: s, worker: worker} }

// Cut cuts a table's chunk over the reader's connection.
func (r *reader) Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (Chunk, error) {
	k, err := r.s.chunker(ctx, r.s.clients[r.worker], t, bytes, from)
	if err != nil {
		return Chunk{}, err
	}
	return k.Next(ctx, r.s.clients[r.worker])
}

// chunker returns the chunker that continues at from.
func (s *snapshot) chunker(ctx context.Context, c *mysqlconn.Client, t *Table, bytes int64, from Chunk) (*chunker, error) {
	s.mu.Lock()
	k := s.chunkers[t]
	s.mu.Unlock()
	if k != nil && !k.ended && k.next.Number == from.Number {
		k.size(bytes)
		return k, nil
	}
	k, err := newChunker(ctx, c, t, bytes, from)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.chunkers[t] = k
	s.mu.Unlock()
	return k, nil
}

// Read implements Reader.
func (r *reader) Read(ctx context.Context, t *Table, c Chunk, o ReadOptions) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := r.read(ctx, t, c, &o, func(b *Batch) bool { return yield(b, nil) }); err != nil {
			yield(nil, fmt.Errorf("read chunk %d of %s: %w", c.Number, t.FullName(), err))
		}
	}
}

// read yields a chunk's batches. It returns no error after yield has returned false.
func (r *reader) read(ctx context.Context, t *Table, c Chunk, o *ReadOptions, yield func(*Batch) bool) error {
	sql, err := t.SelectChunk(c, o.Where)
	if err != nil {
		return err
	}
	var filter *Filter // nil: rows are unchanged
	columns := len(t.Columns)
	if o.Plan != nil {
		if filter, err = NewFilter(o.Plan, columns); err != nil {
			return err
		}
		columns = filter.Columns()
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	stream, err := r.s.clients[r.worker].Stream(ctx, sql)
	if err != nil {
		return err
	}
	r.empty(columns, o.BatchBytes)
	r.rowsRead = 0
	more := true
	if stream.Columns != len(t.Columns) {
		err = fmt.Errorf("the rows have %d columns, the table had %d when it was described: it has been altered", stream.Columns, len(t.Columns))
	} else {
		more, err = r.rows(ctx, stream, filter, o, yield)
	}
	if closeErr := stream.Close(); err == nil && more {
		err = closeErr
	}
	if err == nil && more {
		err = r.count(ctx, t, c, o.Where)
	}
	return err
}

// errShort means that a server has sent fewer or more rows than it counts in the same view.
var errShort = errors.New("the server sent another number of rows than it counts")

// count compares the number of rows read with that of the server in the same view, so that no limit of a session, a
// proxy or a server can shorten a chunk unnoticed. A count of rows that were just read reads no file.
func (r *reader) count(ctx context.Context, t *Table, c Chunk, where string) error {
	conditions, err := t.conditions(c, where)
	if err != nil {
		return err
	}
	n, err := session.QueryValue(ctx, r.s.clients[r.worker], "SELECT COUNT(*) FROM "+t.SQLName()+t.forceIndex()+conditions)
	if err != nil {
		return fmt.Errorf("count the rows: %w", err)
	}
	if n != strconv.FormatInt(r.rowsRead, 10) {
		return fmt.Errorf("%w: %d sent, %s counted: a limit of the server or of a proxy applies to the session", errShort, r.rowsRead, n)
	}
	return nil
}

// admit counts a row, and waits for the throttle.
func (o *ReadOptions) admit(ctx context.Context) error {
	if o.Count != nil {
		*o.Count++
	}
	if o.Throttle == nil || o.Throttle.OK() {
		return nil
	}
	return o.Throttle.Wait(ctx)
}

// rows collects rows into batches and yields them; more is false once yield has returned false.
func (r *reader) rows(ctx context.Context, stream *mysqlconn.Rows, filter *Filter, o *ReadOptions, yield func(*Batch) bool) (more bool, err error) {
	hand := func() bool {
		more := yield(&r.batch)
		r.empty(r.batch.Columns, o.BatchBytes)
		return more
	}
	for {
		payload, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return r.batch.Rows == 0 || hand(), nil
		}
		if err != nil {
			return true, err
		}
		r.rowsRead++
		if err := o.admit(ctx); err != nil {
			return true, err
		}
		switch {
		case filter != nil:
			if err := r.filtered(payload, stream.Columns, filter); err != nil {
				return true, err
			}
		case len(payload) > WideRow:
			r.wide = Batch{Columns: stream.Columns, Rows: 1, Bytes: payload} // valid until the next row, as all batches are
			more := (r.batch.Rows == 0 || hand()) && yield(&r.wide)
			if r.wide.Bytes = nil; !more {
				return false, nil
			}
		default:
			r.batch.AppendPayload(payload)
		}
		if len(r.batch.Bytes) >= o.BatchBytes && !hand() {
			return false, nil
		}
	}
}

// WideRow is the number of bytes from which a row is returned from the connection's buffer.
const WideRow = 8 << 20

// RoomKept returns the bytes of memory kept between batches: those of a batch and one row of its size.
func RoomKept(batchBytes int) int {
	if batchBytes == 0 {
		batchBytes = DefaultBatchBytes
	}
	return 2 * batchBytes
}

// empty empties the batch, releases the memory of a wide row, and has the rest counted with the connection.
func (r *reader) empty(columns, limit int) {
	r.batch.Reset(columns)
	r.batch.Shrink(RoomKept(limit))
	r.s.clients[r.worker].Hold(r.batch.HeapBytes())
}

// filtered appends the result of the filter for a row.
func (r *reader) filtered(payload []byte, columns int, f *Filter) error {
	if err := r.view.Decode(payload, columns); err != nil {
		return err
	}
	out, ok := f.Apply(r.view)
	if !ok {
		return f.Err()
	}
	r.batch.AppendRow(out)
	return nil
}

// LastKey implements ViewReader.
func (r *reader) LastKey(ctx context.Context, t *Table) (key mysqlwire.TextRow, err error) {
	_, err = r.s.clients[r.worker].Query(ctx, "SELECT "+t.keyExprs()+" FROM "+t.SQLName()+t.forceIndex()+" ORDER BY "+t.order(true)+" LIMIT 1",
		func(row mysqlwire.TextRow) (err error) {
			key, err = cloneKey(row)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read the last key of %s: %w", t.FullName(), err)
	}
	return key, nil
}
