package follow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Follower keeps the target tables current after their rows are copied: it reads the source's
// changes from the oldest position at which rows were read, and applies them in order. One
// goroutine reads a batch and turns it into statements while another writes the previous batch;
// a third measures the lag.
//
// While it catches up, several writers run concurrently, and the target is in no state that the
// source ever had. Once it has caught up there is one writer, and readers of the target see a
// snapshot of the source between two transactions, except during a transaction that is larger
// than a batch.
type Follower struct {
	// MayEnd reports whether the follower may stop without a call of Finish or End. It must be set before Run.
	MayEnd func() bool

	o       Options
	options binlog.FollowOptions
	tables  []applyTable
	targets []*tabledef.Target
	writers []*state.Writer
	now     func() time.Time

	stop     chan struct{} // closed to stop at the next transaction boundary
	stopOnce sync.Once

	mu       sync.Mutex
	applied  binlog.Position
	boundary bool // the last batch ended at a transaction boundary
	commit   time.Time
	changes  int64
	lag      telemetry.Lag // at the last check, without the part measured by heartbeats
	reached  time.Time     // without heartbeats: when the target last had everything before the log's end; zero: never
	single   bool          // batches not yet begun have one writer
	parts    bool          // several writers are applying a batch
	caughtUp bool          // the target has caught up, and there is one writer
	finish   bool          // set by Finish
	ended    error         // why the follower stopped; nil while it runs
	changed  chan struct{} // closed and replaced when one of the above changes

	applySem chan struct{} // a semaphore: acquired while a batch is applied, and from Freeze to Thaw
	sealed   bool          // no further batch is applied; guarded by applySem

	recorded    binlog.Position // position recorded in the target; used only by the applying goroutine
	flush       time.Time       // when the position was recorded; likewise
	reconnected time.Time       // when the log was last requested again; used only by the reading goroutine

	counts Counts // used only by the applying goroutine

	tracker tracker
}

// Options select the changes to apply, the position to start from, and the writers.
type Options struct {
	Source binlog.Follower
	Tables []*tabledef.Table
	From   binlog.Position // everything before it is in the target

	State  *state.Following     // records the position in the target
	Writer func() *state.Writer // returns a new writer to the target

	UntilCaughtUp bool // stop when the target has caught up, if MayEnd allows it

	Heartbeat *Heartbeat       // proves the lag; nil: no heartbeats
	Pace      *throttle.Stream // nil: no throttle

	// Turn, unless nil, is a semaphore that followers of several sources share: one at a time has a transaction that inserts rows into a table with
	// several unique keys. Such transactions lock rows beside theirs, and would be rolled back in favor of each other.
	Turn chan struct{}

	Shared
}

// Shared are the options that are the same for all streams of a copy, to its target and back.
type Shared struct {
	Workers  int                // writers until the target has caught up
	Ignore   []sqldigest.Digest // statements in the log to ignore: they change no table
	Patience time.Duration      // how long to retry an unreachable source

	Heap *atomic.Int64 // counts the heap bytes of the batches in flight and their statements; nil: they are not counted

	Waits   *telemetry.Waits
	Observe func(telemetry.Event)
	Count   func(*Counts) // called with the changes of each applied batch
}

// Counts are numbers of changed rows by binlog.ChangeKind.
type Counts [binlog.Delete + 1]int64

// slots is the number of batches in flight: one is read while another is applied.
const slots = 2

// wideKeep is the largest memory for rows of a table that an applied batch keeps, in bytes.
const wideKeep = 4 * binlog.DefaultFollowBytes

// Intervals of the follower.
const (
	firstInterval    = 5 * time.Millisecond   // the first check of the lag; each of the next waits twice as long
	catchUpInterval  = 100 * time.Millisecond // checks of the lag until the target has caught up
	caughtUpInterval = 500 * time.Millisecond // checks of the lag afterwards
	reportInterval   = time.Second            // reports of the lag
	recordInterval   = time.Second            // records of the position while the tables do not change
)

// A slot is a batch in flight.
type slot struct {
	batch   binlog.ChangeBatch
	applier *applier
	weighed int64 // heap bytes in Options.Heap
	stop    error // instead of a batch: the log cannot be read any further; everything before was read
}

// ErrEnded is the result of a follower that stopped without an error.
var ErrEnded = errors.New("following has ended")

// New returns a follower of the tables of a copy.
func New(o Options) (*Follower, error) {
	f := &Follower{
		o: o, now: time.Now, options: binlog.FollowOptions{
			Waiting: func(limit time.Duration) func() {
				return o.Waits.Begin("the source to be reachable again, to read its log", "", limit)
			},
			From: o.From, Patience: o.Patience, Ignore: o.Ignore,
		},
		MayEnd: func() bool { return true },
		stop:   make(chan struct{}), changed: make(chan struct{}), applySem: make(chan struct{}, 1), applied: o.From, recorded: o.From,
	}
	if o.Heartbeat != nil {
		f.options.Run = o.Heartbeat.run
	}
	for _, t := range o.Tables {
		sql, err := rowstream.NewRowSQL(t.Spec.TargetSQL(), t.Target.Columns, t.Key)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Spec.Target(), err)
		}
		owned := t.Target.Owned
		var displaced []*rowstream.RowSQL
		if owned != nil {
			sql, displaced = owned.Guard(sql), owned.Keys
		}
		cascades, err := t.CascadeSQL()
		if err != nil {
			return nil, err
		}
		f.tables = append(f.tables, applyTable{sql: sql, typed: t.Target.Typed.SQL(sql), loose: sql.ExactKey() && len(t.Unique) == 1 && cascades == nil, cascades: cascades, owned: owned, displaced: displaced})
		f.targets = append(f.targets, &t.Target)
		f.options.Tables = append(f.options.Tables, t.Source)
		f.options.Plans, f.options.Before = append(f.options.Plans, t.Events), append(f.options.Before, t.Key)
		var defined binlog.Position
		var layout []int // as described before this run's snapshot: a change since then is in the log
		if t.Redefined != nil {
			defined, layout = t.Redefined.Upto, t.Redefined.Layout
		}
		f.options.Defined, f.options.Layouts = append(f.options.Defined, defined), append(f.options.Layouts, layout)
		f.options.Starts = append(f.options.Starts, t.Start)
	}
	for range o.Workers {
		f.writers = append(f.writers, o.Writer())
	}
	return f, nil
}

// Applied returns a position of the source's log before which everything is in the target.
func (f *Follower) Applied() binlog.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// waitFor blocks until everything before p is in the target.
func (f *Follower) waitFor(ctx context.Context, p binlog.Position) error {
	return f.await(ctx, func() bool { return f.applied.Reaches(p) })
}

// WaitCaughtUp blocks until the target has caught up for the first time.
func (f *Follower) WaitCaughtUp(ctx context.Context) error {
	return f.await(ctx, func() bool { return f.caughtUp })
}

// await blocks until done returns true or the follower has stopped. It calls done with f.mu locked.
func (f *Follower) await(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		ok, moved, ended := done(), f.changed, f.ended
		f.mu.Unlock()
		switch {
		case ok:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Err returns why the follower stopped, or nil while it runs.
func (f *Follower) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// Finish makes the follower stop once the target has everything that the source has.
func (f *Follower) Finish() { f.change(func() { f.finish = true }) }

// change calls what with f.mu locked and wakes the callers of await.
func (f *Follower) change(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

// End makes the follower stop at the next transaction boundary.
func (f *Follower) End() { f.stopOnce.Do(func() { close(f.stop) }) }

// Freeze blocks until no batch is being applied, and prevents the next one from being applied until Thaw. It reports whether the last
// batch ended at a transaction boundary.
func (f *Follower) Freeze(ctx context.Context) (boundary bool, err error) {
	select {
	case f.applySem <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boundary, nil
}

// Thaw resumes applying after Freeze.
func (f *Follower) Thaw() { <-f.applySem }

// SuspendThrottle suspends the throttle until end is called.
func (f *Follower) SuspendThrottle() (end func()) {
	if f.o.Pace == nil {
		return func() {}
	}
	return f.o.Pace.Suspend()
}

// Seal stops the follower after Freeze, without applying another batch.
func (f *Follower) Seal() {
	f.sealed = true
	f.End()
	f.Thaw()
}

// BetweenTransactions calls do while no batch is being applied and the target has only complete transactions of the source.
func (f *Follower) BetweenTransactions(ctx context.Context, do func() error) error {
	for {
		boundary, err := f.Freeze(ctx)
		if err != nil {
			return err
		}
		if boundary {
			defer f.Thaw()
			return do()
		}
		f.Thaw()
		if err := f.await(ctx, func() bool { return f.boundary }); err != nil {
			return err
		}
	}
}

// Run follows the source until the follower is stopped or ctx is done.
func (f *Follower) Run(ctx context.Context) (err error) {
	defer func() {
		f.change(func() {
			if f.ended = err; err == nil {
				f.ended = ErrEnded
			}
		})
		for _, w := range f.writers {
			w.Close()
		}
	}()
	if err := f.recordPosition(ctx); err != nil {
		return err
	}
	changes, err := f.o.Source.Follow(ctx, f.options)
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close() }() // no data is lost: changes that were not applied are read again
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	full, empty := make(chan *slot, slots), make(chan *slot, slots)
	all := make([]*slot, slots)
	for i := range all {
		a := newApplier(f.tables, len(f.writers))
		a.tracker = &f.tracker
		all[i] = &slot{applier: a}
		empty <- all[i]
	}
	var others sync.WaitGroup
	defer func() {
		others.Wait()
		f.forget(all)
	}()
	defer cancel(nil)
	others.Go(func() {
		if err := f.read(ctx, changes, empty, full); err != nil {
			cancel(err)
		}
	})
	others.Go(func() {
		if err := f.watch(ctx); err != nil {
			cancel(err)
		}
	})
	return f.applyAll(ctx, full, empty)
}

// read reads batches and plans their statements.
func (f *Follower) read(ctx context.Context, changes binlog.Changes, empty <-chan *slot, full chan<- *slot) error {
	for {
		var s *slot
		select {
		case s = <-empty:
		case <-ctx.Done():
			return nil
		}
		err := changes.Next(ctx, &s.batch)
		if stop := new(binlog.StopError); errors.As(err, &stop) {
			s.stop = err
			full <- s
			return nil
		}
		if err != nil {
			return err
		}
		f.o.Heartbeat.read(&s.batch)
		f.reconnectMissing(changes)
		s.applier.spread(f.spread())
		err = s.applier.plan(&s.batch)
		f.weigh(s)
		if err != nil {
			return err
		}
		full <- s
	}
}

// spread returns the number of writers for the next batch.
func (f *Follower) spread() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.single {
		return 1
	}
	return len(f.writers)
}

// applyAll applies batches until the follower is stopped.
func (f *Follower) applyAll(ctx context.Context, full <-chan *slot, empty chan<- *slot) error {
	stop := f.stop
	f.change(func() { f.boundary = true })
	for {
		select {
		case <-stop:
			if f.boundary {
				return f.recordPosition(ctx)
			}
			stop = nil // stop after the current transaction
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-full:
			if s.stop != nil {
				return errors.Join(s.stop, f.recordPosition(ctx))
			}
			ended, err := f.applyThrottled(ctx, s)
			if ended || err != nil {
				return err
			}
			if s.batch.ReleaseWide(wideKeep) {
				s.applier.release()
				f.weigh(s)
				debug.FreeOSMemory() // otherwise the next batch comes on top of this one
			}
			empty <- s
		}
		if stop == nil {
			stop = f.stop
		}
	}
}

// applyThrottled applies a batch once the throttle allows it. If the follower is sealed, it reports ended
// instead. A batch without changes is not throttled.
func (f *Follower) applyThrottled(ctx context.Context, s *slot) (ended bool, err error) {
	paced := f.o.Pace != nil && len(s.batch.Changes) > 0
	if paced {
		if err := f.o.Pace.Begin(ctx); err != nil {
			return false, err
		}
	}
	if _, err := f.Freeze(ctx); err != nil {
		return false, err
	}
	if f.sealed {
		f.Thaw()
		return true, nil
	}
	err = f.apply(ctx, s)
	f.Thaw()
	if err != nil || !paced {
		return false, err
	}
	return false, f.o.Pace.End(ctx)
}

// apply applies a batch. If several writers have a part of it, the first one's transaction records
// the position before the batch, since the others may be killed before they commit. A single
// writer records the position after the batch.
func (f *Follower) apply(ctx context.Context, s *slot) error {
	b := &s.batch
	busy, err := f.busyWriters(s)
	if err != nil {
		return err
	}
	switch {
	case len(busy) == 0:
	case len(busy) == 1:
		if err := applyBatch(ctx, f.writers[0], f, s.applier, busy[0], &b.Upto); err != nil {
			return err
		}
		f.recorded, f.flush = b.Upto, f.now()
	default:
		if err := f.applyParts(ctx, s.applier, busy); err != nil {
			return err
		}
	}
	f.count(b)
	f.change(func() {
		f.parts = false
		f.applied, f.boundary, f.changes = b.Upto, b.Boundary || len(b.Changes) == 0 && f.boundary, f.changes+int64(len(b.Changes))
		if !b.Commit.IsZero() {
			f.commit = b.Commit
		}
		f.o.Heartbeat.applied(b.Heartbeat)
	})
	if len(busy) == 0 && f.recorded != f.applied && f.now().Sub(f.flush) >= recordInterval {
		return f.recordPosition(ctx)
	}
	return nil
}

// count adds the changes of an applied batch to the counts.
func (f *Follower) count(b *binlog.ChangeBatch) {
	var counts Counts
	for i := range b.Changes {
		if kind := b.Changes[i].Kind; kind <= binlog.Delete { // the number of rows changed by a foreign key is unknown
			counts[kind]++
		}
	}
	for kind, n := range counts {
		f.counts[kind] += n
	}
	f.o.Count(&counts)
}

// busyWriters returns the writers that have a part of a batch. A batch planned for several writers is
// planned again for one if the target has caught up since.
func (f *Follower) busyWriters(s *slot) (busy []int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.single && s.applier.writers > 1 {
		s.applier.spread(1)
		if err := s.applier.plan(&s.batch); err != nil {
			return nil, err
		}
	}
	for w := range s.applier.writers {
		if !s.applier.empty(w) {
			busy = append(busy, w)
		}
	}
	f.parts = len(busy) > 1
	return busy, nil
}

// applyParts writes the parts of all writers concurrently.
func (f *Follower) applyParts(ctx context.Context, a *applier, busy []int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	before := f.applied
	var all sync.WaitGroup
	for i, w := range busy {
		all.Go(func() {
			var note *binlog.Position
			if i == 0 {
				note = &before
			}
			if err := applyBatch(ctx, f.writers[w], f, a, w, note); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f.recorded, f.flush = before, f.now()
	return nil
}

// recordPosition records the position in a separate transaction.
func (f *Follower) recordPosition(ctx context.Context) error {
	w := f.writers[0]
	err := w.Retry(ctx, func() error { return f.o.State.Record(ctx, w.Conn, f.applied) })
	if err == nil {
		f.recorded, f.flush = f.applied, f.now()
	}
	return err
}

// A Report is the result of a follower's run.
type Report struct {
	From     string `json:"from"`     // position of the source's log
	Position string `json:"position"` // everything before it is in the target
	Inserts  int64  `json:"inserts"`  // applied row changes, after filters
	Updates  int64  `json:"updates"`
	Deletes  int64  `json:"deletes"`
	CaughtUp bool   `json:"caught_up"`
}

// Report returns the result. It must not be called before Run has returned.
func (f *Follower) Report() *Report {
	return &Report{
		From: f.o.From.String(), Position: f.applied.String(), CaughtUp: f.caughtUp,
		Inserts: f.counts[binlog.Insert], Updates: f.counts[binlog.Update], Deletes: f.counts[binlog.Delete],
	}
}
