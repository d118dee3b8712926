package statements

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/urlparams"
)

// The default and the maximum number of Keys in a scrape of digests.
const (
	DefaultScraped = 1000
	MaxScraped     = 20_000
)

// NewScrapeHandler returns a handler for a scrape of the Keys with the most time, ?limit= of them, with the
// series of an Archive, but without the instance label. Scrapers that accept protobuf get native histograms;
// the others get their sum and count. It serves one request at a time and refuses concurrent ones. noTexts
// omits tare_digest_info.
func NewScrapeHandler(t *stmtstats.Table, noTexts bool, log *slog.Logger) http.Handler {
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelError)
	var running sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !running.TryLock() {
			http.Error(w, "another scrape of the digests is running", http.StatusServiceUnavailable)
			return
		}
		defer running.Unlock()
		limit, err := scrapeLimit(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(&digestCollector{table: t, limit: limit, noTexts: noTexts})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: errorLog, ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
	})
}

// scrapeLimit returns the limit in the parameters of a scrape. Others are errors, and one that is given twice.
func scrapeLimit(q url.Values) (int, error) {
	if err := urlparams.Check(q, "limit"); err != nil {
		return 0, err
	}
	text := q.Get("limit")
	if text == "" {
		return DefaultScraped, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > MaxScraped {
		return 0, fmt.Errorf("limit=%.40s: want 1 to %d", text, MaxScraped)
	}
	return limit, nil
}

// A digestCollector collects the metrics of a table's digests, for one scrape.
type digestCollector struct {
	table   *stmtstats.Table
	limit   int
	noTexts bool
}

// Describe implements prometheus.Collector. The collector is unchecked.
func (c *digestCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *digestCollector) Collect(ch chan<- prometheus.Metric) {
	var s stmtstats.Sample
	var rows []ranked
	var sums []stmtstats.Sample
	if err := c.table.Scan(&s, func() { rows, sums = rows[:0], sums[:0] }, func(number int) {
		switch {
		case !s.Counts.Any():
		case s.Kind == stmtstats.Tracked:
			rows = append(rows, ranked{value: float64(s.Histogram.Nanos), number: uint32(number), id: s.ID})
		default:
			sums = append(sums, s)
		}
	}); err != nil {
		return // the table was closed
	}
	for i := range sums {
		c.send(ch, &sums[i])
	}
	q := TopQuery{Limit: c.limit}
	sent := make(map[[16]byte]bool) // digests whose text was sent
	for _, r := range q.page(rows) {
		if !c.table.ReadEntry(&s, int(r.number)) || s.ID != r.id {
			continue // evicted since
		}
		c.send(ch, &s)
		if c.noTexts || sent[s.Digest] {
			continue
		}
		if text, _ := c.table.TextAt(int(r.number), s.ID); text != "" {
			sent[s.Digest] = true
			ch <- prometheus.MustNewConstMetric(descOf(stmtseries.Info), prometheus.GaugeValue, 1, hex.EncodeToString(s.Digest[:]), strings.ToValidUTF8(text, "\uFFFD"))
		}
	}
}

func descOf(m stmtseries.Metric) *prometheus.Desc {
	return prometheus.NewDesc(m.String(), m.Help(), m.Labels(), nil)
}

// send sends the metrics of one Key.
func (c *digestCollector) send(ch chan<- prometheus.Metric, s *stmtstats.Sample) {
	values := []string{s.Kind.String(), s.Schema, s.User, s.Backend}
	if s.Kind == stmtstats.Tracked {
		values[0] = hex.EncodeToString(s.Digest[:])
	}
	for i, v := range values {
		values[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	for number := range stmtseries.PerKey {
		m := stmtseries.Of(number)
		if m == stmtseries.Duration {
			ch <- prometheus.MustNewConstNativeHistogram(descOf(m), s.Counts[stmtstats.Calls], s.Histogram.Sum(), s.Histogram.Indexed(), nil, s.Histogram.Zero,
				stmtstats.Schema, stmtstats.ZeroThreshold, s.First, values...)
			continue
		}
		if n := s.Counts[number]; n > 0 || m == stmtseries.Queries {
			of := values
			if m == stmtseries.Errors {
				of = append(slices.Clone(values), stmtstats.Counter(number).Class().String())
			}
			ch <- prometheus.MustNewConstMetric(descOf(m), prometheus.CounterValue, float64(n), of...)
		}
	}
}
