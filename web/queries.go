package web

import (
	"context"
	"encoding/hex"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/statements"
	"github.com/taredb/tare/stmtstats"
)

const (
	queryRows   = 50 // per page of the table
	sparkPoints = 60
	chartPoints = 120
	maxPage     = statements.MaxTopOffset / queryRows
)

// A queryTable is the data of the page of queries.
type queryTable struct {
	Filter, FilterAction string
	Keep                 []pair // parameters that the filter's form preserves
	Columns              []queryColumn
	Rows                 []queryRow
	Sparks               bool
	Matching, First      int
	Total                statements.Totals
	Previous, Next       string
	Notes                []string
	Allowed              string // fields of filters
	Words                string // completions of the filter's input
	PromQL               template.HTML
}

// A queryColumn is the header of a column, with the link that sorts by it.
type queryColumn struct {
	Name, Title, Link string
	Sort              string // for aria-sort; "" if another column is sorted
}

// A queryRow is one statement.
type queryRow struct {
	ID, Name, Key, Link string
	New                 bool
	Share, Load         float64
	Spark               template.HTML
	Change              change
	Calls, Errors       uint64
	PerSecond           float64
	Mean, P99           time.Duration

	// The same as text, uniform within a column.
	LoadText, CallRate, ErrorRate, MeanText, P99Text string

	Sent, Changed uint64
	First         time.Time

	Rise     *rise  // rise of its load, or nil if there is none of significance
	RiseText string // time and factor
	Why      whyText
}

var queryColumns = []struct {
	by          statements.Measure
	name, title string
}{
	{statements.BySeconds, "Load", "Calls running on average (execution seconds per second), and the share of all"},
	{statements.ByCalls, "Calls", "Calls per second"},
	{statements.ByMean, "Mean", "Average duration of a call"},
	{statements.ByP99, "p99", "99 of 100 calls took at most this long"},
	{statements.ByErrors, "Errors", "Failed calls per second"},
	{statements.ByRowsSent, "Rows sent", "Rows sent to clients"},
	{statements.ByRowsAffected, "Rows changed", "Rows changed by calls"},
	{statements.ByFirstSeen, "First seen", "End of the first call (UTC)"},
}

func (s *Server) queriesPage() page {
	return page{path: "/queries", title: "Queries", template: "queries", key: "q", load: s.queries}
}

func (s *Server) queries(ctx context.Context, v *view) (any, error) {
	q := statements.TopQuery{
		From: v.span.From, To: v.span.To, Filter: v.query.Get("filter"), Limit: queryRows, Points: sparkPoints, RowPointsOnly: true, Compare: true,
	}
	var err error
	if text := v.query.Get("sort"); text != "" {
		if q.By, err = statements.ParseMeasure(text); err != nil {
			return nil, badRequest(err, "Click a column head.")
		}
	}
	q.Ascending = v.query.Get("order") == "asc"
	page := 1
	if text := v.query.Get("page"); text != "" {
		if page, err = strconv.Atoi(text); err != nil || page < 1 || page > maxPage {
			return nil, badRequest(fmt.Errorf("page is %.20q: want a number from 1 to %d", text, maxPage))
		}
	}
	q.Offset = (page - 1) * queryRows
	if err := q.Validate(); err != nil {
		return nil, badRequest(err, "Filter by words of the text, or by fields: "+strings.Join(statements.FilterFields(), ", ")+" with =, !=, ~ or !~ and a value; a leading - excludes.")
	}
	top, err := s.statements(v).Top(ctx, q)
	if err != nil {
		return nil, statementProblem(err)
	}
	t := &queryTable{
		Filter: q.Filter, FilterAction: v.r.URL.Path, Rows: queryRowsOf(v, top), Matching: top.Matching, First: q.Offset + 1,
		Total: top.Total, Notes: sourceNotes(v, top.Source, top.From, top.To, top.Notes),
		Sparks: top.Source != statements.SourceCounters, Allowed: "words, schema=…, user=…, -not this",
	}
	if !v.texts {
		t.Allowed = "digest=…, schema=…, user=…"
	}
	if top.NoComparison != "" {
		t.Notes = append(t.Notes, "No comparison: "+top.NoComparison+".")
	}
	t.Words = filterWords(top)
	if t.Sparks {
		t.PromQL = promqlBox(s.ofAll(v.span.Length()).Top(q.By, queryRows))
	}
	for _, name := range sortedNames(v.query) {
		if name != "filter" && name != "page" {
			t.Keep = append(t.Keep, pair{name, v.query.Get(name)})
		}
	}
	for _, c := range queryColumns {
		col := queryColumn{Name: c.name, Title: c.title}
		order := ""
		if c.by == q.By {
			col.Sort = "descending"
			if q.Ascending {
				col.Sort = "ascending"
			} else {
				order = "asc"
			}
		}
		col.Link = v.with("sort", c.by.String(), "order", order, "page", "")
		t.Columns = append(t.Columns, col)
	}
	if page > 1 {
		t.Previous = v.with("page", strconv.Itoa(page-1))
	}
	if q.Offset+len(top.Rows) < top.Matching {
		t.Next = v.with("page", strconv.Itoa(page+1))
	}
	return t, nil
}

// filterWords returns the fields of a filter, with the values that occur in the rows.
func filterWords(top *statements.Top) string {
	var words []string
	for _, f := range statements.FilterFields() {
		words = append(words, f+"=")
	}
	for i := range top.Rows {
		k := &top.Rows[i].Key
		words = append(words, "schema="+k.Schema, "user="+k.User, "backend="+k.Backend)
	}
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(w string) bool { return strings.ContainsAny(w, " \"") })
	return strings.Join(words, " ")
}

// queryRowsOf returns the rows of a ranking.
func queryRowsOf(v *view, top *statements.Top) []queryRow {
	length, comparable := covered(v, top)
	isNew := newIn(v, top)
	alive := aliveIn(top)
	varying := varyingParts(top.Rows)
	rows := make([]queryRow, 0, len(top.Rows))
	for i := range top.Rows {
		r := &top.Rows[i]
		id := hex.EncodeToString(r.Digest[:])
		row := queryRow{
			ID: id + "/" + keyName(&r.Key), Name: statementName(r.Text, r.TextCut, r.Digest), Key: keyName(varying.of(&r.Key)),
			Link: v.link("/query/" + id), New: isNew(r),
			Calls: r.Calls, Errors: r.Errors, Mean: r.Mean(), P99: r.P99, Sent: r.RowsSent, Changed: r.RowsAffected, First: r.First,
			Spark: spark("load", r.Points, unitLoad),
		}
		row.Load, row.PerSecond = r.Seconds/length, float64(r.Calls)/length
		if comparable {
			row.Change = changeOf(r.Seconds, r.Before.Seconds)
		}
		if top.Total.Seconds > 0 {
			row.Share = r.Seconds / top.Total.Seconds
		}
		if !row.New {
			row.addRise(v, top, r, alive)
		}
		rows = append(rows, row)
	}
	writeColumns(rows, length)
	return rows
}

// keyParts are the parts of a Key in which rows differ. Parts that all rows share are not displayed.
type keyParts struct{ schema, user, backend bool }

func varyingParts(rows []statements.TopRow) (p keyParts) {
	for i := range rows {
		a, b := &rows[0].Key, &rows[i].Key
		p.schema = p.schema || a.Schema != b.Schema
		p.user = p.user || a.User != b.User
		p.backend = p.backend || a.Backend != b.Backend
	}
	return p
}

// of returns the displayed parts of a Key.
func (p keyParts) of(k *stmtstats.Key) *stmtstats.Key {
	var shown stmtstats.Key
	if p.schema {
		shown.Schema = k.Schema
	}
	if p.user {
		shown.User = k.User
	}
	if p.backend {
		shown.Backend = k.Backend
	}
	return &shown
}

// writeColumns formats the numbers of rows over a time of length seconds.
func writeColumns(rows []queryRow, length float64) {
	of := func(value func(*queryRow) float64) []float64 {
		values := make([]float64, len(rows))
		for i := range rows {
			values[i] = value(&rows[i])
		}
		return values
	}
	load := loadColumn(of(func(r *queryRow) float64 { return r.Load }))
	calls := rateColumn(of(func(r *queryRow) float64 { return r.PerSecond }))
	errs := rateColumn(of(func(r *queryRow) float64 { return float64(r.Errors) / length }))
	mean := durationColumn(of(func(r *queryRow) float64 { return r.Mean.Seconds() }))
	p99 := durationColumn(of(func(r *queryRow) float64 { return r.P99.Seconds() }))
	for i := range rows {
		r := &rows[i]
		r.LoadText, r.CallRate, r.ErrorRate = load.write(r.Load), calls.write(r.PerSecond), errs.write(float64(r.Errors)/length)
		r.MeanText, r.P99Text = mean.writeDuration(r.Mean), p99.writeDuration(r.P99)
	}
}

// leastCovered is the minimum time for rates, unless a shorter range was requested: rates over the first
// second of a history are meaningless, and there is nothing to compare with.
const leastCovered = 10 * time.Second

// covered returns the time in seconds that the rates of a ranking cover, which is positive, and whether there
// may be an earlier range to compare with.
func covered(v *view, top *statements.Top) (length float64, comparable bool) {
	d := top.To.Sub(top.From)
	least := max(min(leastCovered, v.span.Length()), time.Millisecond)
	return max(d, least).Seconds(), d >= least && top.NoComparison == ""
}
