package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
)

// A remoteView is a view of a Service. It lives as long as the call that requested it.
type remoteView struct {
	r      *Remote
	life   context.Context
	end    context.CancelFunc
	stream rowpb.Rows_SnapshotClient

	id            uint64
	how, position string
	identity      string // of the server
	limit         int64  // milliseconds after which the service ends the view; 0: unlimited
}

var _ rowstream.View = (*remoteView)(nil)

func (v *remoteView) How() string      { return v.how }
func (v *remoteView) Position() string { return v.position }

// Identity returns the identity of the server that the service reads.
func (v *remoteView) Identity() string { return v.identity }

// Reader implements View.
func (v *remoteView) Reader(worker int) rowstream.ViewReader {
	return &remoteReader{v: v, worker: int32(worker)}
}

// Close ends the view. The service closes its connections soon after.
func (v *remoteView) Close() error {
	v.end()
	for {
		if _, err := v.stream.Recv(); err != nil {
			return nil // the view has ended
		}
	}
}

// during returns a context for a call that also ends with the view.
func (v *remoteView) during(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(v.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// A remoteReader reads chunks through one of the view's workers, into a reused message and batch.
type remoteReader struct {
	v      *remoteView
	worker int32

	message rowpb.Batch
	room    []byte // buffer for decompressed batches
	batch   rowstream.Batch
}

// Cut implements Reader.
func (r *remoteReader) Cut(ctx context.Context, t *rowstream.Table, bytes int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	addr := r.v.r.Addr()
	m, err := r.v.r.rows.Cut(ctx, &rowpb.CutRequest{
		Snapshot: r.v.id, Worker: r.worker, Table: tableName(t), Bytes: bytes, From: chunkMessage(from),
	})
	if err != nil {
		return rowstream.Chunk{}, errorOf(ctx, addr, err)
	}
	c, err := chunkOf(m.GetChunk(), len(t.Key))
	if err == nil && c.Number != from.Number {
		err = fmt.Errorf("the response is for chunk %d", c.Number)
	}
	if err != nil {
		return rowstream.Chunk{}, fmt.Errorf("%s: cut chunk %d of %s: %w", addr, from.Number, t.FullName(), err)
	}
	c.After = from.After
	return c, nil
}

// Read implements Reader. The throttle is checked before each batch; flow control then delays the source.
func (r *remoteReader) Read(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.ReadOptions) iter.Seq2[*rowstream.Batch, error] {
	return func(yield func(*rowstream.Batch, error) bool) {
		err := r.read(ctx, t, c, &o, func(b *rowstream.Batch) bool { return yield(b, nil) })
		var remote *remoteError
		if err != nil && !errors.As(err, &remote) { // errors of the server name their location
			err = fmt.Errorf("read chunk %d of %s: %w", c.Number, t.FullName(), err)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// read yields a chunk's batches. It returns no error after yield has returned false.
func (r *remoteReader) read(call context.Context, t *rowstream.Table, c rowstream.Chunk, o *rowstream.ReadOptions, yield func(*rowstream.Batch) bool) error {
	columns := len(t.Columns)
	if o.Plan != nil {
		f, err := rowstream.NewFilter(o.Plan, columns)
		if err != nil {
			return err
		}
		columns = f.Columns()
		if o.Plan.Match != nil {
			return errMatchRemote
		}
		if o.Plan.LooksUp() {
			return errLookupRemote
		}
	}
	ctx, cancel := r.v.during(call)
	defer cancel() // ends a stream that is not read to its end
	stream, err := r.v.r.rows.Read(ctx, &rowpb.ReadRequest{
		Snapshot: r.v.id, Worker: r.worker, Table: tableName(t), Chunk: chunkMessage(c), Where: o.Where, Plan: planMessage(o.Plan),
		BatchBytes: int32(min(o.BatchBytes, maxBatchBytes)), Compression: r.v.r.o.Compression.message(),
	})
	if err != nil {
		return errorOf(call, r.v.r.Addr(), err)
	}
	for b, err := range r.receive(call, stream, columns, rowstream.RoomKept(o.BatchBytes), o.Count) {
		if err == nil && o.Throttle != nil && !o.Throttle.OK() {
			err = o.Throttle.Wait(call)
		}
		if err != nil {
			return err
		}
		if !yield(b) {
			return nil
		}
	}
	return nil
}

// receive returns the batches of a stream. count is increased by the rows that were read for them; nil: they
// are not counted.
func (r *remoteReader) receive(call context.Context, stream interface{ RecvMsg(any) error }, columns, keep int, count *int64) iter.Seq2[*rowstream.Batch, error] {
	return func(yield func(*rowstream.Batch, error) bool) {
		var rows, handed int64
		defer func() { r.reset(keep) }()
		for {
			r.reset(keep)
			err := stream.RecvMsg(&r.message)
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				err = errorOf(call, r.v.r.Addr(), err)
			default:
				if err = r.open(columns); err != nil {
					err = fmt.Errorf("%s: batch %w", r.v.r.Addr(), err)
				}
			}
			if handed += int64(r.batch.Rows); err == nil && r.message.Read < max(rows, handed) {
				err = fmt.Errorf("%s: batch after %d rows says that %d were read", r.v.r.Addr(), handed, r.message.Read)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if count != nil {
				*count += r.message.Read - rows
			}
			rows = r.message.Read
			if r.batch.Rows > 0 && !yield(&r.batch, nil) { // a batch without rows reports rows that were excluded
				return
			}
		}
	}
}

// reset empties the message and keeps its memory, unless a wide row took it.
func (r *remoteReader) reset(keep int) {
	m := &r.message
	m.Columns, m.Rows, m.Read, m.Unpacked, m.Bytes = 0, 0, 0, 0, m.Bytes[:0]
	if cap(m.Bytes) > keep {
		m.Bytes = nil
	}
	if cap(r.room) > keep {
		r.room = nil
	}
	r.batch.Bytes = nil // it belonged to one of them
}

// open sets the batch to the message's content. The message is untrusted and is checked.
func (r *remoteReader) open(columns int) (err error) {
	m := &r.message
	r.batch.Columns, r.batch.Rows = int(m.Columns), int(m.Rows)
	if r.batch.Bytes, r.room, err = unpack(m.Bytes, m.Unpacked, r.v.r.zstd, r.room, r.v.r.o.MaxMessage); err != nil {
		return err
	}
	if r.batch.Rows > 0 && r.batch.Columns != columns {
		return fmt.Errorf("has %d columns, want %d", r.batch.Columns, columns)
	}
	return r.batch.Check()
}

// errLookupRemote prevents rows of other shards from passing.
var errLookupRemote = errors.New("a plan's Lookup does not go across the wire: read from mysql://")

// errMatchRemote prevents rows that a plan excludes from passing.
var errMatchRemote = errors.New("a plan's Match does not go across the wire: put the condition into Where, which the server evaluates")
