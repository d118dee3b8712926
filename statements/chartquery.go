package statements

import (
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/stmtseries"
)

// A ChartQuery is the PromQL that asks for what a chart of a Top or of a Statement shows: asked at the end of a point, it answers
// what the point says. It differs by what PromQL does at the borders of a window. A call counts from the sample that has
// it on, up to the interval between two samples later; and rate extrapolates from the samples in the window to its ends.
type ChartQuery struct {
	Selector string        // in braces: of one digest, or of all but Evicted
	Step     time.Duration // between two points
}

// leastWindow is the shortest window of a rate: a statement that is not called has a sample once a minute, and a rate takes two.
const leastWindow = 2*history.RefreshAge + time.Minute

// Window is the range of the rates: a point, but not so short that a statement which is called now and then has no rate.
func (c ChartQuery) Window() string {
	minutes := int64((max(c.Step, leastWindow) + time.Minute - 1) / time.Minute)
	if minutes%60 == 0 {
		return strconv.FormatInt(minutes/60, 10) + "h"
	}
	return strconv.FormatInt(minutes, 10) + "m"
}

func (c ChartQuery) rate(metric stmtseries.Metric) string {
	return "(rate(" + metric.String() + c.Selector + "[" + c.Window() + "]))"
}

// Calls is calls a second.
func (c ChartQuery) Calls() string { return "sum" + c.rate(stmtseries.Queries) }

// Errors is calls that failed, a second.
func (c ChartQuery) Errors() string { return "sum" + c.rate(stmtseries.Errors) }

// RowsSent is rows a second, as RowsAffected is.
func (c ChartQuery) RowsSent() string { return "sum" + c.rate(stmtseries.RowsSent) }

// RowsAffected is rows a second.
func (c ChartQuery) RowsAffected() string { return "sum" + c.rate(stmtseries.RowsAffected) }

// Load is seconds of calls a second.
func (c ChartQuery) Load() string { return "histogram_sum(sum" + c.rate(stmtseries.Duration) + ")" }

// Quantile is a quantile of the durations in seconds.
func (c ChartQuery) Quantile(q float64) string {
	return "histogram_quantile(" + strconv.FormatFloat(q, 'f', -1, 64) + ", sum" + c.rate(stmtseries.Duration) + ")"
}

// Heat is how the durations were spread.
func (c ChartQuery) Heat() string {
	return "sum(increase(" + stmtseries.Duration.String() + c.Selector + "[" + c.Window() + "]))"
}

// Top is the digests that have the most of a measure; "" where no series says it.
func (c ChartQuery) Top(by Measure, limit int) string {
	m := &measures[by]
	if m.promql == "" {
		return ""
	}
	return "topk(" + strconv.Itoa(limit) + ", " + fmt.Sprintf(m.promql, "sum by (digest) "+c.rate(m.metric)) + ")"
}
