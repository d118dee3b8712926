package stmtstats

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/taredb/tare/internal/teststmt"
)

// TestAllowance compares what an allowance permits with a table of steps: it starts at a sixteenth of the table, but at least one, which is
// also its maximum, and grows by the table's size per turnover.
func TestAllowance(t *testing.T) {
	const turnover = 32 * time.Minute
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		all, start int
		passed     []time.Duration // each evicts all that is allowed
		want       []int
	}{
		{1, 1, []time.Duration{31 * time.Minute, time.Minute, 100 * time.Hour}, []int{0, 1, 1}},
		{16, 1, []time.Duration{2 * time.Minute, 10 * time.Minute}, []int{1, 1}},
		{17, 1, []time.Duration{0, time.Nanosecond}, []int{0, 0}},
		{31, 1, []time.Duration{time.Hour}, []int{1}},
		{32, 2, []time.Duration{30 * time.Second, 30 * time.Second, time.Hour, -time.Hour, time.Minute}, []int{0, 1, 2, 0, 1}},
		{160, 10, []time.Duration{time.Minute, time.Hour}, []int{5, 10}},
	} {
		var a allowance
		a.start(now, tt.all)
		at := now
		if got := a.grow(at, tt.all, turnover); got != tt.start {
			t.Errorf("%d digests: starts with %d, want %d", tt.all, got, tt.start)
		}
		a.digests = 0
		for i, d := range tt.passed {
			at = at.Add(d)
			got := a.grow(at, tt.all, turnover)
			if got != tt.want[i] {
				t.Errorf("%d digests, step %d: %d, want %d", tt.all, i, got, tt.want[i])
			}
			a.digests -= float64(got)
		}
	}
}

// TestEvictForPage evicts for pages with known idle times: the longest of the next 64 entries that have pages.
func TestEvictForPage(t *testing.T) {
	table := mustOpen(t, Options{MaxDigests: 200})
	defer func() { _ = table.Close() }()
	for n := range 200 {
		table.Observe(teststmt.Record(n, time.Millisecond))
	}
	entries := table.mem.entries
	if len(entries) != 201 {
		t.Fatalf("%d entries", len(entries))
	}
	for i := range entries {
		entries[i].last.Store(int64(1000 + i))
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	evicts := func(what string, keep, want int) {
		t.Helper()
		before := make([]uint32, len(entries))
		for i := range entries {
			before[i] = uint32(entries[i].state())
		}
		ok := table.evictForPage(&entries[keep])
		got := 0
		for i := range entries {
			if uint32(entries[i].state()) != before[i] {
				if entries[i].state() != gateGone || got != 0 {
					t.Errorf("%s: entry %d changes as well as %d", what, i, got)
				}
				got = i
			}
		}
		if got != want || ok != (want != 0) {
			t.Errorf("%s: evicts %d, %t; want %d", what, got, ok, want)
		}
	}
	table.hand = 10
	entries[74].last.Store(2) // the last of the 64 entries from 11 on
	entries[75].last.Store(1)
	evicts("64 entries are compared", 0, 74)
	evicts("it continues behind them", 0, 75)
	table.hand = 197
	entries[200].last.Store(1)
	entries[1].last.Store(2)
	evicts("the last entry", 0, 200)
	table.hand = 199
	evicts("the first one follows the last", 0, 1)
	table.hand = 99
	entries[100].last.Store(1)
	entries[101].last.Store(2)
	evicts("another one than the entry that needs the page", 100, 101)
	table.pinned = true
	evicts("pinned", 0, 0)
	table.pinned = false
	entries[120].last.Store(3)
	entries[121].last.Store(1)
	entries[122].last.Store(2)
	table.hand = 110
	without := func(i int, text bool) { // pages
		for o := range entries[i].octaves {
			if n := entries[i].octaves[o].Swap(0); n != 0 {
				table.pages.put(n)
			}
		}
		if !text {
			table.dropText(&entries[i].text)
		}
	}
	without(121, false)
	without(122, true)
	evicts("an entry without pages has none to free, a text is one", 0, 122)
	for i := range entries {
		if i > 0 && entries[i].state() == gateLive {
			without(i, false)
		}
	}
	evicts("no entry has pages", 0, 0)
}

// TestAdmission finds the least number of free pages with which a statement is admitted: those that it fills, and one more.
func TestAdmission(t *testing.T) {
	const digests = 8
	o := Options{MaxDigests: digests, Bytes: leastBytes(digests) + 200*pageBytes, MaxText: 2 * shortText}
	for _, tt := range []struct {
		text, names int
		d           time.Duration
		pages       int // 0: it is never admitted
	}{
		{0, 1, 0, 1},
		{1, 1, 0, 2},
		{pageText, 1, 0, 2},
		{pageText + 1, 1, 0, 3},
		{shortText, 1, 0, 5},
		{1, 1, time.Millisecond, 3},
		{1, inlineNames, time.Millisecond, 3},
		{1, inlineNames + 1, time.Millisecond, 4},
		{1, maxNames, 0, 3},
		{1, maxNames + 1, 0, 0},
	} {
		least := 0
		for free := range 40 {
			table := mustOpen(t, o)
			reserve := table.mem.reserve()
			if reserve < 8 {
				t.Fatalf("the reserve is %d pages", reserve)
			}
			table.mu.Lock()
			taken := table.pages.numbers[free:]
			table.pages.numbers = table.pages.numbers[:free]
			table.mu.Unlock()
			r := teststmt.Record(1, tt.d)
			r.Normalized, r.Text = bytes.Repeat([]byte("x"), tt.text), nil
			r.Schema, r.User, r.Backend = strings.Repeat("s", tt.names/3), strings.Repeat("u", tt.names-2*(tt.names/3)), strings.Repeat("b", tt.names/3)
			table.mu.Lock()
			e := table.admit(1, r, BucketOf(tt.d), 5)
			want := tt.pages != 0 && free >= max(reserve, tt.pages)
			if (e != nil) != want || table.full.Load() != (!want && tt.pages != 0) {
				t.Errorf("%+v: %d free pages, a reserve of %d: admitted %t, full %t", tt, free, reserve, e != nil, table.full.Load())
			}
			if e != nil {
				if least == 0 {
					least = free
				}
				used := tt.pages - 1
				if tt.d != 0 {
					used-- // that of its first count
				}
				if table.pages.free() != free-used || e.first != 5 || table.live != 1 || table.admitted != 1 {
					t.Errorf("%+v: %d of %d pages are free, %d live, %d admitted, first %d", tt, table.pages.free(), free, table.live, table.admitted, e.first)
				}
			}
			table.pages.numbers = append(table.pages.numbers, taken...)
			table.mu.Unlock()
			if err := table.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if (least == 0) != (tt.pages == 0) {
			t.Errorf("%+v: least %d", tt, least)
		}
	}
}

// TestPagesAreFreed evicts entries with texts and names of all numbers of pages: exactly their pages are free again.
func TestPagesAreFreed(t *testing.T) {
	table := mustOpen(t, Options{MaxDigests: 64, MaxText: 4 * shortText})
	defer func() { _ = table.Close() }()
	free := slices.Sorted(slices.Values(table.pages.numbers))
	n := 0
	for _, text := range []int{0, 1, pageText - 1, pageText, pageText + 1, shortText, shortText + 1, 4 * shortText, 4*shortText + 1} {
		for _, names := range []int{10, inlineNames, inlineNames + 1, maxNames} {
			r := teststmt.Record(n, time.Millisecond<<(n%3))
			n++
			r.Normalized, r.Text = bytes.Repeat([]byte("x"), text), bytes.Repeat([]byte("y"), text)
			r.Schema, r.User, r.Backend = strings.Repeat("s", names), "", ""
			table.Observe(r)
			r.Total *= 4
			table.Observe(r)
		}
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	if table.longPages != 4*(1+12+12) || table.slowTexts == 0 || table.live != n {
		t.Errorf("%d pages of long texts, %d of slow ones, %d entries", table.longPages, table.slowTexts, table.live)
	}
	for i := range table.mem.entries {
		if e := &table.mem.entries[i]; i > 0 && e.state() == gateLive {
			table.evict(e)
			table.free(uint32(i))
		}
	}
	if got := slices.Sorted(slices.Values(table.pages.numbers)); !slices.Equal(got, free) {
		t.Errorf("%d pages are free, want %d", len(got), len(free))
	}
	if table.longPages != 0 || table.slowTexts != 0 || table.live != 0 || len(table.unused) != 64 {
		t.Errorf("%d pages of long texts, %d of slow ones, %d entries, %d unused", table.longPages, table.slowTexts, table.live, len(table.unused))
	}
}

// TestSparseBuckets compares Prometheus' form of two buckets at all distances with the written one: up to four empty buckets are written
// between them, more start a new span.
func TestSparseBuckets(t *testing.T) {
	for _, first := range []int{0, 1, PerOctave - 2, PerOctave - 1, PerOctave, NumBuckets - 11} {
		for empty := range 9 {
			h := Histogram{Zero: 7, Nanos: 3e9, Octaves: 1<<(first/PerOctave) | 1<<((first+1+empty)/PerOctave)}
			h.Buckets[first], h.Buckets[first+1+empty] = 3, 5
			index := first + 1 + FirstOctave*PerOctave
			want := &histogram.Histogram{Schema: Schema, ZeroThreshold: ZeroThreshold, ZeroCount: 7, Count: 15, Sum: 3}
			switch {
			case empty == 0:
				want.PositiveBuckets = []int64{3, 2}
			case empty <= 4:
				want.PositiveBuckets = append(append([]int64{3, -3}, make([]int64, empty-1)...), 5)
			default:
				want.PositiveBuckets = []int64{3, 2}
			}
			if want.PositiveSpans = []histogram.Span{{Offset: int32(index), Length: uint32(empty + 2)}}; empty > 4 {
				want.PositiveSpans = []histogram.Span{{Offset: int32(index), Length: 1}, {Offset: int32(empty), Length: 1}}
			}
			if got := h.Native(); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Errorf("buckets %d and %d: %#v, want %#v", first, first+1+empty, got, want)
			}
			if got, want := h.Indexed(), map[int]int64{index: 3, index + 1 + empty: 5}; !maps.Equal(got, want) {
				t.Errorf("buckets %d and %d: %v, want %v", first, first+1+empty, got, want)
			}
		}
	}
}
