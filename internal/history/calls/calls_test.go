package calls

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newSample(t testing.TB, spans int64) *Sample {
	t.Helper()
	s, err := New(Options{Bytes: spans * MinBytes / 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// called returns the record of a call of statement n that ended at a time.
func called(n int, at time.Time) *querylog.Record {
	r := teststmt.Record(n, time.Millisecond)
	r.Digest[15] = byte(n)
	r.Start = at.Add(-time.Millisecond)
	r.Client = netip.MustParseAddrPort("10.0.0.7:41200")
	r.Tags = []querylog.Tag{{Key: []byte("route"), Value: []byte("/cart")}, {Key: []byte("release"), Value: []byte("4.2")}}
	return r
}

func TestCallsAreKeptWhole(t *testing.T) {
	s := newSample(t, 5)
	r := called(1, noon)
	r.ErrorNumber = 1205
	s.Observe(r)
	got := s.Of(r.Digest, noon.Add(-interval), noon.Add(interval))
	want := Call{
		End: noon, Took: time.Millisecond, Weight: 1, Rows: 5, Error: 1205, User: "app", Schema: "shop", Backend: "127.0.0.1:3306", Client: "10.0.0.7",
		Tags: []Tag{{"route", "/cart"}, {"release", "4.2"}},
	}
	if len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, none := range map[string][]Call{
		"before": s.Of(r.Digest, noon.Add(-interval), noon), "after": s.Of(r.Digest, noon.Add(time.Nanosecond), noon.Add(interval)),
		"another": s.Of([16]byte{9}, noon.Add(-interval), noon.Add(interval)),
	} {
		if len(none) != 0 {
			t.Errorf("%s: %+v", name, none)
		}
	}
	long := called(2, noon)
	long.User, long.Schema, long.Backend = strings.Repeat("u", 300), strings.Repeat("s", 300), strings.Repeat("b", 300)
	long.Tags[0].Value = []byte(strings.Repeat("v", 300))
	s.Observe(long)
	got = s.Of(long.Digest, noon, noon.Add(time.Second))
	if len(got) != 1 || got[0].User != long.User[:maxUser] || got[0].Schema != long.Schema[:maxName] || got[0].Backend != long.Backend[:maxName] || len(got[0].Tags) != 1 || got[0].Tags[0].Key != "route" {
		t.Errorf("got %+v", got)
	}
}

// TestWeights checks that the weights of the calls of an interval add up to all of its calls, and that each
// has the same probability.
func TestWeights(t *testing.T) {
	s := newSample(t, 5)
	const n = 4000
	for i := range n {
		s.Observe(called(1, noon.Add(time.Duration(i)*time.Millisecond)))
	}
	of := called(1, noon).Digest
	total, early := 0.0, 0
	for _, c := range s.Of(of, noon, noon.Add(interval)) {
		total += c.Weight
	}
	if math.Abs(total-n) > 1e-6 {
		t.Errorf("the weights add up to %v, want %d", total, n)
	}
	const rounds = 500
	for round := range rounds { // the first half of an interval is as likely as the second
		at := noon.Add(time.Duration(round+1) * interval)
		for i := range 64 {
			s.Observe(called(1, at.Add(time.Duration(i)*time.Millisecond)))
		}
		for _, c := range s.Of(of, at, at.Add(interval)) {
			if c.End.Before(at.Add(32 * time.Millisecond)) {
				early++
			}
		}
	}
	if early < rounds*numSlots*4/10 || early > rounds*numSlots*6/10 { // ten standard deviations
		t.Errorf("%d of %d calls are of the first half", early, rounds*numSlots)
	}
}

// TestSpansAreReused checks that calls older than the time covered by the sample are evicted, and that a call
// from before it is ignored.
func TestSpansAreReused(t *testing.T) {
	s := newSample(t, 3)
	of := called(1, noon).Digest
	if d := s.Covers(); d != 0 {
		t.Errorf("without calls it covers %v", d)
	}
	s.Observe(called(1, noon.Add(-interval)))
	if s.Observe(called(1, noon)); s.Covers() != interval {
		t.Errorf("calls of two intervals cover %v", s.Covers())
	}
	for i := range 5 {
		s.Observe(called(1, noon.Add(time.Duration(i)*interval)))
	}
	s.Observe(called(1, noon))
	got := s.Of(of, noon.Add(-time.Hour), noon.Add(time.Hour))
	if len(got) != 0 { // an hour ahead no minute is covered
		t.Errorf("got %+v", got)
	}
	got = s.Of(of, noon.Add(-time.Hour), noon.Add(4*interval+1))
	if len(got) != 3 || !got[0].End.Equal(noon.Add(2*interval)) || s.Covers() != 2*interval {
		t.Errorf("got %+v", got)
	}
}

func TestConcurrentObserve(t *testing.T) {
	s := newSample(t, 2)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 2000 {
				s.Observe(called(w, noon.Add(time.Duration(i)*100*time.Millisecond)))
				if i%100 == 0 {
					s.Of(called(w, noon).Digest, noon, noon.Add(time.Hour))
				}
			}
		})
	}
	testwait.Group(t, "the observers", &all)
	for _, c := range s.Of(called(1, noon).Digest, noon, noon.Add(4*time.Minute)) {
		if c.User != "app" || c.Client != "10.0.0.7" || len(c.Tags) != 2 {
			t.Errorf("a torn call: %+v", c)
		}
	}
}

func TestCompare(t *testing.T) {
	set := func(n int, change func(i int, c *Call)) []Call {
		all := make([]Call, n)
		for i := range all {
			all[i] = Call{Weight: 1, Rows: 1, User: "app", Client: "10.0.0.1", Schema: "shop"}
			change(i, &all[i])
		}
		return all
	}
	before := set(20, func(int, *Call) {})
	within := set(40, func(i int, c *Call) {
		if i%4 != 0 {
			c.Client, c.Rows, c.Tags = "10.0.0.9", 250, []Tag{{"release", "4.2"}}
		}
		if i%2 == 0 {
			c.Error = 1205
		}
		if i == 1 {
			c.User = "once"
		}
	})
	var got []string
	for _, d := range Compare(before, within) {
		got = append(got, fmt.Sprintf("%s=%s %.2f %.2f", d.Dimension, d.Value, d.Before, d.Within))
	}
	want := "client=10.0.0.9 0.00 0.75, rows=100–999 0.00 0.75, tag release=4.2 0.00 0.75, client=10.0.0.1 1.00 0.25, rows=1 1.00 0.25, error= 1.00 0.50, error=1205 0.00 0.50"
	lines := strings.Join(got, ", ")
	if lines != want && lines != strings.Replace(want, "error= 1.00 0.50, error=1205 0.00 0.50", "error=1205 0.00 0.50, error= 1.00 0.50", 1) {
		t.Errorf("got %s, want %s", lines, want)
	}
	if few := Compare(before[:LeastCalls-1], within); few != nil {
		t.Errorf("of few calls %+v", few)
	}
	heavy := set(10, func(i int, c *Call) {
		if i == 0 {
			c.Weight, c.Client = 1000, "10.0.0.2"
		}
	})
	if d := Compare(before, heavy); len(d) != 2 || d[0].Value != "10.0.0.2" || d[0].Within < 0.99 {
		t.Errorf("with a weight %+v", d)
	}
}

func TestRowsClass(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1: "1", 2: "2–9", 9: "2–9", 10: "10–99", 99: "10–99", 100: "100–999", 999_999: "100000–999999", 1_000_000: "1000000 or more", math.MaxUint64: "1000000 or more"} {
		if got := rowsClass(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestAllocs(t *testing.T) {
	s := newSample(t, 3)
	r, at := called(1, noon), noon
	tags, err := NewTagCounts([]string{"route", "none"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	alloctest.Run(t, []alloctest.Case{
		{Name: "Observe", Op: func() error { s.Observe(r); return nil }},
		{Name: "Observe by tags", Op: func() error { tags.Observe(r); return nil }},
		{Name: "Observe in another interval", Op: func() error {
			at = at.Add(interval)
			r.Start = at
			s.Observe(r)
			if m := &s.spans[at.UnixNano()/int64(interval)%3]; m.number.Load() != at.UnixNano()/int64(interval) {
				return fmt.Errorf("interval %d", m.number.Load())
			}
			return nil
		}},
	})
}
