package gateway

import (
	"encoding/json"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

const (
	statementTypes = 64 // more than sqlplan has
	commandCodes   = 256
)

// durationBounds are the upper bounds of the duration histogram, in seconds.
var durationBounds = [...]float64{
	0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
}

// A stripe has the counters of some of the sessions: of one loop's, so that no two CPUs write to the same
// memory for each statement, or without loops of one in several.
type stripe struct {
	logins, refused, kills            atomic.Uint64
	rows, affected, bytesIn, bytesOut atomic.Uint64
	warnings, errors, planMisses      atomic.Uint64
	commands                          [commandCodes]atomic.Uint64
	statements                        [statementTypes]atomic.Uint64
	durations                         [len(durationBounds) + 1]atomic.Uint64
	durationNanos                     atomic.Uint64
	live                              live
	_                                 [64]byte
}

func (c *stripe) command(cmd mysqlwire.Command) { c.commands[cmd].Add(1) }

// statement counts a finished statement. It does not allocate.
func (c *stripe) statement(p *sqlplan.Plan, r *querylog.Record) {
	t := sqlplan.TypeUnknown
	if p != nil {
		t = p.Type()
	}
	c.statements[t%statementTypes].Add(1)
	c.bytesIn.Add(r.BytesIn)
	c.bytesOut.Add(r.BytesOut)
	if r.RowsReturned > 0 {
		c.rows.Add(r.RowsReturned)
	}
	if r.RowsAffected > 0 {
		c.affected.Add(r.RowsAffected)
	}
	if r.Warnings > 0 {
		c.warnings.Add(uint64(r.Warnings))
	}
	if r.ErrorNumber != 0 {
		c.errors.Add(1)
	}
	c.durations[durationBucket(r.Total)].Add(1)
	c.durationNanos.Add(uint64(max(r.Total, 0)))
}

func durationBucket(d time.Duration) int {
	s := d.Seconds()
	for i, bound := range durationBounds {
		if s <= bound {
			return i
		}
	}
	return len(durationBounds)
}

// metrics are the server's counters; as a prometheus.Collector they are summed when scraped.
type metrics struct {
	stripes []stripe
	next    atomic.Uint32

	accepted, refusedLimit, refusedShutdown              atomic.Uint64
	refusedFiles, refusedUnauthenticated, refusedAddress atomic.Uint64
	refusedInsecure, refusedCertificate                  atomic.Uint64
	loginFailures, clientsLeft, violations, panics       atomic.Uint64
	backendsGone, backendsGoneIdle                       atomic.Uint64
	poolDenied                                           atomic.Uint64 // wrong passwords of users whose sessions share connections
}

func newMetrics(loops int) *metrics {
	return &metrics{stripes: make([]stripe, max(min(2*runtime.NumCPU(), 16), loops))}
}

// stripe returns the stripe for a session that no loop serves, such as one that is logging in.
func (m *metrics) stripe() *stripe { return &m.stripes[int(m.next.Add(1))%len(m.stripes)] }

func (m *metrics) sum(of func(*stripe) uint64) (total uint64) {
	for i := range m.stripes {
		total += of(&m.stripes[i])
	}
	return total
}

type desc struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) desc {
	return desc{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) desc {
	return desc{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

// Collector returns a Prometheus collector of s's metrics.
func (s *Server) Collector() prometheus.Collector {
	return &collector{
		s:           s,
		connections: gauge("tare_connections", "Connected clients."),
		newcomers:   gauge("tare_connections_unauthenticated", "Connected clients that are not logged in."),
		accepted:    counter("tare_connections_total", "Client connections, refused ones included."),
		refused:     counter("tare_connections_refused_total", "Clients refused before their login, by reason.", "reason"),
		logins:      counter("tare_logins_total", "Logins by outcome.", "outcome"),
		ended:       counter("tare_sessions_ended_total", "Sessions that ended without the client's QUIT, by reason.", "reason"),
		panics:      counter("tare_session_panics_total", "Sessions closed because of a panic, a defect of Tare."),
		commands:    counter("tare_commands_total", "Commands by name.", "command"),
		statements:  counter("tare_statements_total", "Statements by type.", "type"),
		errors:      counter("tare_statement_errors_total", "Failed statements."),
		ruled:       counter("tare_statements_refused_total", "Statements refused by a rule."),
		hits: counter("tare_rule_hits_total", "Commands that a rule refused (deny: no allow rule matched; dry-run: would have).",
			"rule", "action"),
		kills:    counter("tare_statements_killed_total", "Statements killed: the client disconnected, Tare shut down, or by an operator."),
		rows:     counter("tare_rows_sent_total", "Rows sent to clients."),
		affected: counter("tare_rows_affected_total", "Rows changed by statements."),
		warnings: counter("tare_statement_warnings_total", "Warnings of statements."),
		bytes:    counter("tare_statement_bytes_total", "Bytes of statements and their responses, headers included.", "direction"),
		duration: desc{Desc: prometheus.NewDesc("tare_statement_duration_seconds",
			"From a statement's last byte to the last byte of its response.", nil, nil)},
		sessions:          gauge("tare_sessions", "Sessions by state.", "state"),
		oldestStatement:   gauge("tare_oldest_statement_seconds", "Age of the oldest command in flight, 0 if there is none."),
		oldestTransaction: gauge("tare_oldest_transaction_seconds", "Age of the oldest open transaction, 0 if there is none."),
		buffers:           gauge("tare_relay_buffer_bytes", "Relay buffers: idle, and lent to sessions.", "state"),
		route:             newRouteDescs(),
		pool:              newPoolDescs(),
	}
}

type collector struct {
	s *Server

	connections, newcomers, accepted, refused, logins, ended, panics, commands, statements, errors, ruled, hits, kills,
	rows, affected, warnings, bytes, duration, buffers, sessions, oldestStatement, oldestTransaction desc

	route routeDescs
	pool  poolDescs
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, ch)
	ch <- c.hits.Desc
	ch <- c.commands.Desc // it has no series before the first command
	for _, d := range c.pool.all() {
		ch <- d.Desc // they have none without an account
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	m := c.s.metrics
	send := func(d desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, float64(v), labels...)
	}
	send(c.connections, uint64(c.s.Sessions()))
	send(c.accepted, m.accepted.Load())
	send(c.refused, m.refusedLimit.Load(), "limit")
	send(c.refused, m.refusedShutdown.Load(), "shutdown")
	send(c.refused, m.refusedFiles.Load(), "open-files")
	send(c.refused, m.refusedUnauthenticated.Load(), "unauthenticated-limit")
	send(c.refused, m.refusedAddress.Load(), "unauthenticated-address-limit")
	send(c.refused, m.refusedInsecure.Load(), "insecure-transport")
	send(c.refused, m.refusedCertificate.Load(), "client-certificate")
	send(c.newcomers, uint64(c.s.newcomers.count()))
	send(c.logins, m.sum(func(s *stripe) uint64 { return s.logins.Load() }), "ok")
	send(c.logins, m.loginFailures.Load(), "failed")
	send(c.ended, m.clientsLeft.Load(), "client-left")
	send(c.ended, m.backendsGoneIdle.Load(), "backend-gone-idle")
	send(c.ended, m.backendsGone.Load(), "backend-gone-during-command")
	send(c.ended, m.violations.Load(), "protocol-violation")
	send(c.panics, m.panics.Load())
	for cmd := range commandCodes {
		if n := m.sum(func(s *stripe) uint64 { return s.commands[cmd].Load() }); n > 0 {
			send(c.commands, n, mysqlwire.Command(cmd).String())
		}
	}
	for t := range sqlplan.AllTypes() {
		send(c.statements, m.sum(func(s *stripe) uint64 { return s.statements[t].Load() }), t.String())
	}
	send(c.errors, m.sum(func(s *stripe) uint64 { return s.errors.Load() }))
	send(c.ruled, m.sum(func(s *stripe) uint64 { return s.refused.Load() }))
	for _, h := range c.s.opts.Planner.RuleHits() {
		send(c.hits, h.Count, h.Rule, h.Action)
	}
	send(c.kills, m.sum(func(s *stripe) uint64 { return s.kills.Load() }))
	send(c.rows, m.sum(func(s *stripe) uint64 { return s.rows.Load() }))
	send(c.affected, m.sum(func(s *stripe) uint64 { return s.affected.Load() }))
	send(c.warnings, m.sum(func(s *stripe) uint64 { return s.warnings.Load() }))
	send(c.bytes, m.sum(func(s *stripe) uint64 { return s.bytesIn.Load() }), "in")
	send(c.bytes, m.sum(func(s *stripe) uint64 { return s.bytesOut.Load() }), "out")
	c.collectSessions(ch)
	kept, lent := c.s.buffers.bytes()
	send(c.buffers, uint64(kept), "kept")
	send(c.buffers, uint64(lent), "lent")
	ch <- c.histogram()
	c.route.collect(&c.s.switcher, ch)
	c.pool.collect(c.s, ch)
}

// poolDescs are the metrics of shared connections.
type poolDescs struct {
	connections, limit, queued, opened, closed, lent, waited, timedOut, changed, behind, lost, pins, denied, learned, forgotten desc
}

func newPoolDescs() poolDescs {
	return poolDescs{
		connections: gauge("tare_pool_connections", "Shared connections: open are all, idle those that no session uses.", "user", "state"),
		limit:       gauge("tare_pool_connections_max", "Bound of shared connections (option pool-max).", "user"),
		queued:      gauge("tare_pool_queue", "Sessions whose command waits for a shared connection.", "user"),
		opened:      counter("tare_pool_opened_total", "Shared connections opened.", "user"),
		closed:      counter("tare_pool_closed_total", "Shared connections closed.", "user"),
		lent:        counter("tare_pool_lent_total", "Shared connections given to a session.", "user"),
		waited:      counter("tare_pool_waits_total", "Waits of sessions for a shared connection.", "user"),
		timedOut:    counter("tare_pool_timeouts_total", "Commands refused after option pool-wait without a shared connection.", "user"),
		changed:     counter("tare_pool_changes_total", "Shared connections brought into the state of another session.", "user"),
		behind:      counter("tare_pool_pipelined_total", "Statements sent on a shared connection behind those of other sessions (option pool-depth).", "user"),
		lost:        counter("tare_pool_pipelined_again_total", "Of those, statements that were sent again, on another connection.", "user"),
		pins:        gauge("tare_pool_pins", "Sessions that keep a shared connection, by reason.", "reason"),
		denied:      counter("tare_pool_denied_total", "Logins with a wrong password for an account that shares connections."),
		learned:     gauge("tare_pool_learned_accounts", "Accounts learned (option pool-learn)."),
		forgotten:   counter("tare_pool_forgotten_total", "Learned accounts forgotten, by reason.", "reason"),
	}
}

func (d *poolDescs) all() []desc {
	return []desc{d.connections, d.limit, d.queued, d.opened, d.closed, d.lent, d.waited, d.timedOut, d.changed, d.behind, d.lost, d.pins, d.denied, d.learned, d.forgotten}
}

// collect sends them if connections are shared.
func (d *poolDescs) collect(s *Server, ch chan<- prometheus.Metric) {
	if s.opts.Pool == nil {
		return
	}
	send := func(d desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, float64(v), labels...)
	}
	for user, p := range s.lenders.sums() {
		send(d.connections, p.open, user, "open")
		send(d.connections, p.idle, user, "idle")
		send(d.limit, uint64(s.opts.Pool.Max), user)
		send(d.queued, p.queued, user)
		send(d.opened, p.opened, user)
		send(d.closed, p.closed, user)
		send(d.lent, p.lent, user)
		send(d.waited, p.waited, user)
		send(d.timedOut, p.timedOut, user)
		send(d.changed, p.changed, user)
		send(d.behind, p.behind, user)
		send(d.lost, p.lost, user)
	}
	for reason, n := range s.poolPins() {
		send(d.pins, uint64(n), reason)
	}
	send(d.denied, s.metrics.poolDenied.Load())
	if s.learned != nil {
		send(d.learned, uint64(s.learned.Len()))
		for reason, n := range s.learned.Reasons() {
			send(d.forgotten, n, pool.Reason(reason).String())
		}
	}
}

func (c *collector) collectSessions(ch chan<- prometheus.Metric) {
	b := c.s.Busy(0, 0)
	for a, n := range b.Counts {
		ch <- prometheus.MustNewConstMetric(c.sessions.Desc, c.sessions.kind, float64(n), Activity(a).String())
	}
	age := func(d desc, since time.Time) {
		seconds := 0.0
		if !since.IsZero() {
			seconds = max(b.At.Sub(since).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, seconds)
	}
	age(c.oldestStatement, b.OldestCommand)
	age(c.oldestTransaction, b.OldestTransaction)
}

func (c *collector) histogram() prometheus.Metric {
	m := c.s.metrics
	buckets := make(map[float64]uint64, len(durationBounds))
	var total uint64
	for i, bound := range durationBounds {
		total += m.sum(func(s *stripe) uint64 { return s.durations[i].Load() })
		buckets[bound] = total
	}
	total += m.sum(func(s *stripe) uint64 { return s.durations[len(durationBounds)].Load() })
	nanos := m.sum(func(s *stripe) uint64 { return s.durationNanos.Load() })
	return prometheus.MustNewConstHistogram(c.duration.Desc, total, float64(nanos)/1e9, buckets)
}

const (
	liveSeconds = 10              // time covered by Live
	liveSlots   = liveSeconds + 2 // one being filled, one being cleared
	liveSub     = 16              // buckets per power of two: a quantile is within 1/16
	liveBuckets = 40 * liveSub    // microseconds up to 2^40
)

// live counts a stripe's statements of the last seconds: one slot per second, each a histogram of durations in
// microseconds, log-linear with liveSub buckets per power of two. Recording is a few atomic additions; a slot
// is cleared by the first statement of its second.
type live struct {
	clearing sync.Mutex // once a second
	slots    [liveSlots]liveSlot
}

type liveSlot struct {
	second  atomic.Int64 // the slot's second since base, plus 1
	calls   atomic.Uint64
	errors  atomic.Uint64
	buckets [liveBuckets]atomic.Uint32
}

// Live are metrics of the last 10 seconds.
type Live struct {
	Seconds    float64 `json:"seconds"`    // time covered by the metrics
	Statements uint64  `json:"statements"` // statements that finished in it
	PerSecond  float64 `json:"statements_per_second"`
	Errors     uint64  `json:"errors"`
	P50        float64 `json:"p50_us"` // microseconds, within 1/16
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`

	// RecentP99 is that of the last second, or of as many more as have 200 statements.
	RecentP99 float64 `json:"p99_recent_us"`

	Connections int `json:"connections"` // currently connected clients
}

// MarshalJSON omits the quantiles if there are no statements.
func (l Live) MarshalJSON() ([]byte, error) {
	type whole Live
	if l.Statements > 0 {
		return json.Marshal(whole(l))
	}
	return json.Marshal(struct {
		whole
		P50       *float64 `json:"p50_us,omitempty"`
		P99       *float64 `json:"p99_us,omitempty"`
		P999      *float64 `json:"p999_us,omitempty"`
		RecentP99 *float64 `json:"p99_recent_us,omitempty"`
	}{whole: whole(l)})
}

// recentStatements are enough for a p99 that one slow statement does not determine.
const recentStatements = 200

func liveBucket(us uint64) int {
	if us < liveSub {
		return int(us)
	}
	e := bits.Len64(us) - 5 // us>>e is in [liveSub, 2*liveSub)
	return min(e*liveSub+int(us>>e), liveBuckets-1)
}

// liveValue returns the middle of a bucket.
func liveValue(b int) float64 {
	if b < 2*liveSub {
		return float64(b)
	}
	e := b/liveSub - 1
	low := uint64(b-e*liveSub) << e
	return float64(low) + float64(uint64(1)<<e)/2
}

// liveSecond numbers the seconds since the server's start, from 1.
func liveSecond(sinceStart time.Duration) int64 { return int64(sinceStart/time.Second) + 1 }

// record counts a statement that finished at a time since the server's start. It does not allocate.
func (l *live) record(finished, d time.Duration, failed bool) {
	second := liveSecond(finished)
	s := &l.slots[second%liveSlots]
	if s.second.Load() != second {
		l.clearSlot(s, second)
	}
	s.calls.Add(1)
	if failed {
		s.errors.Add(1)
	}
	s.buckets[liveBucket(uint64(max(d, 0)/time.Microsecond))].Add(1)
}

// clearSlot clears the slot of a second before the first statement is counted in it.
func (l *live) clearSlot(s *liveSlot, second int64) {
	l.clearing.Lock()
	defer l.clearing.Unlock()
	if s.second.Load() >= second {
		return // another statement cleared it
	}
	s.calls.Store(0)
	s.errors.Store(0)
	for i := range s.buckets {
		s.buckets[i].Store(0)
	}
	s.second.Store(second)
}

// live sums the whole seconds that had passed at a time since the server's start, over all stripes.
func (m *metrics) live(sinceStart time.Duration) Live {
	second := liveSecond(sinceStart)
	out := Live{Seconds: float64(min(second-1, liveSeconds))}
	var sum [liveBuckets]uint64
	var total uint64
	recent := false
	for at := second - 1; at > 0 && at >= second-liveSeconds; at-- {
		for i := range m.stripes {
			s := &m.stripes[i].live.slots[at%liveSlots]
			if s.second.Load() != at {
				continue
			}
			out.Statements += s.calls.Load()
			out.Errors += s.errors.Load()
			for b := range s.buckets {
				n := uint64(s.buckets[b].Load())
				sum[b] += n
				total += n
			}
		}
		if !recent && total >= recentStatements {
			out.RecentP99, recent = liveQuantile(&sum, total, 0.99), true
		}
	}
	if out.Seconds > 0 {
		out.PerSecond = float64(out.Statements) / out.Seconds
	}
	out.P50 = liveQuantile(&sum, total, 0.50)
	out.P99 = liveQuantile(&sum, total, 0.99)
	out.P999 = liveQuantile(&sum, total, 0.999)
	if !recent {
		out.RecentP99 = out.P99
	}
	return out
}

func liveQuantile(sum *[liveBuckets]uint64, total uint64, q float64) float64 {
	if total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(total)+0.5), 1)
	var seen uint64
	for b, n := range sum {
		if seen += n; seen >= rank {
			return liveValue(b)
		}
	}
	panic("BUG: a quantile past all counted statements")
}

// routeDescs are the metrics of the route.
type routeDescs struct {
	active, holds, pause, moved, closed, pinned desc
}

func newRouteDescs() routeDescs {
	return routeDescs{
		active: gauge("tare_route", "1 for the server of new sessions, 0 for the other one.", "backend", "side"),
		holds:  counter("tare_route_holds_total", "Pauses for a switch, by outcome.", "outcome"),
		pause: desc{Desc: prometheus.NewDesc("tare_route_hold_seconds",
			"How long commands were paused for a switch.", nil, nil)},
		moved:  counter("tare_route_sessions_moved_total", "Sessions switched to another server."),
		closed: counter("tare_route_sessions_closed_total", "Sessions closed because they could not be switched."),
		pinned: gauge("tare_route_sessions_pinned", "Sessions that cannot be switched."),
	}
}

// collect sends them if there is a standby.
func (d *routeDescs) collect(w *switcher, ch chan<- prometheus.Metric) {
	if !w.enabled() {
		return
	}
	send := func(d desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, float64(v), labels...)
	}
	active, _ := w.Active()
	for side, addr := range w.addrs {
		v := uint64(0)
		if switchover.Side(side) == active {
			v = 1
		}
		send(d.active, v, addr, switchover.Side(side).String())
	}
	send(d.holds, w.switched.Load(), "switched")
	send(d.holds, w.abandoned.Load(), "released")
	send(d.moved, w.moved.Load())
	send(d.closed, w.closed.Load())
	send(d.pinned, uint64(len(w.Pinned())))
	count, sum, buckets := w.pauses.read()
	ch <- prometheus.MustNewConstHistogram(d.pause.Desc, count, sum, buckets)
}

// pauseBounds are the upper bounds of the histogram of pauses, in seconds.
var pauseBounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// pauses counts the durations of pauses.
type pauses struct {
	buckets [len(pauseBounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

func (p *pauses) add(d time.Duration) {
	i := 0
	for i < len(pauseBounds) && d.Seconds() > pauseBounds[i] {
		i++
	}
	p.buckets[i].Add(1)
	p.nanos.Add(uint64(max(d, 0)))
}

// read returns the histogram in Prometheus' form.
func (p *pauses) read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(pauseBounds))
	for i, bound := range pauseBounds {
		count += p.buckets[i].Load()
		buckets[bound] = count
	}
	count += p.buckets[len(pauseBounds)].Load()
	return count, float64(p.nanos.Load()) / float64(time.Second), buckets
}

// poolSums are the counts of a user's pools on all loops.
type poolSums struct{ open, idle, queued, opened, closed, lent, waited, timedOut, changed, behind, lost uint64 }

// sums returns the counts by user.
func (all lenders) sums() map[string]poolSums {
	sums := make(map[string]poolSums)
	for _, l := range all {
		l.mu.Lock()
		for user, p := range l.pools {
			n := sums[user]
			n.open, n.idle, n.queued = n.open+uint64(p.Open.Load()), n.idle+uint64(p.Idle.Load()), n.queued+uint64(p.Queued.Load())
			n.opened, n.closed, n.lent = n.opened+p.Stats.Opened.Load(), n.closed+p.Closed.Load(), n.lent+p.Lent.Load()
			n.waited, n.timedOut, n.changed = n.waited+p.Waited.Load(), n.timedOut+p.TimedOut.Load(), n.changed+p.Changed.Load()
			n.behind, n.lost = n.behind+p.Stats.Behind.Load(), n.lost+p.Stats.Lost.Load()
			sums[user] = n
		}
		l.mu.Unlock()
	}
	return sums
}

// poolPins counts the sessions that keep a shared connection, by reason.
func (s *Server) poolPins() map[string]int {
	pins := make(map[string]int)
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for ses := range s.registry.sessions {
		if why := ses.pinReason(); why != "" {
			pins[why]++
		}
	}
	return pins
}

// pinReason returns why the session keeps a shared connection between its commands, or "". Any goroutine may call it.
func (s *session) pinReason() string {
	why := keptBy(s.lease.holds.Load())
	if why == keptByPin {
		if p := s.carried.pin.Load(); p != nil {
			return strings.TrimSpace(p.Reason)
		}
	}
	return keptReasons[why]
}
