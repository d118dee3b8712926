package history

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/taredb/tare/stmtstats"
)

// Bounds of what a scrape of digests answers.
const (
	DefaultScraped = 1000
	MaxScraped     = 20_000
)

// NewDigestsHandler answers a scrape of the Keys that took the most time, ?limit= of them, with the series that an Archive
// writes, but instance. Scrapers that take protobuf get native histograms; the others get their sum and count. One request
// is answered at a time. noTexts leaves tare_digest_info out.
func NewDigestsHandler(t *stmtstats.Table, noTexts bool, log *slog.Logger) http.Handler {
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelError)
	return limited(1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := DefaultScraped
		if text := r.URL.Query().Get("limit"); text != "" {
			var err error
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxScraped {
				http.Error(w, fmt.Sprintf("limit=%s: want 1 to %d", text, MaxScraped), http.StatusBadRequest)
				return
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(&digestCollector{table: t, limit: limit, noTexts: noTexts})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: errorLog, ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
	}))
}

// limited answers so many requests at a time, and refuses the others.
func limited(n int, h http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			h.ServeHTTP(w, r)
		default:
			http.Error(w, "another scrape of the digests is running", http.StatusServiceUnavailable)
		}
	})
}

// A digestCollector makes metrics of a table's digests, for one scrape.
type digestCollector struct {
	table   *stmtstats.Table
	limit   int
	noTexts bool
}

// Describe implements prometheus.Collector: nothing is known beforehand.
func (c *digestCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *digestCollector) Collect(ch chan<- prometheus.Metric) {
	var s stmtstats.Sample
	var rows []ranked
	_, err := c.table.Scan(&s, func(number int) {
		if s.Kind == stmtstats.Tracked && s.Calls > 0 {
			rows = append(rows, ranked{value: float64(s.Histogram.Nanos), number: uint32(number), id: s.ID})
		} else if s.Calls > 0 {
			c.send(ch, &s)
		}
	})
	if err != nil {
		return // the table was closed
	}
	q := TopQuery{Limit: c.limit}
	told := make(map[[16]byte]bool)
	for _, r := range q.page(rows) {
		if !c.table.ReadEntry(&s, int(r.number)) || s.ID != r.id {
			continue // evicted since
		}
		c.send(ch, &s)
		if c.noTexts || told[s.Digest] {
			continue
		}
		if text, _ := c.table.TextAt(int(r.number), s.ID); text != "" {
			told[s.Digest] = true
			desc := prometheus.NewDesc(nameInfo, "1; the text of a digest.", []string{labelDigest, labelText}, nil)
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, hex.EncodeToString(s.Digest[:]), strings.ToValidUTF8(text, "\uFFFD"))
		}
	}
}

// send makes the metrics of one Key.
func (c *digestCollector) send(ch chan<- prometheus.Metric, s *stmtstats.Sample) {
	names := []string{labelDigest, labelSchema, labelUser, labelBackend}
	values := []string{s.Kind.String(), s.Schema, s.User, s.Backend}
	if s.Kind == stmtstats.Tracked {
		values[0] = hex.EncodeToString(s.Digest[:])
	}
	for i, v := range values {
		values[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	count := func(name, help string, n uint64, names, values []string) {
		if n > 0 {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.CounterValue, float64(n), values...)
		}
	}
	count(nameQueries, "Finished statements.", s.Calls, names, values)
	count(nameRowsSent, "Rows that were sent.", s.RowsSent, names, values)
	count(nameRowsAffected, "Rows that were changed.", s.RowsAffected, names, values)
	count(nameBytesSent, "Bytes of the responses.", s.BytesSent, names, values)
	for class, n := range s.Errors {
		count(nameErrors, "Statements that failed.", n, append(slices.Clone(names), labelClass), append(slices.Clone(values), stmtstats.ErrorClass(class).String()))
	}
	desc := prometheus.NewDesc(nameDuration, "Durations of the statements.", names, nil)
	ch <- prometheus.MustNewConstNativeHistogram(desc, s.Calls, s.Histogram.Sum(), s.Histogram.Indexed(), nil, s.Histogram.Zero, stmtstats.Schema, stmtstats.ZeroThreshold, s.First, values...)
}
