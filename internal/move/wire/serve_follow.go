package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	// DefaultMaxFollows is the maximum number of concurrent streams of changes of a service.
	DefaultMaxFollows = 16

	// recordPause is the interval at which a stream of changes, which may last for months, is logged.
	recordPause = 10 * time.Minute

	// minHeartbeat and maxHeartbeat bound the heartbeat interval that a client may request.
	minHeartbeat, maxHeartbeat = 10 * time.Millisecond, 10 * time.Second
)

// follower returns the service's server as a Follower.
func (s *Service) follower() (binlog.Follower, error) {
	f, ok := s.o.Server.(binlog.Follower)
	if !ok {
		return nil, refuse(codes.FailedPrecondition, "the server has rows and no changes to serve")
	}
	return f, nil
}

// CheckFollow implements rowpb.RowsServer.
func (s *Service) CheckFollow(ctx context.Context, m *rowpb.CheckFollowRequest) (*rowpb.CheckFollowReply, error) {
	c := s.startCall(ctx, "checkfollow", nil)
	c.entry.From, c.entry.Table = m.GetFrom(), tableNames(m.GetTables())
	if err := c.finish(s.serveCheckFollow(ctx, m)); err != nil {
		return nil, err
	}
	return &rowpb.CheckFollowReply{}, nil
}

func (s *Service) serveCheckFollow(ctx context.Context, m *rowpb.CheckFollowRequest) error {
	f, err := s.follower()
	if err != nil {
		return err
	}
	from, err := positionOf(m.GetFrom())
	if err != nil {
		return err
	}
	var tables []*rowstream.Table
	for _, m := range m.GetTables() {
		t, err := describedTable(m)
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	return f.CheckFollow(ctx, tables, from)
}

// LogEnd implements rowpb.RowsServer. Clients poll it, so it is logged only if it fails.
func (s *Service) LogEnd(ctx context.Context, m *rowpb.LogEndRequest) (*rowpb.LogEndReply, error) {
	c := s.startCall(ctx, "logend", nil)
	c.quiet = true
	f, err := s.follower()
	var p binlog.Position
	switch {
	case err != nil:
	case m.GetNamed():
		p, err = f.GTIDPosition(ctx)
	default:
		p, err = f.CurrentPosition(ctx)
	}
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return &rowpb.LogEndReply{Position: p.String()}, nil
}

// LogBytes implements rowpb.RowsServer, and is logged like LogEnd.
func (s *Service) LogBytes(ctx context.Context, m *rowpb.LogBytesRequest) (*rowpb.LogBytesReply, error) {
	c := s.startCall(ctx, "logbytes", nil)
	c.quiet = true
	n, err := s.serveLogBytes(ctx, m)
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return &rowpb.LogBytesReply{Bytes: n}, nil
}

func (s *Service) serveLogBytes(ctx context.Context, m *rowpb.LogBytesRequest) (int64, error) {
	f, err := s.follower()
	if err != nil {
		return 0, err
	}
	from, err := positionOf(m.GetFrom())
	if err != nil {
		return 0, err
	}
	to, err := positionOf(m.GetTo())
	if err != nil {
		return 0, err
	}
	return f.LogBytes(ctx, from, to)
}

// Beat implements rowpb.RowsServer, and is logged like LogEnd.
func (s *Service) Beat(ctx context.Context, m *rowpb.BeatRequest) (*rowpb.BeatReply, error) {
	c := s.startCall(ctx, "beat", nil)
	c.quiet = true
	if err := c.finish(s.serveBeat(ctx, m)); err != nil {
		return nil, err
	}
	return &rowpb.BeatReply{}, nil
}

func (s *Service) serveBeat(ctx context.Context, m *rowpb.BeatRequest) error {
	f, h, err := s.heartbeatOf(m)
	switch {
	case err != nil:
		return err
	case m.GetEnd():
		return f.DeleteHeartbeat(ctx, h)
	}
	return f.WriteHeartbeat(ctx, h)
}

// CheckBeat implements rowpb.RowsServer.
func (s *Service) CheckBeat(ctx context.Context, m *rowpb.BeatRequest) (*rowpb.BeatReply, error) {
	c := s.startCall(ctx, "checkbeat", nil)
	f, h, err := s.heartbeatOf(m)
	if err == nil {
		err = f.CheckHeartbeat(ctx, h)
	}
	if err := c.finish(err); err != nil {
		return nil, err
	}
	return &rowpb.BeatReply{}, nil
}

// heartbeatOf returns the heartbeat of a message, and the server that it is for.
func (s *Service) heartbeatOf(m *rowpb.BeatRequest) (binlog.Follower, binlog.Heartbeat, error) {
	f, err := s.follower()
	if err != nil {
		return nil, binlog.Heartbeat{}, err
	}
	h := binlog.Heartbeat{Copy: m.GetCopy(), Run: m.GetRun(), Number: m.GetNumber(), Schemas: m.GetSchemas(), OnReplica: m.GetOnReplica()}
	if h.Run == "" || len(h.Run) > longestRun || h.Copy == "" || len(h.Copy) > longestRun || len(h.Schemas) == 0 || len(h.Schemas) > mostBeatSchemas {
		return nil, h, refuse(codes.InvalidArgument, "a heartbeat of run %q in %d schemas", h.Run, len(h.Schemas))
	}
	return f, h, nil
}

// Limits of a heartbeat request.
const (
	longestRun      = 64
	mostBeatSchemas = 10_000
)

// positionOf parses the position of a message.
func positionOf(text string) (binlog.Position, error) {
	p, err := binlog.ParsePosition(text)
	if err != nil {
		return p, refuse(codes.InvalidArgument, "%w", err)
	}
	return p, nil
}

// Follow implements rowpb.RowsServer.
func (s *Service) Follow(m *rowpb.FollowRequest, stream rowpb.Rows_FollowServer) error {
	c := s.startCall(stream.Context(), "follow", nil)
	tables := make([]*rowpb.Table, len(m.GetTables()))
	for i, t := range m.GetTables() {
		tables[i] = t.GetTable()
	}
	c.entry.From, c.entry.Upto, c.entry.Table = m.GetFrom(), m.GetFrom(), tableNames(tables)
	s.stats.following.Add(1)
	defer s.stats.following.Add(-1) // a stream that is no longer counted as open is counted as finished
	err := c.finish(s.serveFollow(m, stream, c))
	s.stats.follows.Add(1)
	if err != nil {
		s.stats.failedFollows.Add(1)
	}
	return err
}

func (s *Service) serveFollow(m *rowpb.FollowRequest, stream rowpb.Rows_FollowServer, c *call) error {
	f, err := s.follower()
	if err != nil {
		return err
	}
	if err := s.admitFollow(); err != nil {
		return err
	}
	defer s.releaseFollow()
	ctx := stream.Context()
	end := endOf(ctx)
	defer context.AfterFunc(s.ending, func() { end(context.Cause(s.ending)) })()
	tables, layouts, err := s.followedTables(ctx, f, m.GetTables())
	if err != nil {
		return err
	}
	o, err := followOptionsOf(m, tables)
	o.Layouts = layouts
	if err != nil {
		return refuse(codes.InvalidArgument, "follow %s: %w", c.entry.Table, err)
	}
	changes, err := f.Follow(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close() }() // changes that were not sent are requested again
	if err := stream.Send(firstMessage(m.GetFrom(), layouts)); err != nil {
		return err
	}
	out := changeSender{stream: stream, call: c, pause: s.recordPause, packer: changePacker{keep: rowstream.RoomKept(o.BatchBytes)}}
	if m.GetCompression() == rowpb.Compression_COMPRESSION_ZSTD {
		out.packer.zstd = s.zstd
	}
	var b binlog.ChangeBatch
	for err == nil {
		if err = changes.Next(ctx, &b); err == nil {
			err = out.send(&b)
		}
	}
	if ctx.Err() == nil {
		return err
	}
	if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
		return nil // the client has finished or has disconnected
	}
	return err
}

// followOptionsOf returns the options of a request for tables with their current definitions.
func followOptionsOf(m *rowpb.FollowRequest, tables []*rowstream.Table) (o binlog.FollowOptions, err error) {
	if o.From, err = binlog.ParsePosition(m.GetFrom()); err != nil {
		return o, err
	}
	o.Skip, o.Tables, o.Run, o.BatchBytes = m.GetSkip(), tables, m.GetRun(), int(m.GetBatchBytes())
	if o.BatchBytes == 0 {
		o.BatchBytes = binlog.DefaultFollowBytes
	}
	o.BatchBytes = min(max(o.BatchBytes, minBatchBytes), maxBatchBytes)
	o.Heartbeat, o.Patience = millis(m.GetHeartbeatMs()), millis(m.GetPatienceMs())
	if o.Heartbeat != 0 {
		o.Heartbeat = min(max(o.Heartbeat, minHeartbeat), maxHeartbeat)
	}
	for i, t := range m.GetTables() {
		plan, err := planOf(t.GetPlan())
		if err != nil {
			return o, err
		}
		match, err := predicateOf(t.GetMatch())
		if err != nil {
			return o, err
		}
		if match != nil {
			if plan == nil {
				plan = &rowstream.Plan{}
			}
			plan.Match = match
		}
		if plan != nil {
			if _, err := rowstream.NewFilter(plan, len(tables[i].Columns)); err != nil {
				return o, fmt.Errorf("plan of %s: %w", tables[i].FullName(), err)
			}
		}
		defined, err := binlog.ParsePosition(t.GetDefined())
		if err != nil {
			return o, err
		}
		start, err := binlog.ParsePosition(t.GetStart())
		if err != nil {
			return o, err
		}
		o.Plans, o.Defined, o.Starts = append(o.Plans, plan), append(o.Defined, defined), append(o.Starts, start)
	}
	if o.Ignore, err = digestsOf(m.GetIgnore()); err != nil {
		return o, err
	}
	return o, nil
}

// digestMessages returns digests in the form of messages.
func digestMessages(digests []sqldigest.Digest) (m [][]byte) {
	for i := range digests {
		m = append(m, digests[i][:])
	}
	return m
}

// digestsOf returns the digests of a message.
func digestsOf(m [][]byte) (digests []sqldigest.Digest, err error) {
	for _, b := range m {
		if len(b) != len(sqldigest.Digest{}) {
			return nil, fmt.Errorf("a digest of %d bytes", len(b))
		}
		digests = append(digests, sqldigest.Digest(b))
	}
	return digests, nil
}

// millis returns a duration of a message: from 0 to a day, longer than any wait.
func millis(n int64) time.Duration {
	const most = 24 * 60 * 60 * 1000
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

// maxNames bounds the bytes of table names of a call in the log.
const maxNames = 4 << 10

// tableNames returns the names of tables for messages and the log.
func tableNames(tables []*rowpb.Table) string {
	var b strings.Builder
	for i, t := range tables {
		if b.Len() > maxNames {
			fmt.Fprintf(&b, ",and %d more", len(tables)-i)
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(t.GetSchema() + "." + t.GetName())
	}
	return b.String()
}

// admitFollow counts a stream of changes before it starts.
func (s *Service) admitFollow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining != nil:
		return errDraining
	case s.follows >= s.o.MaxFollows:
		return refuse(codes.ResourceExhausted, "%d streams of changes are open, which is the limit (option max-follows)", s.follows)
	}
	s.follows++
	return nil
}

func (s *Service) releaseFollow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows--
}

// A changeSender sends batches of changes as messages. Like a sender it waits while the client does not read.
type changeSender struct {
	stream rowpb.Rows_FollowServer
	call   *call
	pause  time.Duration // interval between records in the log
	packer changePacker
}

// send sends a batch, which may be reused afterwards.
func (s *changeSender) send(b *binlog.ChangeBatch) error {
	m, err := s.packer.pack(b)
	if err != nil {
		return err
	}
	sent, bytes := len(m.Rows), 0
	for i := range b.Tables {
		bytes += len(b.Tables[i].Bytes)
	}
	err = s.stream.Send(m)
	s.packer.shrink()
	if err != nil {
		return err
	}
	e, stats := s.call.entry, &s.call.s.stats
	e.Upto = m.Upto
	e.Changes += uint64(len(b.Changes))
	e.Bytes += uint64(bytes)
	e.BytesOut += uint64(sent)
	stats.changes.Add(int64(len(b.Changes)))
	stats.changeBytes.Add(int64(bytes))
	stats.changeSent.Add(int64(sent))
	if time.Since(e.Start) >= s.pause {
		s.call.mark()
	}
	return nil
}
