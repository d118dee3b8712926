package memory

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/sizegen/bytecache"
)

// PlanCache exposes a planner's counters to Prometheus.
type PlanCache struct {
	planner *sqlplan.Planner
	lost    func() uint64

	bytes, capacity, overhead, entries, hits, misses, inserted, refused, evicted, uncached, parsed *prometheus.Desc
}

// NewPlanCache returns the collector of a planner's counters. misses returns the number of statements without
// a plan: the cache counts each lookup, of which there are two for such a statement.
func NewPlanCache(p *sqlplan.Planner, misses func() uint64) *PlanCache {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_plan_cache_"+name, help, labels, nil)
	}
	return &PlanCache{
		planner:  p,
		lost:     misses,
		bytes:    desc("bytes", "Heap bytes that dropping the plan cache would free."),
		capacity: desc("capacity_bytes", "Upper bound of tare_plan_cache_bytes (option plan-cache-bytes)."),
		overhead: desc("overhead_bytes", "Part of tare_plan_cache_bytes that is the cache itself: table and policy."),
		entries:  desc("entries", "Plans in the cache."),
		hits:     desc("hits_total", "Statements whose plan was in the cache."),
		misses:   desc("misses_total", "Statements whose plan was not in the cache."),
		inserted: desc("admissions_total", "Plans admitted to the cache."),
		refused:  desc("admissions_refused_total", "Plans refused: too large, used less than others (policy), outdated (stale).", "reason"),
		evicted:  desc("evictions_total", "Plans evicted from the cache, by reason.", "reason"),
		uncached: desc("statements_refused_total", "Statements whose plan was not offered: text incomplete, long, with a long list, or planned under other rules (scope).", "reason"),
		parsed:   desc("plans_total", "Plans created; those by the lexer estimate their tables.", "by"),
	}
}

// Describe implements prometheus.Collector.
func (c *PlanCache) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *PlanCache) Collect(ch chan<- prometheus.Metric) {
	s := c.planner.Stats()
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.bytes, s.Cache.Bytes)
	gauge(c.capacity, s.Cache.Capacity)
	gauge(c.overhead, s.Cache.Overhead)
	gauge(c.entries, int64(s.Cache.Entries))
	count(c.hits, s.Cache.Hits)
	count(c.misses, c.lost())
	count(c.inserted, s.Cache.Inserted)
	count(c.refused, s.Cache.RefusedLarge, "large")
	count(c.refused, s.Cache.RefusedPolicy, "policy")
	count(c.refused, s.Cache.RefusedStale, "stale")
	for _, r := range bytecache.Reasons() {
		count(c.evicted, s.Cache.Evicted[r], r.String())
	}
	for _, r := range sqlplan.Refusals() {
		count(c.uncached, s.Refused[r], r.String())
	}
	count(c.parsed, s.Parsed, "parser")
	count(c.parsed, s.Unparsed, "lexer")
}

var _ prometheus.Collector = (*PlanCache)(nil)

// Plans are the state of the plan cache and its largest plans, as in /api/v1/plans.
type Plans struct {
	Bytes    int64         `json:"bytes"` // heap, including all overhead
	Capacity int64         `json:"capacity_bytes"`
	Overhead int64         `json:"overhead_bytes"` // the part of Bytes that is the cache itself
	Entries  int           `json:"entries"`
	Hits     uint64        `json:"hits"`     // statements with a cached plan
	Misses   uint64        `json:"misses"`   // statements without a cached plan
	Admitted uint64        `json:"admitted"` // plans that the cache accepted
	Refused  []ReasonCount `json:"refused"`  // plans that it rejected
	Evicted  []ReasonCount `json:"evicted"`  // plans evicted
	Largest  []Plan        `json:"largest"`  // largest first
}

// A ReasonCount is a count by reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// A Plan is one plan in the cache.
type Plan struct {
	Digest   sqldigest.Digest `json:"digest"`
	Bytes    int64            `json:"bytes"` // heap, including its entry in the cache
	Type     string           `json:"type"`
	ReadOnly bool             `json:"read_only"`
	Parsed   bool             `json:"parsed"`           // the tables are exact
	Verdict  string           `json:"verdict"`          // of the rules: pass, blocked, read-only, denied or dry-run
	Effects  string           `json:"effects"`          // on its session, joined by commas; - for none
	Literals int              `json:"literals"`         // placeholders in the statement's text
	Tables   []Table          `json:"tables,omitempty"` // that the statement names
}

// A Table is a table that a statement names.
type Table struct {
	Schema string `json:"schema,omitempty"`
	Name   string `json:"name,omitempty"` // empty for a whole schema
	Access string `json:"access"`         // read, write or read+write
}

// AddTables sets the tables, as schema.table, of the statements whose digests of has, by their cached plans: the plan of a
// statement knows them all, its text may be cut.
func (c *PlanCache) AddTables(of map[[16]byte][]string) {
	c.planner.Each(func(d sqldigest.Digest, plan *sqlplan.Plan) {
		names, wanted := of[d]
		if !wanted {
			return
		}
		for t := range plan.Tables() {
			if name := t.String(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		of[d] = names
	})
}

// Largest returns the state of the cache and its n largest plans.
func (c *PlanCache) Largest(n int) Plans {
	st := c.planner.Stats()
	s := &st.Cache
	out := Plans{
		Bytes: s.Bytes, Capacity: s.Capacity, Overhead: s.Overhead, Entries: s.Entries,
		Hits: s.Hits, Misses: c.lost(), Admitted: s.Inserted, Largest: []Plan{},
		Refused: []ReasonCount{{"large", s.RefusedLarge}, {"policy", s.RefusedPolicy}, {"stale", s.RefusedStale}},
	}
	for _, r := range sqlplan.Refusals() {
		out.Refused = append(out.Refused, ReasonCount{r.String(), st.Refused[r]})
	}
	for _, r := range bytecache.Reasons() {
		out.Evicted = append(out.Evicted, ReasonCount{r.String(), s.Evicted[r]})
	}
	for _, e := range c.planner.Largest(n) {
		verdict, _ := e.Plan.Verdict()
		plan := Plan{
			Digest: e.Digest, Bytes: e.Bytes, Type: e.Plan.Type().String(), ReadOnly: e.Plan.ReadOnly(),
			Parsed: e.Plan.Parsed(), Verdict: verdict.String(), Effects: e.Plan.Effects().String(), Literals: e.Plan.Literals(),
		}
		for t := range e.Plan.Tables() {
			plan.Tables = append(plan.Tables, Table{Schema: t.Schema, Name: t.Name, Access: t.Access.String()})
		}
		out.Largest = append(out.Largest, plan)
	}
	return out
}
