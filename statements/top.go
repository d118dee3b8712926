package statements

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/stmtstats"
)

// A Measure is what statements are ranked by.
type Measure uint8

// The measures.
const (
	BySeconds Measure = iota // time that calls took, together
	ByCalls
	ByErrors
	ByRowsSent
	ByRowsAffected
	ByBytesSent
	ByMean      // time of a call, on average
	ByP99       // time that 99 of 100 calls took at most
	ByFirstSeen // when the first call had ended

	numMeasures = int(iota)
)

// measures say how each is read from rollups, from counts and by PromQL.
var measures = [numMeasures]struct {
	name    string
	column  int                          // of rollups, the first
	columns int                          // consecutive ones
	value   func(*rollup.Counts) float64 // nil: not of counts alone
	metric  stmtseries.Metric            // whose rate by digest has it
	promql  string                       // of the rate; "": no series has it
}{
	BySeconds:      {"seconds", rollup.ColNanos, 1, func(c *rollup.Counts) float64 { return float64(c.Nanos) }, stmtseries.Duration, "histogram_sum(%s)"},
	ByCalls:        {"calls", rollup.ColCalls, 1, func(c *rollup.Counts) float64 { return float64(c.Calls) }, stmtseries.Queries, "%s"},
	ByErrors:       {"errors", rollup.ColErrors, stmtstats.ErrorClasses, func(c *rollup.Counts) float64 { return float64(c.Failed()) }, stmtseries.Errors, "%s"},
	ByRowsSent:     {"rows_sent", rollup.ColRowsSent, 1, func(c *rollup.Counts) float64 { return float64(c.RowsSent) }, stmtseries.RowsSent, "%s"},
	ByRowsAffected: {"rows_affected", rollup.ColRowsAffected, 1, func(c *rollup.Counts) float64 { return float64(c.RowsAffected) }, stmtseries.RowsAffected, "%s"},
	ByBytesSent:    {"bytes_sent", rollup.ColBytesSent, 1, func(c *rollup.Counts) float64 { return float64(c.BytesSent) }, stmtseries.BytesSent, "%s"},
	ByMean: {"mean", rollup.ColCalls, 2, func(c *rollup.Counts) float64 {
		return float64(c.Nanos) / float64(max(c.Calls, 1))
	}, stmtseries.Duration, "histogram_avg(%s)"},
	ByP99:       {"p99", rollup.ColCalls, 1, nil, stmtseries.Duration, "histogram_quantile(0.99, %s)"},
	ByFirstSeen: {name: "first_seen", column: rollup.ColFirsts, columns: 1},
}

// String returns the measure as ParseMeasure parses it.
func (m Measure) String() string {
	if int(m) < numMeasures {
		return measures[m].name
	}
	return fmt.Sprintf("measure %d", m)
}

// ParseMeasure returns the measure of that name.
func ParseMeasure(name string) (Measure, error) {
	names := make([]string, numMeasures)
	for m := range Measure(numMeasures) {
		if names[m] = m.String(); names[m] == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown measure %q: want one of %q", name, names)
}

// A TopQuery asks which statements had the most of something within a time.
type TopQuery struct {
	From, To time.Time

	By        Measure
	Ascending bool // the least first

	// Filter is words that have to be in the text, in any case, and pairs of a label and its
	// value, label=value, with the labels digest, schema, user and backend. Of a digest its beginning is enough. A - before
	// one says that it must not be so. Empty: all.
	Filter string

	Limit, Offset int  // rows; default of Limit: DefaultTopLimit
	Points        int  // at most so many of Series and of each row's load; 0: none
	RowPointsOnly bool // with Points: of the rows alone, which is less work where it is samples that answer
	Compare       bool // fill Before with the time of the same length before From
	AllInstances  bool // of all gateways in the bucket, where rollups answer; else of this one alone
}

// Bounds of a TopQuery and of a StatementQuery.
const (
	DefaultTopLimit = 50
	MaxTopLimit     = 1000
	MaxTopOffset    = 1 << 20
	MaxPoints       = 1000
)

// Validate fills in the defaults and says what is wrong with q.
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

// The values of Top.Source and Statement.Source.
const (
	SourceCounters = "counters" // of the table, since it began
	SourceSamples  = "samples"  // of the head and the local blocks
	SourceRollups  = "rollups"  // of whole hours
)

// A Top is the answer to a TopQuery.
type Top struct {
	From, To time.Time // what was covered: the counters' whole time, or whole hours, where nothing finer is kept
	Source   string    // where the figures come from
	Notes    []string  // what is missing from them, for people; mostly none

	Total  Totals // of all statements, of those without an entry too, whatever the filter is
	Before Totals // with Compare

	Series Series // with Points

	Rows     []TopRow
	Matching int // rows that match, of which Rows is a part
}

// Totals are the counts of calls.
type Totals struct {
	Calls, Errors          uint64
	RowsSent, RowsAffected uint64
	BytesSent              uint64
	Seconds                float64 // that the calls took

	P50, P99, P999 time.Duration // of the calls' durations, each at most 2.2 % off
}

// Mean is what a call took on average.
func (t *Totals) Mean() time.Duration {
	if t.Calls == 0 {
		return 0
	}
	return time.Duration(t.Seconds / float64(t.Calls) * 1e9)
}

// A TopRow is one Key of a Top.
type TopRow struct {
	stmtstats.Key
	Text    string
	TextCut bool // it is only the beginning

	Totals
	Before      Totals    // with Compare
	First, Last time.Time // calls, as far as is known
	New         bool      // the first call was within the time
	Points      []float64 // of load: seconds of calls in each second, on average over each point of the Top's Series
}

// newTotals returns the counts for people, with the quantiles of h.
func newTotals(c *rollup.Counts, h *stmtstats.Histogram) Totals {
	return Totals{
		Calls: c.Calls, Errors: c.Failed(), RowsSent: c.RowsSent, RowsAffected: c.RowsAffected, BytesSent: c.BytesSent,
		Seconds: float64(c.Nanos) / 1e9, P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999),
	}
}

// A ranked is a row before it is known whether it is shown.
type ranked struct {
	value  float64
	number uint32 // of the row, where it comes from
	id     uint64 // equal values are ordered by it
}

// order is the order in which a query asks for rows.
func (q *TopQuery) order() func(a, b ranked) int {
	return func(a, b ranked) int {
		if q.Ascending {
			a.value, b.value = b.value, a.value
		}
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.id, b.id))
	}
}

// page is the part of the rows that a query asks for, in order. It orders rows.
func (q *TopQuery) page(rows []ranked) []ranked {
	from := min(q.Offset, len(rows))
	to := min(from+q.Limit, len(rows))
	selectFirst(rows, to, q.order())
	return rows[from:to]
}
