package wire

import (
	"context"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
)

const (
	// minBatchBytes and maxBatchBytes bound the batch size that a client may request.
	minBatchBytes = 1 << 10
	maxBatchBytes = 4 << 20
)

// Read implements rowpb.RowsServer.
func (s *Service) Read(m *rowpb.ReadRequest, stream rowpb.Rows_ReadServer) error {
	c := s.startCall(stream.Context(), "read", m.GetTable())
	c.entry.Chunk = int(m.GetChunk().GetNumber())
	s.stats.running.Add(1)
	defer s.stats.running.Add(-1)
	err := c.finish(s.serveRead(m, stream, c.entry))
	s.stats.reads.Add(1)
	if err != nil {
		s.stats.failed.Add(1)
	}
	return err
}

func (s *Service) serveRead(m *rowpb.ReadRequest, stream rowpb.Rows_ReadServer, e *LogEntry) error {
	v, err := s.snapshot(m.GetSnapshot())
	if err != nil {
		return err
	}
	t, err := v.table(m.GetTable())
	if err != nil {
		return err
	}
	chunk, err := chunkOf(m.GetChunk(), len(t.Key))
	if err != nil {
		return refuse(codes.InvalidArgument, "read table %s: %w", t.FullName(), err)
	}
	options, err := readOptionsOf(m, len(t.Columns))
	if err != nil {
		return refuse(codes.InvalidArgument, "read table %s: %w", t.FullName(), err)
	}
	ctx := stream.Context()
	end := endOf(ctx)
	stop := context.AfterFunc(v.ctx, func() { end(errViewEnded) })
	defer stop()
	w, err := v.acquire(ctx, m.GetWorker())
	if err != nil {
		return err
	}
	defer w.release()
	out := sender{stream: stream, w: w, keep: rowstream.RoomKept(options.BatchBytes), stats: &s.stats, entry: e}
	if m.GetCompression() == rowpb.Compression_COMPRESSION_ZSTD {
		out.zstd = s.zstd
	}
	var rows int64
	options.Count = &rows
	for b, err := range w.reader.Read(ctx, t, chunk, options) {
		if err == nil {
			err = out.send(b)
		}
		if err != nil {
			return err
		}
	}
	return out.finish(rows)
}

// readOptionsOf returns the options of a request for a table with this number of columns.
func readOptionsOf(m *rowpb.ReadRequest, columns int) (rowstream.ReadOptions, error) {
	plan, err := planOf(m.GetPlan())
	if err != nil {
		return rowstream.ReadOptions{}, err
	}
	if plan != nil {
		if _, err := rowstream.NewFilter(plan, columns); err != nil {
			return rowstream.ReadOptions{}, err
		}
	}
	o := rowstream.ReadOptions{Where: m.GetWhere(), Plan: plan, BatchBytes: int(m.GetBatchBytes())}
	if o.BatchBytes != 0 {
		o.BatchBytes = min(max(o.BatchBytes, minBatchBytes), maxBatchBytes)
	}
	return o, nil
}

// A sender sends batches as messages. It waits while the client does not read: a stream's window (see
// remote.go) and one batch are in flight.
type sender struct {
	stream interface{ Send(*rowpb.Batch) error }
	w      *servedWorker
	keep   int           // maximum bytes of memory for compressed batches that are kept
	zstd   *zstd.Encoder // nil: batches are not compressed
	stats  *serviceStats
	entry  *LogEntry
}

// send sends a batch. The bytes are written before it returns, so the batch may be reused.
func (s *sender) send(b *rowstream.Batch) error {
	m := &s.w.batch
	m.Columns, m.Rows, m.Bytes, m.Unpacked = int32(b.Columns), int64(b.Rows), b.Bytes, 0
	m.Read = int64(s.entry.Rows) + m.Rows
	if s.zstd != nil && len(m.Bytes) > 0 {
		m.Bytes, m.Unpacked = pack(m.Bytes, s.zstd, s.w.packed)
		s.w.packed = m.Bytes
	}
	sent := len(m.Bytes)
	err := s.stream.Send(m)
	m.Bytes = nil // it belongs to the batch, or is the buffer for the next one
	if cap(s.w.packed) > s.keep {
		s.w.packed = nil
	}
	if err != nil {
		return err
	}
	s.entry.Rows += uint64(b.Rows)
	s.entry.Bytes += uint64(len(b.Bytes))
	s.entry.BytesOut += uint64(sent)
	s.stats.rows.Add(int64(b.Rows))
	s.stats.bytes.Add(int64(len(b.Bytes)))
	s.stats.sent.Add(int64(sent))
	return nil
}

// finish sends the number of rows read, including those that the plan excludes, unless the last batch had it.
func (s *sender) finish(rows int64) error {
	s.entry.RowsRead = uint64(rows)
	if rows == int64(s.entry.Rows) && rows > 0 {
		return nil
	}
	return s.stream.Send(&rowpb.Batch{Read: rows})
}
