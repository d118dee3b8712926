package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
)

// errViewEnded stops calls that read a view whose call has ended.
var errViewEnded = errors.New("the snapshot has ended")

// A served is a view of a client, which lives as long as the client's call.
type served struct {
	ctx     context.Context // done when the view ends; its life is that of one call
	view    rowstream.View
	tables  map[tableID]*rowstream.Table
	workers []*servedWorker
}

type tableID struct{ schema, name string }

// A servedWorker is one reader of a view. Calls are serialized: a client that has abandoned one may make the
// next before the first has ended.
type servedWorker struct {
	turn   chan struct{} // has one token while it is free
	reader rowstream.ViewReader
	batch  rowpb.Batch
	packed []byte // buffer
}

func newServed(ctx context.Context, view rowstream.View, workers int, tables []*rowstream.Table) *served {
	v := &served{ctx: ctx, view: view, tables: make(map[tableID]*rowstream.Table)}
	for _, t := range tables {
		v.tables[tableID{t.Schema, t.Name}] = t
	}
	for i := range workers {
		w := &servedWorker{turn: make(chan struct{}, 1), reader: view.Reader(i)}
		w.turn <- struct{}{}
		v.workers = append(v.workers, w)
	}
	return v
}

// close waits for the calls that read the view; its context is done.
func (v *served) close() error {
	for _, w := range v.workers {
		<-w.turn
	}
	return v.view.Close()
}

// acquire acquires a worker.
func (v *served) acquire(ctx context.Context, number int32) (*servedWorker, error) {
	if number < 0 || int(number) >= len(v.workers) {
		return nil, refuse(codes.InvalidArgument, "there is no worker %d: the snapshot has %d", number, len(v.workers))
	}
	w := v.workers[number]
	select {
	case <-w.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if v.ctx.Err() != nil {
		w.release()
		return nil, errViewEnded
	}
	return w, nil
}

func (w *servedWorker) release() { w.turn <- struct{}{} }

// table returns one of the view's tables.
func (v *served) table(m *rowpb.Table) (*rowstream.Table, error) {
	if t := v.tables[tableID{m.GetSchema(), m.GetName()}]; t != nil {
		return t, nil
	}
	return nil, refuse(codes.InvalidArgument, "table %s.%s is not of the snapshot", m.GetSchema(), m.GetName())
}

// Describe implements rowpb.RowsServer.
func (s *Service) Describe(ctx context.Context, m *rowpb.DescribeRequest) (*rowpb.Table, error) {
	c := s.startCall(ctx, "describe", &rowpb.Table{Schema: m.GetSchema(), Name: m.GetName()})
	t, err := s.o.Server.Describe(ctx, m.GetSchema(), m.GetName())
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return tableMessage(t), nil
}

// Snapshot implements rowpb.RowsServer.
func (s *Service) Snapshot(m *rowpb.SnapshotRequest, stream rowpb.Rows_SnapshotServer) error {
	c := s.startCall(stream.Context(), "snapshot", nil)
	return c.finish(s.serveSnapshot(m, stream))
}

func (s *Service) serveSnapshot(m *rowpb.SnapshotRequest, stream rowpb.Rows_SnapshotServer) (err error) {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	workers := int(m.GetWorkers())
	if workers < 1 || workers > s.o.MaxWorkers {
		return refuse(codes.InvalidArgument, "a snapshot of %d workers: the server allows 1 to %d (option max-workers)", workers, s.o.MaxWorkers)
	}
	limit := time.Duration(m.GetLimitMs()) * time.Millisecond
	if limit < 0 || limit > 0 && (workers != 1 || len(m.GetTables()) != 1) {
		return refuse(codes.InvalidArgument, "a short view is of one table for one worker")
	}
	if err := s.admit(limit > 0); err != nil {
		return err
	}
	defer s.release(limit > 0)
	tables, err := s.checkTables(ctx, m.GetTables())
	if err != nil {
		return err
	}
	view, err := s.takeView(ctx, workers, tables, limit, m.GetIdentity())
	if err != nil {
		return err
	}
	v := newServed(ctx, view, workers, tables)
	id := s.register(v)
	defer func() {
		s.forget(id)
		cancel()
		err = errors.Join(err, v.close())
	}()
	if err := stream.Send(&rowpb.SnapshotReply{Id: id, How: view.How(), Position: view.Position(), Identity: view.Identity(), LimitMs: m.GetLimitMs()}); err != nil {
		return err
	}
	if limit == 0 {
		<-ctx.Done() // the client has finished or has disconnected
		return nil
	}
	expired := time.NewTimer(limit) // the view's timer started earlier
	defer expired.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-expired.C:
		return rowstream.ErrViewExpired
	}
}

// takeView takes a snapshot, or, with a limit, a short view.
func (s *Service) takeView(ctx context.Context, workers int, tables []*rowstream.Table, limit time.Duration, identity string) (rowstream.View, error) {
	if limit == 0 {
		return s.o.Server.Snapshot(ctx, workers, tables)
	}
	return s.o.Server.ShortView(ctx, identity, tables[0], limit)
}

var errNoTables = refuse(codes.InvalidArgument, "no tables are named")

// checkTables describes tables and returns an error if they differ from the descriptions sent to the client.
func (s *Service) checkTables(ctx context.Context, messages []*rowpb.Table) ([]*rowstream.Table, error) {
	tables := make([]*rowstream.Table, len(messages))
	for i, m := range messages {
		reported, err := tableOf(m)
		if err != nil {
			return nil, refuse(codes.InvalidArgument, "table %s.%s: %w", m.GetSchema(), m.GetName(), err)
		}
		t, err := s.o.Server.Describe(ctx, reported.Schema, reported.Name)
		if err != nil {
			return nil, err
		}
		if !t.SameShape(reported) {
			return nil, fmt.Errorf("table %s: %w", t.FullName(), rowstream.ErrAltered)
		}
		t.RowsEstimate, t.BytesEstimate, t.Descending = max(0, reported.RowsEstimate), max(0, reported.BytesEstimate), reported.Descending
		tables[i] = t
	}
	return tables, nil
}

// Cut implements rowpb.RowsServer.
func (s *Service) Cut(ctx context.Context, m *rowpb.CutRequest) (*rowpb.CutReply, error) {
	c := s.startCall(ctx, "cut", m.GetTable())
	chunk, err := s.serveCut(ctx, m)
	c.entry.Chunk = chunk.Number
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return &rowpb.CutReply{Chunk: chunkMessage(chunk)}, nil
}

func (s *Service) serveCut(ctx context.Context, m *rowpb.CutRequest) (rowstream.Chunk, error) {
	v, err := s.snapshot(m.GetSnapshot())
	if err != nil {
		return rowstream.Chunk{}, err
	}
	t, err := v.table(m.GetTable())
	if err != nil {
		return rowstream.Chunk{}, err
	}
	from, err := chunkOf(m.GetFrom(), len(t.Key))
	if err != nil {
		return rowstream.Chunk{}, refuse(codes.InvalidArgument, "cut table %s: %w", t.FullName(), err)
	}
	if m.GetBytes() < 1 {
		return rowstream.Chunk{}, refuse(codes.InvalidArgument, "cut table %s: chunks of %d bytes", t.FullName(), m.GetBytes())
	}
	ctx, cancel := v.during(ctx)
	defer cancel()
	w, err := v.acquire(ctx, m.GetWorker())
	if err != nil {
		return rowstream.Chunk{}, err
	}
	defer w.release()
	return w.reader.Cut(ctx, t, m.GetBytes(), from)
}

// during returns a context for the call that also ends with the view.
func (v *served) during(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(call)
	stop := context.AfterFunc(v.ctx, func() { cancel(fmt.Errorf("%w: %w", errViewEnded, context.Cause(v.ctx))) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Identify implements rowpb.RowsServer.
func (s *Service) Identify(ctx context.Context, _ *rowpb.IdentifyRequest) (*rowpb.IdentifyReply, error) {
	c := s.startCall(ctx, "identify", nil)
	identity, err := s.o.Server.Identity(ctx)
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return &rowpb.IdentifyReply{Identity: identity}, nil
}
