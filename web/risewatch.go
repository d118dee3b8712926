package web

import (
	"context"
	"encoding/hex"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

const (
	// watchEvery is the interval of searches for rises, in the last watchRange, among the watchRows
	// statements with the most load.
	watchEvery  = time.Minute
	watchRange  = time.Hour
	watchRows   = 50
	watchPoints = 120

	// watched bounds the statements that are exported.
	watched = 20

	// watchIdle is how long searches continue after a result was read: intervals between scrapes are shorter.
	watchIdle = 5 * time.Minute

	// watchCalm is the number of consecutive searches without a rise after which it is over: loads vary
	// around the threshold.
	watchCalm = 3
)

// A RiseWatch searches once per minute for statements that became heavier or are new, for metrics, while its
// results are read. It finds the same as the overview of the last hour.
type RiseWatch struct {
	statements Statements
	attention  Attention
	now        func() time.Time
	log        *slog.Logger
	read       atomic.Int64 // when a result was read last, in Unix nanoseconds of the system's clock

	mu    sync.Mutex
	rises map[stmtstats.Key]*watchedRise // guarded by mu, like all fields below
	fresh map[stmtstats.Key]newStatement // statements of the last hour
	seen  map[stmtstats.Key]time.Time    // new statements that were counted, with the time

	rise, share *prometheus.GaugeVec
	total       prometheus.Counter
}

// A watchedRise is a statement that became heavier.
type watchedRise struct {
	statements.Change
	missed int // consecutive searches that did not find it
}

// A newStatement is a statement that was never called before.
type newStatement struct {
	first time.Time
	share float64 // of total time
}

// NewRiseWatch returns a RiseWatch that has found nothing. A nil now is time.Now.
func NewRiseWatch(statements Statements, attention Attention, now func() time.Time, log *slog.Logger) *RiseWatch {
	if now == nil {
		now = time.Now
	}
	labels := []string{"digest", "schema", "user"}
	return &RiseWatch{
		statements: statements, attention: attention, now: now, log: log,
		rises: make(map[stmtstats.Key]*watchedRise), fresh: make(map[stmtstats.Key]newStatement), seen: make(map[stmtstats.Key]time.Time),
		rise: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tare_statement_rise",
			Help: "Factor by which a statement's load rose within the last hour, by option attention-load or more, of the 50 with most load; at most 20.",
		}, labels),
		share: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tare_statement_new_share",
			Help: "Share of all time (0 to 1) of new statements of the last hour, from 2 % and option attention-load on; at most 20.",
		}, labels),
		total: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tare_statement_new_total",
			Help: "New statements that took at least 2 % of all time of an hour and option attention-load.",
		}),
	}
}

// Run searches for rises until ctx is done: once per minute while results are read at least every five.
func (w *RiseWatch) Run(ctx context.Context) error {
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			if time.Since(time.Unix(0, w.read.Load())) < watchIdle {
				w.search(ctx)
			} else {
				w.forget()
			}
		}
	}
}

// search ranks the statements of the last hour.
func (w *RiseWatch) search(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	to := w.now()
	v := &view{span: spanOf(to.Add(-watchRange), to), now: to, Attention: w.attention}
	top, err := w.statements.Top(ctx, statements.TopQuery{From: v.span.From, To: v.span.To, Limit: watchRows, Points: watchPoints})
	if err != nil {
		if ctx.Err() == nil {
			w.log.Debug("statements to watch unavailable", "err", err)
		}
		return
	}
	w.update(v, top)
}

// update replaces the results.
func (w *RiseWatch) update(v *view, top *statements.Top) {
	rows := queryRowsOf(v, top)
	w.mu.Lock()
	defer w.mu.Unlock()
	found := make(map[stmtstats.Key]statements.Change)
	clear(w.fresh)
	for i := range rows {
		r, key := &rows[i], top.Rows[i].Key
		if r.Rise != nil && r.Rise.Lasts && top.Source != statements.SourceCounters {
			times := min(r.Rise.Inside/max(r.Rise.Outside, math.SmallestNonzeroFloat64), maxTimes)
			found[key] = statements.Change{Kind: statements.ChangeHeavier, Since: r.Rise.From, Times: math.Round(100*times) / 100}
		}
		if r.New && r.Share >= newShare && r.newLoad(v.now) >= v.LeastLoad && len(w.fresh) < watched {
			w.fresh[key] = newStatement{r.First, r.Share}
			if _, counted := w.seen[key]; !counted {
				w.total.Inc()
			}
			w.seen[key] = v.now
		}
	}
	for key, r := range w.rises {
		if c, ok := found[key]; ok {
			r.Change, r.missed = c, 0
			delete(found, key)
		} else if r.missed++; r.missed >= watchCalm {
			delete(w.rises, key)
		}
	}
	for i := range top.Rows { // heaviest first
		if c, ok := found[top.Rows[i].Key]; ok && len(w.rises) < watched {
			w.rises[top.Rows[i].Key] = &watchedRise{Change: c}
		}
	}
	for key, at := range w.seen {
		if v.now.Sub(at) > 2*watchRange {
			delete(w.seen, key)
		}
	}
	w.export()
}

// forget removes the results, which would be outdated when they are read next.
func (w *RiseWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.rises)
	clear(w.fresh)
	w.export()
}

// maxTimes is the value of a rise from almost nothing.
const maxTimes = 10_000

// export replaces the metrics. The caller holds mu.
func (w *RiseWatch) export() {
	w.rise.Reset()
	for key, r := range w.rises { // a key has a backend, which is not a label
		w.rise.WithLabelValues(hex.EncodeToString(key.Digest[:]), key.Schema, key.User).Set(r.Times)
	}
	w.share.Reset()
	for key, n := range w.fresh {
		w.share.WithLabelValues(hex.EncodeToString(key.Digest[:]), key.Schema, key.User).Add(n.share)
	}
}

// ChangeOf returns whether a statement became heavier, or else is new, according to the last search.
func (w *RiseWatch) ChangeOf(key stmtstats.Key) (statements.Change, bool) {
	w.read.Store(time.Now().UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rises[key]; r != nil {
		return r.Change, true
	}
	n, ok := w.fresh[key]
	return statements.Change{Kind: statements.ChangeNew, Since: n.first}, ok
}

// Describe implements prometheus.Collector.
func (w *RiseWatch) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range w.metrics() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (w *RiseWatch) Collect(ch chan<- prometheus.Metric) {
	w.read.Store(time.Now().UnixNano())
	for _, c := range w.metrics() {
		c.Collect(ch)
	}
}

func (w *RiseWatch) metrics() []prometheus.Collector {
	return []prometheus.Collector{w.rise, w.share, w.total}
}
