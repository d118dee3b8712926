package statements

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testrollup"
	"github.com/taredb/tare/internal/testseed"
)

// A faultyFile is a rollup of which one read fails; each plan opens it once.
type faultyFile struct {
	text     []byte
	n, reads int
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if f.reads++; f.reads == f.n {
		return 0, errUnread
	}
	return bytes.NewReader(f.text).ReadAt(b, at)
}

// randomFiles returns rollups of consecutive hours with Keys in common, of which each has some that the others lack, the newest first.
func randomFiles(t *testing.T, rng *rand.Rand) (hours []*rollup.Rollup, files []*faultyFile) {
	t.Helper()
	for n, rows := range []int{60, 25, 40} {
		r := testrollup.Random(rng, testrollup.Start().Add(time.Duration(-n)*time.Hour), rows)
		kept := r.Rows[:0]
		for _, row := range r.Rows {
			if row.Print.IsSum() || rng.IntN(5) > 0 {
				kept = append(kept, row)
			}
		}
		r.Rows = kept
		hours, files = append(hours, r), append(files, &faultyFile{text: testrollup.Encode(t, r)})
	}
	return hours, files
}

// planOf returns a plan of files. Those with a fallback have a sound copy of themselves.
func planOf(files []*faultyFile, fallback bool) *plan {
	p := &plan{from: testrollup.Start().Add(-2 * time.Hour), to: testrollup.Start().Add(time.Hour), source: SourceRollups}
	for i, f := range files {
		file := func(at io.ReaderAt) *planned {
			return &planned{name: fmt.Sprint("file ", i), open: func() (*rollup.File, error) { return rollup.Open(at, int64(len(f.text))) }}
		}
		f.reads = 0
		first := file(f)
		if fallback {
			first.fallback = []*planned{file(bytes.NewReader(f.text))}
		}
		p.files = append(p.files, first)
	}
	return p
}

// topQueries has each measure, in both orders, with and without filters, and pages.
func topQueries(t *testing.T) (all []TopQuery) {
	t.Helper()
	for by := range Measure(numMeasures) {
		for _, ascending := range []bool{false, true} {
			all = append(all, TopQuery{By: by, Ascending: ascending, Limit: 100})
		}
	}
	for _, filter := range []string{"user=app", "column_1", "-column_1", "user=batch column_2 -schema=none", "digest=0001", "nothing"} {
		all = append(all, TopQuery{By: ByCalls, Filter: filter, Limit: 100}, TopQuery{By: ByP99, Filter: filter, Limit: 3, Durations: true})
	}
	all = append(all, TopQuery{By: BySeconds, Limit: 7}, TopQuery{By: BySeconds, Limit: 7, Offset: 7}, TopQuery{By: ByMean, Limit: 1, Offset: 40})
	for i := range all {
		all[i].From, all[i].To = testrollup.Start().Add(-2*time.Hour), testrollup.Start().Add(time.Hour)
		if err := all[i].Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// topText returns a result as text.
func topText(top *Top) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d calls\n", top.Matching, top.Total.Calls)
	for i := range top.Rows {
		r := &top.Rows[i]
		fmt.Fprintf(&b, "%x %s %s: %+v first %v last %v new %t, %d durations, %q\n", r.Digest, r.Schema, r.User, r.Counts, r.First.UnixMilli(), r.Last.UnixMilli(), r.New, len(r.Durations), r.Text)
	}
	return b.String()
}

// TestTopModel ranks the rows of random files by each measure: the result is that of sorting their sums.
func TestTopModel(t *testing.T) {
	hours, files := randomFiles(t, testseed.Rand(t))
	type sum struct {
		key         stmtstats.Key
		counts      stmtstats.Counts
		text        string
		first, last int64
		spread      stmtstats.Histogram
	}
	sums := make(map[rollup.Print]*sum)
	var total uint64
	for _, h := range hours {
		for _, row := range h.Rows {
			if total += row.Counts[stmtstats.Calls]; row.Print.IsSum() {
				continue
			}
			s := sums[row.Print]
			if s == nil {
				s = &sum{key: row.Key}
				sums[row.Print] = s
			}
			s.counts.Add(&row.Counts)
			if s.last = max(s.last, row.Last); s.text == "" {
				s.text = row.Text
			}
			if row.First != 0 && (s.first == 0 || row.First < s.first) {
				s.first = row.First
			}
			if err := s.spread.AddSpread(row.Spread); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, q := range topQueries(t) {
		f, err := parseFilter(q.Filter)
		if err != nil {
			t.Fatal(err)
		}
		value := func(s *sum) float64 {
			switch q.By {
			case ByFirstSeen:
				return float64(s.first)
			case ByP99:
				var tail stmtstats.Tail
				tail.Begin(0.99, s.counts[stmtstats.Calls])
				if err := tail.Add(s.spread.AppendSpread(nil)); err != nil {
					t.Fatal(err)
				}
				return float64(tail.Bucket())
			}
			return measures[q.By].value(&s.counts)
		}
		var want []*sum
		for _, s := range sums {
			if f.matches(&s.key, s.text) {
				want = append(want, s)
			}
		}
		for _, halved := range []int{0, halvedRows} {
			p := planOf(files, false)
			top, err := p.top(t.Context(), &q, halved)
			if err != nil {
				t.Fatal(err)
			}
			if top.Matching != len(want) || top.Total.Calls != total || len(top.Rows) != min(q.Limit, max(len(want)-q.Offset, 0)) {
				t.Errorf("%+v: %d rows of %d, %d calls; want %d, %d", q, len(top.Rows), top.Matching, top.Total.Calls, len(want), total)
			}
			slices.SortFunc(want, func(a, b *sum) int {
				if q.Ascending {
					return cmp.Compare(value(a), value(b))
				}
				return cmp.Compare(value(b), value(a))
			})
			for i := range top.Rows {
				r := &top.Rows[i]
				s := sums[rollup.PrintOf(&r.Key)]
				first := int64(0)
				if !r.First.IsZero() {
					first = r.First.UnixMilli()
				}
				switch {
				case s == nil:
					t.Errorf("%+v: row %d is of no Key: %+v", q, i, r.Key)
				case value(s) != value(want[q.Offset+i]):
					t.Errorf("%+v: row %d has the value %v, want %v", q, i, value(s), value(want[q.Offset+i]))
				case r.Counts != s.counts || r.Text != s.text || first != s.first || r.Last.UnixMilli() != s.last || r.New != (s.first >= p.from.UnixMilli()):
					t.Errorf("%+v: row %d is %+v, want %+v", q, i, r, s)
				case q.Durations != (len(r.Durations) > 0):
					t.Errorf("%+v: row %d has durations %v", q, i, r.Durations)
				}
			}
		}
	}
}

// TestEachReadFails has each read of each file fail while statements are ranked: the file is left out with a note, or the file in its place is read.
func TestEachReadFails(t *testing.T) {
	_, files := randomFiles(t, rand.New(rand.NewPCG(1, 2)))
	for _, q := range []TopQuery{
		{By: BySeconds, Limit: 10}, {By: ByErrors, Limit: 3}, {By: ByFirstSeen, Limit: 3}, {By: ByP99, Limit: 5, Filter: "user=app", Durations: true}, {By: ByCalls, Limit: 3, Filter: "column_1"},
	} {
		q.From, q.To = testrollup.Start().Add(-2*time.Hour), testrollup.Start().Add(time.Hour)
		if err := q.Validate(); err != nil {
			t.Fatal(err)
		}
		rank := func(p *plan, halved int) (text string, notes []string) {
			t.Helper()
			var top *Top
			if err := p.try(func() (err error) { top, err = p.top(t.Context(), &q, halved); return err }); err != nil {
				t.Fatal(err)
			}
			return topText(top), p.notes
		}
		for _, halved := range []int{0, math.MaxInt} {
			if halved == 0 && q.By != BySeconds {
				continue
			}
			whole, _ := rank(planOf(files, false), halved)
			for i, f := range files {
				f.reads, f.n = 0, 0
				if _, notes := rank(planOf(files, false), halved); len(notes) > 0 {
					t.Fatal(notes)
				}
				reads := f.reads
				without, _ := rank(planOf(slices.Concat(files[:i], files[i+1:]), false), halved)
				for n := range reads {
					f.n = n + 1
					text, notes := rank(planOf(files, false), halved)
					if text != without || len(notes) != 1 || !strings.HasPrefix(notes[0], fmt.Sprintf("file %d is left out: ", i)) || !strings.HasSuffix(notes[0], errUnread.Error()) {
						t.Fatalf("%+v: read %d of file %d fails: notes %q\n%s\nwant\n%s", q, n, i, notes, text, without)
					}
					if text, notes := rank(planOf(files, true), halved); text != whole || len(notes) > 0 {
						t.Fatalf("%+v: read %d of file %d fails, with another file in its place: notes %q\n%s\nwant\n%s", q, n, i, notes, text, whole)
					}
				}
				f.n = 0
			}
		}
	}
}

// TestGatherFails has each read of a file fail while one digest is gathered.
func TestGatherFails(t *testing.T) {
	hours, files := randomFiles(t, rand.New(rand.NewPCG(3, 4)))
	digest := hours[0].Rows[5].Key.Digest
	gather := func(f *faultyFile) error {
		g := newGathering(axis{from: testrollup.Start(), step: time.Hour, n: 1, end: testrollup.Start().Add(time.Hour)})
		reader := rollup.NewDigestReader(digest)
		defer reader.Close()
		return planOf([]*faultyFile{f}, false).each(t.Context(), func(file *rollup.File, p *planned) error { return g.add(reader, file, p) })
	}
	f := files[0]
	if err := gather(f); err != nil {
		t.Fatal(err)
	}
	for n := range f.reads {
		f.n = n + 1
		if err := gather(f); !errors.Is(err, errUnread) {
			t.Errorf("read %d fails: %v", n, err)
		}
	}
}
