package web

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// riseMetrics returns the metrics of a RiseWatch without their help texts.
func riseMetrics(t *testing.T, w *RiseWatch) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// TestRiseWatch expects a statement that became heavier to be exported until three searches have found no
// rise, a new one while it is new, and neither with its text.
func TestRiseWatch(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	w := NewRiseWatch(risingStatements{&fakeStatements{}}, Attention{LeastLoad: 0.05}, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	const none, rise = "tare_statement_new_total 0", `tare_statement_rise{digest="00000000000000000000000000000000",schema="sh\"op<",user="app"} 6`
	if got := riseMetrics(t, w); got != none {
		t.Errorf("at first %s", got)
	}
	rising := stmtstats.Key{Schema: "sh\"op<", User: "app"}
	if _, ok := w.ChangeOf(rising); ok {
		t.Error("a change before the first search")
	}
	w.search(t.Context())
	if c, ok := w.ChangeOf(rising); !ok || c.Kind != statements.ChangeHeavier || c.Times != 6 || !c.Since.Before(now) || c.Since.Before(now.Add(-watchRange)) {
		t.Errorf("the change is %+v, %t", c, ok)
	}
	if got := riseMetrics(t, w); got != none+"\n"+rise {
		t.Errorf("got %s", got)
	}
	v := &view{now: now, span: spanOf(now.Add(-watchRange), now)}
	for i := range watchCalm {
		if got := riseMetrics(t, w); !strings.Contains(got, rise) {
			t.Errorf("without a rise for the %d. time %s", i, got)
		}
		w.update(v, &statements.Top{})
	}
	if got := riseMetrics(t, w); got != none {
		t.Errorf("after the rise %s", got)
	}
	top := &statements.Top{Source: statements.SourceSamples, From: v.span.From, To: now, Total: statements.Totals{Seconds: 100}}
	for i := range watched + 5 {
		top.Rows = append(top.Rows, statements.TopRow{New: true, First: now.Add(-time.Minute), Totals: statements.Totals{Seconds: 3}, Text: secretText})
		top.Rows[i].Key = stmtstats.Key{Digest: [16]byte{1, byte(i)}, Schema: "shop", User: "app"}
	}
	top.Rows = append(top.Rows, statements.TopRow{}) // not all are new
	w.update(v, top)
	w.update(v, top)
	if c, ok := w.ChangeOf(top.Rows[0].Key); !ok || c != (statements.Change{Kind: statements.ChangeNew, Since: now.Add(-time.Minute)}) {
		t.Errorf("the change of a new statement is %+v, %t", c, ok)
	}
	got := riseMetrics(t, w)
	if n := strings.Count(got, "tare_statement_new_share{"); n != watched || !strings.Contains(got, fmt.Sprintf("tare_statement_new_total %d", watched)) || strings.Contains(got, "secret") {
		t.Errorf("%d new statements: %s", n, got)
	}
}

// countedStatements counts searches.
type countedStatements struct {
	risingStatements
	searches int
}

func (c *countedStatements) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	c.searches++
	return c.risingStatements.Top(ctx, q)
}

// TestRiseWatchIdle expects one search per minute while metrics are scraped every five minutes, and no search and
// no results while nothing reads them.
func TestRiseWatchIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedStatements{risingStatements: risingStatements{&fakeStatements{}}}
		w := NewRiseWatch(s, Attention{}, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		searched := func(within time.Duration) int {
			before := s.searches
			time.Sleep(within)
			synctest.Wait()
			return s.searches - before
		}
		if n := searched(time.Hour); n != 0 {
			t.Errorf("%d searches in an hour before the first scrape", n)
		}
		for range 3 {
			riseMetrics(t, w)
			if n := searched(watchIdle - time.Second); n < 4 {
				t.Errorf("%d searches in five minutes with scrapes", n)
			}
		}
		if n := searched(24 * time.Hour); n > 1 {
			t.Errorf("%d searches in a day without scrapes", n)
		}
		if got := riseMetrics(t, w); strings.Contains(got, "tare_statement_rise") {
			t.Errorf("a day later the metrics are %s", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
