package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/storegateway"
)

// ArchiveOptions say what an Archive writes, and where.
type ArchiveOptions struct {
	Source Source // what is written; required

	// Dir has the head and the local blocks; required. It is the history's own, and nobody else
	// may have it open.
	Dir string

	// Labels are on every series, and the external labels of the blocks in the bucket. They have
	// to have an instance, by which the series of several gateways in one bucket differ. A
	// directory belongs to the labels that it was first opened with.
	Labels map[string]string

	Interval time.Duration // between two samples of a series that changes; default 15s

	LocalAge   time.Duration // blocks that are older are deleted once the bucket has them; default 24h
	LocalBytes int64         // of all local blocks; default 4 GiB

	// ReserveBytes is the size of a file that is deleted when the disk is full, and with 1 KiB per
	// series the free space below which nothing is written; default 16 MiB.
	ReserveBytes int64

	RollupAge time.Duration // how long rollups of days are kept in Dir; default 400 days

	Retention BucketRetention // of the bucket; default: everything is kept

	Bucket  objstore.Bucket       // takes the blocks; required
	Gateway *storegateway.Gateway // answers for the bucket; required, running it is the caller's

	// State records what is in Dir and sets aside what is damaged. Default: one of Dir.
	State *localstate.Store

	Now     func() time.Time     // default time.Now
	Elapsed func() time.Duration // a monotonic clock, for times at which Now was set back; default: since OpenArchive
	Log     *slog.Logger         // required
}

// Defaults of ArchiveOptions.
const (
	DefaultInterval   = 15 * time.Second
	DefaultLocalAge   = 24 * time.Hour
	DefaultLocalBytes = 4 << 30
	DefaultReserve    = 16 << 20
	DefaultRollupAge  = 400 * 24 * time.Hour
)

// MinRollupAge is the least RollupAge.
const MinRollupAge = hourAge

// maxInterval is the longest Interval with which PromQL, which looks back 5 minutes, finds a sample of
// each series at any time.
const maxInterval = time.Minute

// InstanceLabel names the gateway that a series comes from.
const InstanceLabel = "instance"

// Validate fills in the defaults and says what is wrong with o.
func (o *ArchiveOptions) Validate() error {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.LocalAge == 0 {
		o.LocalAge = DefaultLocalAge
	}
	if o.LocalBytes == 0 {
		o.LocalBytes = DefaultLocalBytes
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = DefaultReserve
	}
	if o.RollupAge == 0 {
		o.RollupAge = DefaultRollupAge
	}
	if o.Retention.Delay == 0 {
		o.Retention.Delay = DefaultRetentionDelay
	}
	if o.Elapsed == nil {
		start := time.Now()
		o.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var errs []error
	if o.Source == nil || o.Dir == "" || o.Bucket == nil || o.Gateway == nil || o.Log == nil {
		errs = append(errs, errors.New("source, directory, bucket, gateway and log are required"))
	}
	if o.Interval < 0 || o.LocalAge < 0 || o.LocalBytes < 0 || o.RollupAge < 0 || o.ReserveBytes < 0 ||
		o.Retention.Age < 0 || o.Retention.Bytes < 0 || o.Retention.Delay < 0 {
		errs = append(errs, errors.New("a time or a number is negative"))
	}
	if o.RollupAge < MinRollupAge {
		errs = append(errs, fmt.Errorf("rollups kept for %v: want at least %v", o.RollupAge, MinRollupAge))
	}
	if o.Interval > maxInterval {
		errs = append(errs, fmt.Errorf("an interval of %v is longer than %v: PromQL would take series for ended", o.Interval, maxInterval))
	}
	return errors.Join(append(errs, ValidateLabels(o.Labels))...)
}

// ValidateLabels says what is wrong with the labels of a history.
func ValidateLabels(labels map[string]string) error {
	var errs []error
	if labels[InstanceLabel] == "" {
		errs = append(errs, fmt.Errorf("the label %s is missing", InstanceLabel))
	}
	for name, value := range labels {
		switch {
		case !promlabel.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("label name %q: want letters, digits and _", name))
		case ownLabel(name):
			errs = append(errs, fmt.Errorf("label %s is the history's own", name))
		case value == "" || !promlabel.LabelValue(value).IsValid():
			errs = append(errs, fmt.Errorf("label %s: want a text", name))
		}
	}
	return errors.Join(errs...)
}

// An Archive writes what a Source counts as series, keeps them and answers for them. It is safe for
// concurrent use.
type Archive struct {
	options ArchiveOptions
	log     *slog.Logger
	db      *database
	faults  *faultFile
	ledger  *ledger
	keep    retention
	local   *localSeries
	writer  *writer
	shipper *shipper
	rollups *rollupStore
	retain  *bucketRetainer
	settled atomic.Int64 // milliseconds: no sample of that time or before will be written any more
	heap    atomic.Int64 // bytes, see HeapBytes
	whole   atomic.Int64 // milliseconds: what was called before is in samples; 0 before the first round

	opened time.Time // by the clock of ArchiveOptions

	queryable *queryable
	lastClose struct {
		sync.Mutex
		snapshot *snapshot // of the end of the newest hour that a rollup was made of
	}
	lost atomic.Uint64 // blocks that were deleted without being in the bucket

	few int64 // minutes of Keys whose samples are added up for a chart of all statements

	maintaining sync.Mutex            // chunks or blocks are written, or the database is replaced; after flushing
	damage      atomic.Pointer[error] // why the database has to be reopened
	stopped     atomic.Bool           // fault is not nil

	compactable chan struct{} // signals maintain
	compacted   chan struct{} // signals shipAll
	recheck     chan struct{} // signals checkLedgers

	flushing sync.Mutex // a round runs
	fault    *fault     // under flushing; nil: samples are written
	closed   bool       // under flushing
	weighed  struct {
		at     int64  // milliseconds
		series uint64 // in the head then
	} // under flushing: when heap was stored
}

// OpenArchive opens the history in a directory and replays its write-ahead log. Writing begins with Run.
func OpenArchive(o ArchiveOptions) (*Archive, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	a := &Archive{compactable: make(chan struct{}, 1), compacted: make(chan struct{}, 1), recheck: make(chan struct{}, 1), log: o.Log, few: fewMinutes, opened: o.Now()}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create history directory: %w", err)
	}
	if o.State == nil {
		o.State = localstate.Open(o.Dir, o.Now, o.Log)
	}
	a.options = o
	a.local = &localSeries{dir: o.Dir, state: o.State, log: o.Log}
	if err := claim(o.Dir, o.Labels, o.State); err != nil {
		return nil, err
	}
	a.shipper = newShipper(o.Bucket, o.Dir, maps.Clone(o.Labels), o.State, o.Log)
	var err error
	if a.rollups, err = openRollups(filepath.Join(o.Dir, rollupPrefix), maps.Clone(o.Labels), o.RollupAge, a.shipper, o.State, o.Now, o.Log); err != nil {
		return nil, err
	}
	a.retain = newBucketRetainer(a)
	a.keep = retention{age: o.LocalAge, bytes: o.LocalBytes, safe: a.served, rolled: a.rolled}
	if err := a.makeSpace(); err != nil {
		return nil, err
	}
	if a.ledger, err = openLedger(o.Dir, o.State, o.Log); err != nil {
		return nil, err
	}
	db, err := a.local.open(a.expired)
	if err != nil {
		return nil, err
	}
	a.db = &database{db: db}
	a.rollups.db = a.db
	if a.writer, err = newWriter(db, o.Source, newLabeller(o.Labels), o.Interval, o.Now, o.Elapsed); err != nil {
		return nil, errors.Join(err, closeDatabase(db))
	}
	if err := a.weigh(context.Background()); err != nil {
		return nil, errors.Join(err, closeDatabase(db))
	}
	bucket := o.Gateway.Queryable(func(context.Context) (string, error) { return noTenant, nil })
	a.queryable = newQueryable(a.db, bucket, o.Labels)
	a.writer.counts.ahead.Store(a.writer.last - o.Now().UnixMilli())
	if ahead := time.Duration(a.writer.counts.ahead.Load()) * time.Millisecond; ahead > o.Interval {
		o.Log.Warn("the clock was set back: samples continue after the newest one", "ahead", ahead)
	}
	return a, nil
}

// Queryable returns the history as PromQL engines and Prometheus' HTTP API take it. What it reads
// from the bucket is a part of the query that the context has, see storegateway.WithQuery, else
// one that it waits for.
func (a *Archive) Queryable() storage.Queryable { return a.queryable }

// expired names the blocks to delete. The TSDB deletes them next.
func (a *Archive) expired(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
	expired := a.keep.expired(blocks)
	for _, b := range blocks {
		if _, ok := expired[b.Meta().ULID]; ok && !a.served(b.Meta().ULID) {
			a.blockLost(b.Meta())
		}
	}
	a.local.forget(expired)
	return expired
}

// makeSpace allocates what a full disk is met with. Replaying the log writes chunks, in goroutines of
// the TSDB whose panics cannot be recovered: it has to have space.
func (a *Archive) makeSpace() (err error) {
	dir, bytes := a.options.Dir, a.options.ReserveBytes
	if checkSpace(dir, 2*bytes) != nil {
		if err := os.Remove(filepath.Join(dir, reserveName)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := checkSpace(dir, bytes/2); err != nil {
		return err
	}
	if a.faults, err = openFaults(dir, a.options.State); err != nil {
		return err
	}
	if checkSpace(dir, 2*bytes) != nil {
		return nil
	}
	if err := allocateReserve(dir, bytes); err != nil {
		a.log.Warn("history reserve not allocated", "err", err)
	}
	return nil
}

// lostSeconds returns the length of all ranges without samples after failed writes.
func (a *Archive) lostSeconds() float64 { return a.faults.lostSeconds(a.options.Now()) }

// Faults returns the ranges without samples after failed writes, oldest first.
func (a *Archive) Faults() []FaultRange { return a.faults.ranges() }

// Now returns the time of samples that are written now: that of the clock, unless it was set back.
func (a *Archive) Now() time.Time {
	ahead := time.Duration(max(0, a.writer.counts.ahead.Load())) * time.Millisecond
	return a.options.Now().Add(ahead)
}

// served reports whether a block is in the bucket and a sync has found it there since.
func (a *Archive) served(id ulid.ULID) bool {
	at, ok := a.shipper.since(id)
	return ok && a.options.Gateway.Status().LastGood.After(at)
}

// rolled reports whether all hours of a block were made rollups of.
func (a *Archive) rolled(m tsdb.BlockMeta) bool { return a.rollups.until().UnixMilli() >= m.MaxTime }

func (a *Archive) blockLost(m tsdb.BlockMeta) {
	a.lost.Add(1)
	a.forgetLedger(m)
	a.log.Error("a block is deleted that is not in the bucket, as local blocks have come to their limit",
		"block", m.ULID, "from", time.UnixMilli(m.MinTime).UTC(), "to", time.UnixMilli(m.MaxTime).UTC())
}

// shipEvery is how often new blocks are looked for, and a bucket that failed is tried again.
const shipEvery = time.Minute

// Run writes and ships until the context ends; it returns nil then. What fails is logged, counted and tried
// again: it is no reason to end.
func (a *Archive) Run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { a.shipAll(ctx) })
	others.Go(func() { a.rollAll(ctx) })
	others.Go(func() { a.maintain(ctx) })
	others.Go(func() { a.checkLedgers(ctx) })
	others.Go(func() { a.retain.run(ctx) })
	every := time.NewTicker(a.options.Interval)
	defer every.Stop()
	for {
		if err := a.round(ctx, true); err != nil && !errors.Is(err, errStopped) {
			a.log.Error("history write failed; counters continue and the next samples include everything", "error", err)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// shipAll ships blocks as they appear.
func (a *Archive) shipAll(ctx context.Context) {
	for {
		a.local.record(a.db.current().BlockMetas())
		if err := a.shipper.ship(ctx, a.db.current().BlockMetas()); err != nil && ctx.Err() == nil {
			a.log.Warn("blocks could not be shipped; they are kept and tried again", "error", err)
		}
		if wait(ctx, a.compacted, shipEvery) != nil {
			return
		}
	}
}

// rollAll makes rollups as hours end.
func (a *Archive) rollAll(ctx context.Context) {
	for {
		if settled := a.settled.Load(); settled > 0 {
			if err := a.rollups.work(ctx, settled); err != nil && ctx.Err() == nil {
				a.log.Warn("rollups could not be made, shipped or deleted; it is tried again", "error", err)
			}
		}
		if sleep(ctx, shipEvery) != nil {
			return
		}
	}
}

// round writes what the source has.
func (a *Archive) round(ctx context.Context, spread bool) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if a.closed {
		return nil
	}
	if err := a.ready(); err != nil {
		return err
	}
	err := a.writer.round(ctx, spread)
	if a.writer.broken != nil {
		a.stop(a.writer.broken, true)
		return err
	}
	a.resume()
	a.recordRound()
	a.signalCompaction()
	a.settled.Store(a.writer.last)
	a.whole.Store(a.writer.began)
	if a.outweighed() && ctx.Err() == nil {
		err = errors.Join(err, a.weigh(ctx))
	}
	return err
}

// recordRound adds a round to the ledger.
func (a *Archive) recordRound() {
	w := a.writer
	line := ledgerLine{since: w.since, began: w.began, last: w.last, samples: w.done.samples, calls: w.done.calls}
	if err := a.ledger.add(&line); err != nil {
		a.log.Warn("round not recorded in the ledger: the self-check leaves it out", "err", err)
	}
}

// Close writes what the source has counted up to now and closes the head; Run has returned. The
// source is the caller's to close after it.
func (a *Archive) Close() error {
	err := a.round(context.Background(), false)
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	db := a.db.current()
	blocks := db.BlockMetas()
	if closeErr := closeDatabase(db); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close history: %w", closeErr))
	}
	a.local.record(blocks)
	return errors.Join(err, a.faults.close(), a.ledger.close())
}
