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

	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/stmtstats"
)

// RefreshAge is how old the last sample of a Key becomes before its unchanged counters are written
// again, by rounds that look at all Keys and are as far apart: PromQL looks back 5 minutes, and has
// to find a sample.
const RefreshAge = time.Minute

// batchKeys is how many Keys are written by one commit, maxBatchKeys in a round that is late. Commits of a round are spread over the
// interval, so that no one of them is felt by the statements that pass meanwhile.
const (
	batchKeys    = 500
	maxBatchKeys = 8 * batchKeys
)

// A Source is what an Archive writes: a *Table.
type Source interface {
	// Collect visits Evicted, Other, what has changed since it was last visited, and what is Gone
	// since; what is Gone is part of Evicted.
	Collect(visit func(*stmtstats.Sample) error) error

	// Each visits everything but what is Gone.
	Each(visit func(*stmtstats.Sample) error) error

	// Repeat makes the next Collect visit everything as the first one did.
	Repeat()
}

var _ Source = (*stmtstats.Table)(nil)

// A writer turns what a source says into samples of a head. All samples of a Key in a round have one
// time. Only what changed since the round before is written, and what would otherwise be too old.
type writer struct {
	db       *tsdb.DB
	source   Source
	now      func() time.Time
	elapsed  func() time.Duration // by a monotonic clock
	interval time.Duration
	labels   *stmtseries.Labeller

	last        int64         // time of the newest samples, in milliseconds; never falls
	lastElapsed time.Duration // elapsed when last was set
	since       int64         // what last was before the round
	lastID      uint64        // of the Keys in the first samples of the instance: their first calls may be later by the clock that was set back
	began       int64         // what last was when the round had begun: all that was called before is in its samples
	prev        int64         // what good was when the round began
	good        int64         // what last was when the last round began that was written whole
	broken      error         // a commit that failed: nothing can be written before restart

	tracks  map[uint64]*track        // by Sample.ID
	byKey   map[stmtstats.Key]*track // the newest of each Key
	infos   map[[16]byte]*info
	unused  []*info                  // that may have no users any more, to be ended by this round
	orphans map[uint64]labels.Labels // series of an earlier process that nobody has written to yet; nil after the first round
	ended   map[stmtstats.Key]*track // evicted Keys that have not returned, to be ended by this round
	evicted *stmtstats.Sample        // the sample of Evicted that includes them, from its visit to its commit; else nil
	stale   []staleSeries            // to be ended by the next commit
	full    int64                    // time of the last round that looked at all Keys

	previous map[uint64]callsAt // last samples of tare_queries_total of an earlier process, by the hash of the series' labels; nil after the first whole round
	pending  written            // by the commit under way
	done     written            // by the commits of the round
	app      storage.AppenderV2
	next     *writer // takes the first samples of another instance from a round; else nil
	records  recordSize
	sums     sums
	batch    []*track // what the commit under way has
	counts   writerCounts
}

// written counts samples that are neither 0 nor stale, and the calls in their increases.
type written struct{ samples, calls uint64 }

// callsAt is a sample of tare_queries_total.
type callsAt struct {
	at    int64 // milliseconds
	calls uint64
}

// writerCounts are what a writer has done.
type writerCounts struct {
	rounds, samples, failures atomic.Uint64
	keys                      atomic.Int64
	lastWritten               atomic.Int64 // Keys of the last round
	lastNanos                 atomic.Int64 // that it took, with its pauses
	ahead                     atomic.Int64 // milliseconds from the clock to the newest samples; more than 0 when it was set back
}

// A track is what the writer knows of a Key.
type track struct {
	key  stmtstats.Key
	kind stmtstats.Kind

	written int64  // time of its last samples; 0: there are none of this process
	calls   uint64 // in these
	sampled bool   // tare_queries_total has a sample of this process
	value   uint64 // of it
	visited int64  // when it was last visited; 0: never
	born    bool   // no process has written samples of it
	clean   bool   // a series without a ref was 0 when the Key was last visited
	floor   int64  // time of the last samples of a Key that is back
	back    bool   // the Key has a newer track, which goes on with the series

	refs [stmtseries.PerKey]storage.SeriesRef // 0: the series has no sample of this process
	info *info
}

// An info is the series that tells a digest's text.
type info struct {
	digest  [16]byte
	labels  labels.Labels
	ref     storage.SeriesRef
	written int64
	users   int // tracks of the digest
}

// A staleSeries is to get the sample that says that a series has ended.
type staleSeries struct {
	ref       storage.SeriesRef
	labels    labels.Labels // where there is no ref
	histogram bool
}

// newWriter returns a writer that goes on after the head's newest sample.
func newWriter(db *tsdb.DB, source Source, labels *stmtseries.Labeller, interval time.Duration, now func() time.Time, elapsed func() time.Duration) (*writer, error) {
	w := &writer{
		db: db, source: source, now: now, elapsed: elapsed, lastElapsed: elapsed(), interval: interval, labels: labels,
		last: localdb.LastTime(db), good: localdb.LastTime(db), tracks: make(map[uint64]*track), infos: make(map[[16]byte]*info),
		byKey: make(map[stmtstats.Key]*track), ended: make(map[stmtstats.Key]*track),
	}
	return w, w.findOrphans()
}

// nextTime returns the time of a round: now, or a later one when the clock was set back.
func (w *writer) nextTime() int64 {
	last := w.last
	return max(w.timeAfter(last), last+1)
}

// timeAfter returns the current time, or, when the clock was set back to before last, the monotonic time
// that has elapsed since, added to last: the head takes no sample that is older than what it has.
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
		// As many pauses as there are batches, once for Collect and once for Each. New Keys are not known
		// yet: the deadline bounds the pauses, so that no sample is later than two intervals.
		p.pause = w.interval * 8 / 10 * batchKeys / time.Duration(2*max(len(w.tracks), batchKeys))
		p.deadline = start.Add(w.interval * 8 / 10)
	}
	w.app = w.db.AppenderV2(ctx)
	p.failed(w.source.Collect(p.visit))
	// What made room ends in the same commit in which its totals appear under another name.
	if w.broken == nil {
		w.endGone()
		p.failed(w.writeEvicted())
	}
	p.failed(w.commit())
	if all && w.broken == nil {
		w.app = w.db.AppenderV2(ctx)
		w.sums.begin()
		err := w.source.Each(func(s *stmtstats.Sample) error {
			w.sums.add(s)
			return p.visit(s)
		})
		p.failed(err)
		w.evicted = nil
		p.failed(w.commit())
		if err == nil {
			w.sums.end(w.last)
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

// A pass is a round on its way.
type pass struct {
	*writer
	ctx      context.Context //nolint:containedctx // it lives as long as the round
	pause    time.Duration   // between two commits
	deadline time.Time       // there are no pauses after it
	size     int             // Keys of a commit
	written  int             // Keys
	failures []error
}

func (p *pass) failed(err error) {
	if err != nil {
		p.failures = append(p.failures, err)
	}
}

// visit writes what is to be written of one Key. Its errors are kept: the other Keys go on.
func (p *pass) visit(s *stmtstats.Sample) error {
	if p.broken != nil {
		return errBroken // what was not visited is visited again
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
	// The first round ends what an earlier process left, together with what is said anew.
	if len(p.batch) < p.size || p.orphans != nil {
		return nil
	}
	p.failed(p.commit())
	if p.broken != nil {
		return errBroken
	}
	p.rest()
	p.app = p.db.AppenderV2(p.ctx)
	return nil
}

var errBroken = errors.New("an earlier commit failed")

// restart continues with a database that was reopened: whatever the log lacks is written again.
func (w *writer) restart(db *tsdb.DB) error {
	w.db, w.app, w.broken = db, nil, nil
	w.last = localdb.LastTime(db)
	w.good = min(w.good, w.last)
	w.full, w.evicted, w.stale, w.unused, w.batch, w.pending = 0, nil, nil, nil, nil, written{}
	w.tracks, w.infos = make(map[uint64]*track), make(map[[16]byte]*info)
	w.byKey, w.ended = make(map[stmtstats.Key]*track), make(map[stmtstats.Key]*track)
	return w.findOrphans()
}

// rest pauses until the next commit is due. After the deadline it makes commits larger instead.
func (p *pass) rest() {
	if p.pause == 0 || p.ctx.Err() != nil {
		return
	}
	left := time.Until(p.deadline)
	if left <= 0 {
		p.size = min(2*p.size, maxBatchKeys)
		return
	}
	_ = wait(p.ctx, nil, min(p.pause, left)) // its end only makes the round hurry
	p.last = p.timeAfter(p.last)
}

// joinFirst keeps a few errors: a disk that is full gives one for each sample.
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

// commit makes what was appended visible. What could not be is written again by the next round.
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
	for _, e := range w.batch {
		e.committed(err == nil)
	}
	clear(w.batch)
	w.batch = w.batch[:0]
	return errors.Join(ended, err)
}

// committed notes whether what was appended last is there.
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
