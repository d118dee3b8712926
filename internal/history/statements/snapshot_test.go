package statements

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/sizegen/heapsize"
)

// testRow returns a row of a Key with calls of a second each.
func testRow(key byte, calls int) rollup.Row {
	k := stmtstats.Key{Digest: [16]byte{key}}
	h := histogramOf(slices.Repeat([]time.Duration{time.Second}, calls)...)
	return rollup.Row{Print: rollup.PrintOf(&k), Key: k, Counts: stmtstats.Counts{stmtstats.Calls: uint64(calls), stmtstats.Nanos: h.Nanos}, Spread: h.AppendSpread(nil), First: 50, Last: 60}
}

// sumRow returns a row of no Key.
func sumRow(p rollup.Print, calls int) rollup.Row {
	row := testRow(0, calls)
	row.Print, row.Key = p, stmtstats.Key{}
	return row
}

// snapshotWith returns a snapshot at a time with rows.
func snapshotWith(t *testing.T, at int64, rows ...rollup.Row) *snapshot {
	t.Helper()
	s := &snapshot{at: at, rows: rows}
	if err := s.order(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSince compares two snapshots: the counts of a Key that was evicted in between belong to Evicted.
func TestSince(t *testing.T) {
	inFlight := func(row rollup.Row, nanos uint64) rollup.Row {
		row.Counts[stmtstats.Nanos] += nanos
		return row
	}
	first := func(row rollup.Row, at int64) rollup.Row { row.First = at; return row }
	evicted, other := rollup.EvictedPrint(), rollup.OtherPrint()
	for _, c := range []struct {
		name          string
		before, after []rollup.Row
		want          string // calls by key
	}{
		{"none", nil, nil, ""},
		{"a new Key", nil, []rollup.Row{testRow(1, 3)}, "1:3"},
		{"called", []rollup.Row{testRow(1, 3)}, []rollup.Row{testRow(1, 5)}, "1:2"},
		{"not called", []rollup.Row{testRow(1, 3)}, []rollup.Row{testRow(1, 3)}, ""},
		{"in flight", []rollup.Row{testRow(1, 3)}, []rollup.Row{inFlight(testRow(1, 3), 1e9)}, "1:0"},
		{"rounded", []rollup.Row{testRow(1, 3)}, []rollup.Row{inFlight(testRow(1, 3), 0)}, ""},
		{"evicted", []rollup.Row{testRow(1, 3)}, []rollup.Row{sumRow(evicted, 5)}, "evicted:2"},
		{"evicted and called", []rollup.Row{testRow(1, 3)}, []rollup.Row{testRow(1, 2), sumRow(evicted, 5)}, "1:2 evicted:2"},
		{"evicted and called as often", []rollup.Row{testRow(1, 3)}, []rollup.Row{first(testRow(1, 3), 101), sumRow(evicted, 5)}, "1:3 evicted:2"},
		{"first called then", []rollup.Row{testRow(1, 3)}, []rollup.Row{first(testRow(1, 4), 100)}, "1:1"},
		{"evicted before, too", []rollup.Row{testRow(1, 3), sumRow(evicted, 10)}, []rollup.Row{sumRow(evicted, 15)}, "evicted:2"},
		{"only those before", []rollup.Row{testRow(1, 3), sumRow(evicted, 10)}, []rollup.Row{sumRow(evicted, 13)}, ""},
		{"others", []rollup.Row{sumRow(other, 4)}, []rollup.Row{sumRow(other, 6)}, "other:2"},
		{"fewer others", []rollup.Row{sumRow(other, 4)}, []rollup.Row{sumRow(other, 3), sumRow(evicted, 5)}, "evicted:5 other:3"},
		{"two Keys", []rollup.Row{testRow(1, 3), testRow(2, 3)}, []rollup.Row{testRow(1, 4), testRow(2, 6), testRow(3, 1)}, "1:1 2:3 3:1"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			rows, err := snapshotWith(t, 200, c.after...).since(snapshotWith(t, 100, c.before...))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, row := range rows {
				name := fmt.Sprint(row.Key.Digest[0])
				switch row.Print {
				case evicted:
					name = "evicted"
				case other:
					name = "other"
				}
				var h stmtstats.Histogram
				if err := h.AddSpread(row.Spread); err != nil || h.Count() != row.Counts[stmtstats.Calls] {
					t.Errorf("%s: a spread of %d calls (%v), want %d", name, h.Count(), err, row.Counts[stmtstats.Calls])
				}
				got = append(got, fmt.Sprintf("%s:%d", name, row.Counts[stmtstats.Calls]))
			}
			slices.Sort(got)
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestSinceDamaged expects an error for each spread that cannot be decoded.
func TestSinceDamaged(t *testing.T) {
	bad := func(row rollup.Row) rollup.Row { row.Spread = []byte{0xff}; return row }
	for name, pair := range map[string][2][]rollup.Row{
		"before":         {{bad(testRow(1, 3))}, {testRow(1, 5)}},
		"after":          {{testRow(1, 3)}, {bad(testRow(1, 5))}},
		"evicted before": {{bad(testRow(1, 3))}, {sumRow(rollup.EvictedPrint(), 5)}},
		"Evicted":        {{testRow(1, 3)}, {bad(sumRow(rollup.EvictedPrint(), 5))}},
	} {
		if _, err := snapshotWith(t, 200, pair[1]...).since(snapshotWith(t, 100, pair[0]...)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for i := range 2 {
		rows := []rollup.Row{testRow(1, 1), testRow(1, 2)}
		rows[i] = bad(rows[i])
		if err := (&snapshot{rows: rows}).order(); err == nil {
			t.Errorf("a damaged spread of row %d is merged", i)
		}
	}
}

// TestOrder merges rows of the same print, and sorts the others.
func TestOrder(t *testing.T) {
	early, late := testRow(7, 2), testRow(7, 3)
	early.First, late.Last = 10, 90
	s := snapshotWith(t, 0, testRow(3, 1), late, testRow(9, 1), early, testRow(1, 1))
	if !slices.IsSortedFunc(s.rows, func(a, b rollup.Row) int { return a.Print.Compare(b.Print) }) || len(s.rows) != 4 {
		t.Fatalf("%d rows: %v", len(s.rows), s.rows)
	}
	for _, row := range s.rows {
		if row.Key.Digest[0] != 7 {
			if row.Counts[stmtstats.Calls] != 1 || row.First != 50 || row.Last != 60 {
				t.Errorf("a row became %+v", row)
			}
			continue
		}
		var h stmtstats.Histogram
		if err := h.AddSpread(row.Spread); err != nil || h.Count() != 5 || row.Counts[stmtstats.Calls] != 5 || row.First != 10 || row.Last != 90 {
			t.Errorf("merged: %+v, a spread of %d (%v)", row, h.Count(), err)
		}
	}
}

// TestPairRows visits each print once, and ends with an error.
func TestPairRows(t *testing.T) {
	a := snapshotWith(t, 0, testRow(1, 1), testRow(2, 1), testRow(4, 1)).rows
	b := snapshotWith(t, 0, testRow(2, 2), testRow(3, 2), testRow(5, 2)).rows
	for name, sides := range map[string][2][]rollup.Row{"both": {a, b}, "a": {a, nil}, "b": {nil, b}, "none": {}} {
		want := make(map[rollup.Print][2]bool)
		for side, rows := range sides {
			for _, row := range rows {
				pair := want[row.Print]
				pair[side] = true
				want[row.Print] = pair
			}
		}
		if err := pairRows(sides[0], sides[1], func(a, b *rollup.Row) error {
			row := a
			if row == nil {
				row = b
			}
			pair, ok := want[row.Print]
			if !ok || pair != [2]bool{a != nil, b != nil} || a != nil && b != nil && a.Print != b.Print {
				t.Errorf("%s: %v and %v, want %v", name, a, b, pair)
			}
			delete(want, row.Print)
			return nil
		}); err != nil || len(want) > 0 {
			t.Errorf("%s: %v, not visited: %v", name, err, want)
		}
	}
	stop, n := errors.New("stop"), 0
	if err := pairRows(a, b, func(_, _ *rollup.Row) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d rows", err, n)
	}
}

// TestKept counts the bytes of counters that are kept, each once.
func TestKept(t *testing.T) {
	row := testRow(1, 1)
	row.Text = strings.Repeat("x", 1000)
	s := snapshotWith(t, 0, row)
	if n := s.heapBytes(); n < 1000+int64(heapsize.Slice(s.rows)) || n > 2000+int64(heapsize.Slice(s.rows)) {
		t.Errorf("a snapshot of a row has %d bytes", n)
	}
	merged := snapshotWith(t, 0, testRow(1, 1), testRow(1, 1)) // has a buffer of spreads
	if n, rows := merged.heapBytes(), int64(heapsize.Slice(merged.rows)); n-rows < 64<<10 || n-rows > 65<<10 {
		t.Errorf("a merged row has %d bytes of spreads", n-rows)
	}
	own, file, rest := s.heapBytes(), &planned{bytes: 5000}, &planned{bytes: 300}
	marks := make([]stmtstats.Mark, 7)
	l := &liveCounters{snapshot: s}
	for _, c := range []struct {
		name string
		set  func()
		want int64
	}{
		{"a snapshot", func() {}, own},
		{"it is the base, too", func() { l.base = &liveBase{snapshot: s, marks: marks} }, own + int64(heapsize.Slice(marks))},
		{"a base of its own", func() { l.base.snapshot = merged }, own + int64(heapsize.Slice(marks)) + merged.heapBytes()},
		{"with a file", func() { l.base.file = file }, own + int64(heapsize.Slice(marks)) + merged.heapBytes() + 5000},
		{"a rest with it", func() { l.rest = &restOfHour{files: []*planned{rest, file}} }, own + int64(heapsize.Slice(marks)) + merged.heapBytes() + 5300},
		{"the rest alone", func() { l.snapshot, l.base = nil, nil }, 5300},
		{"none", func() { l.rest = nil }, 0},
	} {
		c.set()
		if l.weigh(); l.held.Load() != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, l.held.Load(), c.want)
		}
	}
}

// TestRecent reuses counters for less than a second, and none of the future.
func TestRecent(t *testing.T) {
	for age, want := range map[time.Duration]bool{-1: false, 0: true, liveFor - 1: true, liveFor: false} {
		if got := isRecent(axisStart, axisStart.Add(age)); got != want {
			t.Errorf("after %v: %v", age, got)
		}
	}
}

// TestPrintRows gives each row the print of its Key with valid names.
func TestPrintRows(t *testing.T) {
	for n := range 4 {
		rows := make([]rollup.Row, n)
		for i := range rows {
			rows[i].Key = stmtstats.Key{Digest: [16]byte{byte(i)}, Schema: "s\xff", User: "u\xff", Backend: "b\xff"}
		}
		if err := printRows(rows); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			k := &rows[i].Key
			if want := rollup.PrintOf(&stmtstats.Key{Digest: [16]byte{byte(i)}, Schema: rollup.ValidName("s\xff"), User: rollup.ValidName("u\xff"), Backend: rollup.ValidName("b\xff")}); rows[i].Print != want {
				t.Errorf("row %d of %d: %v of %+v", i, n, rows[i].Print, k)
			}
		}
	}
}
