package statements

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A Measure is the value by which statements are ranked.
type Measure uint8

// The measures that are no effects of calls. Those follow: ByCounter returns them.
const (
	BySeconds   Measure = iota // total time of the calls
	ByCalls                    //
	ByErrors                   //
	ByMean                     // average time of a call
	ByP99                      // the 99th percentile of the calls' times
	ByFirstSeen                // end of the first call

	byEffects
	numMeasures = int(byEffects) + int(stmtstats.Errors-firstEffect)
)

const firstEffect = stmtstats.Nanos + 1

// ByCounter returns the measure of a counter.
func ByCounter(c stmtstats.Counter) Measure {
	switch c = c.Base(); c {
	case stmtstats.Calls:
		return ByCalls
	case stmtstats.Nanos:
		return BySeconds
	case stmtstats.Errors:
		return ByErrors
	}
	return byEffects + Measure(c-firstEffect)
}

// A measure specifies how a Measure is read from rollups, from counts and by PromQL.
type measure struct {
	name    string
	column  int                             // of rollups, the first column
	columns int                             // number of consecutive columns
	value   func(*stmtstats.Counts) float64 // nil: cannot be computed from counts
	metric  stmtseries.Metric               // its rate by digest has the measure
	promql  string                          // of the rate; "": no series has it
}

//nolint:gochecknoglobals // a table, computed once
var measures = func() (all [numMeasures]measure) {
	for c := range stmtstats.Errors + 1 {
		all[ByCounter(c)] = measure{
			c.Info().Name, rollup.ColumnOf(c), 1, func(counts *stmtstats.Counts) float64 { return float64(counts.Sum(c)) }, stmtseries.Metric(c), "%s",
		}
	}
	all[BySeconds].name, all[BySeconds].promql = "seconds", "histogram_sum(%s)"
	all[ByErrors].columns = stmtstats.ErrorClasses
	all[ByMean] = measure{"mean", rollup.ColumnOf(stmtstats.Calls), 2, func(c *stmtstats.Counts) float64 {
		return float64(c[stmtstats.Nanos]) / float64(max(c[stmtstats.Calls], 1))
	}, stmtseries.Duration, "histogram_avg(%s)"}
	all[ByP99] = measure{"p99", rollup.ColumnOf(stmtstats.Calls), 1, nil, stmtseries.Duration, "histogram_quantile(0.99, %s)"}
	all[ByFirstSeen] = measure{name: "first_seen", column: rollup.ColFirsts, columns: 1}
	return all
}()

// String returns the name that ParseMeasure parses.
func (m Measure) String() string {
	if int(m) < numMeasures {
		return measures[m].name
	}
	return fmt.Sprintf("measure %d", m)
}

// ParseMeasure returns the measure with a name.
func ParseMeasure(name string) (Measure, error) {
	names := make([]string, numMeasures)
	for m := range Measure(numMeasures) {
		if names[m] = m.String(); names[m] == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown measure %q: want one of %q", name, names)
}

// A TopQuery selects the statements with the highest values of a measure within a time range.
type TopQuery struct {
	From, To time.Time

	By        Measure
	Ascending bool // lowest values first

	// Filter has words that the text must contain, without regard to case, and label=value pairs with the
	// labels digest, schema, user and backend. A prefix of a digest is sufficient. A leading - negates a
	// condition. Empty: all statements.
	Filter string

	// CalledSince restricts the rows of counters to those with a call that ended at this time or later. Matching
	// still counts all. A row's counters have not changed since a reading unless it was called since.
	CalledSince time.Time

	Limit, Offset int  // rows; default of Limit: DefaultTopLimit
	Points        int  // maximum number of points of Series and of each row's load; 0: none
	RowPointsOnly bool // with Points: only of the rows, which is cheaper for samples
	Compare       bool // fill Before with the range of the same length before From
	Durations     bool // fill the rows' Durations
	AllInstances  bool // of all gateways in the bucket, from rollups; otherwise only of this one
}

// Bounds of a TopQuery and of a StatementQuery.
const (
	DefaultTopLimit = 50
	MaxTopLimit     = 1000
	MaxTopOffset    = 1 << 20
	MaxPoints       = 1000
)

// Validate sets defaults and returns an error if q is invalid.
func (q *TopQuery) Validate() error {
	if q.Limit == 0 {
		q.Limit = DefaultTopLimit
	}
	var errs []error
	if !q.From.Before(q.To) {
		errs = append(errs, errRange)
	}
	if int(q.By) >= numMeasures {
		errs = append(errs, fmt.Errorf("there is no %v", q.By))
	}
	if q.Limit < 0 || q.Limit > MaxTopLimit {
		errs = append(errs, fmt.Errorf("a limit of %d rows: want 1 to %d", q.Limit, MaxTopLimit))
	}
	if q.Offset < 0 || q.Offset > MaxTopOffset {
		errs = append(errs, fmt.Errorf("an offset of %d rows: want 0 to %d", q.Offset, MaxTopOffset))
	}
	if q.Points < 0 || q.Points > MaxPoints {
		errs = append(errs, fmt.Errorf("%d points: want 0 to %d", q.Points, MaxPoints))
	}
	if _, err := parseFilter(q.Filter); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var errRange = errors.New("the range ends before it starts")

// Values of Top.Source and Statement.Source.
const (
	SourceCounters = "counters" // of the table, since its start
	SourceSamples  = "samples"  // of the head and the local blocks
	SourceRollups  = "rollups"  // of whole hours
)

// A Top is the result of a TopQuery.
type Top struct {
	From, To time.Time // the range covered: the counters' whole time, or whole hours if the source is not more precise
	Source   string    // the source of the counts
	Notes    []string  // missing data, for people; usually none

	Total  Totals // of all statements, including those without an entry, whatever the filter
	Before Totals // with Compare

	// NoComparison is the reason for which Before is not comparable, with Compare: a part of the range before, or of this
	// one, was not counted; "" if both were.
	NoComparison string

	Series Series // with Points

	Rows     []TopRow
	Matching int // number of rows that match, including those not in Rows
}

// Totals are the counts of calls.
type Totals struct {
	Calls, Errors uint64
	Seconds       float64          // total time of the calls
	Counts        stmtstats.Counts // of the effects of the calls

	P50, P99, P999 time.Duration // of the calls' durations, each with an error of at most 2.2 %; of one call its duration
}

// Mean returns the average duration of a call.
func (t *Totals) Mean() time.Duration {
	if t.Calls == 0 {
		return 0
	}
	return time.Duration(t.Seconds / float64(t.Calls) * 1e9)
}

// Add adds the counts of o. The quantiles of the sum are unknown.
func (t *Totals) Add(o *Totals) {
	t.Calls += o.Calls
	t.Errors += o.Errors
	t.Seconds += o.Seconds
	t.Counts.Add(&o.Counts)
}

// A TopRow is one Key of a Top.
type TopRow struct {
	stmtstats.Key
	Text    string
	TextCut bool // only the beginning of the text

	Totals
	Before      Totals    // with Compare
	First, Last time.Time // calls, as far as known
	New         bool      // the first call was within the range
	Points      []float64 // load: average seconds of calls per second in each point of the Top's Series
	Durations   []stmtstats.Bucket
}

// newTotals returns the totals of counts, with the quantiles of h.
func newTotals(c *stmtstats.Counts, h *stmtstats.Histogram) Totals {
	t := Totals{
		Calls: c[stmtstats.Calls], Errors: c.Failed(), Seconds: c.Seconds(), Counts: *c,
		P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999),
	}
	// Of fewer than 100 calls, p99 is the longest: it is not below the mean, which is exact, while quantiles have an error.
	switch mean := t.Mean(); {
	case t.Calls == 1:
		t.P50, t.P99, t.P999 = mean, mean, mean
	case t.Calls <= 100:
		t.P99, t.P999 = max(t.P99, mean), max(t.P999, mean)
	case t.Calls <= 1000:
		t.P999 = max(t.P999, mean)
	}
	return t
}

// A ranked is a candidate row.
type ranked struct {
	value  float64
	number uint32 // of the row in its source
	id     uint64 // orders equal values
}

// order returns the order of the rows of a query.
func (q *TopQuery) order() func(a, b ranked) int {
	return func(a, b ranked) int {
		if q.Ascending {
			a.value, b.value = b.value, a.value
		}
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.id, b.id))
	}
}

// page returns the rows of a query's page, in order. It reorders rows.
func (q *TopQuery) page(rows []ranked) []ranked {
	from := min(q.Offset, len(rows))
	to := min(from+q.Limit, len(rows))
	selectFirst(rows, to, q.order())
	return rows[from:to]
}
