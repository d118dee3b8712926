package stmtstats

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststmt"
)

// TestScans reads entries by number, by digest and by Mark: those that have changed since, the evicted and the unused.
func TestScans(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := mustOpen(t, Options{MaxDigests: 40, MinIdle: time.Minute, Turnover: time.Minute, Now: func() time.Time { return now }})
	defer func() { _ = table.Close() }()
	observe := func(n int, user string) {
		r := teststmt.Record(n, time.Millisecond)
		if r.Start, r.User = now, user; n < 0 {
			r.Digest = [16]byte{}
		}
		if n >= 0 {
			r.Normalized = []byte(strings.Repeat("x", 10*(n+1)))
		}
		table.Observe(r)
	}
	observe(1, "a")
	observe(1, "b")
	observe(2, "a")
	observe(-1, "a")
	if n := table.Len(); n != 5 {
		t.Errorf("%d samples", n)
	}
	var s Sample
	scan := func() (got []string, numbers map[string]int, ids map[string]uint64) {
		numbers, ids = make(map[string]int), make(map[string]uint64)
		begun := 0
		if err := table.Scan(&s, func() { begun++; got = nil }, func(number int) {
			name := s.Kind.String()
			if s.Kind == Tracked {
				name = fmt.Sprintf("%d%s", s.Digest[3], s.User)
			}
			got = append(got, fmt.Sprintf("%s:%d", name, s.Counts[Calls]))
			numbers[name], ids[name] = number, s.ID
		}); err != nil || begun != 1 {
			t.Fatalf("%v, begun %d times", err, begun)
		}
		slices.Sort(got)
		return got, numbers, ids
	}
	got, numbers, ids := scan()
	if want := "[1a:1 1b:1 2a:1 evicted:0 other:1]"; fmt.Sprint(got) != want || numbers["other"] != 0 || numbers["evicted"] != 0 {
		t.Errorf("%v, want %s; numbers %v", got, want, numbers)
	}
	var users []string
	table.ReadDigest(&s, [16]byte{1, 0, 0, 1}, func(number int) {
		users = append(users, s.User)
		if number != numbers["1"+s.User] || s.Counts[Calls] != 1 {
			t.Errorf("entry %d of %s", number, s.User)
		}
	})
	if slices.Sort(users); fmt.Sprint(users) != "[a b]" {
		t.Errorf("users %v", users)
	}
	two := numbers["2a"]
	if text, cut := table.TextAt(two, ids["2a"]); text != strings.Repeat("x", 30) || cut {
		t.Errorf("text %q, cut %v", text, cut)
	}
	if text, _ := table.TextAt(two, ids["2a"]+1); text != "" {
		t.Errorf("the text of another ID: %q", text)
	}
	if k, ok := table.KeyAt(two, ids["2a"]); !ok || k.User != "a" || k.Digest[3] != 2 {
		t.Errorf("%+v, %v", k, ok)
	}
	if k, ok := table.KeyAt(two, ids["2a"]+1); ok || k != (Key{}) {
		t.Errorf("the Key of another ID: %+v", k)
	}
	if k, ok := table.KeyAt(table.Numbers()-1, 0); !ok || k != (Key{}) {
		t.Errorf("the evicted: %+v, %v", k, ok)
	}
	texts := map[[16]byte]string{{1, 0, 0, 1}: "short", {1, 0, 0, 2}: strings.Repeat("y", 30), {9}: "unknown"}
	table.LongerTexts(texts)
	if texts[[16]byte{1, 0, 0, 1}] != strings.Repeat("x", 20) || texts[[16]byte{1, 0, 0, 2}] != strings.Repeat("y", 30) || texts[[16]byte{9}] != "unknown" {
		t.Errorf("%q", texts)
	}

	marks := make([]Mark, table.Numbers())
	changes := func(marks []Mark) (got []string) {
		if err := table.ScanChanges(&s, marks, func() { got = nil }, func(number int, m Mark, live bool) {
			name := "unused"
			switch {
			case number == table.Numbers()-1:
				name = "evicted"
				if m != (Mark{}) || !live {
					t.Errorf("the evicted have the Mark %+v, live %v", m, live)
				}
			case live:
				if name = s.Kind.String(); s.Kind == Tracked {
					name = fmt.Sprintf("%d%s", s.Digest[3], s.User)
				}
				if s.Kind == Tracked && m.ID() != s.ID {
					t.Errorf("%s: the Mark is of ID %d, want %d", name, m.ID(), s.ID)
				}
			}
			if marks != nil {
				marks[number] = m
			}
			if live {
				name += fmt.Sprint(":", s.Counts[Calls])
			}
			got = append(got, name)
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return slices.Compact(got)
	}
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "[1a:1 1b:1 2a:1 evicted:0 other:1]"},
		{func() {}, "[evicted:0]"},
		{func() { observe(1, "b") }, "[1b:2 evicted:0]"},
		{func() { observe(-1, "b") }, "[evicted:0 other:2]"},
		{func() { observe(3, "a") }, "[3a:1 evicted:0]"},
		{func() {
			r := teststmt.Record(4, 1)
			r.Normalized = nil
			r.Start = now
			table.Observe(r)
		}, "[4app:1 evicted:0]"},
		{func() { observe(4, "app") }, "[4app:2 evicted:0]"},
	} {
		step.do()
		if got := fmt.Sprint(changes(marks)); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if got := fmt.Sprint(changes(nil)); !strings.Contains(got, "1a:1") || !strings.Contains(got, "3a:1") {
		t.Errorf("all: %s", got)
	}
	seen := 0
	if !table.Changes(0, table.Numbers(), func(int) Mark { return Mark{} }, func(c *Change) {
		if !c.Live {
			return
		}
		seen++
		switch c.Kind {
		case Other:
			if c.Number != 0 || c.Counts()[RowsSent] != 6 || c.Key() != (Key{}) || c.Text() != "" || c.HasText() {
				t.Errorf("others: %+v", c)
			}
		case Evicted:
			if c.Number != table.Numbers()-1 || c.Counts()[RowsSent] != 0 || c.Key() != (Key{}) || c.Text() != "" || c.HasText() {
				t.Errorf("the evicted: %+v", c)
			}
		default:
			k := c.Key()
			if c.Last != now.Add(time.Millisecond).UnixNano() && k.Digest[3] != 4 || c.Counts()[RowsSent] == 0 || !c.HasText() || len(c.Text()) != 10*(int(k.Digest[3])+1) {
				t.Errorf("%+v of %+v: %d rows, text %q", c, k, c.Counts()[RowsSent], c.Text())
			}
		}
	}) || seen != 7 {
		t.Errorf("%d entries", seen)
	}

	now = now.Add(time.Hour)
	for n := 5; n < 60; n++ {
		observe(n, "a")
	}
	gone := make(map[string]bool)
	for range 3 {
		now = now.Add(time.Hour)
		observe(60, "a")
		if err := table.Collect(func(s *Sample) error {
			if s.Kind == Removed {
				gone[fmt.Sprintf("%d%s", s.Digest[3], s.User)] = true
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(gone) == 0 {
		t.Fatal("no Key was evicted")
	}
	for name, number := range numbers {
		if _, ok := table.KeyAt(number, ids[name]); name != "evicted" && ok == gone[name] {
			t.Errorf("%s has a Key: %v, evicted: %v", name, ok, gone[name])
		}
	}
	if after := fmt.Sprint(changes(marks)); !strings.Contains(after, "unused") || strings.Contains(after, "evicted:0 ") {
		t.Errorf("after evictions: %s", after)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if err := table.Scan(&s, func() {}, func(int) { t.Error("an entry of a closed table") }); !errors.Is(err, errClosed) {
		t.Errorf("a closed table: %v", err)
	}
	if err := table.ScanChanges(&s, nil, func() {}, func(int, Mark, bool) { t.Error("an entry of a closed table") }); !errors.Is(err, errClosed) {
		t.Errorf("a closed table: %v", err)
	}
	if table.Changes(0, 1, func(int) Mark { return Mark{} }, func(*Change) { t.Error("an entry of a closed table") }) {
		t.Error("a closed table has changes")
	}
	if err := table.Each(func(*Sample) error { t.Error("an entry of a closed table"); return nil }); !errors.Is(err, errClosed) {
		t.Errorf("a closed table: %v", err)
	}
	if err := table.Collect(func(*Sample) error { t.Error("an entry of a closed table"); return nil }); !errors.Is(err, errClosed) {
		t.Errorf("a closed table: %v", err)
	}
	if table.ReadEntry(&s, 0) {
		t.Error("an entry of a closed table")
	}
	if _, ok := table.KeyAt(table.Numbers()-1, 0); ok {
		t.Error("the evicted of a closed table")
	}
	table.ReadDigest(&s, [16]byte{1, 0, 0, 1}, func(int) { t.Error("an entry of a closed table") })
}

// TestVisitErrors ends Each and Collect with the error of a visit, whichever sample it is; MarkAllChanged visits all again.
func TestVisitErrors(t *testing.T) {
	table := mustOpen(t, Options{MaxDigests: 40})
	defer func() { _ = table.Close() }()
	for n := range 3 {
		table.Observe(teststmt.Record(n, time.Millisecond))
	}
	r := teststmt.Record(9, time.Millisecond)
	r.Digest = [16]byte{}
	table.Observe(r)
	stop := errors.New("stop")
	count := func(read func(func(*Sample) error) error, after int) (n int, err error) {
		err = read(func(*Sample) error {
			if n++; n == after {
				return stop
			}
			return nil
		})
		return n, err
	}
	all, err := count(table.Each, -1)
	if err != nil || all != 5 {
		t.Fatalf("%d samples (%v)", all, err)
	}
	for after := 1; after <= all; after++ {
		if n, err := count(table.Each, after); !errors.Is(err, stop) || n != after {
			t.Errorf("Each stops after %d of %d: %v", n, after, err)
		}
		table.MarkAllChanged()
		if n, err := count(table.Collect, after); !errors.Is(err, stop) || n != after {
			t.Errorf("Collect stops after %d of %d: %v", n, after, err)
		}
	}
	table.MarkAllChanged()
	if n, err := count(table.Collect, -1); err != nil || n != all {
		t.Errorf("%d samples (%v)", n, err)
	}
	if n, err := count(table.Collect, -1); err != nil || n >= all {
		t.Errorf("%d samples of unchanged Keys (%v)", n, err)
	}
}

// TestHistogramForms converts random histograms to each form and back, adds parts of them and subtracts them.
func TestHistogramForms(t *testing.T) {
	rng := testseed.Rand(t)
	for range 200 {
		var h Histogram
		for range rng.IntN(300) {
			d := time.Duration(math.Exp(rng.Float64() * 30))
			if rng.IntN(9) == 0 {
				d = time.Duration(rng.IntN(3))
			}
			h.Record(d)
		}
		total, least := h.Zero, time.Duration(-1)
		indexed := h.Indexed()
		if h.Zero > 0 {
			least = 0
		}
		var n uint64
		for i, b := range h.NonEmpty() {
			if n += b.Count; b.Count == 0 || i > 0 && b.Duration <= least || i == 0 && h.Zero > 0 && (b.Duration != 0 || b.Count != h.Zero) {
				t.Fatalf("bucket %d: %+v", i, b)
			}
			least = b.Duration
		}
		for _, c := range indexed {
			total += uint64(c)
		}
		if n != h.Count() || total != n || (n == 0) != (h.NonEmpty() == nil) {
			t.Fatalf("%d and %d of %d durations", n, total, h.Count())
		}
		var native Histogram
		if err := native.SetNative(h.Native()); err != nil || native.Buckets != h.Buckets || native.Zero != h.Zero || native.Octaves != h.Octaves {
			t.Fatalf("not the same after Native (%v)", err)
		}
		var spread Histogram
		if err := spread.AddSpread(h.AppendSpread(nil)); err != nil || spread.Buckets != h.Buckets || spread.Zero != h.Zero || spread.Octaves != h.Octaves {
			t.Fatalf("not the same after its spread (%v)", err)
		}
		var parts, less Histogram
		cuts := []float64{0, rng.Float64(), 0, 1}
		cuts[2] = cuts[1] + (1-cuts[1])*rng.Float64()
		for i := range 3 {
			parts.MergePart(&h, cuts[i], cuts[i+1])
		}
		if parts.Buckets != h.Buckets || parts.Zero != h.Zero || parts.Nanos != h.Nanos || parts.Octaves != h.Octaves {
			t.Fatal("the parts are not all")
		}
		parts.Merge(&h)
		less.Merge(&parts)
		if less.Subtract(&h); less.Buckets != h.Buckets || less.Zero != h.Zero || less.Nanos != h.Nanos {
			t.Fatal("twice less once is not once")
		}
		less.Subtract(&parts)
		if less.Count() != 0 || less.Nanos != 0 {
			t.Fatal("once less twice is not nothing")
		}
		if h.Reset(); h != (Histogram{}) {
			t.Fatal("not empty after Reset")
		}
	}
}

// TestForeignHistograms refuses histograms that Native does not return, and spreads of version 1 that are none.
func TestForeignHistograms(t *testing.T) {
	span := func(offset int32, length uint32) []histogram.Span {
		return []histogram.Span{{Offset: offset, Length: length}}
	}
	const first = 1 + FirstOctave*PerOctave
	for name, c := range map[string]struct {
		h  histogram.Histogram
		ok bool
	}{
		"empty":           {histogram.Histogram{Schema: Schema}, true},
		"another schema":  {histogram.Histogram{Schema: Schema - 1}, false},
		"negative":        {histogram.Histogram{Schema: Schema, NegativeSpans: span(0, 0)}, false},
		"the first":       {histogram.Histogram{Schema: Schema, PositiveSpans: span(first, 1), PositiveBuckets: []int64{5}}, true},
		"before it":       {histogram.Histogram{Schema: Schema, PositiveSpans: span(first-1, 1), PositiveBuckets: []int64{5}}, false},
		"the last":        {histogram.Histogram{Schema: Schema, PositiveSpans: span(first+NumBuckets-1, 1), PositiveBuckets: []int64{5}}, true},
		"after it":        {histogram.Histogram{Schema: Schema, PositiveSpans: span(first+NumBuckets-1, 2), PositiveBuckets: []int64{5, 0}}, false},
		"too few buckets": {histogram.Histogram{Schema: Schema, PositiveSpans: span(first, 2), PositiveBuckets: []int64{5}}, false},
		"an empty bucket": {histogram.Histogram{Schema: Schema, PositiveSpans: span(first, 2), PositiveBuckets: []int64{5, -5}}, true},
	} {
		var h Histogram
		if err := h.SetNative(&c.h); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if want := uint64(len(c.h.PositiveBuckets)); c.ok && want > 0 && h.Count() != 5 {
			t.Errorf("%s: %d durations", name, h.Count())
		}
	}
	for seconds, want := range map[float64]uint64{-1: 0, 0: 0, math.NaN(): 0, 1e-9: 1, 1.4e-9: 1, 1.5e-9: 2, 2: 2e9} {
		if got := nanosOf(seconds); got != want {
			t.Errorf("%v s are %d ns, want %d", seconds, got, want)
		}
	}
	var h Histogram
	if err := h.AddSpread(nil); err != nil || h.Count() != 0 {
		t.Errorf("no spread: %v", err)
	}
}

// TestCutText cuts texts before a character that does not fit.
func TestCutText(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd", "abcé": "abc", "abé": "abé", "ab€": "ab", "a😀": "a", "😀": "😀", "abc\x80\x80": "ab", "\x80\x80\x80\x80\x80\x80": "\x80\x80\x80\x80"} {
		if got := string(cutText([]byte(text), 4)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestUnusableDirectory returns an error for a directory that cannot exist, and for one that another table uses.
func TestUnusableDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if table, err := OpenTable(Options{MaxDigests: 40, Dir: filepath.Join(file, "table")}); err == nil {
		t.Errorf("below a file: %v", table.Close())
	}
	used := filepath.Join(dir, "a", "b")
	table := mustOpen(t, Options{MaxDigests: 40, Dir: used})
	if other, err := OpenTable(Options{MaxDigests: 40, Dir: used}); err == nil {
		t.Errorf("a directory in use: %v", other.Close())
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, Options{MaxDigests: 40, Dir: used})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestResized keeps the Keys, their texts and counts in a table of another size, and gives up those for which it has no room.
func TestResized(t *testing.T) {
	dir := t.TempDir()
	counts := func(digests int, do func(*Table)) (got []string) {
		table := mustOpen(t, Options{MaxDigests: digests, Dir: dir})
		defer func() {
			if err := table.Close(); err != nil {
				t.Error(err)
			}
		}()
		do(table)
		if err := table.Each(func(s *Sample) error {
			if s.Counts[Calls] > 0 {
				got = append(got, fmt.Sprintf("%s %d %s %d %d", s.Kind, s.Digest[3], s.Text, s.Counts[Calls], s.Histogram.Count()))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return got
	}
	observe := func(from, to int) func(*Table) {
		return func(table *Table) {
			for n := from; n < to; n++ {
				for range n + 1 {
					r := teststmt.Record(n, time.Duration(n+1)*time.Millisecond)
					r.Normalized = []byte(strings.Repeat("text ", 1+40*n))
					r.Schema = strings.Repeat("s", 1+10*n)
					table.Observe(r)
				}
			}
		}
	}
	none := func(*Table) {}
	before := counts(40, observe(0, 20))
	if len(before) != 20 {
		t.Fatalf("%d Keys", len(before))
	}
	if after := counts(100, none); !slices.Equal(before, after) {
		t.Errorf("in a larger table: %q, want %q", after, before)
	}
	if after := counts(50, none); !slices.Equal(before, after) {
		t.Errorf("in a smaller table: %q, want %q", after, before)
	}
	more := counts(100, observe(20, 60))
	less := counts(40, none)
	total := func(all []string) (n int) {
		for _, line := range all {
			fields := strings.Fields(line)
			var calls int
			_, _ = fmt.Sscan(fields[len(fields)-2], &calls)
			n += calls
		}
		return n
	}
	if len(more) < 21 || len(less) > len(more) || total(less) != 60*61/2 || total(more) != total(less) {
		t.Errorf("%d Keys with %d calls became %d with %d", len(more), total(more), len(less), total(less))
	}
}
