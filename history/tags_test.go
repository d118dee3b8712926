package history_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/querylog"
)

// tagged adds a random call to counts and to want, by metric, tag and value.
func tagged(rng *rand.Rand, counts *calls.TagCounts, want map[string]float64) {
	r := &querylog.Record{Total: time.Duration(rng.IntN(1000)) * time.Millisecond, ErrorNumber: uint16(rng.IntN(2))}
	values := map[string]string{}
	if n := rng.IntN(6); n > 0 {
		values["route"] = fmt.Sprintf("/%d", n)
	}
	if rng.IntN(3) == 0 {
		values["app"] = "shop"
	}
	for tag, v := range values {
		r.Tags = append(r.Tags, querylog.Tag{Key: []byte(tag), Value: []byte(v)})
	}
	counts.Observe(r)
	for _, tag := range []string{"route", "app"} {
		for i, n := range []float64{1, float64(r.ErrorNumber), r.Total.Seconds()} {
			want[fmt.Sprintf("%s %s", calls.TagMetrics[i].Name, tag)] += n
			if tag == "app" {
				want[fmt.Sprintf("%s %s=%s", calls.TagMetrics[i].Name, tag, values[tag])] += n
			}
		}
	}
}

// tagGrowth returns the increases of all series of counts by tags, by metric and tag, and the values of each tag.
func (h *hourglass) tagGrowth() (growth map[string]float64, values map[string]map[string]bool) {
	h.t.Helper()
	growth, values = make(map[string]float64), make(map[string]map[string]bool)
	q, err := h.archive.Queryable().Querier(0, h.now.Add(1000*time.Hour).UnixMilli())
	h.must(err)
	defer q.Close()
	set := q.Select(h.t.Context(), false, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "tare_tag_.*"))
	for set.Next() {
		ls := set.At().Labels()
		metric, tag, v := ls.Get("__name__"), ls.Get("tag"), ls.Get("value")
		if values[tag] == nil {
			values[tag] = make(map[string]bool)
		}
		values[tag][v] = true
		sum, before, first := 0.0, 0.0, true
		for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
			_, n := it.At()
			if value.IsStaleNaN(n) {
				continue
			}
			if n < before {
				before = 0
			}
			if !first {
				sum += n - before
			}
			before, first = n, false
		}
		growth[metric+" "+tag] += sum
		if tag == "app" {
			growth[fmt.Sprintf("%s %s=%s", metric, tag, v)] += sum
		}
	}
	h.must(set.Err())
	return growth, values
}

// TestTags writes random counts by tags, restarts, and steps the clock back to another instance label: the increases of the series
// are the calls, in at most as many values as may be.
func TestTags(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 1))
	newCounts := func() *calls.TagCounts {
		counts, err := calls.NewTagCounts([]string{"route", "app", "none"}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	counts := newCounts()
	h := newHourglass(t, func(o *history.ArchiveOptions) { o.Tags = counts })
	want := make(map[string]float64)
	rounds := func(n int) {
		for range n {
			for range rng.IntN(20) {
				tagged(rng, counts, want)
			}
			h.model.call(rng.IntN(3), h.now.Add(time.Second), time.Millisecond, false)
			h.round(10 * time.Second)
		}
	}
	check := func(when string) {
		t.Helper()
		got, values := h.tagGrowth()
		for name, n := range want {
			if d := got[name] - n; d > 1e-6 || d < -1e-6 {
				t.Errorf("%s: %s grew by %v, want %v", when, name, got[name], n)
			}
		}
		for _, m := range calls.TagMetrics { // no call has the tag none
			if d := got[m.Name+" none"] - want[m.Name+" route"]; d > 1e-6 || d < -1e-6 {
				t.Errorf("%s: %s of the tag none grew by %v, want as of others", when, m.Name, got[m.Name+" none"])
			}
		}
		if len(values["app"]) > 2 || len(values["none"]) != 1 || !values["none"][""] {
			t.Errorf("%s: values %v", when, values)
		}
		h.checkSelf()
	}
	rounds(20)
	check("at first")
	for restart := range 3 {
		h.now = h.now.Add(time.Duration(rng.IntN(20)) * time.Second)
		for range rng.IntN(20) {
			tagged(rng, counts, want) // written by Close
		}
		h.must(h.archive.Close())
		counts = newCounts()
		h.reopenAs(func(o *history.ArchiveOptions) { o.Tags = counts })
		rounds(1 + rng.IntN(15))
		check(fmt.Sprintf("after restart %d", restart))
	}
	h.now = h.now.Add(-48 * time.Hour)
	rounds(10)
	if n := len(h.archive.Instances()); n != 2 {
		t.Errorf("%d instances", n)
	}
	check("after the clock was set back")

	// The values that the new process has not seen end with its first round.
	h.must(h.archive.Close())
	counts = newCounts()
	h.reopenAs(func(o *history.ArchiveOptions) { o.Tags = counts })
	tagged(rng, counts, want)
	h.round(10 * time.Second)
	if n := h.value(`sum(tare_tag_queries_total{tag="route"})`, h.now); n != 1 {
		t.Errorf("%v calls by route after the restart, want 1", n)
	}
	o := h.archive.Options()
	o.Labels = map[string]string{"instance": "gw-1", "tag": "x"}
	if err := o.Validate(); err == nil {
		t.Error("no error for a label that counts by tags have")
	}
}
