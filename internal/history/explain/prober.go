package explain

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

// The bounds of the load by EXPLAIN.
const (
	// MaxCandidates bounds the number of explained statements, MaxPerMinute the rate of EXPLAINs.
	MaxCandidates = 48
	MaxPerMinute  = 20

	// refreshEvery is the interval between selections of candidates, and maxAge the maximum age of a
	// candidate's plan.
	refreshEvery = time.Minute
	firstRefresh = 5 * time.Second
	maxAge       = 10 * time.Minute

	// A statement is explained again if its mean duration is at least heavier times that at its last EXPLAIN,
	// and longer by at least heavierBy.
	heavier   = 2
	heavierBy = time.Millisecond

	// leastCalls is the minimum number of calls for a mean duration.
	leastCalls = 3

	maxPlans = 4 // of one statement

	tick     = time.Second
	maxPause = 5 * time.Minute // after failures of the server
)

// Options configures a Prober.
type Options struct {
	Login      func() mysqlconn.Config                    // how to log in to the server that clients currently use
	Kill       func(addr string, id uint32) error         // kills a connection of the account; nil: it ends by its time limit
	Candidates func(context.Context) ([]Candidate, error) // statements with most load, the heaviest first
	Changed    func(digest sqldigest.Digest, c Change)    // called when the server chooses another plan; may be nil
	Now        func() time.Time                           // nil: the system's
	Log        *slog.Logger
}

// A Candidate is a statement with much load.
type Candidate struct {
	Digest  sqldigest.Digest
	Schema  string
	Text    string // normalized
	TextCut bool
}

// A Change records that the server chose another plan for a statement.
type Change struct {
	At            time.Time
	Before, After Plan
}

// A State is the plans of a statement and their changes, or the reason for which it has none.
type State struct {
	Plans   []Plan    // observed choices of the server, the current one first
	At      time.Time // of the last EXPLAIN; zero: none
	Why     string    // the reason it cannot be explained; "" if it can
	Changes []Change  // the oldest first
}

// state is the State of a candidate, with the conditions that decide when it is explained.
type state struct {
	State
	dirty         bool // one of its tables has changed: an EXPLAIN is due
	altered       bool // one of its tables has changed since the last plan
	tried         time.Time
	mean          time.Duration // at the last EXPLAIN
	calls0        uint64        // at the start of the window
	nanos0        uint64
	window        time.Time
	current       time.Duration // the mean of the last window
	heldPlanBytes int64
}

// A Prober explains statements. It is safe for concurrent use.
type Prober struct {
	opts       Options
	planner    *sqlplan.Planner
	server     server
	candidates atomic.Pointer[map[[16]byte]*candidate]

	mu      sync.Mutex
	problem string        // guarded by mu, as all below: reason why nothing can be explained, or ""
	budget  float64       // EXPLAINs permitted now
	refill  time.Time     //
	pause   time.Duration // after failures
	resume  time.Time     //
	counts  map[string]uint64
	seconds float64
	changes uint64
}

// Counted results.
const (
	resultOK      = "ok"
	resultRefused = "refused" // the statement cannot be explained
	resultFailed  = "failed"  // the server cannot be used
)

// New returns a Prober that is idle before Run.
func New(o Options) (*Prober, error) {
	if o.Log == nil || o.Candidates == nil || o.Login == nil {
		return nil, errors.New("BUG: explain: options without log, candidates or login")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 256 << 10})
	if err != nil {
		return nil, err
	}
	return &Prober{opts: o, planner: planner, server: server{client: serverstats.NewClient(o.Login), kill: o.Kill}, budget: MaxPerMinute, counts: make(map[string]uint64)}, nil
}

// Run explains candidates until ctx is done.
func (p *Prober) Run(ctx context.Context) error {
	defer p.server.close()
	every := time.NewTicker(tick)
	defer every.Stop()
	next := p.opts.Now().Add(firstRefresh)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		now := p.opts.Now()
		if !now.Before(next) {
			next = now.Add(refreshEvery)
			p.refresh(ctx)
		}
		p.step(ctx, now)
	}
}

// refresh selects the candidates. Those that remain keep their state.
func (p *Prober) refresh(ctx context.Context) {
	all, err := p.opts.Candidates(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.opts.Log.Debug("statements to explain unavailable", "err", err)
		}
		return
	}
	old := p.candidates.Load()
	fresh := make(map[[16]byte]*candidate, MaxCandidates)
	for _, c := range all {
		if len(fresh) == MaxCandidates {
			break
		}
		if c.Text == "" || fresh[c.Digest] != nil || c.Digest == (sqldigest.Digest{}) {
			continue
		}
		if old != nil && (*old)[c.Digest] != nil {
			fresh[c.Digest] = (*old)[c.Digest]
			continue
		}
		var s subject
		var why error
		if !c.TextCut { // otherwise an execution has the whole text
			s, why = subjectOf(p.planner, c.Text, c.Schema)
		}
		n := newCandidate(c, s, why)
		if why != nil {
			n.Why = why.Error()
		}
		fresh[c.Digest] = n
	}
	p.candidates.Store(&fresh)
}

// step explains the most urgent candidate that is due, if any.
func (p *Prober) step(ctx context.Context, now time.Time) {
	c := p.due(now)
	if c == nil {
		return
	}
	began := time.Now()
	plan, err := p.server.explain(ctx, c, p.judge)
	if ctx.Err() != nil {
		return
	}
	p.record(c, plan, err, now, time.Since(began))
}

// judge returns the candidate's subject, with the tables that its whole normalized text names.
func (p *Prober) judge(c *candidate, whole, schema string) (subject, error) {
	if !c.TextCut {
		return c.subject, nil
	}
	s, err := subjectOf(p.planner, whole, schema)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.subject = s
	return s, err
}

// due returns the candidate to explain now and charges the budget; nil if there is none.
func (p *Prober) due(now time.Time) *candidate {
	known := p.candidates.Load()
	if known == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if passed := now.Sub(p.refill); p.refill.IsZero() || passed > 0 {
		if !p.refill.IsZero() {
			p.budget = min(p.budget+passed.Minutes()*MaxPerMinute, MaxPerMinute)
		}
		p.refill = now
	}
	if p.budget < 1 || now.Before(p.resume) {
		return nil
	}
	var best *candidate
	urgency := 0
	for _, digest := range slices.SortedFunc(maps.Keys(*known), func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) }) {
		c := (*known)[digest]
		if c.why != nil {
			continue
		}
		if u := c.urgency(now); u > urgency || u == urgency && u > 0 && c.tried.Before(best.tried) {
			best, urgency = c, u
		}
	}
	if best != nil {
		p.budget--
		best.tried = now
	}
	return best
}

// urgency returns the urgency of explaining a candidate; 0: not now. The caller holds the Prober's mu.
func (c *candidate) urgency(now time.Time) int {
	c.roll(now)
	c.mu.Lock()
	seen := c.execution.isSet
	c.mu.Unlock()
	switch age := now.Sub(c.tried); {
	case !seen:
		return 0
	case c.dirty && age >= 2*tick:
		return 4
	case c.tried.IsZero():
		return 3
	case age < refreshEvery/2:
		return 0
	case c.mean > 0 && c.current >= heavier*c.mean && c.current-c.mean >= heavierBy:
		return 2
	case age >= maxAge:
		return 1
	}
	return 0
}

// roll computes the mean duration of a window of some seconds.
func (c *candidate) roll(now time.Time) {
	calls, nanos := c.calls.Load(), c.nanos.Load()
	if n := calls - c.calls0; n >= leastCalls && now.Sub(c.window) >= 5*time.Second {
		c.current = time.Duration((nanos - c.nanos0) / n)
		c.calls0, c.nanos0, c.window = calls, nanos, now
	}
}

// record stores the result of an EXPLAIN.
func (p *Prober) record(c *candidate, plan *Plan, err error, now time.Time, took time.Duration) {
	p.mu.Lock()
	p.seconds += took.Seconds()
	c.dirty = false
	c.mean = c.current
	if err != nil {
		p.fail(c, err, now)
		p.mu.Unlock()
		return
	}
	p.counts[resultOK]++
	p.problem, p.pause = "", 0
	c.Why, c.At = "", now
	change, changed := c.choose(plan, now)
	if changed {
		p.changes++
	}
	p.mu.Unlock()
	if changed && p.opts.Changed != nil {
		p.opts.Changed(c.Digest, change)
	}
}

// fail stores the reason why there is no plan. The caller holds mu.
func (p *Prober) fail(c *candidate, err error, now time.Time) {
	why, ofServer := reason(err)
	if errors.Is(why, errNoPlan) { // another execution may have one
		p.counts[resultRefused]++
		return
	}
	if !ofServer {
		p.counts[resultRefused]++
		c.Why = why.Error()
		c.dirty = errors.Is(why, errLocked) // retry as soon as the lock may be released
		return
	}
	p.counts[resultFailed]++
	if p.problem != why.Error() {
		p.opts.Log.Warn("EXPLAIN unavailable", "err", why)
	}
	p.problem = why.Error()
	p.pause = min(max(2*p.pause, 10*time.Second), maxPause)
	p.resume = now.Add(p.pause)
	c.tried = time.Time{}
}

// choose makes a plan the current one. It reports a change if the server had chosen another plan before, and never
// this one or a table was altered in between: without that, a plan that returns may depend on the values of the call.
func (s *state) choose(plan *Plan, now time.Time) (Change, bool) {
	altered := s.altered
	s.altered = false
	if i := slices.IndexFunc(s.Plans, func(k Plan) bool { return k.ID == plan.ID }); i >= 0 {
		known := s.Plans[i]
		known.Last = now
		s.Plans = slices.Insert(slices.Delete(s.Plans, i, i+1), 0, known)
		if i == 0 || !altered {
			return Change{}, false
		}
		return s.changed(now), true
	}
	plan.First, plan.Last = now, now
	s.Plans = slices.Insert(s.Plans, 0, *plan)
	s.Plans = s.Plans[:min(len(s.Plans), maxPlans)]
	s.heldPlanBytes = 0
	for i := range s.Plans {
		s.heldPlanBytes += s.Plans[i].bytes()
	}
	if len(s.Plans) < 2 {
		return Change{}, false
	}
	return s.changed(now), true
}

// changed records the change from the previous plan to the current one.
func (s *state) changed(now time.Time) Change {
	c := Change{At: now, Before: s.Plans[1], After: s.Plans[0]}
	s.Changes = append(s.Changes, c)
	s.Changes = s.Changes[max(len(s.Changes)-maxPlans, 0):]
	return c
}

// SchemaChanged schedules an early EXPLAIN for the candidates with one of the tables, given as schema.table.
func (p *Prober) SchemaChanged(tables []string) {
	known := p.candidates.Load()
	if known == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range *known {
		for _, t := range tables {
			if slices.ContainsFunc(c.tables, func(of string) bool { return touches(t, of) }) {
				c.dirty, c.altered = true, true
			}
		}
	}
}

// touches reports whether a table is the changed one, or in a changed schema: "shop.*".
func touches(changed, table string) bool {
	if schema, ok := strings.CutSuffix(changed, ".*"); ok {
		of, _, _ := strings.Cut(table, ".")
		return strings.EqualFold(schema, of)
	}
	return strings.EqualFold(changed, table)
}

// State returns the State of a statement, and false if it is not a candidate.
func (p *Prober) State(digest [16]byte) (State, bool) {
	known := p.candidates.Load()
	if known == nil || (*known)[digest] == nil {
		return State{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := (*known)[digest].State
	s.Plans, s.Changes = slices.Clone(s.Plans), slices.Clone(s.Changes)
	s.Why = cmp.Or(p.problem, s.Why)
	return s, true
}

// HeapBytes returns the bytes charged for candidates and plans.
func (p *Prober) HeapBytes() int64 {
	known := p.candidates.Load()
	if known == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var n int64
	for _, c := range *known {
		n += c.heapBytes() + 3*c.heldPlanBytes // Changes hold two plans each, which share their steps with Plans
	}
	return n
}

var (
	explainsDesc   = prometheus.NewDesc("tare_explains_total", "Statements explained: ok, refused (cannot be explained), failed.", []string{"result"}, nil)
	secondsDesc    = prometheus.NewDesc("tare_explain_seconds_total", "Time that EXPLAINs took, connections included.", nil, nil)
	changesDesc    = prometheus.NewDesc("tare_plan_changes_total", "New plans that the server chose for a statement, or returned to after a schema change.", nil, nil)
	candidatesDesc = prometheus.NewDesc("tare_explain_statements", "Statements that are explained.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Prober) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{explainsDesc, secondsDesc, changesDesc, candidatesDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Prober) Collect(ch chan<- prometheus.Metric) {
	n := 0
	if known := p.candidates.Load(); known != nil {
		n = len(*known)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, result := range []string{resultOK, resultRefused, resultFailed} {
		ch <- prometheus.MustNewConstMetric(explainsDesc, prometheus.CounterValue, float64(p.counts[result]), result)
	}
	ch <- prometheus.MustNewConstMetric(secondsDesc, prometheus.CounterValue, p.seconds)
	ch <- prometheus.MustNewConstMetric(changesDesc, prometheus.CounterValue, float64(p.changes))
	ch <- prometheus.MustNewConstMetric(candidatesDesc, prometheus.GaugeValue, float64(n))
}
