package history_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// sumOfRollups returns the calls in all hours.
func sumOfRollups(t *testing.T, store *rollup.Store) uint64 {
	t.Helper()
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	for _, n := range store.List(func(n rollup.Name) bool { return n.Span == rollup.Hour }) {
		f, err := store.Open(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.AddTotals(&all, &spread), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return all[stmtstats.Calls]
}

// TestRollupAfterFullDisk has a full disk across the end of an hour while a new Key is called: its zero
// sample lies within the range without samples. The hours nevertheless add up to the calls.
func TestRollupAfterFullDisk(t *testing.T) {
	h := newHourglass(t, nil)
	rounds := func(d time.Duration, keys ...int) {
		for range d / (10 * time.Second) {
			h.now, h.elapsed = h.now.Add(10*time.Second), h.elapsed+10*time.Second
			for _, k := range keys {
				h.model.call(k, h.now, time.Millisecond, false)
			}
			if err := h.archive.Round(t.Context()); err != nil && !errors.Is(err, history.ErrStopped) {
				t.Fatal(err)
			}
		}
	}
	h.now = h.now.Truncate(time.Hour).Add(20 * time.Minute)
	rounds(10*time.Minute, 1, 2)
	free := h.archive.FillDisk()
	rounds(40*time.Minute, 1, 3)
	free()
	rounds(time.Hour, 1)
	h.must(h.archive.RollUp(t.Context()))
	if got, want := sumOfRollups(t, h.current().Rollups), uint64(2*60+2*240)+300; got != want {
		t.Errorf("the rollups have %d calls, want %d", got, want)
	}
}

// TestRollupOfForeignSeries fails for series that are not a statement's, and names them.
func TestRollupOfForeignSeries(t *testing.T) {
	for _, metric := range []stmtseries.Metric{stmtseries.Queries, stmtseries.Duration} {
		h := newHourglass(t, nil)
		h.lossy = true
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.round(10 * time.Second)
		ls := labels.FromStrings(promlabel.MetricNameLabel, metric.String(), stmtseries.LabelDigest, "no digest", history.InstanceLabel, "gw-1", "cluster", "eu")
		var spread *histogram.Histogram
		if metric == stmtseries.Duration {
			var one stmtstats.Histogram
			one.Record(time.Millisecond)
			spread = one.Native()
		}
		app := h.db().AppenderV2(t.Context())
		must(t, app, ls, h.newest(), 1, spread)
		h.must(app.Commit())
		h.now, h.elapsed = h.now.Add(2*time.Hour), h.elapsed+2*time.Hour
		h.must(h.archive.Round(t.Context()))
		if err := h.archive.RollUp(t.Context()); err == nil || !strings.Contains(err.Error(), "no digest") {
			t.Errorf("%s: %v, want an error that names the series", metric, err)
		}
	}
}
