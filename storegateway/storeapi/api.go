package storeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	"github.com/taredb/tare/storegateway"
	"github.com/taredb/tare/storegateway/storepb"
)

// Options of an API.
type Options struct {
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

// An API serves Thanos' StoreAPI and InfoAPI over gRPC from a Gateway's blocks: to a Thanos
// querier it is a store. It is safe for concurrent use.
type API struct {
	storepb.UnimplementedStoreServer
	storepb.UnimplementedInfoServer

	gateway  *storegateway.Gateway
	options  Options
	frames   *framePool
	requests *storegateway.Requests
	entries  sync.Pool     // of *storegateway.LogEntry
	cut      atomic.Uint64 // calls cancelled because their client took no data

	unbuffered atomic.Uint64 // responses without room in Responses

	info struct {
		sync.Mutex
		generation uint64 // of the blocks that are encoded below
		encoded    []byte
	}
}

var (
	_ storepb.StoreServer = (*API)(nil)
	_ storepb.InfoServer  = (*API)(nil)
)

// New returns the API of a gateway.
func New(g *storegateway.Gateway, o Options) *API {
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	if o.Responses == nil {
		o.Responses = promapi.NewResponseBudget(promapi.DefaultResponseBytes)
	}
	a := &API{gateway: g, options: o, frames: newFramePool()}
	a.entries.New = func() any { return new(storegateway.LogEntry) }
	a.requests = g.Serve(storegateway.Protocol{
		Name: protocol, Endpoints: []string{"Series", "LabelNames", "LabelValues"},
		Responses: o.Responses, SlowClients: a.SlowClients, Unbuffered: a.unbuffered.Load, IdleFrames: a.FrameBytes,
	})
	return a
}

// SlowClients returns how many calls were cancelled because their client took no data, or sent no complete request.
func (a *API) SlowClients() uint64 { return a.cut.Load() }

// protocol is the API's name in metrics.
const protocol = "grpc"

// maxStreams is how many calls of one connection are open at once: a client that opens more waits. Calls that are
// open and wait for their query hold a few kilobytes each.
const maxStreams = 1000

// NewServer returns a gRPC server that answers the API and gRPC's health service, with these
// options besides its own.
func (a *API) NewServer(options ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}), grpc.InTapHandle(a.limit), grpc.MaxConcurrentStreams(maxStreams),
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
func (a *API) limit(stream context.Context, info *tap.Info) (context.Context, error) {
	// Watching health has no end.
	if a.options.Timeout <= 0 || strings.HasPrefix(info.FullMethodName, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		return withCancel(stream), nil
	}
	ctx, cancel := context.WithTimeoutCause(stream, a.options.Timeout, errQueryTimeout)
	context.AfterFunc(stream, cancel)
	return withCancel(ctx), nil
}

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
	api   *API
	entry *storegateway.LogEntry
	query *storegateway.Query // once it is admitted

	response singleResponse // of a method with one response
}

// begin notes the request.
func (a *API) begin(ctx context.Context, endpoint string, mint, maxt int64) *call {
	c := &call{api: a}
	c.entry = a.entries.Get().(*storegateway.LogEntry)
	c.entry.Reset()
	c.entry.Start = time.Now()
	c.entry.Endpoint = endpoint
	c.entry.Tenant = tenantOf(ctx)
	c.entry.SetRange(mint, maxt)
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
func (c *call) admit(ctx context.Context, d storegateway.Demand) error {
	g := c.api.gateway
	if err := g.CheckReady(); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	switch err := g.CheckTenant(c.entry.Tenant); {
	case errors.Is(err, storegateway.ErrBadTenant):
		return badRequest("%v", err)
	case err != nil:
		return status.Error(codes.Unauthenticated, err.Error())
	}
	began := time.Now()
	q, err := g.Admit(ctx, storegateway.Admission{
		Tenant: c.entry.Tenant, Client: c.entry.Client.Addr().String(), Demand: d, AllShards: true, // as queriers do
	})
	c.entry.Wait += time.Since(began)
	if err != nil {
		return err
	}
	c.query = q
	return nil
}

// A final is an error after which a request is not repeated.
type final struct{ error }

// Unwrap returns the error.
func (f final) Unwrap() error { return f.error }

// untilSettled runs a part of a request that can be run again. If the process has no free bytes for the query to grow, or
// a block was deleted meanwhile and the blocks that are in the bucket now are known, everything is released and the query
// admitted again, with all that it may need: once, and as often as it meets a block that has been deleted.
func (c *call) untilSettled(ctx context.Context, run func(context.Context) error) error {
	for repeated := false; ; {
		err := run(ctx)
		if f, ok := errors.AsType[final](err); ok {
			return f.error
		}
		how := c.api.gateway.Repeat(ctx, err)
		if how == promapi.NoRepeat || how == promapi.RepeatLarger && repeated {
			return err
		}
		repeated = repeated || how == promapi.RepeatLarger
		c.query.Close()
		c.query = nil
		if err := c.admit(ctx, storegateway.WholeQuery); err != nil {
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
	e.Code, e.Total = storegateway.CodeOK, time.Since(e.Start)
	failed := err
	if err != nil {
		st := grpcStatus(err)
		e.SetError(st.Code().String(), err)
		err = st.Err()
	}
	c.api.requests.Count(protocol, e, failed)
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
	switch class := storegateway.ClassOf(err); {
	case class == storegateway.Unavailable:
		code = codes.Unavailable
	case class == storegateway.OverLimit:
		code = codes.ResourceExhausted
	case class == storegateway.TimedOut, errors.Is(err, errQueryTimeout):
		code = codes.DeadlineExceeded
	case class == storegateway.Canceled:
		code = codes.Canceled
	case class == storegateway.CorruptBlock:
		code = codes.DataLoss
	}
	return status.New(code, err.Error())
}

// badRequest is the error of a request that makes no sense.
func badRequest(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}
