package web

import (
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/incidents"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/store/blocksync"
)

// TestJobRows has the progress, the time and the rate of copies that run, are finished, or have no rows.
func TestJobRows(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	end := func(d time.Duration) *time.Time { at := ago(d); return &at }
	for name, c := range map[string]struct {
		j     state.Job
		texts bool
		want  string
	}{
		"running":   {state.Job{Chunks: 4, Copied: 1, Started: ago(90 * time.Second), Rows: 100, Spec: "a > 'x'"}, true, "busy 0.25 90 s NaN a > 'x'"},
		"no texts":  {state.Job{Chunks: 4, Copied: 1, Started: ago(90 * time.Second), Spec: "a > 'x'"}, false, "busy 0.25 90 s NaN "},
		"not cut":   {state.Job{Started: ago(time.Second)}, true, "busy 0 1 s NaN "},
		"finished":  {state.Job{Chunks: 4, Copied: 4, Started: ago(time.Minute), Finished: end(50 * time.Second), Rows: 100}, true, "ok 1 10 s 10 "},
		"a second":  {state.Job{Chunks: 1, Copied: 1, Started: ago(2 * time.Second), Finished: end(time.Second), Rows: 5}, true, "ok 1 1 s 5 "},
		"at once":   {state.Job{Chunks: 1, Copied: 1, Started: ago(time.Second), Finished: end(time.Millisecond), Rows: 5}, true, "ok 1 1 s NaN "},
		"empty":     {state.Job{Started: ago(time.Minute), Finished: end(0)}, true, "ok 1 60 s 0 "},
		"not begun": {state.Job{Started: now.Add(time.Hour)}, true, "busy 0 0 s NaN "},
	} {
		r := jobRowOf(c.j, &view{now: now, texts: c.texts})
		if got := fmt.Sprintf("%s %v %s %v %s", r.Class, r.Done, r.Took, math.Round(100*r.Rate)/100, r.Spec); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	d := copiesData{Rows: []jobRow{{Spec: "a", Job: state.Job{Finished: end(0)}}, {Spec: "b"}, {Spec: "c", Job: state.Job{Finished: end(0)}}, {Spec: "d"}}}
	d.sort()
	var order strings.Builder
	for _, r := range d.Rows {
		order.WriteString(r.Spec)
	}
	if order.String() != "bdac" {
		t.Errorf("in the order %s", order.String())
	}
}

// TestBlockRows has the labels and the state of blocks, and the links to their tenants.
func TestBlockRows(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 2*shownValue)
	for want, b := range map[string]blocksync.BlockInfo{
		" / ":               {},
		"a=1, b=2 / loaded": {Labels: map[string]string{"b": "2", "a": "1"}, Loaded: true},
		" / in use":         {Queries: 1},
		" / loaded, in use, marked for deletion, excluded from compaction, deleted from the bucket": {Loaded: true, Queries: 2, Marked: &at, NoCompact: true, Gone: &at},
		cutText("a="+long, shownValue) + " / ":                                                      {Labels: map[string]string{"a": long}},
	} {
		r := rowOf(&b)
		if got := r.Labels + " / " + r.State; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	v := &view{r: httptest.NewRequest("GET", "/store", nil), query: url.Values{"tenant": {"b"}, "page": {"2"}}}
	links := func(tenants ...string) (got []string) {
		var blocks []blocksync.BlockInfo
		for _, name := range tenants {
			blocks = append(blocks, blocksync.BlockInfo{Tenant: name})
		}
		for _, l := range tenantLinks(v, blocks, "b") {
			got = append(got, fmt.Sprint(l.Name, l.Here))
		}
		return got
	}
	if one, two := links("a", "a"), fmt.Sprint(links("a", "a", "b", "b")); len(one) > 0 || two != "[allfalse afalse btrue]" {
		t.Errorf("%v and %s", one, two)
	}
	var many []string
	for i := range maxTenantLinks + 3 {
		many = append(many, fmt.Sprintf("%04d", i))
	}
	if got := links(many...); len(got) != maxTenantLinks+1 {
		t.Errorf("%d links", len(got))
	}
}

// TestCountIntervals has the counts of the server before and since a rise, per call, and only those rows that have some.
func TestCountIntervals(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	interval := func(from, to int, c serverstats.Counts) serverstats.Interval {
		return serverstats.Interval{From: at(from), To: at(to), Counts: c}
	}
	all := []serverstats.Interval{
		interval(0, 1, serverstats.Counts{Calls: 2, Time: 4e9, RowsExamined: 10, RowsSent: 4, LockTime: 2e9}),
		interval(1, 2, serverstats.Counts{Calls: 2, Time: 4e9, RowsExamined: 10, RowsSent: 4}),
		interval(2, 3, serverstats.Counts{Calls: 100}), // the rise begins within it
		interval(3, 4, serverstats.Counts{Calls: 4, Time: 40e9, RowsExamined: 400, RowsSent: 8, RowsAffected: 12, TempTables: 4, TempDiskTables: 8, SortMergePasses: 16, NoIndex: 2}),
		interval(4, 5, serverstats.Counts{}),
	}
	rows := func(r *rise, all []serverstats.Interval) []string {
		var d serverCounts
		d.addIntervals(all, r, time.Hour)
		got := []string{fmt.Sprint(len(d.Heads))}
		for _, row := range d.Rows {
			got = append(got, row.Name+": "+strings.Join(row.Values, ", "))
		}
		return got
	}
	r := &rise{incidents.Rise{From: at(2).Add(30 * time.Second)}}
	want := []string{
		"2", "Calls: 4, 4", "Time per call: 2 s, 10 s", "Rows examined per call: 5, 100", "Rows sent per call: 2, 2", "Rows changed per call: 0, 3", "Lock time per call: 500 ms, 0 s",
		"Temporary tables per call: 0, 1", "Temporary tables on disk per call: 0, 2", "Sort merge passes per call: 0, 4", "Calls without an index: 0 %, 50 %",
	}
	if got := rows(r, all); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	always := []string{"1", "Calls: 4", "Time per call: 2 s", "Rows examined per call: 5", "Rows sent per call: 2", "Lock time per call: 500 ms"}
	if got := rows(nil, all[:2]); !slices.Equal(got, always) {
		t.Errorf("without a rise: %q, want %q", got, always)
	}
	if got := rows(r, all[:2]); !slices.Equal(got, always) {
		t.Errorf("before the rise: %q, want %q", got, always)
	}
	for what, none := range map[string][]serverstats.Interval{"no intervals": nil, "no calls": all[4:], "neither before nor since": all[2:3]} {
		if got := rows(r, none); !slices.Equal(got, []string{"0"}) {
			t.Errorf("%s: %q", what, got)
		}
	}
	at2 := &rise{incidents.Rise{From: at(1)}}
	if got := rows(at2, all[:2]); got[0] != "2" || got[1] != "Calls: 2, 2" {
		t.Errorf("at the end of an interval: %q", got)
	}
}

// TestDrawnPaths draws a stroke for each label, and stacks series.
func TestDrawnPaths(t *testing.T) {
	var b chart.SVG
	tickPath(&b, []tick{{at: 0}, {at: 0.5}, {at: 1}})
	if got := b.String(); got != `<path class="grid" d="M0 200v6M500 200v6M1000 200v6"/>` {
		t.Error(got)
	}
	nan := math.NaN()
	stacked := stack([]series{{"a", []float64{1, nan, 3, nan}}, {"b", []float64{1, 2, nan, nan}}, {"c", []float64{5}}}, 4)
	if got := fmt.Sprint(stacked[0].Values, stacked[1].Values, stacked[2].Values); got != "[1 0 3 NaN] [2 2 3 NaN] [7 2 3 NaN]" {
		t.Errorf("stacked %s", got)
	}
	h := heatMap{Times: make([]time.Time, 2), Counts: [][]uint64{{0, 4, 0}, {9, 0, 1}}, Bounds: []float64{1, 2, 4}}
	if got := h.draw([]float64{0, 400, 1000}, 0, 2, 9, nil); got != `<path class="grid" d=""/><path class="h1" d="M400 0h600v66.67h-600z"/><path class="h6" d="M0 66.67h400v66.67h-400z"/><path class="h8" d="M400 133.33h600v66.67h-600z"/>` {
		t.Error(got)
	}
}
