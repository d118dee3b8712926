package statements

import (
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A ChartQuery returns PromQL expressions for the charts of a Top or of a Statement: evaluated at the end of
// a point, an expression returns the point's value. The two differ at the boundaries of a window: a call
// counts from its first sample, which may be one interval late, and rate extrapolates from the samples in the
// window to its ends.
type ChartQuery struct {
	Selector string        // in braces: of one digest, or of all except Evicted
	Step     time.Duration // between two points
}

// leastWindow is the minimum window of a rate: a statement that is not called has one sample per minute, and
// a rate requires two.
const leastWindow = 2*history.RefreshAge + time.Minute

// Window returns the range of the rates: a point, but at least leastWindow, so that rarely called statements
// have a rate.
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

// Calls returns the expression for calls per second.
func (c ChartQuery) Calls() string { return "sum" + c.rate(stmtseries.Queries) }

// Errors returns the expression for failed calls per second.
func (c ChartQuery) Errors() string { return "sum" + c.rate(stmtseries.Errors) }

// Effect returns the expression for a counter of an effect of calls per second.
func (c ChartQuery) Effect(of stmtstats.Counter) string { return "sum" + c.rate(stmtseries.Metric(of)) }

// Load returns the expression for seconds of calls per second.
func (c ChartQuery) Load() string { return "histogram_sum(sum" + c.rate(stmtseries.Duration) + ")" }

// Quantile returns the expression for a quantile of the durations in seconds.
func (c ChartQuery) Quantile(q float64) string {
	return "histogram_quantile(" + strconv.FormatFloat(q, 'f', -1, 64) + ", sum" + c.rate(stmtseries.Duration) + ")"
}

// TagLoad returns the expression for seconds of calls per second by the values of a tag, those with most load; the selector is
// that of the tag.
func (c ChartQuery) TagLoad(limit int) string {
	return "topk(" + strconv.Itoa(limit) + ", sum by (" + stmtseries.LabelValue + ") (rate(" + calls.TagMetrics[2].Name + c.Selector + "[" + c.Window() + "])))"
}

// Heat returns the expression for the distribution of the durations.
func (c ChartQuery) Heat() string {
	return "sum(increase(" + stmtseries.Duration.String() + c.Selector + "[" + c.Window() + "]))"
}

// Top returns the expression for the digests with the highest rate of a measure; "" if no series has it.
func (c ChartQuery) Top(by Measure, limit int) string {
	m := &measures[by]
	if m.promql == "" {
		return ""
	}
	return "topk(" + strconv.Itoa(limit) + ", " + fmt.Sprintf(m.promql, "sum by (digest) "+c.rate(m.metric)) + ")"
}
