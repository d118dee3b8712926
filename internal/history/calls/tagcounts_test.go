package calls

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// counted returns the metrics of the counts, by their labels, and fails for series that are there twice.
func counted(t *testing.T, c *TagCounts) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			all[fmt.Sprintf("%s %s=%s", f.GetName(), m.Label[0].GetValue(), m.Label[1].GetValue())] = m.Counter.GetValue()
		}
	}
	return all
}

// TestTagCounts observes random statements from some goroutines and compares the counts with those of a model. The values of a tag
// are arbitrary bytes, and there is room for half of them.
func TestTagCounts(t *testing.T) {
	seed := testseed.New(t)
	const most, statements, workers = 20, 500, 4
	keys := []string{"route", "release", "none"}
	c, err := NewTagCounts(keys, most)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	var records [workers][]*querylog.Record
	want := make(map[string]float64)
	for w := range records {
		for range statements {
			r := called(1, noon)
			r.Tags = []querylog.Tag{{Key: []byte("other"), Value: []byte("x")}}
			values := map[string]string{}
			if v := rng.IntN(50); v > 0 {
				values["route"] = fmt.Sprintf("/%d", v)
			}
			values["release"] = []string{"", "other", "\xff", strings.Repeat("x", maxTagBytes), strings.Repeat("x", maxTagBytes+1), "é"}[rng.IntN(6)]
			for key, value := range values {
				r.Tags = append(r.Tags, querylog.Tag{Key: []byte(key), Value: []byte(value)})
			}
			r.Total = time.Duration(rng.IntN(1e6))
			r.ErrorNumber = uint16(rng.IntN(2))
			for _, key := range keys {
				want["calls "+key]++
				want["errors "+key] += float64(r.ErrorNumber)
				want["seconds "+key] += r.Total.Seconds()
			}
			if v := values["release"]; v == "\xff" || len(v) > maxTagBytes {
				want["release=other"]++
			} else {
				want["release="+v]++
			}
			records[w] = append(records[w], r)
		}
	}
	var all sync.WaitGroup
	for w := range records {
		all.Go(func() {
			for _, r := range records[w] {
				c.Observe(r)
			}
		})
	}
	testwait.Group(t, "the observers", &all)
	got := counted(t, c)
	sums := make(map[string]float64)
	values := make(map[string]int)
	for name, n := range got {
		metric, rest, _ := strings.Cut(name, " ")
		key, value, _ := strings.Cut(rest, "=")
		of := map[string]string{"tare_tag_queries_total": "calls ", "tare_tag_query_errors_total": "errors ", "tare_tag_query_seconds_total": "seconds "}[metric]
		sums[of+key] += n
		if of == "calls " {
			values[key]++
			if key == "release" && n != want["release="+value] {
				t.Errorf("release %q: %v calls, want %v", value, n, want["release="+value])
			}
		}
	}
	for name, n := range sums {
		if d := n - want[name]; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v in all, want %v", name, n, want[name])
		}
	}
	if values["route"] != most+2 || values["none"] != 2 || len(sums) != 9 {
		t.Errorf("values %v, sums %v", values, sums)
	}
	if n := c.HeapBytes(); n < 26*96 || n > 8<<10 {
		t.Errorf("%d bytes charged", n)
	}
	for _, bad := range [][]string{{""}, {"a", "a"}, {"\xff"}, strings.Split("abcdefghi", "")} {
		if _, err := NewTagCounts(bad, 10); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	if _, err := NewTagCounts(keys, MaxTagValues+1); err == nil {
		t.Error("no error for too many values")
	}
}
