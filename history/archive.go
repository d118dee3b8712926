package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/storage"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/store/storegateway"
)

// ArchiveOptions configure an Archive.
type ArchiveOptions struct {
	Source Source // Source is the source of the samples; required.

	// Dir has the head and the local blocks; required. No other process may have it open.
	Dir string

	// Labels are on every series, and are the external labels of the blocks in the bucket. They must include
	// an instance, which distinguishes the series of several gateways in one bucket. A directory belongs to
	// the labels that it was first opened with.
	Labels map[string]string

	// Tags are counts of calls by sqlcommenter tags, which are written beside those of the source; nil: none.
	Tags *calls.TagCounts

	Interval time.Duration // between two samples of a series that changes; default 15s

	// Advance is called before each round: it counts the time of statements in flight in the source; nil: nothing does.
	Advance func()

	LocalAge   time.Duration // older blocks are deleted once the bucket has them; default 24h
	LocalBytes int64         // of all local blocks; default 4 GiB

	// ReserveBytes is the size of a file that is deleted when the disk is full. Nothing is written if less
	// than ReserveBytes plus 1 KiB per series is free. Default 16 MiB.
	ReserveBytes int64

	RollupAge time.Duration // how long rollups of days are kept in Dir; default 400 days

	Retention BucketRetention // of the bucket; default: everything is kept

	// MaxAhead is how far the samples may be ahead of a clock that was set back before another instance label
	// starts at the clock's time; default 24h.
	MaxAhead time.Duration

	Bucket  objstore.Bucket       // receives the blocks; required
	Gateway *storegateway.Gateway // reads the bucket; required; the caller runs it

	// State records the contents of Dir and sets damaged files aside. Default: a new one for Dir.
	State *localstate.Store

	Now     func() time.Time     // default time.Now
	Elapsed func() time.Duration // a monotonic clock, used when Now was set back; default: since OpenArchive
	Log     *slog.Logger         // required
}

// BlockRange is the time range of a block.
const BlockRange = localdb.BlockRange

// DefaultInterval is the default of ArchiveOptions.Interval.
const DefaultInterval = 15 * time.Second

// MinMaxAhead is the minimum of MaxAhead in a gateway's configuration: smaller steps are clock corrections.
const MinMaxAhead = time.Minute

// MinRollupAge is the minimum of RollupAge.
const MinRollupAge = rollup.HourAge

// maxInterval is the longest Interval at which PromQL, which looks back 5 minutes, always finds a sample of
// each series.
const maxInterval = time.Minute

// InstanceLabel is the name of the label that identifies the gateway of a series.
const InstanceLabel = "instance"

// validate sets defaults and returns an error if o is invalid.
func (o *ArchiveOptions) validate() error {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.LocalAge == 0 {
		o.LocalAge = 24 * time.Hour
	}
	if o.LocalBytes == 0 {
		o.LocalBytes = 4 << 30
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = 16 << 20
	}
	if o.RollupAge == 0 {
		o.RollupAge = 400 * 24 * time.Hour
	}
	if o.MaxAhead == 0 {
		o.MaxAhead = 24 * time.Hour
	}
	if o.Retention.Delay == 0 {
		o.Retention.Delay = 48 * time.Hour // that of Thanos' compactor; readers ignore a block earlier, Tare after an hour
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
	if o.Interval < 0 || o.LocalAge < 0 || o.LocalBytes < 0 || o.RollupAge < 0 || o.ReserveBytes < 0 || o.MaxAhead < 0 ||
		o.Retention.Age < 0 || o.Retention.Bytes < 0 || o.Retention.Delay < 0 {
		errs = append(errs, errors.New("a time or a number is negative"))
	}
	if o.RollupAge < MinRollupAge {
		errs = append(errs, fmt.Errorf("rollups kept for %v: want at least %v", o.RollupAge, MinRollupAge))
	}
	if o.Interval > maxInterval {
		errs = append(errs, fmt.Errorf("an interval of %v is longer than %v: PromQL would take series for ended", o.Interval, maxInterval))
	}
	if o.Tags != nil && (o.Labels[stmtseries.LabelTag] != "" || o.Labels[stmtseries.LabelValue] != "") {
		errs = append(errs, fmt.Errorf("the labels %s and %s are those of counts by tags", stmtseries.LabelTag, stmtseries.LabelValue))
	}
	return errors.Join(append(errs, ValidateLabels(o.Labels))...)
}

// ValidateLabels returns an error if the labels of a history are invalid.
func ValidateLabels(labels map[string]string) error {
	var errs []error
	if labels[InstanceLabel] == "" {
		errs = append(errs, fmt.Errorf("the label %s is missing", InstanceLabel))
	}
	for name, value := range labels {
		switch {
		case !promlabel.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("label name %q: want letters, digits and _", name))
		case stmtseries.IsReserved(name):
			errs = append(errs, fmt.Errorf("label %s is the history's own", name))
		case value == "" || !promlabel.LabelValue(value).IsValid():
			errs = append(errs, fmt.Errorf("label %s: want a text", name))
		}
	}
	return errors.Join(errs...)
}

// An Archive writes the counters of a Source as series, stores them and reads them back. It is safe for
// concurrent use.
type Archive struct {
	options   ArchiveOptions
	log       *slog.Logger
	faults    *faultFile
	retain    *bucketRetainer
	queryable *queryable
	opened    time.Time     // by the clock of ArchiveOptions
	lost      atomic.Uint64 // blocks deleted without being in the bucket

	flushing sync.Mutex      // locked during a round
	closed   bool            // under flushing
	hold     time.Duration   // under flushing: until then no instance label starts, by the monotonic clock
	start    func(*instance) // under flushing: starts the background work of an instance; nil before Run

	mu        sync.RWMutex
	instances []*instance // under mu: the oldest first, the current one last; none while the archive waits
	waiting   error       // under mu: why the directory is not open
}

// OpenArchive opens the history in a directory and replays its write-ahead log. Run starts writing. If the machine
// prevents it, by a full disk for example, the archive waits: it has no samples, and Run opens the directory at the
// first interval at which that is possible.
func OpenArchive(o ArchiveOptions) (*Archive, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if o.State == nil {
		o.State = localstate.Open(o.Dir, o.Now, o.Log)
	}
	a := &Archive{options: o, log: o.Log, opened: o.Now()}
	a.retain = newBucketRetainer(a)
	a.queryable = newQueryable(a, o.Gateway.QueryableExcept(
		func(context.Context) (string, error) { return noTenant, nil }, a.hasLocal))
	if err := a.open(); localstate.OfMachine(err) {
		o.Log.Error("history waits; statements are counted", "dir", o.Dir, "err", err)
		a.waiting = err
	} else if err != nil {
		return nil, err
	}
	return a, nil
}

var unreadablePiece = localstate.Piece{Name: "unreadable file", Lost: "its samples, unless the bucket has them"}

// open opens all instances in the directory.
func (a *Archive) open() error {
	o := &a.options
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("create history directory: %w", err)
	}
	o.State.SetAsideUnreadable(o.Dir, unreadablePiece, localdb.MostBytes)
	if err := claim(o.Dir, o.Labels, o.State); err != nil {
		return err
	}
	faults, err := a.makeSpace()
	if err != nil {
		return err
	}
	records, err := a.readInstances()
	if err != nil {
		return errors.Join(err, faults.close())
	}
	var instances []*instance
	for i, r := range records {
		in, err := a.openInstance(r, i < len(records)-1)
		if err != nil {
			return errors.Join(err, closeAll(instances), faults.close())
		}
		instances = append(instances, in)
	}
	w := instances[len(instances)-1].writer
	w.counts.ahead.Store(w.last - o.Now().UnixMilli())
	if ahead := time.Duration(w.counts.ahead.Load()) * time.Millisecond; ahead > o.Interval {
		o.Log.Warn("the clock was set back: samples continue after the newest one", "ahead", ahead)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults, a.instances = faults, instances
	return nil
}

// reopen opens the directory of an archive that waits. The caller holds flushing.
func (a *Archive) reopen() error {
	if err := a.open(); err != nil {
		return fmt.Errorf("%w: %w", errStopped, err)
	}
	if err := a.faults.start(a.opened, a.Waiting()); err != nil { // the first complete round ends it
		a.log.Error("history fault not recorded", "err", err)
	}
	a.mu.Lock()
	a.waiting = nil
	a.mu.Unlock()
	a.options.Source.MarkAllChanged()
	if a.start != nil {
		for _, in := range a.all() {
			a.start(in)
		}
	}
	a.log.Info("history opened", "dir", a.options.Dir, "waited_since", a.opened.UTC())
	return nil
}

// Waiting returns why the directory could not be opened yet; nil if it is open.
func (a *Archive) Waiting() error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.waiting
}

// current returns the instance that is written to; nil while the archive waits.
func (a *Archive) current() *instance {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.instances) == 0 {
		return nil
	}
	return a.instances[len(a.instances)-1]
}

// all returns all instances, the oldest first.
func (a *Archive) all() []*instance {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.instances)
}

// Options returns the options, with their defaults.
func (a *Archive) Options() ArchiveOptions { return a.options }

// Opened returns when the archive was opened.
func (a *Archive) Opened() time.Time { return a.opened }

// Labels returns the labels of the series that are written now.
func (a *Archive) Labels() map[string]string {
	if in := a.current(); in != nil {
		return maps.Clone(in.labels)
	}
	return maps.Clone(a.options.Labels)
}

// SeriesMatchers returns PromQL matchers of the labels that all series have.
func (a *Archive) SeriesMatchers() (matchers []string) {
	for _, name := range slices.Sorted(maps.Keys(a.options.Labels)) {
		value := a.options.Labels[name]
		if all := a.all(); name == InstanceLabel && len(all) > 1 {
			var values []string
			for _, in := range all {
				values = append(values, regexp.QuoteMeta(in.labels[name]))
			}
			matchers = append(matchers, name+"=~"+strconv.Quote(strings.Join(values, "|")))
			continue
		}
		matchers = append(matchers, name+"="+strconv.Quote(value))
	}
	return matchers
}

// Queryable returns the history for PromQL engines and Prometheus' HTTP API. Reads from the bucket belong to
// the query of the context (storegateway.WithQuery), or to a new query that waits for admission.
func (a *Archive) Queryable() storage.Queryable { return a.queryable }

// makeSpace allocates the reserve for a full disk and opens the file of faults. Replaying the log writes chunks in
// goroutines of the TSDB whose panics cannot be recovered, so it needs free space.
func (a *Archive) makeSpace() (*faultFile, error) {
	dir, bytes := a.options.Dir, a.options.ReserveBytes
	if checkSpace(dir, 2*bytes) != nil {
		if err := os.Remove(filepath.Join(dir, reserveName)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if err := checkSpace(dir, bytes/2); err != nil {
		return nil, err
	}
	faults, err := openFaults(dir, a.options.State)
	if err != nil {
		return nil, err
	}
	if checkSpace(dir, 2*bytes) != nil {
		return faults, nil
	}
	if err := allocateReserve(dir, bytes); err != nil {
		a.log.Warn("history reserve not allocated", "err", err)
	}
	return faults, nil
}

// lostSeconds returns the length of all ranges without samples after failed writes.
func (a *Archive) lostSeconds() float64 {
	if a.Waiting() != nil {
		return a.options.Now().Sub(a.opened).Seconds()
	}
	return a.faults.lostSeconds(a.options.Now())
}

// Ahead returns how far the samples are ahead of a clock that was set back; 0 if they are not.
func (a *Archive) Ahead() time.Duration {
	in := a.current()
	if in == nil {
		return 0
	}
	return time.Duration(max(0, in.writer.counts.ahead.Load())) * time.Millisecond
}

// Now returns the time of samples written now: that of the clock, unless the clock was set back.
func (a *Archive) Now() time.Time { return a.options.Now().Add(a.Ahead()) }

// served reports whether the gateway serves a block from the bucket, or a block it was compacted into. A sync
// after the upload is not sufficient: a listing may lack the block.
func (in *instance) served(id ulid.ULID) bool {
	at, ok := in.shipper.since(id)
	return ok && in.options.Gateway.Status().LastGood.After(at) && (in.options.Gateway.Serves(noTenant, id) || in.shipper.isReplaced(id))
}

// noTenant is the only tenant of a bucket in Thanos' layout.
const noTenant = ""

// shipEvery is the interval at which new blocks are shipped and a failed bucket is retried.
const shipEvery = time.Minute

// Run writes and ships until the context ends, and then returns nil. Errors are logged, counted and retried;
// they do not stop it.
func (a *Archive) Run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	a.flushing.Lock()
	a.start = func(in *instance) {
		others.Go(func() { in.shipAll(ctx) })
		others.Go(func() { in.rollAll(ctx) })
		others.Go(func() { in.maintain(ctx) })
		others.Go(func() { in.checkLedgers(ctx) })
	}
	for _, in := range a.all() {
		a.start(in)
	}
	a.flushing.Unlock()
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

// round writes the counters of the source. Before that it starts another instance label if the samples are
// too far ahead of the clock.
func (a *Archive) round(ctx context.Context, spread bool) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if a.closed {
		return nil
	}
	if a.Waiting() != nil {
		if err := a.reopen(); err != nil {
			return err
		}
	}
	if a.options.Advance != nil {
		a.options.Advance()
	}
	in := a.current()
	if a.tooFarAhead(in) {
		next, err := a.startInstance(ctx, in)
		if err != nil {
			return err
		}
		in = next
	}
	return in.round(ctx, spread)
}

// Close writes the final counters of the source and closes the head. It must be called after Run has
// returned. The caller closes the source afterwards.
func (a *Archive) Close() error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	if a.Waiting() != nil {
		return nil
	}
	err := a.current().round(context.Background(), false)
	return errors.Join(err, closeAll(a.all()), a.faults.close())
}

func closeAll(instances []*instance) error {
	var errs []error
	for _, in := range instances {
		errs = append(errs, in.close())
	}
	return errors.Join(errs...)
}
