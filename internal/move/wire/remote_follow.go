package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

var (
	_ binlog.Follower = (*Remote)(nil)
	_ binlog.Changes  = (*remoteChanges)(nil)
)

// CheckFollow implements Follower.
func (r *Remote) CheckFollow(ctx context.Context, tables []*rowstream.Table, from binlog.Position) error {
	m := &rowpb.CheckFollowRequest{From: from.String()}
	for _, t := range tables {
		m.Tables = append(m.Tables, tableMessage(t))
	}
	_, err := r.rows.CheckFollow(ctx, m)
	return errorOf(ctx, r.Addr(), err)
}

// CurrentPosition implements Follower.
func (r *Remote) CurrentPosition(ctx context.Context) (binlog.Position, error) {
	return r.logEnd(ctx, &rowpb.LogEndRequest{})
}

// GTIDPosition implements Follower.
func (r *Remote) GTIDPosition(ctx context.Context) (binlog.Position, error) {
	return r.logEnd(ctx, &rowpb.LogEndRequest{Named: true})
}

func (r *Remote) logEnd(ctx context.Context, request *rowpb.LogEndRequest) (binlog.Position, error) {
	m, err := r.rows.LogEnd(ctx, request)
	if err != nil {
		return binlog.Position{}, errorOf(ctx, r.Addr(), err)
	}
	p, err := binlog.ParsePosition(m.GetPosition())
	if err == nil && p.IsZero() {
		err = errors.New("the response is not a position")
	}
	if err != nil {
		return p, fmt.Errorf("%s: where the binary log ends: %w", r.Addr(), err)
	}
	return p, nil
}

// LogBytes implements Follower.
func (r *Remote) LogBytes(ctx context.Context, from, to binlog.Position) (int64, error) {
	m, err := r.rows.LogBytes(ctx, &rowpb.LogBytesRequest{From: from.String(), To: to.String()})
	if err != nil {
		return 0, errorOf(ctx, r.Addr(), err)
	}
	return m.GetBytes(), nil
}

// beatTimeoutRemote bounds writing a heartbeat: twice the timeout of the service.
const beatTimeoutRemote = 10 * time.Second

// WriteHeartbeat implements Follower.
func (r *Remote) WriteHeartbeat(ctx context.Context, h binlog.Heartbeat) error {
	return r.beat(ctx, h, false)
}

// CheckHeartbeat implements Follower. A service of version 0.1.0, which cannot check, returns nil.
func (r *Remote) CheckHeartbeat(ctx context.Context, h binlog.Heartbeat) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beatTimeoutRemote, fmt.Errorf("no response within %v", beatTimeoutRemote))
	defer cancel()
	_, err := r.rows.CheckBeat(ctx, beatMessage(h))
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return errorOf(ctx, r.Addr(), err)
}

// DeleteHeartbeat implements Follower.
func (r *Remote) DeleteHeartbeat(ctx context.Context, h binlog.Heartbeat) error {
	return r.beat(ctx, h, true)
}

func (r *Remote) beat(ctx context.Context, h binlog.Heartbeat, end bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beatTimeoutRemote, fmt.Errorf("no response within %v", beatTimeoutRemote))
	defer cancel()
	m := beatMessage(h)
	m.End = end
	_, err := r.rows.Beat(ctx, m)
	return errorOf(ctx, r.Addr(), err)
}

func beatMessage(h binlog.Heartbeat) *rowpb.BeatRequest {
	return &rowpb.BeatRequest{Copy: h.Copy, Run: h.Run, Number: h.Number, Schemas: h.Schemas, OnReplica: h.OnReplica}
}

var (
	errServerID = errors.New("follow the binary log: the reader shows up at the server under an id that the service chooses: leave ServerID out")
	errEnded    = errors.New("the stream of changes has ended without an error")
)

// Follow implements Follower.
func (r *Remote) Follow(ctx context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	o.BatchBytes = cmp.Or(o.BatchBytes, binlog.DefaultFollowBytes)
	o.Heartbeat = cmp.Or(o.Heartbeat, binlog.DefaultHeartbeat)
	o.Patience = cmp.Or(o.Patience, session.DefaultPatience)
	switch {
	case o.ServerID != 0:
		return nil, errServerID
	case o.From.IsZero():
		return nil, binlog.ErrNoPosition
	}
	c := &remoteChanges{r: r, patience: o.Patience, waiting: o.Waiting, upto: o.From, keep: rowstream.RoomKept(o.BatchBytes)}
	c.request = rowpb.FollowRequest{
		From: o.From.String(), Skip: o.Skip, BatchBytes: int32(min(o.BatchBytes, maxBatchBytes)), Compression: r.o.Compression.message(),
		Run: o.Run, HeartbeatMs: max(1, o.Heartbeat.Milliseconds()), PatienceMs: max(1, o.Patience.Milliseconds()),
	}
	c.request.Ignore = digestMessages(o.Ignore)
	for i, t := range o.Tables {
		m := &rowpb.FollowedTable{Table: tableMessage(t)}
		columns := len(t.Columns)
		if i < len(o.Plans) && o.Plans[i] != nil {
			f, err := rowstream.NewFilter(o.Plans[i], columns)
			if err != nil {
				return nil, fmt.Errorf("follow the binary log: plan of %s: %w", t.FullName(), err)
			}
			columns = f.Columns()
			if o.Plans[i].LooksUp() {
				return nil, errLookupRemote
			}
			m.Plan, m.Match = planMessage(o.Plans[i]), termsOf(o.Plans[i].Match, nil)
		}
		if i < len(o.Layouts) && o.Layouts[i] != nil {
			m.Layout = layoutMessage(o.Layouts[i])
		}
		if i < len(o.Defined) {
			m.Defined = o.Defined[i].String()
		}
		if i < len(o.Starts) {
			m.Start = o.Starts[i].String()
		}
		c.request.Tables = append(c.request.Tables, m)
		c.columns = append(c.columns, columns)
	}
	c.life, c.end = context.WithCancel(context.Background())
	if err := c.connect(ctx); err != nil {
		c.end()
		return nil, errorOf(ctx, r.Addr(), err)
	}
	return c, nil
}

// remoteChanges are changes streamed by a Service. A lost stream is requested again from the end of the last
// batch.
type remoteChanges struct {
	r        *Remote
	patience time.Duration
	waiting  func(time.Duration) func()
	columns  []int // of the returned rows, by table
	keep     int   // maximum bytes of memory that a batch keeps

	life context.Context // until Close
	end  context.CancelFunc

	mu      sync.Mutex              // locked while Next runs; guards the rest
	request rowpb.FollowRequest     // for the changes after the last batch
	upto    binlog.Position         // end of the last batch
	stream  rowpb.Rows_FollowClient // nil: not requested
	cut     context.CancelFunc      // ends the stream
	err     error                   // that stopped reading
}

// connect requests the changes after the last batch, and waits for the confirmation of the service. Its error
// is gRPC's.
func (c *remoteChanges) connect(ctx context.Context) error {
	life, cut := context.WithCancel(c.life)
	stop := context.AfterFunc(ctx, cut)
	stream, err := c.r.rows.Follow(life, &c.request)
	if err == nil {
		var first *rowpb.Changes
		first, err = stream.Recv()
		if err == nil {
			err = c.began(first)
		}
	}
	if !stop() && err == nil {
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		cut()
		return err
	}
	c.stream, c.cut = stream, cut
	return nil
}

// began processes the first message of a stream. Tables that matched their description when the stream began
// may be altered before it is requested again: then their layout at that time is sent.
func (c *remoteChanges) began(m *rowpb.Changes) error {
	tables := c.request.Tables
	if len(m.GetRows()) > 0 || len(m.GetLayouts()) != 0 && len(m.GetLayouts()) != len(tables) {
		return status.Error(codes.Internal, "the first message of a stream is none")
	}
	for i, l := range m.GetLayouts() {
		if _, err := layoutOf(l, len(tables[i].GetTable().GetColumns())); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		tables[i].Layout = l
	}
	return nil
}

// Next implements Changes.
func (c *remoteChanges) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	for {
		err := c.next(ctx, b)
		switch {
		case err == nil:
			return nil
		case c.life.Err() != nil:
			err = binlog.ErrClosed
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case passing(err):
			c.drop()
			continue
		default:
			if !isRemote(err) {
				err = errorOf(ctx, c.r.Addr(), err)
			}
			c.err = err
		}
		c.drop()
		b.Reset(c.columns, c.keep)
		return err
	}
}

// isRemote reports whether an error is complete already, and not a gRPC status.
func isRemote(err error) bool {
	var e *remoteError
	return errors.As(err, &e)
}

// passing reports whether a stream's error is temporary: the connection to the service was lost, or the
// service is shutting down.
func passing(err error) bool {
	code := status.Code(err)
	return !isRemote(err) && (code == codes.Unavailable || code == codes.Canceled)
}

// next receives a batch. An error of the stream is gRPC's.
func (c *remoteChanges) next(ctx context.Context, b *binlog.ChangeBatch) error {
	if c.stream == nil {
		if err := c.reconnect(ctx); err != nil {
			return err
		}
	}
	room := roomOf(b)
	room.reset(c.keep)
	stop := context.AfterFunc(ctx, c.cut)
	defer stop()
	if err := c.stream.RecvMsg(&room.message); err != nil {
		if errors.Is(err, io.EOF) {
			err = c.foreign(errEnded)
		}
		return err
	}
	m := &room.message
	if err := room.open(b, c.columns, c.r.zstd, c.r.o.MaxMessage); err != nil {
		return c.foreign(err)
	}
	if m.Upto != c.request.From {
		p, err := binlog.ParsePosition(m.Upto)
		if err == nil && p.IsZero() {
			err = binlog.ErrNoPosition
		}
		if err != nil {
			return c.foreign(err)
		}
		c.upto, c.request.From = p, m.Upto
	}
	b.Upto, c.request.Skip = c.upto, m.Skip
	return nil
}

// foreign returns the error for an invalid message of the service.
func (c *remoteChanges) foreign(err error) error {
	return &remoteError{addr: c.r.Addr(), text: fmt.Sprintf("changes after %s: %v", c.upto, err), cause: err}
}

// reconnect tries to connect until the patience is over. A service may still have the lost stream open, and
// refuse another one until it is closed.
func (c *remoteChanges) reconnect(ctx context.Context) error {
	if c.waiting != nil {
		defer c.waiting(c.patience)()
	}
	trying, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.life, func() { end(binlog.ErrClosed) })()
	return retry.Within(trying, c.patience, func() error {
		c.r.conn.ResetConnectBackoff()
		err := c.connect(trying)
		if err != nil && !passing(err) && status.Code(err) != codes.ResourceExhausted {
			return retry.Final(err)
		}
		if err != nil {
			err = fmt.Errorf("follow the binary log after %s: %w", c.upto, errorOf(ctx, c.r.Addr(), err))
		}
		return err
	})
}

// drop abandons the stream.
func (c *remoteChanges) drop() {
	if c.stream == nil {
		return
	}
	c.cut()
	for c.stream.RecvMsg(new(rowpb.Changes)) == nil { // batches in flight are requested again
	}
	c.stream = nil
}

// Close implements Changes.
func (c *remoteChanges) Close() error {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	return nil
}
