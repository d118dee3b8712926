package web

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/incidents"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/statements"
)

// A MarkerSource provides events in the environment of statements. A markers.Store is one.
type MarkerSource interface {
	// Between returns the newest markers of a time range, oldest first.
	Between(from, to time.Time, limit int) []markers.Marker

	// TablesOf returns the tables of a statement by its normalized text and default schema.
	TablesOf(text, schema string) []string
}

// maxMarks bounds the markers that a page lists.
const maxMarks = 40

// A markReader reads the markers of pages.
type markReader struct {
	source MarkerSource // nil: there are none
	copies *copiesPage
}

// of returns the markers of the view's time range and of incidents.Reach before it, oldest first, as the account
// may see them: all, since each may be the cause of a rise.
// Those of copies are read together with the copies on the first page, not more often.
func (s *markReader) of(ctx context.Context, v *view) []markers.Marker {
	if s.source == nil {
		return nil
	}
	from := v.span.From.Add(-incidents.Reach)
	all := s.source.Between(from, v.span.To, math.MaxInt)
	if s.copies.source != nil {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		for _, m := range copyMarks(s.copies.recent(ctx, v.now)) {
			if !m.Time.Before(from) && !m.Time.After(v.span.To) {
				all = append(all, m)
			}
		}
		slices.SortStableFunc(all, func(a, b markers.Marker) int { return a.Time.Compare(b.Time) })
	}
	if !v.texts {
		for i := range all {
			all[i] = all[i].Textless()
		}
	}
	return all
}

// copyMarks returns the starts and ends of copies, and the steps of running alterations.
func copyMarks(c Copies) []markers.Marker {
	var all []markers.Marker
	for _, r := range c.Running {
		if r.Alter == nil {
			continue
		}
		for _, s := range r.Alter.Steps {
			title := fmt.Sprintf("tare alter of %s: %s", cutText(r.Alter.Table, shownValue), s.Step)
			all = append(all, markers.Marker{Kind: markers.KindCopy, Time: s.Start, End: s.Start, Title: title, Link: "/copies"})
		}
	}
	for _, j := range c.Jobs {
		if !c.TargetIsBackend && (c.Backend == "" || j.Source != c.Backend) {
			continue // of another server
		}
		all = append(all, markers.Marker{Kind: markers.KindCopy, Time: j.Started, End: j.Started, Title: "Copy started: " + cutText(j.Target, shownValue), Link: "/copies"})
		if j.Finished != nil {
			all = append(all, markers.Marker{Kind: markers.KindCopy, Time: *j.Finished, End: *j.Finished, Title: "Copy finished: " + cutText(j.Target, shownValue), Link: "/copies"})
		}
	}
	return all
}

// A markRow is one marker in the list below the charts, or says in the last place that older ones are not
// listed.
type markRow struct {
	Older            bool
	Time             time.Time
	Kind, Name, Text string
	By, Took, Link   string
	Count            int
}

// markRows returns the markers within the view's time range, newest first.
func markRows(v *view, all []markers.Marker) []markRow {
	var rows []markRow
	for _, m := range slices.Backward(all) {
		if m.End.Before(v.span.From) {
			continue
		}
		if len(rows) == maxMarks {
			return append(rows, markRow{Older: true})
		}
		r := markRow{Time: m.Time, Kind: string(m.Kind), Name: cutText(m.Name(), maxLine), By: m.By(), Link: m.Link, Count: m.Count}
		if !m.Statement() {
			r.Text = cutText(m.Text, maxLine)
		}
		if d := m.End.Sub(m.Time); d >= time.Millisecond {
			r.Took = duration(d)
		}
		rows = append(rows, r)
	}
	return rows
}

// A mark is a vertical line in a chart.
type mark struct {
	At   time.Time
	Name string
}

// maxChartMarks bounds the vertical lines of a chart; each chart of a page has them.
const maxChartMarks = 8

// chartMarks returns the marks of markers, which are sorted by time. Only the newest, which a chart draws, have
// names.
func chartMarks(all []markers.Marker) []mark {
	marks := make([]mark, 0, len(all))
	for i := range all {
		m := &all[i]
		if i < len(all)-maxChartMarks {
			marks = append(marks, mark{At: m.Time})
			continue
		}
		name := exactClock(m.Time, time.Hour) + " UTC " + cutText(m.Name(), maxLegend)
		if by := m.By(); by != "" {
			name += " (" + by + ")"
		}
		marks = append(marks, mark{At: m.Time, Name: name})
	}
	return marks
}

// drawMarks draws the newest of the marks that are on the horizontal axis, and returns their description. Each
// is surrounded by an area in which its title appears.
func drawMarks(b *chart.SVG, marks []mark, from, to time.Time) string {
	marks = slices.DeleteFunc(slices.Clone(marks), func(m mark) bool { return m.At.Before(from) || m.At.After(to) })
	newest := marks[max(len(marks)-maxChartMarks, 0):]
	for _, m := range newest {
		b.WriteString(`<g class="mark"><title>`)
		b.Text(m.Name)
		b.WriteString(`</title>`)
		for _, class := range []string{"hit", "at"} {
			b.WriteString(`<path class="` + class + `" d="M`)
			b.Num(float64(m.At.Sub(from)) / float64(to.Sub(from)) * boxWidth)
			b.WriteString(` 0V200"/>`)
		}
		b.WriteString("</g>")
	}
	switch n := len(marks); {
	case n == 0:
		return ""
	case n == 1:
		return " One event is marked; it is listed under Events."
	case n > len(newest):
		return fmt.Sprintf(" The newest %d of %d events are marked; they are listed under Events.", len(newest), n)
	}
	return fmt.Sprintf(" %d events are marked; they are listed under Events.", len(marks))
}

// A tableReader finds the tables of statements.
type tableReader struct {
	source  MarkerSource                   // nil: they are unknown
	planned func(of map[[16]byte][]string) // as Options.PlanTables
}

func (s *tableReader) known() bool { return s.source != nil }

// of returns the tables of a statement in the schemas of its callers.
func (s *tableReader) of(st *statements.Statement) []string {
	if st.TextCut {
		return s.ofCut(st.Digest)[st.Digest]
	}
	var tables []string
	for _, schema := range schemasOf(st) {
		for _, t := range s.source.TablesOf(st.Text, schema) {
			if !slices.Contains(tables, t) {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// ofCut returns the tables of statements whose texts are cut, of those with a plan in the cache.
func (s *tableReader) ofCut(digests ...[16]byte) map[[16]byte][]string {
	if s.planned == nil || len(digests) == 0 {
		return nil
	}
	of := make(map[[16]byte][]string, len(digests))
	for _, d := range digests {
		of[d] = nil
	}
	s.planned(of)
	return of
}

// ofRows returns a function that returns the tables of each row.
func (s *tableReader) ofRows(rows []statements.TopRow) func(r *statements.TopRow) []string {
	var cut [][16]byte
	for i := range rows {
		if rows[i].TextCut {
			cut = append(cut, rows[i].Digest)
		}
	}
	planned := s.ofCut(cut...)
	return func(r *statements.TopRow) []string {
		if r.TextCut {
			return planned[r.Digest]
		}
		return s.source.TablesOf(r.Text, r.Schema)
	}
}

// schemasOf returns the schemas of a statement's callers, those with the most time first; at least one,
// possibly "".
func schemasOf(st *statements.Statement) []string {
	const most = 4
	var schemas []string
	for i := range st.Parts {
		if schema := st.Parts[i].Schema; len(schemas) < most && !slices.Contains(schemas, schema) {
			schemas = append(schemas, schema)
		}
	}
	if len(schemas) == 0 {
		schemas = []string{""}
	}
	return schemas
}
