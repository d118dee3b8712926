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

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/tsblock"
)

// Options of a Syncer.
type Options struct {
	// Bucket has the blocks; required. Only its reading methods are called.
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
	// built again when they are missing; required. It is private: directories of blocks that are not
	// served are removed from it.
	DataDir string

	Cache   *tsblock.Cache   // of index pages; required
	Pool    *slab.Pool       // of chunk bytes; required
	Entries *tsblock.Entries // of series, labels and chunk references; default: private ones

	SyncInterval  time.Duration // from the end of one sync to the next
	DeletionDelay time.Duration // how long a block is served that is marked for deletion
	IndexMaxAge   time.Duration // the age up to which a Mimir bucket index is trusted
	CallTimeout   time.Duration // of one bucket call
	CallTries     int           // how often a bucket call is made before its error counts
	CallHedge     time.Duration // after which a read of a block is made a second time beside the first; 0: never
	Concurrency   int           // concurrent bucket calls of a sync

	// EagerHeaders loads the index headers of all blocks as they appear, at first before the
	// Syncer is ready. Otherwise the first query that needs one loads it.
	EagerHeaders bool
	HeaderLoads  int           // concurrent loads of index headers
	HeaderIdle   time.Duration // without a query for this long, a header is unloaded, at the latest in twice the time

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
	DefaultConcurrency   = 32
	DefaultHeaderLoads   = 8
	DefaultHeaderIdle    = time.Hour
)

// Validate sets defaults and returns an error if the options are wrong.
func (o *Options) Validate() error {
	o.Layout = cmp.Or(o.Layout, LayoutAuto)
	o.SyncInterval = cmp.Or(o.SyncInterval, DefaultSyncInterval)
	o.DeletionDelay = cmp.Or(o.DeletionDelay, DefaultDeletionDelay)
	o.IndexMaxAge = cmp.Or(o.IndexMaxAge, DefaultIndexMaxAge)
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
	if o.SyncInterval < 0 || o.DeletionDelay < 0 || o.IndexMaxAge < 0 || o.CallTimeout < 0 ||
		o.HeaderIdle < 0 || o.CallHedge < 0 || min(o.CallTries, o.Concurrency, o.HeaderLoads) < 0 {
		errs = append(errs, errors.New("a time or a number is negative"))
	}
	return errors.Join(errs...)
}

// A Syncer keeps the blocks that queries read in step with a bucket. It is safe for concurrent use.
type Syncer struct {
	options Options
	log     *slog.Logger
	reader  *bucketReader
	source  tsblock.Source
	metrics *metrics

	privateEntries bool

	// mu orders opening blocks, which counts a reference, and exchanging the set, which drops
	// one. It is held for as long as it takes to walk a tenant's blocks, never for I/O.
	mu         sync.RWMutex
	set        *blockSet // replaced as a whole; never nil
	generation uint64    // counts the sets
	closed     bool

	ready  atomic.Bool
	status atomic.Pointer[SyncStatus]
	nudged chan struct{} // has room for one

	syncsBegun atomic.Uint64
	syncing    chan struct{} // has room for one: the running sync, to which the following fields belong
	synced     bool          // the last sync succeeded
	layout     Layout        // the layout that LayoutAuto has found
	emptySince time.Time     // when the bucket was first listed as empty

	headerLoads chan struct{} // has room for each concurrent load of a header
}

// New returns a Syncer. It serves nothing before Run has synced for the first time.
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
		syncing: make(chan struct{}, 1),

		privateEntries: private,
		headerLoads:    make(chan struct{}, o.HeaderLoads),
	}
	bucket := o.Bucket
	s.metrics = newMetrics(s)
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.metrics); err != nil { // objstore panics where it cannot register
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		bucket = objstore.WrapWithMetrics(bucket, prometheus.WrapRegistererWithPrefix("tare_", o.Registerer), bucket.Name())
	}
	s.reader = &bucketReader{bucket: bucket, timeout: o.CallTimeout, tries: o.CallTries, plain: o.PlainBucket, slots: make(chan struct{}, o.Concurrency)}
	s.source = newSource(bucket, o, s.nudge, s.metrics)
	return s, nil
}

// Entries returns the pool of series, labels and chunk references that the blocks use.
func (s *Syncer) Entries() *tsblock.Entries { return s.options.Entries }

// Ready reports whether the blocks of the bucket are known: from the first sync that succeeded on.
func (s *Syncer) Ready() bool { return s.ready.Load() }

// ErrNotSynced is the error of a request that comes before the first sync is over.
var ErrNotSynced = errors.New("the blocks of the bucket are not known yet: the first sync is under way")

// CheckReady returns ErrNotSynced before the first sync is over.
func (s *Syncer) CheckReady() error {
	if !s.Ready() {
		return ErrNotSynced
	}
	return nil
}

// nudge requests a sync soon, because the bucket differs from the known blocks.
func (s *Syncer) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// minSyncPause is the least time between two syncs, also after a nudge and after a failure.
const minSyncPause = 2 * time.Second

// Run syncs with the bucket until the context ends, and unloads headers that no query uses. It returns
// nil then: after a failure of the bucket it syncs again.
func (s *Syncer) Run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		for sleep(ctx, s.options.HeaderIdle) == nil {
			s.UnloadIdle()
		}
	})
	if s.privateEntries {
		others.Go(func() {
			for sleep(ctx, entriesAge) == nil {
				s.options.Entries.Age()
			}
		})
	}
	failures := 0
	for {
		err := s.Sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause := s.options.SyncInterval
		if err != nil {
			failures++
			pause = min(pause, backoff(failures, 2*minSyncPause, DefaultSyncInterval))
		} else {
			failures = 0
		}
		if !s.pause(ctx, pause) {
			return nil
		}
	}
}

// entriesAge is how long slabs of entries stay idle before they are given back, or twice that.
const entriesAge = time.Minute

// pause waits until the next sync is due; false when the context has ended.
func (s *Syncer) pause(ctx context.Context, d time.Duration) bool {
	least := min(d, minSyncPause)
	if sleep(ctx, least) != nil {
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

// Close closes the blocks after Run has returned. A block that a query reads is closed by its last query.
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
