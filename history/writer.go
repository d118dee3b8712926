package history

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// RefreshAge is the age at which unchanged counters of a Key are written again. Rounds over all Keys have
// this interval, because PromQL, which looks back 5 minutes, must find a sample.
const RefreshAge = time.Minute

// batchKeys is the number of Keys written by one commit, maxBatchKeys that in a late round. Commits of a
// round are spread over the interval, so that concurrent statements are not delayed.
const (
	batchKeys    = 500
	maxBatchKeys = 8 * batchKeys
)

// A Source has the counters that an Archive writes; *stmtstats.Table implements it.
type Source interface {
	// Collect visits Evicted, Other, Keys changed since their last visit, and Keys evicted since (Gone),
	// whose counts are included in Evicted.
	Collect(visit func(*stmtstats.Sample) error) error

	// Each visits everything except evicted Keys.
	Each(visit func(*stmtstats.Sample) error) error

	// MarkAllChanged makes the next Collect visit everything, as the first one did.
	MarkAllChanged()
}

var _ Source = (*stmtstats.Table)(nil)

// A writer turns the counters of a source into samples of a head. All samples of a Key in a round have one
// time. It writes only samples that changed since the previous round, or whose last sample would become too
// old.
type writer struct {
	db       *tsdb.DB
	source   Source
	now      func() time.Time
	elapsed  func() time.Duration // by a monotonic clock
	interval time.Duration
	labels   *stmtseries.Labeller
	tags     tagWriter

	last        int64         // time of the newest samples, in milliseconds; never decreases
	lastElapsed time.Duration // elapsed when last was set
	since       int64         // value of last before the round
	lastID      uint64        // of the Keys in the first samples of the instance: their first calls may be later by the clock that was set back
	began       int64         // value of last at the start of the round: all earlier calls are in its samples
	prev        int64         // value of good at the start of the round
	good        int64         // value of last at the start of the last completely written round
	broken      error         // error of a failed commit: nothing can be written before restart

	tracks  map[uint64]*track        // by Sample.ID
	byKey   map[stmtstats.Key]*track // the newest of each Key
	infos   map[[16]byte]*info
	unused  []*info                  // possibly without users, to be ended by this round
	orphans map[uint64]labels.Labels // series of an earlier process that were not written to yet; nil after the first round
	ended   map[stmtstats.Key]*track // evicted Keys that have not returned, to be ended by this round
	evicted *stmtstats.Sample        // the sample of Evicted that includes them, from its visit to its commit; else nil
	stale   []staleSeries            // to be ended by the next commit
	full    int64                    // time of the last round over all Keys

	previous map[uint64]callsAt // last samples of tare_queries_total of an earlier process, by the hash of the series' labels; nil after the first complete round
	pending  written            // by the current commit
	done     written            // by the commits of the round
	app      storage.AppenderV2
	next     *writer // receives the first samples of another instance from a round; else nil
	records  recordSize
	sums     sums
	batch    []*track // of the current commit
	counts   writerCounts
}

// written counts samples that are neither 0 nor stale, and the calls in their increases.
type written struct{ samples, calls uint64 }

// A callsAt is a sample of tare_queries_total.
type callsAt struct {
	at    int64 // milliseconds
	calls uint64
}

// writerCounts are the counters of a writer.
type writerCounts struct {
	rounds, samples, failures atomic.Uint64
	keys                      atomic.Int64
	lastWritten               atomic.Int64 // Keys of the last round
	lastNanos                 atomic.Int64 // duration of the last round, including pauses
	ahead                     atomic.Int64 // milliseconds from the clock to the newest samples; positive when it was set back
}

// A track is the writer's state of a Key.
type track struct {
	key  stmtstats.Key
	kind stmtstats.Kind

	written int64  // time of its last samples; 0: none by this process
	calls   uint64 // in these samples
	nanos   uint64 // the same, of calls that have finished and of those in flight
	sampled bool   // tare_queries_total has a sample of this process
	value   uint64 // of that sample
	visited int64  // time of the last visit; 0: never
	born    bool   // no process has written samples of it
	clean   bool   // a series without a ref was 0 at the last visit
	floor   int64  // time of the last samples before a Key returned
	back    bool   // the Key has a newer track, which continues the series

	refs [stmtseries.PerKey]storage.SeriesRef // 0: the series has no sample of this process
	info *info
}

// An info is the series with a digest's text.
type info struct {
	digest  [16]byte
	labels  labels.Labels
	ref     storage.SeriesRef
	written int64
	users   int // tracks of the digest
}

// A staleSeries is a series that gets a staleness marker.
type staleSeries struct {
	ref       storage.SeriesRef
	labels    labels.Labels // if there is no ref
	histogram bool
}

// newWriter returns a writer that continues after the head's newest sample.
func newWriter(db *tsdb.DB, source Source, tags *calls.TagCounts, labels *stmtseries.Labeller, interval time.Duration, now func() time.Time, elapsed func() time.Duration) (*writer, error) {
	w := &writer{
		db: db, source: source, now: now, elapsed: elapsed, lastElapsed: elapsed(), interval: interval, labels: labels,
		last: localdb.LastTime(db), good: localdb.LastTime(db), tracks: make(map[uint64]*track), infos: make(map[[16]byte]*info),
		byKey: make(map[stmtstats.Key]*track), ended: make(map[stmtstats.Key]*track), tags: newTagWriter(tags, now().UnixMilli()),
	}
	return w, w.findOrphans()
}

// nextTime returns the time of a round: now, or later if the clock was set back.
func (w *writer) nextTime() int64 {
	last := w.last
	return max(w.timeAfter(last), last+1)
}

// timeAfter returns the current time. If the clock was set back to before last, it returns last plus the
// monotonic time elapsed since: the head accepts no older samples.
func (w *writer) timeAfter(last int64) int64 {
	now, elapsed := w.now().UnixMilli(), w.elapsed()
	since := elapsed - w.lastElapsed
	w.lastElapsed = elapsed
	if now > last {
		return now
	}
	return last + since.Milliseconds()
}

// round writes one sample of each series that needs one.
func (w *writer) round(ctx context.Context, spread bool) error {
	start := time.Now()
	w.prev, w.since, w.last = w.good, w.last, w.nextTime()
	w.began, w.done = w.last, written{}
	w.counts.ahead.Store(w.last - w.now().UnixMilli())
	p := pass{writer: w, ctx: ctx}
	all := w.last-w.full >= RefreshAge.Milliseconds() && w.next == nil // with next, Collect visits all Keys
	p.size = batchKeys
	if spread {
		// Each pass, Collect and Each, has as many pauses as batches. New Keys are not known yet: the
		// deadline bounds the pauses, so that no sample is later than two intervals.
		p.pause = w.interval * 8 / 10 * batchKeys / time.Duration(2*max(len(w.tracks), batchKeys))
		p.deadline = start.Add(w.interval * 8 / 10)
	}
	w.app = w.db.AppenderV2(ctx)
	p.failed(w.source.Collect(p.visit))
	if w.broken == nil {
		p.failed(w.writeTags())
	}
	// Evicted Keys end in the commit in which Evicted includes their totals.
	if w.broken == nil {
		w.endGone()
		p.failed(w.writeEvicted())
	}
	p.failed(w.commit())
	if all && w.broken == nil {
		w.app = w.db.AppenderV2(ctx)
		w.sums.reset()
		err := w.source.Each(func(s *stmtstats.Sample) error {
			w.sums.add(s)
			return p.visit(s)
		})
		p.failed(err)
		w.evicted = nil
		p.failed(w.commit())
		if err == nil {
			w.sums.store(w.last)
		}
		w.full = w.last
	}
	if len(p.failures) > 0 {
		w.full = 0 // the next round tries all of them again
	} else {
		w.good = w.began
		w.previous = nil
	}
	w.counts.rounds.Add(1)
	w.counts.keys.Store(int64(len(w.tracks)))
	w.counts.lastWritten.Store(int64(p.written))
	w.counts.lastNanos.Store(int64(time.Since(start)))
	return joinFirst(p.failures)
}

// A pass is the state of a round in progress.
type pass struct {
	*writer
	ctx      context.Context //nolint:containedctx // it lives as long as the round
	pause    time.Duration   // between two commits
	deadline time.Time       // no pauses after it
	size     int             // Keys per commit
	written  int             // Keys
	failures []error
}

func (p *pass) failed(err error) {
	if err != nil {
		p.failures = append(p.failures, err)
	}
}

// visit writes the samples of one Key. Errors are collected, and the other Keys are written.
func (p *pass) visit(s *stmtstats.Sample) error {
	if p.broken != nil {
		return errBroken // Keys that were not visited are visited again
	}
	done, err := p.writer.visit(s)
	if err != nil {
		p.counts.failures.Add(1)
		p.failed(err)
	}
	if p.next != nil {
		p.failed(p.next.copyFrom(s))
	}
	if done {
		p.written++
	}
	// The first round ends the series of an earlier process in the same commit in which it writes the Keys.
	if len(p.batch) < p.size || p.orphans != nil {
		return nil
	}
	p.failed(p.commit())
	if p.broken != nil {
		return errBroken
	}
	p.awaitCommit()
	p.app = p.db.AppenderV2(p.ctx)
	return nil
}

var errBroken = errors.New("an earlier commit failed")

// restart continues with a reopened database: samples missing from the log are written again.
func (w *writer) restart(db *tsdb.DB) error {
	w.db, w.app, w.broken = db, nil, nil
	w.last = localdb.LastTime(db)
	w.good = min(w.good, w.last)
	w.full, w.evicted, w.stale, w.unused, w.batch, w.pending = 0, nil, nil, nil, nil, written{}
	w.tracks, w.infos = make(map[uint64]*track), make(map[[16]byte]*info)
	w.byKey, w.ended = make(map[stmtstats.Key]*track), make(map[stmtstats.Key]*track)
	w.tags.restart()
	return w.findOrphans()
}

// awaitCommit pauses until the next commit is due. After the deadline it makes commits larger instead.
func (p *pass) awaitCommit() {
	if p.pause == 0 || p.ctx.Err() != nil {
		return
	}
	left := time.Until(p.deadline)
	if left <= 0 {
		p.size = min(2*p.size, maxBatchKeys)
		return
	}
	_ = wait(p.ctx, nil, min(p.pause, left)) // when the context ends, the round finishes without pauses
	p.last = p.timeAfter(p.last)
}

// joinFirst joins the first few errors: a full disk causes one per sample.
func joinFirst(errs []error) error {
	const most = 3
	var kept []error
	more := 0
	for _, err := range errs {
		switch {
		case err == nil:
		case len(kept) < most:
			kept = append(kept, err)
		default:
			more++
		}
	}
	if more > 0 {
		kept = append(kept, fmt.Errorf("and %d more", more))
	}
	return errors.Join(kept...)
}

// commit makes appended samples visible. If it fails, the next round writes them again.
func (w *writer) commit() error {
	if w.broken != nil {
		return nil
	}
	ended := w.endStale()
	err := w.app.Commit()
	w.records.commit()
	if err != nil {
		w.counts.failures.Add(1)
		err = fmt.Errorf("commit samples: %w", err)
		w.broken = err
	} else {
		w.stale = w.stale[:0]
		w.done.samples += w.pending.samples
		w.done.calls += w.pending.calls
	}
	w.pending = written{}
	w.tags.committed(err == nil, w.last)
	for _, e := range w.batch {
		e.committed(err == nil)
	}
	clear(w.batch)
	w.batch = w.batch[:0]
	return errors.Join(ended, err)
}

// committed records whether the last appended samples were committed.
func (e *track) committed(done bool) {
	if done {
		e.born = false
		return
	}
	e.written, e.calls = 0, 0
	if e.info != nil {
		e.info.written = 0
	}
}
