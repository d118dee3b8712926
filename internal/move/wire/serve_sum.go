package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Sum implements rowpb.RowsServer.
func (s *Service) Sum(ctx context.Context, m *rowpb.SumRequest) (*rowpb.SumReply, error) {
	c := s.startCall(ctx, "sum", m.GetTable())
	c.entry.Chunk = int(m.GetChunk().GetNumber())
	sum, err := s.serveSum(ctx, m)
	c.entry.Rows = uint64(sum.Rows)
	if err = c.finish(err); err != nil {
		return nil, err
	}
	s.stats.sums.Add(1)
	return &rowpb.SumReply{Rows: sum.Rows, Sum: sum.Sum}, nil
}

func (s *Service) serveSum(ctx context.Context, m *rowpb.SumRequest) (rowstream.Checksum, error) {
	r, err := s.sumOf(m)
	if err != nil {
		return rowstream.Checksum{}, err
	}
	ctx, cancel := r.view.during(ctx)
	defer cancel()
	w, err := r.view.acquire(ctx, m.GetWorker())
	if err != nil {
		return rowstream.Checksum{}, err
	}
	defer w.release()
	return rowstream.SumChunk(ctx, w.reader, r.table, r.chunk, r.options)
}

// SumRows implements rowpb.RowsServer.
func (s *Service) SumRows(m *rowpb.SumRequest, stream rowpb.Rows_SumRowsServer) error {
	c := s.startCall(stream.Context(), "sumrows", m.GetTable())
	c.entry.Chunk = int(m.GetChunk().GetNumber())
	return c.finish(s.serveSumRows(m, stream, c.entry))
}

func (s *Service) serveSumRows(m *rowpb.SumRequest, stream rowpb.Rows_SumRowsServer, e *LogEntry) error {
	r, err := s.sumOf(m)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	end := endOf(ctx)
	defer context.AfterFunc(r.view.ctx, func() { end(errViewEnded) })()
	w, err := r.view.acquire(ctx, m.GetWorker())
	if err != nil {
		return err
	}
	defer w.release()
	out := sender{stream: stream, w: w, keep: rowstream.RoomKept(0), stats: &s.stats, entry: e}
	if m.GetCompression() == rowpb.Compression_COMPRESSION_ZSTD {
		out.zstd = s.zstd
	}
	var b rowstream.Batch
	var row mysqlwire.TextRow
	var digits [20]byte // of the largest sum
	b.Reset(1 + len(r.table.Key))
	for sum, err := range rowstream.SumRows(ctx, w.reader, r.table, r.chunk, r.options) {
		if err != nil {
			return err
		}
		row = append(append(row[:0], strconv.AppendUint(digits[:0], sum.Sum, 10)), sum.Key...)
		b.AppendRow(row)
		if len(b.Bytes) < rowstream.DefaultBatchBytes {
			continue
		}
		if err := out.send(&b); err != nil {
			return err
		}
		b.Reset(b.Columns)
	}
	if b.Rows > 0 {
		return out.send(&b)
	}
	return nil
}

// A summing is a request for a checksum.
type summing struct {
	view    *served
	table   *rowstream.Table
	chunk   rowstream.Chunk
	options rowstream.SumOptions
}

func (s *Service) sumOf(m *rowpb.SumRequest) (r summing, err error) {
	if r.view, err = s.snapshot(m.GetSnapshot()); err != nil {
		return r, err
	}
	if r.table, err = r.view.table(m.GetTable()); err != nil {
		return r, err
	}
	wrong := func(err error) (summing, error) {
		return r, refuse(codes.InvalidArgument, "sum up table %s: %w", r.table.FullName(), err)
	}
	if r.chunk, err = chunkOf(m.GetChunk(), len(r.table.Key)); err != nil {
		return wrong(err)
	}
	if r.options.Plan, err = planOf(m.GetPlan()); err != nil {
		return wrong(err)
	}
	if r.options.Plan != nil {
		if _, err := rowstream.NewFilter(r.options.Plan, len(r.table.Columns)); err != nil {
			return wrong(err)
		}
	}
	r.options.Where = m.GetWhere()
	for _, n := range m.GetColumns() {
		if n < 0 || int(n) >= len(r.table.Columns)+len(r.table.Generated) {
			return wrong(fmt.Errorf("column number %d is out of range: the table has %d columns, from 0", n, len(r.table.Columns)+len(r.table.Generated)))
		}
		r.options.Columns = append(r.options.Columns, int(n))
	}
	if len(r.options.Columns) == 0 {
		return wrong(errors.New("no columns"))
	}
	return r, nil
}

// LastKey implements rowpb.RowsServer.
func (s *Service) LastKey(ctx context.Context, m *rowpb.LastKeyRequest) (*rowpb.LastKeyReply, error) {
	c := s.startCall(ctx, "lastkey", m.GetTable())
	key, err := s.serveLastKey(ctx, m)
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return &rowpb.LastKeyReply{Key: rowstream.EncodeKey(key)}, nil
}

func (s *Service) serveLastKey(call context.Context, m *rowpb.LastKeyRequest) (mysqlwire.TextRow, error) {
	v, err := s.snapshot(m.GetSnapshot())
	if err != nil {
		return nil, err
	}
	t, err := v.table(m.GetTable())
	if err != nil {
		return nil, err
	}
	ctx, cancel := v.during(call)
	defer cancel()
	w, err := v.acquire(ctx, m.GetWorker())
	if err != nil {
		return nil, err
	}
	defer w.release()
	return w.reader.LastKey(ctx, t)
}
