package storegateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/storegateway/blocksync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/storepb"
	"github.com/taredb/tare/tsblock"
)

// StoreAPIOptions say how the StoreAPI answers.
type StoreAPIOptions struct {
	Timeout time.Duration // of a request, waiting included; 0: none but the client's

	// WriteTimeout is how long a client may take no data, or leave its request incomplete, before its call is
	// cancelled. Default: DefaultWriteTimeout.
	WriteTimeout time.Duration

	// Responses is the budget of encoded responses to LabelNames and LabelValues that wait for their clients.
	// Default: a private one of promapi.DefaultResponseBytes.
	Responses *promapi.ResponseBudget

	Log    *querylog.Logger // nil: requests are not logged
	Panics *panics.Reporter // logs and counts requests that panic; nil: they only fail
}

// A StoreAPI answers Thanos' StoreAPI and InfoAPI over gRPC with a Gateway's blocks: a Thanos
// querier takes it for a store. It is safe for concurrent use.
type StoreAPI struct {
	storepb.UnimplementedStoreServer
	storepb.UnimplementedInfoServer

	gateway  *Gateway
	options  StoreAPIOptions
	frames   *framePool
	requests *requestMetrics
	entries  sync.Pool     // of *LogEntry
	cut      atomic.Uint64 // calls cancelled because their client took no data

	unbuffered atomic.Uint64 // responses without room in Responses

	info struct {
		sync.Mutex
		generation uint64 // of the blocks that are encoded below
		encoded    []byte
	}
}

var (
	_ storepb.StoreServer = (*StoreAPI)(nil)
	_ storepb.InfoServer  = (*StoreAPI)(nil)
)

// NewStoreAPI returns the API of a gateway.
func NewStoreAPI(g *Gateway, o StoreAPIOptions) *StoreAPI {
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	if o.Responses == nil {
		o.Responses = promapi.NewResponseBudget(promapi.DefaultResponseBytes)
	}
	a := &StoreAPI{gateway: g, options: o, frames: newFramePool()}
	a.entries.New = func() any { return new(LogEntry) }
	a.requests = g.requestMetrics()
	a.requests.serveGRPC(a)
	return a
}

// NewServer returns a gRPC server that answers the API and gRPC's health service, with these
// options besides its own.
func (a *StoreAPI) NewServer(options ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}), grpc.InTapHandle(a.limit),
		grpc.WaitForHandlers(true), // so that after Stop each request is in the query log
	}
	own = append(own, a.options.Panics.ServerOptions()...)
	s := grpc.NewServer(append(own, options...)...)
	s.RegisterService(a.storeService(), a)
	s.RegisterService(a.infoService(), a)
	checks := health.NewServer()
	s.RegisterService(a.healthService(checks), checks)
	return s
}

// limit gives a call's stream the time that a query has. A deadline of the handler's own context
// would not do: sending to a client that does not read waits for the stream's.
func (a *StoreAPI) limit(stream context.Context, info *tap.Info) (context.Context, error) {
	// Watching health has no end.
	if a.options.Timeout <= 0 || strings.HasPrefix(info.FullMethodName, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		return withCancel(stream), nil
	}
	ctx, cancel := context.WithTimeoutCause(stream, a.options.Timeout, errQueryTimeout)
	context.AfterFunc(stream, cancel)
	return withCancel(ctx), nil
}

// checkTenant says whether a request that names a tenant, or none, can be answered.
func (g *Gateway) checkTenant(tenant string) error {
	switch {
	case g.Status().Layout != blocksync.LayoutMimir:
		return nil
	case tenant == "":
		return errNoTenant
	case !blocksync.ValidTenant(tenant):
		return errBadTenant
	}
	return nil
}

var errBadTenant = fmt.Errorf("%s is no name of a tenant: want up to %d letters, digits and !-_.*'()", tenantHeader, blocksync.MaxTenant)

var errNoTenant = errors.New("the bucket has tenants, and the request names none: send " + tenantHeader)

// The names of a tenant in gRPC metadata: Mimir's, and what Thanos queriers send by default.
const (
	mimirTenantKey  = "x-scope-orgid"
	thanosTenantKey = "thanos-tenant"
)

// tenantOf returns the tenant that a request's metadata names, "" when it names none.
func tenantOf(ctx context.Context) string {
	for _, key := range [...]string{mimirTenantKey, thanosTenantKey} {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// A call is one request of the API.
type call struct {
	api   *StoreAPI
	entry *LogEntry
	query *Query // once it is admitted

	response singleResponse // of a method with one response
}

// begin notes the request.
func (a *StoreAPI) begin(ctx context.Context, endpoint string, mint, maxt int64) *call {
	c := &call{api: a}
	c.entry = a.entries.Get().(*LogEntry)
	c.entry.Reset()
	c.entry.Start = time.Now()
	c.entry.Endpoint = endpoint
	c.entry.Tenant = tenantOf(ctx)
	c.entry.setRange(mint, maxt)
	if p, ok := peer.FromContext(ctx); ok {
		if tcp, ok := p.Addr.(*net.TCPAddr); ok {
			addr := tcp.AddrPort()
			c.entry.Client = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		}
	}
	return c
}

// errQueryTimeout is the cause of a context that Options.Timeout has ended.
var errQueryTimeout = errors.New("the query took longer than --query-timeout allows")

// admit waits for the query's quota.
func (c *call) admit(ctx context.Context, d demand) error {
	if !c.api.gateway.Ready() {
		return status.Error(codes.Unavailable, errNotSynced.Error())
	}
	if err := c.api.gateway.checkTenant(c.entry.Tenant); err != nil {
		if errors.Is(err, errBadTenant) {
			return badRequest("%v", err)
		}
		return status.Error(codes.Unauthenticated, err.Error())
	}
	began := time.Now()
	q, err := c.api.gateway.admit(ctx, c.entry.Tenant, c.api.gateway.ask(d, c.entry.Tenant, c.entry.Client.Addr().String()))
	c.entry.Wait += time.Since(began)
	if err != nil {
		return err
	}
	q.shards = true // queriers ask all shards themselves
	c.query = q
	return nil
}

// untilSettled runs a part of a request that sends nothing. If the process has no free bytes for the query to grow, or a
// block was deleted meanwhile and the blocks that are in the bucket now are known, everything is released and the query
// admitted again, with all that it may need: once, and as often as it meets a block that has been deleted.
func (c *call) untilSettled(ctx context.Context, run func() error) error {
	for repeated := false; ; {
		err := run()
		how := promapi.RepeatLarger
		if !errors.Is(err, slab.ErrShort) {
			how = c.api.gateway.afterDeletion(ctx, err)
		}
		if how == promapi.NoRepeat || how == promapi.RepeatLarger && repeated {
			return err
		}
		repeated = repeated || how == promapi.RepeatLarger
		c.query.Close()
		c.query = nil
		if err := c.admit(ctx, wholeQuery); err != nil {
			return err
		}
	}
}

// end gives back what the request holds, logs it, and returns its error as gRPC sends it. recovered is what
// recover has returned.
func (c *call) end(recovered any, err error) error {
	e := c.entry
	if recovered != nil {
		err = panics.Recovered(recovered)
	}
	if p := panics.Of(err); p != nil {
		c.api.options.Panics.GRPC(p, e.Endpoint)
	}
	c.release()
	if c.query != nil {
		e.Stats = c.query.Stats()
		c.query.Close()
	}
	e.Code, e.Total = okCode, time.Since(e.Start)
	failed := err
	if err != nil {
		st := grpcStatus(err)
		e.SetError(st.Code().String(), err)
		err = st.Err()
	}
	c.api.requests.count(protocolGRPC, e.Endpoint, e.Code, e.Total, e.Wait, int64(e.BytesOut), failed)
	if log := c.api.options.Log; log != nil {
		log.LogEntry(e)
	}
	c.api.entries.Put(e)
	return err
}

// grpcStatus gives an error the code that tells a client whose fault it is, and whether to try
// elsewhere.
func grpcStatus(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	if panics.Of(err) != nil {
		return status.New(codes.Internal, panics.Internal)
	}
	code := codes.Internal
	_, incomplete := errors.AsType[*IncompleteError](err)
	switch {
	case incomplete, isUnavailable(err):
		code = codes.Unavailable
	case IsLimit(err), errors.Is(err, slab.ErrQueueFull):
		code = codes.ResourceExhausted
	case errors.Is(err, errQueryTimeout), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case isCorrupt(err):
		code = codes.DataLoss
	}
	return status.New(code, err.Error())
}

// isUnavailable reports whether an error passes: the bucket or the queue has it, not the request.
func isUnavailable(err error) bool {
	_, bucket := errors.AsType[*blocksync.BucketError](err)
	_, queue := errors.AsType[*QueueError](err)
	return bucket || queue || blocksync.IsGone(err) || errors.Is(err, slab.ErrShort)
}

// isCorrupt reports whether an error is that of a damaged block: no client can do anything about it.
func isCorrupt(err error) bool {
	_, corrupt := errors.AsType[*tsblock.CorruptError](err)
	return corrupt
}

// isLocal reports whether an error is that of a local file: the disk is full, or has failed.
func isLocal(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return path || link
}

// badRequest is the error of a request that makes no sense.
func badRequest(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}
