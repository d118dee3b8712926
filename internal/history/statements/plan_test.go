package statements

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
)

var errUnread = errors.New("cannot be read")

// testPlan returns a plan of files with the given rows; a file whose name starts with "bad" cannot be opened.
func testPlan(t *testing.T, names ...string) *plan {
	t.Helper()
	p := &plan{from: axisStart, to: axisStart.Add(time.Hour), source: SourceRollups}
	for i, name := range names {
		file, err := memoryFile(name, axisStart, axisStart.Add(time.Hour), snapshotWith(t, 0, testRow(byte(i+1), i+1)).rows)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "bad") {
			file.open = func() (*rollup.File, error) { return nil, errUnread }
		}
		p.files = append(p.files, file)
	}
	return p
}

// TestTry reads a plan without the files that cannot be read: they are replaced, or left out with a note.
func TestTry(t *testing.T) {
	good := testPlan(t, "good").files[0]
	for _, together := range []bool{false, true} {
		p := testPlan(t, "a", "bad 1", "bad 2", "b")
		p.files[1].fallback = []*planned{good}
		var read []string
		err := p.try(func() error {
			read = nil
			if together {
				return p.together(t.Context(), func(files []*openFile) error {
					for _, f := range files {
						read = append(read, f.of.name)
					}
					return nil
				})
			}
			return p.each(t.Context(), func(_ *rollup.File, file *planned) error {
				read = append(read, file.name)
				return nil
			})
		})
		if got := strings.Join(read, ", "); err != nil || got != "a, good, b" {
			t.Errorf("together %v: %s (%v)", together, got, err)
		}
		if len(p.notes) != 1 || p.notes[0] != "bad 2 is left out: cannot be read" {
			t.Errorf("together %v: notes %q", together, p.notes)
		}
	}
}

// TestPlanErrors returns errors of visits, those of a file with its name; and the cause if the context is done.
func TestPlanErrors(t *testing.T) {
	gone := errors.New("the client is gone")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	p := testPlan(t, "a")
	visit := func(*rollup.File, *planned) error { return errUnread }
	visitAll := func(files []*openFile) error { return files[0].failed(errUnread) }
	for name, err := range map[string]error{"each": p.each(t.Context(), visit), "together": p.together(t.Context(), visitAll)} {
		var bad *planError
		if !errors.As(err, &bad) || bad.file != p.files[0] || !errors.Is(err, errUnread) || err.Error() != "a: cannot be read" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"each": p.each(canceled, visit), "together": p.together(canceled, visitAll)} {
		if !errors.Is(err, gone) || errors.Is(err, errUnread) {
			t.Errorf("%s, canceled: %v", name, err)
		}
	}
	during, stop := context.WithCancelCause(t.Context())
	err := p.together(during, func(files []*openFile) error { stop(gone); return visitAll(files) })
	if !errors.Is(err, gone) {
		t.Errorf("canceled while files are read: %v", err)
	}
	if err := p.try(func() error { return gone }); !errors.Is(err, gone) || len(p.files) != 1 {
		t.Errorf("an error of no file: %v, %d files", err, len(p.files))
	}
}

// TestMemoryFile has no first call of a row that was called before the file begins.
func TestMemoryFile(t *testing.T) {
	at := axisStart.Add(90 * time.Second)
	for after, known := range map[int64]bool{-1: false, 0: true, 1: true} {
		row := testRow(1, 1)
		row.First, row.Last = at.UnixMilli()+after, at.UnixMilli()+1000
		file, err := memoryFile("now", at, at.Add(time.Minute), []rollup.Row{row})
		if err != nil {
			t.Fatal(err)
		}
		p := &plan{from: at, to: at.Add(time.Minute), source: SourceSamples, files: []*planned{file}}
		q := TopQuery{From: p.from, To: p.to}
		if err := q.Validate(); err != nil {
			t.Fatal(err)
		}
		top, err := p.top(t.Context(), &q, halvedRows)
		if err != nil || len(top.Rows) != 1 {
			t.Fatalf("%+v (%v)", top, err)
		}
		r := top.Rows[0]
		if r.New != known || r.First.IsZero() == known || !r.Last.Equal(at.Add(time.Second)) || r.Durations != nil || file.bytes <= 0 || !file.memory {
			t.Errorf("a first call after %d ms: %+v, %+v", after, r, file)
		}
	}
}

// TestTopOfPlan adds the rows of files, pages them and returns durations.
func TestTopOfPlan(t *testing.T) {
	p := testPlan(t, "a", "b", "c")
	again, err := memoryFile("d", p.from, p.to, []rollup.Row{testRow(1, 6)})
	if err != nil {
		t.Fatal(err)
	}
	p.files = append(p.files, again)
	for _, c := range []struct {
		q    TopQuery
		want string // calls of the rows
	}{
		{TopQuery{By: ByCalls}, "1:7 3:3 2:2"},
		{TopQuery{By: BySeconds, Durations: true}, "1:7 3:3 2:2"},
		{TopQuery{By: ByCalls, Ascending: true}, "2:2 3:3 1:7"},
		{TopQuery{By: ByCalls, Limit: 1, Offset: 1}, "3:3"},
		{TopQuery{By: ByCalls, Offset: 2}, "2:2"},
		{TopQuery{By: ByCalls, Offset: 3}, ""},
		{TopQuery{By: ByCalls, Offset: 4}, ""},
	} {
		c.q.From, c.q.To = p.from, p.to
		if err := c.q.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, halved := range []int{0, halvedRows} {
			top, err := p.top(t.Context(), &c.q, halved)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range top.Rows {
				got = append(got, fmt.Sprintf("%d:%d", r.Digest[0], r.Calls))
				if len(r.Durations) > 0 != c.q.Durations || c.q.Durations && r.Durations[0].Count != r.Calls {
					t.Errorf("%+v: durations %v", c.q, r.Durations)
				}
			}
			if top.Total.Calls != 12 || top.Total.Seconds != 12 || top.Matching != 3 || top.Source != SourceRollups {
				t.Errorf("%+v: %+v of %d", c.q, top.Total, top.Matching)
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("by %v, ascending %v, from %d on: %s, want %s", c.q.By, c.q.Ascending, c.q.Offset, got, c.want)
			}
		}
	}
}

// TestGathering has the earliest known first call and the latest of a digest over files, whichever comes first.
func TestGathering(t *testing.T) {
	at := axisStart.UnixMilli()
	file := func(first, last int64) *planned {
		row := testRow(1, 2)
		row.First, row.Last = first, last
		f, err := memoryFile("f", axisStart, axisStart.Add(time.Hour), []rollup.Row{row, testRow(2, 5)})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, c := range map[string]struct {
		files       []*planned
		first, last int64
	}{
		"ascending":   {[]*planned{file(at+5, at+50), file(at+9, at+90)}, at + 5, at + 90},
		"descending":  {[]*planned{file(at+9, at+90), file(at+5, at+50)}, at + 5, at + 90},
		"unknown":     {[]*planned{file(at+9, at+90), file(0, at+10)}, at + 9, at + 90},
		"all unknown": {[]*planned{file(0, at+10), file(0, at+20)}, 0, at + 20},
	} {
		g := newGathering(axis{from: axisStart, step: time.Hour, n: 1, end: axisStart.Add(time.Hour)})
		reader := rollup.NewDigestReader([16]byte{1})
		for _, planned := range c.files {
			f, err := planned.open()
			if err != nil {
				t.Fatal(err)
			}
			if err := g.add(reader, f, planned); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		reader.Close()
		for _, d := range g.parts {
			if len(g.parts) != 1 || d.First != c.first || d.Last != c.last || d.Counts[stmtstats.Calls] != 4 || d.Spread.Count() != 4 || g.points[0][stmtstats.Calls] != 4 {
				t.Errorf("%s: %+v, %+v", name, d, g.points)
			}
		}
	}
}
