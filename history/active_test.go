package history

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
)

// activeSeries are the series that keep wants, as text, sorted.
func activeSeries(a *Active, keep func(labels.Labels) bool) []string {
	var all []string
	for ls := range a.ActiveSeries(keep) {
		all = append(all, ls.String())
	}
	slices.Sort(all)
	return all
}

func anySeries(labels.Labels) bool { return true }

func TestActive(t *testing.T) {
	r := record(1, time.Millisecond)
	now := r.Start.Add(time.Minute)
	table := mustOpen(t, Options{Now: func() time.Time { return now }})
	defer func() { _ = table.Close() }()
	a, err := NewActive(table, map[string]string{"instance": "gw1", "zone": "eu"}, 20*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := activeSeries(a, anySeries); len(got) != 0 {
		t.Errorf("before any statement: %v", got)
	}
	table.Observe(r)
	failed := record(2, time.Millisecond)
	failed.RowsReturned, failed.RowsAffected, failed.BytesOut, failed.Normalized = 0, 0, 0, nil
	failed.ErrorNumber, failed.Schema, failed.User = 1062, "", "\xff"
	table.Observe(failed)
	old := record(3, time.Millisecond)
	old.Start = now.Add(-time.Hour)
	table.Observe(old)
	// The same digest of another user has the same text.
	other := record(1, time.Millisecond)
	other.User = "batch"
	table.Observe(other)

	one := `backend="127.0.0.1:3306", digest="01000001000000000000000000000000", instance="gw1", schema="shop", user="app", zone="eu"}`
	batch := `backend="127.0.0.1:3306", digest="01000001000000000000000000000000", instance="gw1", schema="shop", user="batch", zone="eu"}`
	want := []string{
		`{__name__="tare_digest_info", digest="01000001000000000000000000000000", instance="gw1", text="select ?", zone="eu"}`,
		`{__name__="tare_queries_total", backend="127.0.0.1:3306", digest="01000002000000000000000000000000", instance="gw1", user="�", zone="eu"}`,
		`{__name__="tare_query_duration_seconds", backend="127.0.0.1:3306", digest="01000002000000000000000000000000", instance="gw1", user="�", zone="eu"}`,
		`{__name__="tare_query_errors_total", backend="127.0.0.1:3306", class="constraint", digest="01000002000000000000000000000000", instance="gw1", user="�", zone="eu"}`,
	}
	for _, name := range []string{nameQueries, nameRowsSent, nameRowsAffected, nameBytesSent, nameDuration} {
		want = append(want, `{__name__="`+name+`", `+one, `{__name__="`+name+`", `+batch)
	}
	slices.Sort(want)
	if d := cmp.Diff(want, activeSeries(a, anySeries)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}

	// Shards are together all of them, each in one.
	var together []string
	for i := range uint64(3) {
		together = append(together, activeSeries(a, func(ls labels.Labels) bool { return labels.StableHash(ls)%3 == i })...)
	}
	slices.Sort(together)
	if d := cmp.Diff(want, together); d != "" {
		t.Errorf("all shards: -want +got\n%s", d)
	}

	// Who stops early gets no more; the table is not held meanwhile.
	for ls := range a.ActiveSeries(anySeries) {
		if ls.IsEmpty() {
			t.Error("a series without labels")
		}
		if err := table.Collect(func(*Sample) error { return nil }); err != nil {
			t.Error(err)
		}
		break
	}
	now = now.Add(20 * time.Minute)
	if got := activeSeries(a, anySeries); len(got) != 0 {
		t.Errorf("later: %v", got)
	}
}

func TestNewActiveRefuses(t *testing.T) {
	table := mustOpen(t, Options{})
	defer func() { _ = table.Close() }()
	for name, c := range map[string]struct {
		labels map[string]string
		idle   time.Duration
	}{
		"no instance": {map[string]string{"zone": "eu"}, time.Minute},
		"own label":   {map[string]string{"instance": "a", "digest": "b"}, time.Minute},
		"no time":     {map[string]string{"instance": "a"}, 0},
	} {
		if _, err := NewActive(table, c.labels, c.idle); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// BenchmarkActiveSeries asks a full table for one shard of 16.
func BenchmarkActiveSeries(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := mustOpen(b, Options{Now: func() time.Time { return now }})
	defer func() { _ = table.Close() }()
	for i := range DefaultMaxDigests {
		table.Observe(record(i, time.Millisecond))
	}
	a, err := NewActive(table, map[string]string{"instance": "gw1"}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		for range a.ActiveSeries(func(ls labels.Labels) bool { return labels.StableHash(ls)%16 == 3 }) {
			n++
		}
	}
	b.ReportMetric(float64(n), "series")
	if n < DefaultMaxDigests/4 {
		b.Errorf("%d series", n)
	}
}
