package web

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/history"
)

// The PromQL beside a chart asks the history for what the chart shows. A series is named as
// history.Series has it; rates leave out what the digests that made room had counted before.

// selector is the labels in braces.
func (s *Server) selector(matchers ...string) string {
	for _, name := range slices.Sorted(maps.Keys(s.opts.SeriesLabels)) {
		matchers = append(matchers, name+"="+strconv.Quote(s.opts.SeriesLabels[name]))
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// ofDigest is the selector of one digest's series.
func (s *Server) ofDigest(hex string) string { return s.selector("digest=" + strconv.Quote(hex)) }

// ofAll is the selector of all statements' series.
func (s *Server) ofAll() string { return s.selector(`digest!="evicted"`) }

func promRate(metric, selector, window string) string {
	return "sum(rate(" + metric + selector + "[" + window + "]))"
}

func promQuantile(q float64, selector, window string) string {
	return "histogram_quantile(" + strconv.FormatFloat(q, 'f', -1, 64) + ", " + promRate("tare_query_duration_seconds", selector, window) + ")"
}

func promLoad(selector, window string) string {
	return "histogram_sum(" + promRate("tare_query_duration_seconds", selector, window) + ")"
}

// promTop ranks digests by a measure.
func (s *Server) promTop(by history.Measure, limit int, window string) string {
	sel := s.ofAll()
	sum := func(metric string) string { return "sum by (digest) (rate(" + metric + sel + "[" + window + "]))" }
	value := ""
	switch by {
	case history.BySeconds:
		value = "histogram_sum(" + sum("tare_query_duration_seconds") + ")"
	case history.ByCalls:
		value = sum("tare_queries_total")
	case history.ByErrors:
		value = sum("tare_query_errors_total")
	case history.ByRowsSent:
		value = sum("tare_query_rows_sent_total")
	case history.ByRowsAffected:
		value = sum("tare_query_rows_affected_total")
	case history.ByBytesSent:
		value = sum("tare_query_bytes_sent_total")
	case history.ByMean:
		value = "histogram_avg(" + sum("tare_query_duration_seconds") + ")"
	case history.ByP99:
		value = "histogram_quantile(0.99, " + sum("tare_query_duration_seconds") + ")"
	default:
		return "" // no series says when a digest was first seen
	}
	return "topk(" + strconv.Itoa(limit) + ", " + value + ")"
}
