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
	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
)

// Options configure an API.
type Options struct {
	Timeout time.Duration // of a request, including the wait for admission; 0: only the client's deadline

	// WriteTimeout bounds the time for which a client takes no data, or leaves its request incomplete, before
	// its call is cancelled. Default: DefaultWriteTimeout.
	WriteTimeout time.Duration

	// Responses is the budget of encoded responses of LabelNames and LabelValues that wait for their clients.
	// Default: a private one of promapi.DefaultResponseBytes.
	Responses *promapi.ResponseBudget

	Token *Token // that calls must carry, except those of the health service; nil: none

	Spans  *storegateway.Spans // of finished requests; nil: none
	Log    *querylog.Logger    // nil: requests are not logged
	Panics *report.Reporter    // logs and counts requests that panic; nil: they only fail
}

// An API serves Thanos' StoreAPI and InfoAPI over gRPC from a Gateway's blocks, so that a Thanos querier can
// use it as a store. It is safe for concurrent use.
type API struct {
	storepb.UnimplementedStoreServer
	storepb.UnimplementedInfoServer

	gateway   *storegateway.Gateway
	options   Options
	frames    *framePool
	requests  *storegateway.Requests
	entries   sync.Pool     // of *storegateway.LogEntry
	cancelled atomic.Uint64 // calls cancelled because their client took no data

	unbuffered atomic.Uint64 // responses that did not fit into Responses

	regexps *promapi.RegexpGate

	info struct {
		sync.Mutex
		generation uint64 // of the blocks in the encoded response below
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
	a := &API{gateway: g, options: o, frames: newFramePool(), regexps: promapi.NewRegexpGate(maxWaiting)}
	a.entries.New = func() any { return new(storegateway.LogEntry) }
	a.requests = g.Serve(storegateway.Protocol{
		Name: protocol, Endpoints: []string{"Series", "LabelNames", "LabelValues"},
		Responses: o.Responses, SlowClients: a.SlowClients, Unbuffered: a.unbuffered.Load, IdleFrames: a.FrameBytes,
	})
	return a
}

// SlowClients returns the number of calls that were cancelled because their client took no data, or sent no
// complete request.
func (a *API) SlowClients() uint64 { return a.cancelled.Load() }

// protocol is the API's name in metrics.
const protocol = "grpc"

// maxStreams bounds the concurrent calls of a connection: a client that opens more waits. Open calls that
// wait for their query take a few kilobytes each.
const maxStreams = 1000

// maxWaiting bounds the calls with large regular expressions that wait for others.
const maxWaiting = 100

// NewServer returns a gRPC server for the API and gRPC's health service, with the given options in addition
// to those that the API requires.
func (a *API) NewServer(options ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}), grpc.InTapHandle(a.limit), grpc.MaxConcurrentStreams(maxStreams),
		grpc.WaitForHandlers(true), // so that every request is in the query log after Stop
	}
	own = append(own, a.options.Panics.ServerOptions()...)
	s := grpc.NewServer(append(own, options...)...)
	s.RegisterService(a.storeService(), a)
	s.RegisterService(a.infoService(), a)
	checks := health.NewServer()
	s.RegisterService(a.healthService(checks), checks)
	return s
}

// limit sets the deadline of a query on a call's stream. A deadline of the handler's own context would not
// suffice: sending to a client that does not read waits for the stream's context. It refuses calls without the
// token.
func (a *API) limit(stream context.Context, info *tap.Info) (context.Context, error) {
	isHealth := strings.HasPrefix(info.FullMethodName, "/"+healthpb.Health_ServiceDesc.ServiceName+"/")
	if a.options.Token != nil && !isHealth {
		if err := a.options.Token.check(info.Header); err != nil {
			return nil, err
		}
	}
	if a.options.Timeout <= 0 || isHealth { // health watches have no deadline
		return withCancel(stream), nil
	}
	ctx, cancel := context.WithTimeoutCause(stream, a.options.Timeout, errQueryTimeout)
	context.AfterFunc(stream, cancel)
	return withCancel(ctx), nil
}

// Keys of the tenant in gRPC metadata: Mimir's, and the default of Thanos queriers.
const (
	mimirTenantKey  = "x-scope-orgid"
	thanosTenantKey = "thanos-tenant"
)

// tenantOf returns the tenant in a request's metadata, or "" if there is none.
func tenantOf(ctx context.Context) string {
	for _, key := range [...]string{mimirTenantKey, thanosTenantKey} {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// metadataOf returns a value of a request's metadata, or "" if there is none.
func metadataOf(ctx context.Context, key string) string {
	if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// A call is one request of the API.
type call struct {
	api   *API
	entry *storegateway.LogEntry
	query *storegateway.Query // nil before admission

	parent context.Context // has the client's span; nil without Options.Spans

	made     *promapi.Matchers // nil before they are
	response singleResponse    // of a method with one response
}

// newCall starts the log entry of a request.
func (a *API) newCall(ctx context.Context, endpoint string, mint, maxt int64) *call {
	c := &call{api: a}
	c.entry = a.entries.Get().(*storegateway.LogEntry)
	c.entry.Reset()
	c.entry.Start = time.Now()
	c.entry.Endpoint = endpoint
	c.entry.Tenant = tenantOf(ctx)
	c.entry.SetRange(mint, maxt)
	if s := a.options.Spans; s != nil {
		c.parent = s.Parent(metadataOf(ctx, "traceparent"), metadataOf(ctx, "tracestate"))
	}
	if p, ok := peer.FromContext(ctx); ok {
		addr := p.Addr
		if a, ok := addr.(*connectionAddr); ok {
			addr = a.Addr
		}
		if tcp, ok := addr.(*net.TCPAddr); ok {
			addr := tcp.AddrPort()
			c.entry.Client = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		}
	}
	return c
}

// errQueryTimeout is the cause of a context that was cancelled by Options.Timeout.
var errQueryTimeout = errors.New("the query took longer than option query-timeout allows")

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
		Tenant: c.entry.Tenant, Client: c.entry.Client.Addr().String(), Demand: d, AllShards: true, // queriers query all shards
	})
	c.entry.Wait += time.Since(began)
	if err != nil {
		return err
	}
	c.query = q
	return nil
}

// A finalError is an error after which a request is not retried.
type finalError struct{ error }

// Unwrap returns the wrapped error.
func (f finalError) Unwrap() error { return f.error }

// retry runs a part of a request that can be retried. If the process has no free bytes for the query to grow, if a
// block was deleted meanwhile and a sync has found the current blocks, or if a block is damaged and is skipped from now
// on, retry releases everything and admits the query again with its full demand: once for lack of bytes, and each time
// that it reads a deleted or damaged block.
func (c *call) retry(ctx context.Context, run func(context.Context) error) error {
	for repeated := false; ; {
		err := run(ctx)
		if f, ok := errors.AsType[finalError](err); ok {
			return f.error
		}
		how := c.api.gateway.RetryMode(ctx, err)
		if how == promapi.NoRetry || how == promapi.RetryLarger && repeated {
			return err
		}
		repeated = repeated || how == promapi.RetryLarger
		c.query.Close()
		c.query = nil
		if err := c.admit(ctx, storegateway.WholeQuery); err != nil {
			return err
		}
	}
}

// finish releases the resources of the request, logs it, and returns its error in gRPC's form. recovered is the
// result of recover.
func (c *call) finish(recovered any, err error) error {
	e := c.entry
	if recovered != nil {
		err = panics.Recovered(recovered)
	}
	if p := panics.Of(err); p != nil {
		c.api.options.Panics.GRPC(p, e.Endpoint)
	}
	c.release()
	c.made.Release()
	var blocks []storegateway.BlockStats
	if c.query != nil {
		e.Stats = c.query.Stats()
		if c.api.options.Spans != nil {
			blocks = c.query.Explain()
		}
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
	c.api.options.Spans.Record(c.parent, protocol, e, blocks)
	if log := c.api.options.Log; log != nil {
		log.LogEntry(e)
	}
	c.api.entries.Put(e)
	return err
}

// grpcStatus maps an error to a code that shows whether the client caused it, and whether to try another
// store.
func grpcStatus(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	if panics.Of(err) != nil {
		return status.New(codes.Internal, report.Internal)
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

// badRequest returns the error of an invalid request.
func badRequest(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}
