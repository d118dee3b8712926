package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/mysql/rowstream"
)

const (
	// streamWindow is the maximum number of bytes of a chunk in flight to a client that does not read: a few
	// batches, so that neither side waits for the other's next one.
	streamWindow = 1 << 20

	// connWindow is the maximum number of bytes in flight over a connection: sufficient for 16 workers, or
	// for 160 MB/s with a latency of 100 ms.
	connWindow = 16 << 20

	// dialTimeout bounds one attempt to connect.
	dialTimeout = 10 * time.Second

	// Pauses between attempts to reconnect.
	minReconnect, maxReconnect = 50 * time.Millisecond, 5 * time.Second

	// DefaultMaxMessage is the maximum size of a batch that a client accepts: the widest row of a server, and
	// a batch.
	DefaultMaxMessage = 1<<30 + maxBatchBytes
)

// RemoteOptions specify the address of a Service and how to connect to it.
type RemoteOptions struct {
	Addr string // host:port

	TLS         *tls.Config // nil: no TLS
	Token       string      // empty: none
	Compression Compression
	MaxMessage  int // maximum bytes of a batch; 0: DefaultMaxMessage
}

// A Remote reads from a Service, over one connection, and follows it: its Changes reconnect when the
// connection or the Service was lost. It is safe for concurrent use.
type Remote struct {
	o    RemoteOptions
	conn *grpc.ClientConn
	rows rowpb.RowsClient
	zstd *zstd.Decoder
}

// OpenRemote connects to a Service and checks that it accepts the token.
func OpenRemote(ctx context.Context, o RemoteOptions) (*Remote, error) {
	o.MaxMessage = cmp.Or(o.MaxMessage, DefaultMaxMessage)
	if o.MaxMessage < 0 || o.MaxMessage > math.MaxInt32 {
		return nil, fmt.Errorf("batches of %d bytes: want at most %d", o.MaxMessage, math.MaxInt32)
	}
	r := &Remote{o: o}
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(vtcodec.Codec{}), grpc.MaxCallRecvMsgSize(o.MaxMessage), grpc.MaxCallSendMsgSize(maxRequest)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(wireBuffer),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: minReconnect, Multiplier: 2, Jitter: 0.2, MaxDelay: maxReconnect}, MinConnectTimeout: dialTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDisableServiceConfig(), // DNS must not configure the connection
	}
	if o.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(newTokenCredential(o.Token)))
	}
	var err error
	if r.zstd, err = newUnpacker(o.MaxMessage); err != nil {
		return nil, fmt.Errorf("open %s: %w", r.Addr(), err)
	}
	if r.conn, err = grpc.NewClient("passthrough:///"+o.Addr, options...); err != nil {
		r.zstd.Close()
		return nil, fmt.Errorf("open %s: %w", r.Addr(), err)
	}
	r.rows = rowpb.NewRowsClient(r.conn)
	if _, err := healthpb.NewHealthClient(r.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		_ = r.Close()
		return nil, errorOf(ctx, r.Addr(), err)
	}
	return r, nil
}

// Addr returns the service's address: tare://host:port.
func (r *Remote) Addr() string { return "tare://" + r.o.Addr }

// Describe implements Server.
func (r *Remote) Describe(ctx context.Context, schema, name string) (*rowstream.Table, error) {
	m, err := r.rows.Describe(ctx, &rowpb.DescribeRequest{Schema: schema, Name: name})
	if err != nil {
		return nil, errorOf(ctx, r.Addr(), err)
	}
	t, err := tableOf(m)
	if err == nil && (t.Schema != schema || t.Name != name) {
		err = fmt.Errorf("the response is for %s", t.FullName())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: describe table %s.%s: %w", r.Addr(), schema, name, err)
	}
	return t, nil
}

// Snapshot implements Server. The view ends with the connection.
func (r *Remote) Snapshot(ctx context.Context, workers int, tables []*rowstream.Table) (rowstream.View, error) {
	v, err := r.snapshot(ctx, &rowpb.SnapshotRequest{Workers: int32(workers)}, tables)
	if err != nil {
		return nil, err // a nil *remoteView would be a non-nil View
	}
	return v, nil
}

// snapshot takes a view of tables.
func (r *Remote) snapshot(ctx context.Context, m *rowpb.SnapshotRequest, tables []*rowstream.Table) (*remoteView, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	for _, t := range tables {
		m.Tables = append(m.Tables, tableMessage(t))
	}
	stream, err := r.rows.Snapshot(life, m)
	var reply *rowpb.SnapshotReply
	if err == nil {
		reply, err = stream.Recv()
	}
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, errorOf(ctx, r.Addr(), err)
	}
	return &remoteView{r: r, life: life, end: end, stream: stream, id: reply.GetId(), how: reply.GetHow(), position: reply.GetPosition(), identity: reply.GetIdentity(), limit: reply.GetLimitMs()}, nil
}

// Close closes the connection, and ends all views.
func (r *Remote) Close() error {
	r.zstd.Close()
	return r.conn.Close()
}

// Identity returns the ServerIdentity of the server behind the service, or Addr if its server has none.
func (r *Remote) Identity(ctx context.Context) (string, error) {
	m, err := r.rows.Identify(ctx, &rowpb.IdentifyRequest{})
	switch {
	case err != nil:
		return "", errorOf(ctx, r.Addr(), err)
	case m.Identity == "":
		return r.Addr(), nil
	}
	return m.Identity, nil
}
