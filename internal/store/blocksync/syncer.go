package blocksync

import (
	"cmp"
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

	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
	"github.com/taredb/tare/store/tsblock"
)

// Options configure a Syncer.
type Options struct {
	// Bucket contains the blocks; required. Only its read methods are called.
	Bucket objstore.Bucket

	// LocalBucket is the directory behind Bucket if Bucket is a directory: blocks are then read from it by
	// pread. If it is "", blocks are read through Bucket.
	LocalBucket string

	// PlainBucket reports that Bucket is read over HTTP without TLS: objects without a checksum are then read
	// twice.
	PlainBucket bool

	// Advice returns what an operator can do about an error of Bucket, "" if nothing is known; nil: nothing is.
	Advice func(error) string

	// Missing reports whether an error means that Bucket does not exist. Run then fails, unless an earlier sync was
	// successful; nil: it retries.
	Missing func(error) bool

	Layout  Layout   // default: LayoutAuto
	Tenants []string // tenants of a Mimir bucket to serve; default: all
	Shard   Shard    // default: all blocks

	// Times are the times that are served. Blocks outside are skipped; requests are clipped.
	Times TimeRange

	// DataDir stores index headers and hashes of series in one directory per block; required. Missing ones
	// are built again. The directory must not be shared: the Syncer removes directories of blocks that are
	// not served.
	DataDir string

	Cache   *tsblock.Cache     // of index pages; required
	Disk    *diskcache.Cache   // of index pages and chunks; nil: none. The caller closes it after the Syncer
	Shared  *sharedcache.Cache // of the same pages; nil: none. The caller closes it after the Syncer
	Pool    *slab.Pool         // of chunk bytes; required
	Entries *tsblock.Entries   // of series, labels and chunk references; default: private ones

	SyncInterval  time.Duration // from the end of one sync to the next
	DeletionDelay time.Duration // how long a block is served after it was marked for deletion
	IndexMaxAge   time.Duration // maximum age of a trusted Mimir bucket index
	DamageHold    time.Duration // how long a block that a query found damaged is not served
	CallTimeout   time.Duration // of one bucket call
	CallTries     int           // attempts of a bucket call before its error counts
	CallHedge     time.Duration // duration after which a slow read of a block is repeated concurrently; 0: never
	Concurrency   int           // concurrent bucket calls of a sync

	// EagerHeaders loads the index headers of all blocks as they appear; the first sync loads them before the
	// Syncer is ready. Otherwise the first query that needs a header loads it.
	EagerHeaders bool

	// PrepareBytes bounds the heap bytes of index headers up to which Run loads those of new blocks with at most
	// 10,000 series after a sync, concurrently with queries. 0: it loads none.
	PrepareBytes int64

	HeaderLoads int           // concurrent loads of index headers; of small blocks in a bucket, four times as many
	HeaderIdle  time.Duration // a header is unloaded after this time without a query, at the latest after twice the time

	Log        *slog.Logger          // required
	Registerer prometheus.Registerer // nil: no metrics are registered
}

// Default values of Options.
const (
	DefaultSyncInterval  = time.Minute
	DefaultDeletionDelay = time.Hour
	DefaultIndexMaxAge   = time.Hour
	DefaultDamageHold    = 10 * time.Minute
	DefaultCallTimeout   = 30 * time.Second
	DefaultCallTries     = 3
	DefaultConcurrency   = 32
	DefaultHeaderLoads   = 8
	DefaultPrepareBytes  = 64 << 20
	DefaultHeaderIdle    = time.Hour
)

// Validate sets defaults and returns an error if the options are wrong.
func (o *Options) Validate() error {
	o.Layout = cmp.Or(o.Layout, LayoutAuto)
	o.SyncInterval = cmp.Or(o.SyncInterval, DefaultSyncInterval)
	o.DeletionDelay = cmp.Or(o.DeletionDelay, DefaultDeletionDelay)
	o.IndexMaxAge = cmp.Or(o.IndexMaxAge, DefaultIndexMaxAge)
	o.DamageHold = cmp.Or(o.DamageHold, DefaultDamageHold)
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	o.CallTries = cmp.Or(o.CallTries, DefaultCallTries)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.HeaderLoads = cmp.Or(o.HeaderLoads, DefaultHeaderLoads)
	o.HeaderIdle = cmp.Or(o.HeaderIdle, DefaultHeaderIdle)
	var errs []error
	if o.Bucket == nil || o.Cache == nil || o.Pool == nil || o.Log == nil {
		errs = append(errs, errors.New("bucket, cache, pool and log are required"))
	}
	if o.DataDir == "" {
		errs = append(errs, errors.New("a data directory is required"))
	}
	for _, t := range o.Tenants {
		if !ValidTenant(t) {
			errs = append(errs, fmt.Errorf("%.200q is no name of a tenant: want up to %d letters, digits and !-_.*'()", t, MaxTenant))
		}
	}
	if _, err := ParseLayout(string(o.Layout)); err != nil {
		errs = append(errs, err)
	}
	if len(o.Tenants) > 0 && o.Layout != LayoutMimir {
		errs = append(errs, fmt.Errorf("tenants are chosen, and the layout is %s: only %s has tenants", o.Layout, LayoutMimir))
	}
	if err := o.Shard.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.Times.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.SyncInterval < 0 || o.DeletionDelay < 0 || o.IndexMaxAge < 0 || o.DamageHold < 0 || o.CallTimeout < 0 ||
		o.HeaderIdle < 0 || o.CallHedge < 0 || min(o.CallTries, o.Concurrency, o.HeaderLoads) < 0 {
		errs = append(errs, errors.New("a time or a number is negative"))
	}
	return errors.Join(errs...)
}

// A Syncer keeps the set of blocks that queries read in step with a bucket. It is safe for concurrent use.
type Syncer struct {
	options Options
	log     *slog.Logger
	reader  *bucketReader
	source  tsblock.Source
	metrics *metrics

	privateEntries bool

	// mu orders Open, which adds references, and exchange, which drops references. It is locked while a
	// tenant's blocks are walked, never during I/O.
	mu         sync.RWMutex
	set        *blockSet // replaced as a whole; never nil
	generation uint64    // counts the sets
	closed     bool

	ready  atomic.Bool
	status atomic.Pointer[SyncStatus]
	nudged chan struct{} // capacity 1
	fresh  chan struct{} // capacity 1: there may be blocks to prepare

	syncsBegun atomic.Uint64
	syncing    chan struct{}     // capacity 1: locked by the running sync, which owns the following fields
	synced     bool              // the last sync succeeded
	layout     Layout            // layout that LayoutAuto detected
	emptySince time.Time         // when the bucket was first listed as empty; zero: it is not
	damaged    map[string]damage // by the block's directory

	headerLoads chan struct{} // one slot per concurrent load of a header
	smallLoads  chan struct{} // the same for headers of small blocks; with a directory these are one
}

// New returns a Syncer. It serves nothing before the first sync of Run.
func New(o Options) (*Syncer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	private := o.Entries == nil
	if private {
		o.Entries = tsblock.NewEntries(slab.EntriesOptions{})
	}
	s := &Syncer{
		options: o,
		log:     o.Log,
		set:     newBlockSet(),
		layout:  o.Layout,
		nudged:  make(chan struct{}, 1),
		fresh:   make(chan struct{}, 1),
		syncing: make(chan struct{}, 1),
		damaged: make(map[string]damage),

		privateEntries: private,
		headerLoads:    make(chan struct{}, o.HeaderLoads),
	}
	s.smallLoads = s.headerLoads
	if o.LocalBucket == "" {
		s.smallLoads = make(chan struct{}, smallLoads*o.HeaderLoads)
	}
	bucket := o.Bucket
	s.metrics = newMetrics(s)
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.metrics); err != nil { // Register returns errors; objstore would panic
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		bucket = objstore.WrapWithMetrics(bucket, prometheus.WrapRegistererWithPrefix("tare_", o.Registerer), bucket.Name())
	}
	s.reader = &bucketReader{bucket: bucket, timeout: o.CallTimeout, tries: o.CallTries, plain: o.PlainBucket, slots: make(chan struct{}, o.Concurrency)}
	s.source = newSource(bucket, o, s.nudge, s.metrics)
	return s, nil
}

// Blocks that a select opens concurrently: in a directory, and in a bucket, where each waits for several responses.
const (
	openFiles   = 8
	openObjects = 128
)

// smallLoads is the number of index headers of small blocks that are loaded concurrently from a bucket, per
// Options.HeaderLoads: they wait for responses, and their memory is small.
const smallLoads = 4

// OpenBlocks bounds the blocks that a select opens concurrently.
func (s *Syncer) OpenBlocks() int {
	if tsblock.CostsOf(s.source).Calls == 1 {
		return openFiles
	}
	return openObjects
}

// Entries returns the pool of series, labels and chunk references that the blocks use.
func (s *Syncer) Entries() *tsblock.Entries { return s.options.Entries }

// Ready reports whether the blocks of the bucket are known, which is the case after the first successful
// sync.
func (s *Syncer) Ready() bool { return s.ready.Load() }

// ErrNotSynced is the error of a request that arrives before the first successful sync.
var ErrNotSynced = errors.New("the blocks of the bucket are not known yet")

// CheckReady returns an error that wraps ErrNotSynced before the first successful sync, with the cause if a sync
// has failed.
func (s *Syncer) CheckReady() error {
	if s.Ready() {
		return nil
	}
	status := s.Status()
	switch {
	case status.Failing == nil:
		return fmt.Errorf("%w: the first sync is under way", ErrNotSynced)
	case status.Advice == "":
		return fmt.Errorf("%w: syncs have failed since %s: %s", ErrNotSynced, status.Failing.Format(time.RFC3339), status.Error)
	}
	return fmt.Errorf("%w: syncs have failed since %s: %s. %s", ErrNotSynced, status.Failing.Format(time.RFC3339), status.Error, status.Advice)
}

// nudge requests a sync soon, because the bucket differs from the known blocks.
func (s *Syncer) nudge() { signal(s.nudged) }

// signal sends to a channel of capacity 1 unless it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// minSyncPause is the minimum pause between two syncs, including those after a nudge or a failure.
const minSyncPause = 2 * time.Second

// Run syncs with the bucket until the context is done, and unloads headers that no query uses. It then
// returns nil: a failure of the bucket does not stop it, except Options.Missing.
func (s *Syncer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	others.Go(func() {
		for retry.Sleep(ctx, s.options.HeaderIdle) == nil {
			s.UnloadIdle()
		}
	})
	if s.options.PrepareBytes > 0 {
		others.Go(func() { s.prepareNew(ctx) })
	}
	if s.privateEntries {
		others.Go(func() {
			for retry.Sleep(ctx, entriesAge) == nil {
				s.options.Entries.Age()
			}
		})
	}
	pauses := retry.Policy{First: 2 * minSyncPause, Most: DefaultSyncInterval}.Pauses()
	for {
		err := s.Sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		signal(s.fresh)
		pause := s.options.SyncInterval
		if err != nil && s.options.Missing != nil && s.options.Missing(err) && s.Status().LastGood.IsZero() {
			return fmt.Errorf("%w Create it, or correct option bucket", err)
		}
		if err != nil {
			pause = min(pause, pauses.NextBackOff())
		} else {
			pauses.Reset()
		}
		if !s.pause(ctx, pause) {
			return nil
		}
	}
}

// entriesAge is the time for which slabs of entries stay idle before they are freed, or up to twice that.
const entriesAge = time.Minute

// pause blocks until the next sync is due. It returns false if the context is done.
func (s *Syncer) pause(ctx context.Context, d time.Duration) bool {
	least := min(d, minSyncPause)
	if retry.Sleep(ctx, least) != nil {
		return false
	}
	timer := time.NewTimer(d - least)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.nudged:
	case <-ctx.Done():
		return false
	}
	return true
}

// Close closes the blocks. The caller waits for Run to return first. A block in use is closed by its last
// query.
func (s *Syncer) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	set := s.set
	s.set = newBlockSet()
	s.mu.Unlock()
	for b := range set.all() {
		b.release()
	}
	if c, ok := s.source.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
