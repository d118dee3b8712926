package storegateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/tsblock"
)

// Options of a Gateway.
type Options struct {
	// Bucket has the blocks; required. Of it only reading calls are made.
	Bucket objstore.Bucket

	// LocalBucket is the directory that Bucket is, when it is one: blocks are then read by
	// pread, past Bucket. "" reads blocks through Bucket, whatever it is.
	LocalBucket string

	// PlainBucket says that Bucket is read over HTTP without TLS: objects without a checksum are then read twice.
	PlainBucket bool

	Layout  Layout   // default: LayoutAuto
	Tenants []string // of a Mimir bucket, those to serve; default: all
	Shard   Shard    // default: all blocks

	// DataDir keeps index headers and hashes of series in a directory for each block, which are
	// made again when they are missing; required. It is the gateway's own: directories of
	// blocks that are not served are removed from it.
	DataDir string

	Cache   *tsblock.Cache   // of index pages; required
	Pool    *slab.Pool       // of chunk bytes; required
	Entries *tsblock.Entries // of series, labels and chunk references; default: own ones
	Gate    *slab.Gate       // admits queries; required
	Limits  Limits           // of one query
	Limiter *Limiter         // of tenants and clients, whose Limits the gate has; nil: none

	SyncInterval  time.Duration // from the end of one sync to the next
	DeletionDelay time.Duration // how long a block is served that is marked for deletion
	IndexMaxAge   time.Duration // how old a Mimir bucket index may be to be believed
	CallTimeout   time.Duration // of one bucket call
	CallTries     int           // how often a bucket call is made before its error counts
	CallHedge     time.Duration // after which a read of a block is made a second time beside the first; 0: never
	QueueTimeout  time.Duration // how long a query waits for its bytes
	Concurrency   int           // bucket calls of a sync at once

	// Partial says what becomes of requests that lack blocks of their time range. Default: PartialWarn.
	Partial Partial

	// EagerHeaders loads the index headers of all blocks as they appear, at first before the
	// gateway is ready. Otherwise the first query that needs one loads it.
	EagerHeaders bool
	HeaderLoads  int           // index headers that are loaded at once
	HeaderIdle   time.Duration // without a query for this long, a header leaves memory, at the latest in twice the time

	Log        *slog.Logger          // required
	Registerer prometheus.Registerer // nil: no metrics are registered
}

// Defaults of Options.
const (
	DefaultSyncInterval  = time.Minute
	DefaultDeletionDelay = time.Hour
	DefaultIndexMaxAge   = time.Hour
	DefaultCallTimeout   = 30 * time.Second
	DefaultCallTries     = 3
	DefaultQueueTimeout  = time.Minute
	DefaultConcurrency   = 32
	DefaultHeaderLoads   = 8
	DefaultHeaderIdle    = time.Hour
)

// Validate fills in the defaults and says what is wrong with o.
func (o *Options) Validate() error {
	o.Layout = or(o.Layout, LayoutAuto)
	o.Partial = or(o.Partial, PartialWarn)
	o.SyncInterval = or(o.SyncInterval, DefaultSyncInterval)
	o.DeletionDelay = or(o.DeletionDelay, DefaultDeletionDelay)
	o.IndexMaxAge = or(o.IndexMaxAge, DefaultIndexMaxAge)
	o.CallTimeout = or(o.CallTimeout, DefaultCallTimeout)
	o.CallTries = or(o.CallTries, DefaultCallTries)
	o.QueueTimeout = or(o.QueueTimeout, DefaultQueueTimeout)
	o.Concurrency = or(o.Concurrency, DefaultConcurrency)
	o.HeaderLoads = or(o.HeaderLoads, DefaultHeaderLoads)
	o.HeaderIdle = or(o.HeaderIdle, DefaultHeaderIdle)
	var errs []error
	if o.Bucket == nil || o.Cache == nil || o.Pool == nil || o.Gate == nil || o.Log == nil {
		errs = append(errs, errors.New("bucket, cache, pool, gate and log are required"))
	}
	if o.DataDir == "" {
		errs = append(errs, errors.New("a data directory is required"))
	}
	for _, t := range o.Tenants {
		if !ValidTenant(t) {
			errs = append(errs, fmt.Errorf("%.200q is no name of a tenant: want up to %d letters, digits and !-_.*'()", t, maxTenant))
		}
	}
	if _, err := ParseLayout(string(o.Layout)); err != nil {
		errs = append(errs, err)
	}
	if !o.Partial.valid() {
		errs = append(errs, errPartial)
	}
	if len(o.Tenants) > 0 && o.Layout != LayoutMimir {
		errs = append(errs, fmt.Errorf("tenants are chosen, and the layout is %s: only %s has tenants", o.Layout, LayoutMimir))
	}
	if err := o.Shard.validate(); err != nil {
		errs = append(errs, err)
	}
	if o.SyncInterval < 0 || o.DeletionDelay < 0 || o.IndexMaxAge < 0 || o.CallTimeout < 0 ||
		o.HeaderIdle < 0 || o.CallHedge < 0 || o.QueueTimeout < 0 || min(o.CallTries, o.Concurrency, o.HeaderLoads) < 0 {
		errs = append(errs, errors.New("a time or a number is negative"))
	}
	return errors.Join(errs...)
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// A Gateway serves the series of a bucket's blocks. It is safe for concurrent use.
type Gateway struct {
	options Options
	log     *slog.Logger
	reader  *bucketReader
	source  tsblock.Source
	metrics *metrics
	budgets *budgetMetrics

	requestsOnce sync.Once
	requests     *requestMetrics // of the APIs; nil before the first

	cache   *tsblock.Cache
	pool    *slab.Pool
	entries *tsblock.Entries
	own     bool // nobody else has the entries
	gate    *slab.Gate
	limits  Limits

	// mu orders opening blocks, which counts a reference, and exchanging the set, which drops
	// one. It is held for as long as it takes to walk a tenant's blocks, never for I/O.
	mu     sync.RWMutex
	set    *blockSet // replaced as a whole; never nil
	closed bool

	ready  atomic.Bool
	status atomic.Pointer[SyncStatus]
	nudged chan struct{} // has room for one

	syncsBegun atomic.Uint64
	syncing    sync.Mutex // held by a sync, for the following fields
	synced     bool       // the last sync succeeded
	layout     Layout     // what LayoutAuto has found
	emptySince time.Time  // when the bucket was first seen without anything in it

	headerLoads chan struct{} // a place for each load of a header
}

// New returns a gateway. It serves nothing before Run has synced for the first time.
func New(o Options) (*Gateway, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("store gateway: %w", err)
	}
	ownEntries := o.Entries == nil
	if ownEntries {
		o.Entries = tsblock.NewEntries(slab.EntriesOptions{})
	}
	g := &Gateway{
		options: o,
		log:     o.Log,
		cache:   o.Cache,
		pool:    o.Pool,
		entries: o.Entries,
		own:     ownEntries,
		gate:    o.Gate,
		limits:  o.Limits,
		set:     newBlockSet(),
		layout:  o.Layout,
		nudged:  make(chan struct{}, 1),

		headerLoads: make(chan struct{}, o.HeaderLoads),
	}
	bucket := o.Bucket
	g.metrics, g.budgets = newMetrics(g), newBudgetMetrics(g)
	if o.Registerer != nil {
		for _, c := range [...]prometheus.Collector{g.metrics, g.budgets} {
			if err := o.Registerer.Register(c); err != nil { // objstore panics where it cannot register
				return nil, fmt.Errorf("store gateway: register metrics: %w", err)
			}
		}
		bucket = objstore.WrapWithMetrics(bucket, prometheus.WrapRegistererWithPrefix("tare_", o.Registerer), bucket.Name())
	}
	g.reader = &bucketReader{bucket: bucket, timeout: o.CallTimeout, tries: o.CallTries, plain: o.PlainBucket, slots: make(chan struct{}, o.Concurrency)}
	g.source = newSource(bucket, o, g.nudge, g.metrics)
	return g, nil
}

// Ready says whether the blocks of the bucket are known: after the first sync that went through,
// and for good.
func (g *Gateway) Ready() bool { return g.ready.Load() }

// nudge asks for a sync soon, since the bucket is not as it was known.
func (g *Gateway) nudge() {
	select {
	case g.nudged <- struct{}{}:
	default:
	}
}

// minSyncPause is the least time between two syncs, also after a nudge and after a failure.
const minSyncPause = 2 * time.Second

// Run syncs with the bucket until the context ends, and takes headers out of memory that no
// query needs. It returns nil then; a bucket that fails is no reason to end, only to try again.
func (g *Gateway) Run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		for sleep(ctx, g.options.HeaderIdle) == nil {
			g.unloadIdle()
		}
	})
	if g.own {
		others.Go(func() {
			for sleep(ctx, entriesAge) == nil {
				g.entries.Age()
			}
		})
	}
	failures := 0
	for {
		err := g.Sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause := g.options.SyncInterval
		if err != nil {
			failures++
			pause = min(pause, backoff(failures, 2*minSyncPause, DefaultSyncInterval))
		} else {
			failures = 0
		}
		if !g.pause(ctx, pause) {
			return nil
		}
	}
}

// entriesAge is how long slabs of entries stay idle before they are given back, or twice that.
const entriesAge = time.Minute

// pause waits until the next sync is due; false when the context has ended.
func (g *Gateway) pause(ctx context.Context, d time.Duration) bool {
	least := min(d, minSyncPause)
	if sleep(ctx, least) != nil {
		return false
	}
	timer := time.NewTimer(d - least)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.nudged:
	case <-ctx.Done():
		return false
	}
	return true
}

// Close ends the gateway after Run has returned. Queries that run go on with the blocks they
// have; a block is closed by its last query.
func (g *Gateway) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	set := g.set
	g.set = newBlockSet()
	g.mu.Unlock()
	for b := range set.all() {
		b.release()
	}
	if c, ok := g.source.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
