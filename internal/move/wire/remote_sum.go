package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// SumChunk implements ViewReader: the service computes the checksum.
func (r *remoteReader) SumChunk(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) (rowstream.Checksum, error) {
	m, err := r.v.r.rows.Sum(ctx, r.sumRequest(t, c, o))
	if err != nil {
		return rowstream.Checksum{}, errorOf(ctx, r.v.r.Addr(), err)
	}
	if m.GetRows() < 0 {
		return rowstream.Checksum{}, fmt.Errorf("%s: sum up chunk %d of %s: the response has %d rows", r.v.r.Addr(), c.Number, t.FullName(), m.GetRows())
	}
	return rowstream.Checksum{Rows: m.GetRows(), Sum: m.GetSum()}, nil
}

// SumRows implements ViewReader.
func (r *remoteReader) SumRows(call context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) iter.Seq2[rowstream.RowSum, error] {
	return func(yield func(rowstream.RowSum, error) bool) {
		err := r.sumRows(call, t, c, o, func(s rowstream.RowSum) bool { return yield(s, nil) })
		var remote *remoteError
		if err != nil && !errors.As(err, &remote) {
			err = fmt.Errorf("sum up the rows of chunk %d of %s: %w", c.Number, t.FullName(), err)
		}
		if err != nil {
			yield(rowstream.RowSum{}, err)
		}
	}
}

// sumRows yields the rows of batches: a sum and a key. It returns no error after yield has returned false.
func (r *remoteReader) sumRows(call context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions, yield func(rowstream.RowSum) bool) error {
	ctx, cancel := r.v.during(call)
	defer cancel() // ends a stream that is not read to its end
	request := r.sumRequest(t, c, o)
	request.Compression = r.v.r.o.Compression.message()
	stream, err := r.v.r.rows.SumRows(ctx, request)
	if err != nil {
		return errorOf(call, r.v.r.Addr(), err)
	}
	var row mysqlwire.TextRow
	for b, err := range r.receive(call, stream, 1+len(t.Key), rowstream.RoomKept(0), nil) {
		if err != nil {
			return err
		}
		for at := 0; at < len(b.Bytes); {
			if at, err = b.Row(at, &row); err != nil {
				return err
			}
			sum, err := strconv.ParseUint(string(row[0]), 10, 64)
			if err != nil {
				return fmt.Errorf("%s: the sum of a row: %w", r.v.r.Addr(), err)
			}
			if slices.ContainsFunc(row[1:], func(v []byte) bool { return v == nil }) {
				return rowstream.ErrNullKey
			}
			if !yield(rowstream.RowSum{Key: row[1:], Sum: sum}) {
				return nil
			}
		}
	}
	return nil
}

func (r *remoteReader) sumRequest(t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) *rowpb.SumRequest {
	m := &rowpb.SumRequest{
		Snapshot: r.v.id, Worker: r.worker, Table: tableName(t), Chunk: chunkMessage(c), Where: o.Where,
	}
	if o.Plan != nil { // the plan's output is not used
		m.Plan = planMessage(&rowstream.Plan{Where: o.Plan.Where})
	}
	for _, n := range o.Columns {
		m.Columns = append(m.Columns, int32(n))
	}
	return m
}

// LastKey implements ViewReader.
func (r *remoteReader) LastKey(ctx context.Context, t *rowstream.Table) (mysqlwire.TextRow, error) {
	m, err := r.v.r.rows.LastKey(ctx, &rowpb.LastKeyRequest{Snapshot: r.v.id, Worker: r.worker, Table: tableName(t)})
	if err != nil {
		return nil, errorOf(ctx, r.v.r.Addr(), err)
	}
	key, err := rowstream.DecodeKey(m.Key, len(t.Key))
	if err != nil {
		return nil, fmt.Errorf("%s: last key of %s: %w", r.v.r.Addr(), t.FullName(), err)
	}
	return key, nil
}
