package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
	"github.com/taredb/tare/web"
)

// storeBaseBytes is the memory of tare store besides its budgets: the program, index headers, idle slabs and
// frames, connections, and uncollected garbage.
const storeBaseBytes = 192 << 20

// A storeService is the parts of tare store.
type storeService struct {
	*server.Server
	cfg     config.Store
	bucket  objstore.Bucket
	cache   *tsblock.Cache
	disk    *diskcache.Cache   // nil: none
	shared  *sharedcache.Cache // nil: none
	pool    *slab.Pool
	entries *tsblock.Entries
	limiter *storegateway.Limiter
	gateway *storegateway.Gateway
	waiting *promapi.ResponseBudget
	api     *storeapi.API // nil if gRPC is off, like grpc
	grpc    *grpc.Server
	traces  *tracing.Provider // nil: none
	spans   *storegateway.Spans
	token   *storeapi.Token // of gRPC; nil: none
}

func newStoreService(cfg config.Store, log *slog.Logger) *storeService {
	s := &storeService{cfg: cfg}
	s.Server = server.New(server.Options{
		Name: "store", Server: cfg.Server, Build: thisBuild(), Log: log,
		Listen: cfg.GRPC, Purpose: "queriers (--grpc)", MaxConnections: server.MaxGRPCConnections, DrainHTTP: true, Unit: "queries",
		Reload: s.reload, Alive: func() { s.gateway.Gate().Stats() },
	})
	return s
}

// Check implements server.Service.
func (s *storeService) Check() error {
	_, err := config.LoadTenantLimits(s.cfg.TenantLimits)
	_, tlsErr := server.LoadServerTLS("--grpc-tls", s.cfg.GRPCCert, s.cfg.GRPCKey, s.cfg.GRPCClientCA)
	return errors.Join(err, tlsErr)
}

// Open implements server.Service. Index headers require a data directory.
func (s *storeService) Open(ctx context.Context) (err error) {
	if s.bucket, err = s.cfg.Bucket.Open(); err != nil {
		return err
	}
	if err := s.OpenData("store", true); err != nil {
		return err
	}
	if err := s.OpenQueryLog(); err != nil {
		return err
	}
	if s.disk, err = openDiskCache(s.cfg.DiskCache, s.Log); err != nil {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	if s.shared, err = openSharedCache(s.cfg.Memcached, s.cfg.Bucket, s.Log); err != nil {
		return fmt.Errorf("--cache-memcached: %w", err)
	}
	if s.traces, err = openTraces(ctx, s.Server, s.cfg.TracesURL); err != nil {
		return err
	}
	if s.traces != nil {
		s.spans = storegateway.NewSpans(s.traces.Tracer(storeTracer))
	}
	s.limitMemory()
	s.cache = tsblock.NewCache(int64(s.cfg.IndexCacheBytes))
	s.pool = slab.NewPool(slab.PoolOptions{})
	s.entries = tsblock.NewEntries(slab.EntriesOptions{})
	limits, err := config.LoadTenantLimits(s.cfg.TenantLimits)
	if err != nil {
		return err
	}
	s.limiter = storegateway.NewLimiter(limits)
	o := s.cfg.Gateway
	o.Bucket, o.LocalBucket, o.PlainBucket = s.bucket, s.cfg.Bucket.Local(), s.cfg.Bucket.Plain()
	o.Missing, o.Advice = bucketurl.Missing, bucketurl.Advice
	o.DataDir, o.PrepareBytes = s.Data.File("blocks"), blocksync.DefaultPrepareBytes
	o.Cache, o.Disk, o.Shared, o.Pool, o.Entries = s.cache, s.disk, s.shared, s.pool, s.entries
	o.Log, o.Registerer = s.Log, s.Metrics
	o.Gate = slab.NewGate(slab.GateOptions{
		Bytes: int64(s.cfg.ProcessBytes) + s.lightBytes(), PerQuery: int64(s.cfg.QueryBytes), Light: s.lightBytes(),
		Limits: s.limiter.Limits,
	})
	o.Limiter = s.limiter
	o.Limits = storegateway.Limits{Series: int64(s.cfg.MaxSeries), Chunks: int64(s.cfg.MaxChunks)}
	s.cfg.Calls.Apply(&o)
	s.gateway, err = storegateway.New(o)
	if err != nil {
		return err
	}
	s.Go(s.gateway.Run)
	s.Go(s.trimIdle)
	s.waiting = promapi.NewResponseBudget(int64(s.cfg.ResponseBytes))
	if s.cfg.GRPC != "" {
		if err := s.openGRPC(); err != nil {
			return err
		}
	}
	return s.openHTTP()
}

// lightPart is the divisor of --process-bytes that gives the additional bytes for light queries.
const lightPart = 16

// lightBytes returns the bytes for light queries, in addition to --process-bytes.
func (s *storeService) lightBytes() int64 { return int64(s.cfg.ProcessBytes) / lightPart }

// limitMemory sets the garbage collector's memory limit to the sum of the budgets.
func (s *storeService) limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(s.cfg.MemoryLimit)
	if limit == 0 {
		for _, t := range s.memoryTerms() {
			limit += t.bytes
		}
		if s.disk != nil {
			limit += s.disk.MaxMemory()
		}
		if s.shared != nil {
			limit += s.shared.MaxMemory()
		}
	}
	debug.SetMemoryLimit(limit)
}

// A memoryTerm is a part of the memory of tare store. docs/operate/sizing.md has the sum of the texts.
type memoryTerm struct {
	text  string
	bytes int64
}

// memoryTerms returns the parts of the memory that do not depend on caches of pages.
func (s *storeService) memoryTerms() []memoryTerm {
	return []memoryTerm{
		{fmt.Sprintf("%d/%d × --process-bytes", lightPart+1, lightPart), int64(s.cfg.ProcessBytes) + s.lightBytes()},
		{"--index-cache-bytes", int64(s.cfg.IndexCacheBytes)},
		{"--response-bytes", int64(s.cfg.ResponseBytes)},
		{fmt.Sprintf("%d MiB", storeBaseBytes>>20), storeBaseBytes},
	}
}

// openDiskCache opens the cache of a bucket's pages. It returns nil if there is none.
func openDiskCache(cfg config.DiskCache, log *slog.Logger) (*diskcache.Cache, error) {
	if cfg.Dir == "" {
		return nil, nil
	}
	return diskcache.Open(diskcache.Options{Dir: cfg.Dir, Bytes: int64(cfg.Bytes), Log: log})
}

// diskCacheBytes returns the memory of a disk cache, which may be nil.
func diskCacheBytes(c *diskcache.Cache) int64 {
	if c == nil {
		return 0
	}
	return c.Memory()
}

// openSharedCache opens the cache of a bucket's pages in memcached servers. It returns nil if there is none.
func openSharedCache(cfg config.Memcached, bucket bucketurl.URL, log *slog.Logger) (*sharedcache.Cache, error) {
	if len(cfg.Servers) == 0 {
		return nil, nil
	}
	return sharedcache.Open(sharedcache.Options{Servers: cfg.Servers, Bucket: bucket.Identity(), Timeout: cfg.Timeout, Log: log})
}

// sharedCacheBytes returns the memory of a shared cache, which may be nil.
func sharedCacheBytes(c *sharedcache.Cache) int64 {
	if c == nil {
		return 0
	}
	return c.Memory()
}

func (s *storeService) openGRPC() error {
	storeapi.RegisterSnappy()
	options := server.GRPCLimits()
	c, err := server.ReloadingServerTLS("--grpc-tls", s.cfg.GRPCCert, s.cfg.GRPCKey, s.cfg.GRPCClientCA, s.Log)
	if err != nil {
		return err
	}
	token, err := s.cfg.GRPCToken.Read()
	if err != nil {
		return fmt.Errorf("--grpc-token-file: %w", err)
	}
	if token != "" {
		s.token = storeapi.NewToken(token)
	}
	if c != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	s.api = storeapi.New(s.gateway, storeapi.Options{
		Timeout: s.cfg.API.Timeout, WriteTimeout: s.cfg.API.WriteTimeout, Responses: s.waiting, Token: s.token, Spans: s.spans, Log: s.Queries, Panics: s.Panics,
	})
	s.grpc = s.api.NewServer(options...)
	s.Go(func(context.Context) error {
		if err := s.api.Serve(s.grpc, s.Listener); err != nil {
			return fmt.Errorf("listener %s: %w", s.Listener.Addr(), err)
		}
		return nil
	})
	return nil
}

func (s *storeService) openHTTP() error {
	if s.HTTP == "" {
		return nil
	}
	o := s.cfg.API
	o.SamplesOption, o.BytesOption = "--max-samples", "--query-bytes"
	o.Responses, o.Restrict = s.waiting, textlessSeries
	o.Registerer = prometheus.WrapRegistererWithPrefix("tare_", s.Metrics)
	o.Spans, o.Queries, o.Log, o.Panics = s.spans, s.Queries, s.Log, s.Panics
	o.Build = s.Build.Prometheus()
	api, err := storegateway.NewHTTPAPI(s.gateway, o)
	if err != nil {
		return fmt.Errorf("HTTP API: %w", err)
	}
	blocks := storegateway.StatusHandler(s.gateway)
	return s.OpenWeb(web.Options{
		Ready:      func(context.Context) error { return s.gateway.CheckReady() },
		LogColumns: storegateway.LogColumns(),
		Store:      s.gateway.StatusPage,
		Weight:     &web.WeightSource{},
		Traces:     s.traces,
		Routes: append(promRoutes(api), web.NewRoute(access.For(access.Viewer), "GET /api/v1/status/blocks", blocks).
			Listed("/api/v1/status/blocks", "blocks that are served and that are not, and the budgets")),
	}, s.heapOwners()...)
}

// heapOwners returns the parts whose heap is bounded and counted.
func (s *storeService) heapOwners() []memory.Owner {
	slabs := func() slab.PoolStats { return s.pool.Stats().Add(s.entries.Stats()) }
	return []memory.Owner{
		{Name: "slabs_lent", Bytes: func() int64 { return slabs().OutBytes }},
		{Name: "slabs_idle", Bytes: func() int64 { return slabs().IdleBytes }},
		{Name: "index_cache", Bytes: func() int64 { return s.cache.Stats().Bytes }},
		{Name: "index_headers", Bytes: s.gateway.HeaderBytes},
		{Name: "disk_cache", Bytes: func() int64 { return diskCacheBytes(s.disk) }},
		{Name: "shared_cache", Bytes: func() int64 { return sharedCacheBytes(s.shared) }},
		{Name: "frames_idle", Bytes: func() int64 {
			if s.api == nil {
				return 0
			}
			return s.api.FrameBytes()
		}},
	}
}

// Announce implements server.Service.
func (s *storeService) Announce() (status string) {
	attrs := []any{"bucket", s.cfg.Bucket.String(), "shard", s.cfg.Gateway.Shard.String(), "min_time", s.cfg.Gateway.Times.Min.String(), "max_time", s.cfg.Gateway.Times.Max.String(), "data_dir", s.Data.Path}
	if s.HTTPListener != nil {
		attrs = append(attrs, "http", s.Web.URL(s.HTTPListener.Addr()))
	}
	if s.Listener != nil {
		attrs = append(attrs, "grpc", s.Listener.Addr().String())
	}
	limit := debug.SetMemoryLimit(-1)
	if limit != math.MaxInt64 {
		attrs = append(attrs, "memory_limit", config.Bytes(limit).String())
	}
	s.Log.Info("store listens", attrs...)
	return "serves " + s.cfg.Bucket.String()
}

// trimIdle frees slabs that no query has used for a minute or two.
func (s *storeService) trimIdle(ctx context.Context) error {
	return everyMinute(ctx, s.pool.Age, s.entries.Age)
}

// everyMinute calls functions that free memory, every minute until ctx is done.
func everyMinute(ctx context.Context, fs ...func() int64) error {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			for _, f := range fs {
				f()
			}
		}
	}
}

// Drain implements server.Service.
func (s *storeService) Drain(ctx context.Context) (left int) {
	s.Log.Info("shutting down", "queries", s.gateway.Gate().Stats().Running, "drain_timeout", s.cfg.DrainTimeout)
	if s.grpc != nil {
		left = s.stopGRPC(ctx)
	}
	return max(left, s.waitForQueries(ctx))
}

// Close implements server.Service.
func (s *storeService) Close() error {
	var err error
	if s.gateway != nil {
		err = s.gateway.Close()
	}
	closeTraces(s.traces, s.Log)
	if s.disk != nil {
		err = errors.Join(err, s.disk.Close())
	}
	if s.shared != nil {
		err = errors.Join(err, s.shared.Close())
	}
	if s.bucket != nil {
		err = errors.Join(err, s.bucket.Close())
	}
	return err
}

// stopGRPC lets running calls finish. When limit is done, it stops the remaining ones and returns the number
// of queries running at that time.
func (s *storeService) stopGRPC(limit context.Context) int {
	var left atomic.Int64
	stop := context.AfterFunc(limit, func() {
		left.Store(int64(s.gateway.Gate().Stats().Running))
		s.grpc.Stop() // ends GracefulStop
	})
	defer stop()
	s.grpc.GracefulStop()
	return int(left.Load())
}

// waitForQueries waits until no query runs or waits, and returns the number left when limit is done.
func (s *storeService) waitForQueries(limit context.Context) int {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		st := s.gateway.Gate().Stats()
		if st.Running+st.Waiting == 0 {
			return 0
		}
		select {
		case <-look.C:
		case <-limit.Done():
			return st.Running + st.Waiting
		}
	}
}

// reload re-reads the files of --grpc-token-file and --tenant-limits.
func (s *storeService) reload() {
	s.reloadToken()
	s.reloadLimits()
}

func (s *storeService) reloadToken() {
	if s.token == nil {
		return
	}
	fresh, err := s.cfg.GRPCToken.Read()
	if err != nil {
		s.Log.Error("token for gRPC not reloaded; the old one stays in force", "error", err)
		return
	}
	s.token.Set(fresh)
}

// reloadLimits re-reads the file of --tenant-limits.
func (s *storeService) reloadLimits() {
	if s.cfg.TenantLimits == "" {
		return
	}
	fresh, err := config.LoadTenantLimits(s.cfg.TenantLimits)
	if err != nil {
		s.Log.Error("tenant limits not reloaded; the old ones stay in force", "error", err)
		return
	}
	s.limiter.Set(fresh)
	s.gateway.Gate().Recheck()
	s.Log.Info("tenant limits reloaded", "tenants", len(fresh.Tenants), "clients", len(fresh.Clients))
}
