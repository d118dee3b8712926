package wire

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/querylog"
)

const (
	// DefaultMaxSnapshots is the maximum number of concurrent views of a service.
	DefaultMaxSnapshots = 16

	// DefaultMaxWorkers is the maximum number of readers, and so of connections, per view.
	DefaultMaxWorkers = 64

	// maxRequest bounds a request in bytes: descriptions of thousands of tables.
	maxRequest = 16 << 20

	// keepaliveTime is how long a connection may be silent before its peer is pinged, and keepaliveTimeout
	// how long the response may take. A client that disappears silently loses its views after both.
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 10 * time.Second

	// wireBuffer is the size of a connection's read and write buffers, in bytes.
	wireBuffer = 128 << 10
)

// ServiceOptions configure a Service.
type ServiceOptions struct {
	Server rowstream.Server // the source of the rows; the service does not close it

	Token        string // required of calls; empty: every client is served
	MaxSnapshots int    // concurrent views; 0: DefaultMaxSnapshots
	MaxWorkers   int    // readers per view; 0: DefaultMaxWorkers
	MaxFollows   int    // concurrent streams of changes; 0: DefaultMaxFollows

	Log *querylog.Logger // nil: calls are not logged
}

// A Service serves a Server's rows over gRPC, and, if the Server is a Follower, its changes; OpenRemote reads
// them. A client can read everything that the Server's account may: that account should have no more than
// SELECT, and REPLICATION SLAVE and CLIENT for changes. It is safe for concurrent use.
type Service struct {
	rowpb.UnimplementedRowsServer

	o     ServiceOptions
	guard *guard // nil: there is no token
	zstd  *zstd.Encoder
	stats serviceStats

	recordPause time.Duration // of a stream of changes: interval between its records in the log

	ending context.Context // done when streams of changes must end
	end    context.CancelCauseFunc

	mu        sync.Mutex
	snapshots map[uint64]*served
	open      int           // snapshots, including those being taken
	short     int           // short views, likewise
	follows   int           // streams of changes
	draining  chan struct{} // closed when draining starts; nil before; guarded by mu
	idle      chan struct{} // closed when draining and the last view has ended
}

var _ rowpb.RowsServer = (*Service)(nil)

// NewService returns a service.
func NewService(o ServiceOptions) (*Service, error) {
	if o.Server == nil {
		return nil, errors.New("row service: no server to read from")
	}
	o.MaxSnapshots = cmp.Or(o.MaxSnapshots, DefaultMaxSnapshots)
	o.MaxWorkers = cmp.Or(o.MaxWorkers, DefaultMaxWorkers)
	o.MaxFollows = cmp.Or(o.MaxFollows, DefaultMaxFollows)
	if o.MaxSnapshots < 0 || o.MaxWorkers < 0 || o.MaxFollows < 0 {
		return nil, fmt.Errorf("row service: %d snapshots of %d workers, %d streams of changes: want at least 1", o.MaxSnapshots, o.MaxWorkers, o.MaxFollows)
	}
	packer, err := newPacker()
	if err != nil {
		return nil, fmt.Errorf("row service: %w", err)
	}
	s := &Service{o: o, zstd: packer, recordPause: recordPause, snapshots: make(map[uint64]*served), idle: make(chan struct{})}
	s.ending, s.end = context.WithCancelCause(context.Background())
	if o.Token != "" {
		s.guard = newGuard(o.Token)
	}
	return s, nil
}

// NewServer returns a gRPC server for the service and gRPC's health service, with additional options.
func (s *Service) NewServer(options ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.ForceServerCodecV2(requestCodec{}),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.WriteBufferSize(wireBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.InTapHandle(s.admitCall),
		grpc.WaitForHandlers(true), // so that after Stop no connection of a view is left
	}
	g := grpc.NewServer(append(own, options...)...)
	rowpb.RegisterRowsServer(g, s)
	healthpb.RegisterHealthServer(g, health.NewServer())
	return g
}

// Drain refuses new snapshots and waits until the open ones have ended. It returns the number of those left
// when ctx is done; they end with the gRPC server. Streams of changes, which are unbounded, end immediately:
// their clients reconnect and resume.
func (s *Service) Drain(ctx context.Context) (left int) {
	s.end(errDraining)
	s.mu.Lock()
	if s.draining == nil {
		s.draining = make(chan struct{})
		close(s.draining)
		if s.open+s.short == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return 0
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open + s.short
	}
}

var errDraining = refuse(codes.Unavailable, "the server is shutting down")

// admit counts a snapshot, or a short view, before it is taken. A short view has one connection, so there may
// be as many as all snapshots may have workers.
func (s *Service) admit(short bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining != nil:
		return errDraining
	case short && s.short >= s.o.MaxSnapshots*s.o.MaxWorkers:
		return refuse(codes.ResourceExhausted, "%d short views are open, which is the limit (option max-snapshots times option max-workers)", s.short)
	case short:
		s.short++
		return nil
	case s.open >= s.o.MaxSnapshots:
		return refuse(codes.ResourceExhausted, "%d snapshots are open, which is the limit (option max-snapshots)", s.open)
	}
	s.open++
	return nil
}

func (s *Service) release(short bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if short {
		s.short--
	} else {
		s.open--
	}
	if s.open+s.short == 0 && s.draining != nil {
		close(s.idle)
	}
}

// register assigns an unpredictable number to a snapshot.
func (s *Service) register(v *served) (id uint64) {
	var b [8]byte
	s.mu.Lock()
	defer s.mu.Unlock()
	for id == 0 || s.snapshots[id] != nil {
		_, _ = rand.Read(b[:]) // never fails
		id = binary.LittleEndian.Uint64(b[:])
	}
	s.snapshots[id] = v
	return id
}

func (s *Service) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.snapshots, id)
}

// snapshot returns an open snapshot.
func (s *Service) snapshot(id uint64) (*served, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.snapshots[id]; v != nil {
		return v, nil
	}
	return nil, refuse(codes.FailedPrecondition, "the snapshot has ended: its connection was lost, or the server was restarted")
}

// endKey is the context key of the function that ends a stream.
type endKey struct{}

// admitCall refuses a call without the token, before any of its request is received.
func (s *Service) admitCall(stream context.Context, info *tap.Info) (context.Context, error) {
	if s.guard != nil {
		if err := s.guard.check(info.Header); err != nil {
			return nil, err
		}
	}
	return withEnd(stream), nil
}

// withEnd lets a handler end its stream. A context derived by the handler would not suffice: sending to a
// client that does not read waits for the stream's context.
func withEnd(stream context.Context) context.Context {
	ctx, end := context.WithCancelCause(stream)
	context.AfterFunc(stream, func() { end(context.Cause(stream)) })
	return context.WithValue(ctx, endKey{}, end)
}

// endOf returns the function that ends the stream of a context from withEnd.
func endOf(ctx context.Context) context.CancelCauseFunc {
	end, _ := ctx.Value(endKey{}).(context.CancelCauseFunc)
	if end == nil {
		return func(error) {} // the call did not come over a connection
	}
	return end
}

// serviceStats are the counters of a service.
type serviceStats struct {
	reads, running, failed, rows, bytes, sent, sums atomic.Int64

	follows, following, failedFollows, changes, changeBytes, changeSent atomic.Int64
}

// ServiceStats are the metrics of a service.
type ServiceStats struct {
	Snapshots int   // open
	Running   int64 // reads in progress
	Reads     int64 // finished reads
	Failed    int64 // finished reads with an error
	Rows      int64 // sent
	Bytes     int64 // of these rows
	Sent      int64 // bytes of these rows as sent, possibly compressed
	Sums      int64 // chunks whose checksum was computed

	Following     int64 // streams of changes in progress
	Follows       int64 // finished streams
	FailedFollows int64 // finished streams with an error
	Changes       int64 // of rows, sent
	ChangeBytes   int64 // of these changes' images
	ChangeSent    int64 // bytes of these images as sent, possibly compressed
}

// Stats returns the metrics of the service.
func (s *Service) Stats() ServiceStats {
	s.mu.Lock()
	open := s.open + s.short
	s.mu.Unlock()
	c := &s.stats
	return ServiceStats{
		Snapshots: open, Running: c.running.Load(), Reads: c.reads.Load(), Failed: c.failed.Load(),
		Rows: c.rows.Load(), Bytes: c.bytes.Load(), Sent: c.sent.Load(), Sums: c.sums.Load(),
		Following: c.following.Load(), Follows: c.follows.Load(), FailedFollows: c.failedFollows.Load(),
		Changes: c.changes.Load(), ChangeBytes: c.changeBytes.Load(), ChangeSent: c.changeSent.Load(),
	}
}
