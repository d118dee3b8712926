package querylog_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/taredb/tare/querylog"
)

// sampled logs records to a writer and returns the reasons and factors of the lines.
func sampled(t *testing.T, s querylog.Sampling, records []*querylog.Record) (reasons []string, factors []uint64, l *querylog.Logger) {
	t.Helper()
	w := newTap()
	l, err := querylog.New(querylog.Options{Sampling: s, Sinks: []querylog.SinkOptions{{Writer: w, QueueBytes: 64 << 20}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		l.Log(r)
	}
	mustClose(t, l)
	for line := range bytes.Lines(w.bytes()) {
		m := struct {
			Reason string `json:"emit_reason"`
			Factor uint64 `json:"sample_factor"`
		}{"all", 1}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		reasons, factors = append(reasons, m.Reason), append(factors, m.Factor)
	}
	return reasons, factors, l
}

func TestConditions(t *testing.T) {
	fast, slow, rows, bad := sample(), sample(), sample(), failed()
	slow.Total = time.Second
	rows.RowsReturned = 1000
	all := []*querylog.Record{fast, slow, rows, bad}
	for _, c := range []struct {
		name string
		s    querylog.Sampling
		want []string
	}{
		{"everything", querylog.Sampling{}, []string{"all", "all", "all", "all"}},
		{"slow", querylog.Sampling{SlowerThan: time.Second}, []string{"slow"}},
		{"rows", querylog.Sampling{MoreRowsThan: 999}, []string{"rows"}},
		{"not that many rows", querylog.Sampling{MoreRowsThan: 1000}, nil},
		{"errors", querylog.Sampling{Errors: true}, []string{"error"}},
		{"any of three", querylog.Sampling{Errors: true, SlowerThan: time.Second, MoreRowsThan: 10}, []string{"slow", "rows", "error"}},
		{"errors and all others", querylog.Sampling{Errors: true, OneIn: 1}, []string{"all", "all", "all", "error"}},
	} {
		got, _, _ := sampled(t, c.s, all)
		if !equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestOneIn logs one in ten of many: the factors add up to about all of them. The bounds are six standard
// deviations wide.
func TestOneIn(t *testing.T) {
	const n = 20_000
	records := make([]*querylog.Record, n)
	for i := range records {
		records[i] = sample()
	}
	_, factors, _ := sampled(t, querylog.Sampling{OneIn: 10}, records)
	sum := uint64(0)
	for _, f := range factors {
		sum += f
	}
	if sigma := 10 * math.Sqrt(n*0.1*0.9); math.Abs(float64(sum)-n) > 6*sigma {
		t.Errorf("%d lines, the factors add up to %d, want about %d", len(factors), sum, n)
	}
}

// TestPerDigest logs a frequent digest and a rare one for ten seconds: the rare one is logged each time, the
// frequent one five times per second, and the factors add up exactly.
func TestPerDigest(t *testing.T) {
	var records []*querylog.Record
	start := sample().Start
	for second := range 10 {
		for i := range 100 {
			r := sample()
			r.Start = start.Add(time.Duration(second)*time.Second + time.Duration(i))
			if i == 50 {
				r.Digest[5] = 1
			}
			records = append(records, r)
		}
	}
	_, factors, l := sampled(t, querylog.Sampling{PerDigest: 5}, records)
	sum := uint64(0)
	for _, f := range factors {
		sum += f
	}
	st := l.Stats()
	if len(factors) != 10*5+10 {
		t.Errorf("%d lines, want 60", len(factors))
	}
	if sum+st.Held != uint64(len(records)) || st.Unaccounted != 0 || st.Held != 94 {
		t.Errorf("factors add up to %d, %d held, %d unaccounted; want %d", sum, st.Held, st.Unaccounted, len(records))
	}
}

// TestManyDigests logs many more digests than the limiter has room for: each new one is logged, and the lost
// factors are reported.
func TestManyDigests(t *testing.T) {
	if testing.Short() {
		t.Skip("50,000 digests take long with the race detector")
	}
	var records []*querylog.Record
	const digests = 50_000
	for i := range digests {
		r := sample()
		binary.LittleEndian.PutUint64(r.Digest[:], uint64(i)*0x9E3779B97F4A7C15)
		r.Start = r.Start.Add(time.Duration(i) * time.Millisecond)
		records = append(records, r, r, r)
	}
	_, factors, l := sampled(t, querylog.Sampling{PerDigest: 1}, records)
	sum := uint64(0)
	for _, f := range factors {
		sum += f
	}
	st := l.Stats()
	if len(factors) < digests {
		t.Errorf("%d lines of %d digests", len(factors), digests)
	}
	if got := sum + st.Held + st.Unaccounted; got != 3*digests || st.Unaccounted == 0 {
		t.Errorf("logged %d, held %d, unaccounted %d; want %d together", sum, st.Held, st.Unaccounted, 3*digests)
	}
}
