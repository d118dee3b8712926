package rowstream

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/tick"
)

// DefaultBatchBytes is how many bytes of rows a batch gathers before it is handed on: enough
// that calls and system calls do not show, little enough to stay in a CPU's cache.
const DefaultBatchBytes = 128 << 10

// A ReadOptions says what of a chunk's rows is read, and how.
type ReadOptions struct {
	Where string // SQL over the source's columns; empty: all rows
	Plan  *Plan  // nil: rows as they are

	// BatchBytes is when a batch is handed on; 0 stands for DefaultBatchBytes. A batch is
	// larger by up to one row.
	BatchBytes int

	// Throttle is asked before each row, which costs one atomic read; nil: never.
	Throttle *tick.Throttle
}

// A reader reads chunks over one connection of a snapshot, in batches that it uses again.
type reader struct {
	s      *Snapshot
	worker int
	batch  Batch
	view   mysqlwire.TextRow
}

// Workers is how many readers can work at once.
func (s *Snapshot) Workers() int { return len(s.clients) }

// Reader is the reader over the connection of that number.
func (s *Snapshot) Reader(worker int) Reader { return &reader{s: s, worker: worker} }

// Cut cuts a table's chunk over the reader's connection.
func (r *reader) Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (Chunk, error) {
	k, err := r.s.chunker(ctx, r.s.clients[r.worker], t, bytes, from)
	if err != nil {
		return Chunk{}, err
	}
	return k.Next(ctx, r.s.clients[r.worker])
}

// chunker is the one that goes on where from begins.
func (s *Snapshot) chunker(ctx context.Context, c *mysqlconn.Client, t *Table, bytes int64, from Chunk) (*Chunker, error) {
	s.mu.Lock()
	k := s.chunkers[t]
	s.mu.Unlock()
	if k != nil && !k.ended && k.next.Number == from.Number {
		return k, nil
	}
	k, err := NewChunker(ctx, c, t, bytes, from)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.chunkers[t] = k
	s.mu.Unlock()
	return k, nil
}

// Read reads a chunk's rows in the order of the key and hands them on in batches, which are
// valid until the function returns. It answers how many rows the chunk has, of which the plan
// may have held some back. Per row it does not allocate.
func (r *reader) Read(ctx context.Context, t *Table, c Chunk, o ReadOptions, each func(*Batch) error) (rows int64, err error) {
	rows, err = r.read(ctx, t, c, o, each)
	if err != nil {
		return rows, fmt.Errorf("read chunk %d of %s: %w", c.Number, t.FullName(), err)
	}
	return rows, nil
}

func (r *reader) read(ctx context.Context, t *Table, c Chunk, o ReadOptions, each func(*Batch) error) (rows int64, err error) {
	sql, err := t.SelectChunk(c, o.Where)
	if err != nil {
		return 0, err
	}
	var filter *Filter // nil: rows as they are
	columns := len(t.Columns)
	if o.Plan != nil {
		if filter, err = NewFilter(o.Plan, columns); err != nil {
			return 0, err
		}
		columns = filter.Columns()
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	stream, err := r.s.clients[r.worker].Stream(ctx, sql)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closeErr := stream.Close(); err == nil {
			err = closeErr
		}
	}()
	if stream.Columns != len(t.Columns) {
		return 0, fmt.Errorf("the rows have %d columns, the table had %d when it was described: it has been altered", stream.Columns, len(t.Columns))
	}
	r.empty(columns, o.BatchBytes)
	return r.rows(ctx, stream, filter, &o, each)
}

// rows gathers rows into batches and hands them on.
func (r *reader) rows(ctx context.Context, stream *mysqlconn.Rows, filter *Filter, o *ReadOptions, each func(*Batch) error) (rows int64, err error) {
	hand := func() error {
		err := each(&r.batch)
		r.empty(r.batch.Columns, o.BatchBytes)
		return err
	}
	for {
		payload, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return rows, err
		}
		rows++
		if o.Throttle != nil && !o.Throttle.OK() {
			if err := o.Throttle.Wait(ctx); err != nil {
				return rows, err
			}
		}
		if filter == nil && len(payload) > wideRow {
			if r.batch.Rows > 0 {
				if err := hand(); err != nil {
					return rows, err
				}
			}
			wide := Batch{Columns: stream.Columns, Rows: 1, Bytes: payload} // valid until the next row, as all batches are
			if err := each(&wide); err != nil {
				return rows, err
			}
			continue
		}
		if filter == nil {
			r.batch.AppendPayload(payload)
		} else if err := r.filtered(payload, stream.Columns, filter); err != nil {
			return rows, err
		}
		if len(r.batch.Bytes) >= o.BatchBytes {
			if err := hand(); err != nil {
				return rows, err
			}
		}
	}
	if r.batch.Rows == 0 {
		return rows, nil
	}
	return rows, hand()
}

// wideRow is how many bytes a row has at least that is handed on out of the connection's buffer.
const wideRow = 8 << 20

// roomKept is how much room is kept from one batch to the next: that of a batch and one row of its
// size.
func roomKept(batchBytes int) int {
	if batchBytes == 0 {
		batchBytes = DefaultBatchBytes
	}
	return 2 * batchBytes
}

// empty empties the batch, and gives back the room that a wide row took.
func (r *reader) empty(columns, limit int) {
	r.batch.Reset(columns)
	r.batch.Shrink(roomKept(limit))
}

// filtered appends what the filter makes of a row.
func (r *reader) filtered(payload []byte, columns int, f *Filter) error {
	if err := r.view.Decode(payload, columns); err != nil {
		return err
	}
	if out, ok := f.Apply(r.view); ok {
		r.batch.AppendRow(out)
	}
	return nil
}
