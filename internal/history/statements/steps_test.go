package statements

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A stepPoint is a sample of a counter, and of the durations with as many calls.
type stepPoint struct {
	at      int64 // milliseconds after the start, or before it
	n       int   // -1: the series ends
	foreign bool  // a histogram that the history does not write
}

// TestSteps turns the samples of a series into steps, those of a counter and of durations alike. A histogram that cannot be
// read is an error, wherever it lies.
func TestSteps(t *testing.T) {
	const start, interval = 1_700_000_000_000, 60_000
	for _, c := range []struct {
		name   string
		kind   stmtstats.Kind
		points []stepPoint
		want   string // growth since…at
		err    bool
	}{
		{name: "none before", points: []stepPoint{{10, 4, false}}, want: ""},
		{name: "a pause", points: []stepPoint{{10, 4, false}, {20, 6, false}}, want: "+2 10…20"},
		{name: "a new series", points: []stepPoint{{10, 0, false}, {20, 6, false}}, want: "+6 10…20"},
		{name: "across the start", points: []stepPoint{{-10, 4, false}, {20, 6, false}, {30, 6, false}, {40, 7, false}}, want: "+2 -10…20 +1 30…40"},
		{name: "before the start", points: []stepPoint{{-20, 4, false}, {-10, 5, false}, {0, 6, false}}, want: ""},
		{name: "a refreshed series", points: []stepPoint{{-10, 4, false}, {2*interval - 10, 5, false}, {4*interval - 9, 6, false}}, want: fmt.Sprintf("+1 -10…%d +1 %d…%d", 2*interval-10, 3*interval-9, 4*interval-9)},
		{name: "it ends", points: []stepPoint{{-10, 4, false}, {20, 6, false}, {30, -1, false}}, want: "+2 -10…20 -6 30…30"},
		{name: "it ends and returns", points: []stepPoint{{-10, 4, false}, {20, -1, false}, {30, 3, false}}, want: "-4 20…20 +3 20…30"},
		{name: "a restart", points: []stepPoint{{-10, 4, false}, {20, 3, false}}, want: "-4 20…20 +3 -10…20"},
		{name: "the evicted", kind: stmtstats.Evicted, points: []stepPoint{{-10, 4, false}, {20, 6, false}}, want: "+2 20…20"},
		{name: "a foreign one", points: []stepPoint{{10, 4, true}}, err: true},
		{name: "a foreign one before the start", points: []stepPoint{{-10, 4, true}, {20, 6, false}}, err: true},
		{name: "a foreign one last", points: []stepPoint{{-10, 4, false}, {20, 6, true}}, err: true},
		{name: "a foreign one that ends", points: []stepPoint{{-10, 4, true}, {20, -1, false}}, err: true},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			db, err := localdb.OpenHead(t.TempDir(), slog.New(slog.DiscardHandler), nil, func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			l := stmtseries.NewLabeller(nil)
			app := db.AppenderV2(t.Context())
			for _, p := range c.points {
				v, h := float64(p.n), nativeOf(p.n)
				if p.n < 0 {
					v = math.Float64frombits(value.StaleNaN)
					h = &histogram.Histogram{Sum: v}
				}
				if p.foreign {
					h.Schema--
				}
				for metric, h := range map[stmtseries.Metric]*histogram.Histogram{stmtseries.Queries: nil, stmtseries.Duration: h} {
					var ls labels.Labels
					l.SetSeries(c.kind, &stmtstats.Key{Digest: [16]byte{1}}, int(metric))
					ls = l.Labels()
					if _, err := app.Append(0, ls, 0, start+p.at, v, h, nil, storage.AOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := app.Commit(); err != nil {
				t.Fatal(err)
			}
			for _, metric := range []stmtseries.Metric{stmtseries.Queries, stmtseries.Duration} {
				var steps []string
				w := &stepper{start: start, interval: interval, visit: func(s step) {
					n, sign := s.grown, "+"
					if metric == stmtseries.Duration {
						n = s.spread.Count()
					}
					if s.lost {
						sign = "-"
					}
					if s.key.Digest[0] != 1 && c.kind == stmtstats.Tracked || s.kind != c.kind || s.metric != metric {
						t.Errorf("%s: a step of %+v", metric, s)
					}
					steps = append(steps, fmt.Sprintf("%s%d %d…%d", sign, n, s.since.UnixMilli()-start, s.at.UnixMilli()-start))
				}}
				r := stmtseries.Range{DB: db, From: math.MinInt64, To: math.MaxInt64}
				err := r.Read(t.Context(), []stmtseries.Metric{metric}, w.add)
				if wantErr := c.err && metric == stmtseries.Duration; (err != nil) != wantErr {
					t.Errorf("%s: %v", metric, err)
				}
				if got := strings.Join(steps, " "); err == nil && !c.err && got != c.want {
					t.Errorf("%s: %s, want %s", metric, got, c.want)
				}
			}
		})
	}
}

// nativeOf returns a histogram of n durations of a millisecond.
func nativeOf(n int) *histogram.Histogram {
	var h stmtstats.Histogram
	for range n {
		h.Record(time.Millisecond)
	}
	return h.Native()
}
