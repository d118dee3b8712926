package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

const (
	queryRows   = 50 // per page of the table
	sparkPoints = 60
	chartPoints = 120
	maxPage     = statements.MaxTopOffset / queryRows
)

// A queriesPage ranks statements, or groups of them.
type queriesPage struct {
	statements *statementReader
	tables     *tableReader
	queries    chartQueries
	calls      CallSource  // nil: there are none
	counts     CountSource // nil: there are none
	tags       []string    // as Options.Tags
}

// A queryTable is the data of the page of queries.
type queryTable struct {
	Filter, FilterAction string
	Keep                 []pair // parameters that the filter's form preserves
	Choice               []columnChoice
	ChoiceKeep           []pair // parameters that the form of the columns preserves
	Columns              []columnHead
	Groups               []groupLink
	Group                string // of the rows; "Statement" unless they are groups
	Grouped              bool
	Fields               []string // of filters
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

// A columnHead is the header of a column, with the link that sorts by it.
type columnHead struct {
	Name, Title, Link string
	Sort              string // for aria-sort; "" if another column is sorted
}

// A columnChoice is a checkbox of the form of the columns.
type columnChoice struct {
	ID, Name, Title string
	Chosen          bool
}

// A queryRow is one statement, or one group of statements.
type queryRow struct {
	ID, Name, Key, Link string
	TextCut             bool
	New                 bool
	Share, Load         float64
	Spark               template.HTML
	Change              change
	Calls, Errors       uint64
	PerSecond           float64
	Mean, P99           time.Duration
	Cells               []queryCell // of the chosen columns

	LoadText, CallRate, ErrorRate, MeanText, P99Text string

	First time.Time

	effects     stmtstats.Counts    // of the calls
	index       int                 // in Top.Rows; -1: of a group
	earlier     *statements.Totals  // nil: there is nothing to compare with
	shareBefore float64             // of the previous range
	counts      *serverstats.Counts // of the server; nil: unknown

	Rise     *rise  // rise of its load, or nil if there is none of significance
	RiseText string // time and factor
	Why      whyText
}

// A queryRequest is a request for the page of queries.
type queryRequest struct {
	top     statements.TopQuery
	page    int
	by      *queryColumn
	columns []*queryColumn
	group   string // dimension; "": rows are statements
	rows    querylog.Filter
	tables  querylog.Filter
	calls   querylog.Filter
	counts  bool // the server's counts are required
}

// selective reports whether rows are chosen here, among those of a ranking with statements.MaxTopLimit rows.
func (q *queryRequest) selective() bool {
	return q.group != "" || q.by.server || !q.rows.Empty() || !q.calls.Empty() || !q.tables.Empty()
}

// request parses the parameters of the page.
func (s *queriesPage) request(v *view) (*queryRequest, error) {
	q := &queryRequest{page: 1, group: v.query.Get("group")}
	q.top = statements.TopQuery{From: v.span.From, To: v.span.To, Compare: true, Ascending: v.query.Get("order") == "asc"}
	if order := v.query.Get("order"); order != "" && order != "asc" && order != "desc" {
		return nil, badRequest(fmt.Errorf("order is %.20q: want asc or desc", order), "Click a column head.")
	}
	by := cmp.Or(v.query.Get("sort"), statements.BySeconds.String())
	q.by = columnOf(by)
	if q.by == nil {
		_, err := statements.ParseMeasure(by)
		return nil, badRequest(cmp.Or(err, fmt.Errorf("there is no column %.20q", by)), "Click a column head.")
	}
	if m, err := statements.ParseMeasure(by); err == nil {
		q.top.By = m
	}
	if text := v.query.Get("page"); text != "" {
		var err error
		if q.page, err = strconv.Atoi(text); err != nil || q.page < 1 || q.page > maxPage {
			return nil, badRequest(fmt.Errorf("page is %.20q: want a number from 1 to %d", text, maxPage))
		}
	}
	q.top.Filter = v.query.Get("filter")
	if err := s.splitFilter(v, q); err != nil {
		return nil, err
	}
	if err := s.checkGroup(v, q.group); err != nil {
		return nil, err
	}
	for i := range queryColumns {
		c := &queryColumns[i]
		chosen := !c.optional
		if v.query.Has("column") {
			chosen = slices.Contains(v.query["column"], c.id)
		}
		if (chosen || c == q.by) && (!c.server || s.countsVisible(v)) {
			q.columns = append(q.columns, c)
			q.counts = q.counts || c.server
		}
	}
	q.top.Limit, q.top.Points, q.top.RowPointsOnly = queryRows, sparkPoints, true
	q.top.Offset = (q.page - 1) * queryRows
	if q.selective() {
		q.top.Limit, q.top.Offset, q.top.Points, q.top.RowPointsOnly = statements.MaxTopLimit, 0, 0, false
		ofCalls := q.group == byClient || strings.HasPrefix(q.group, byTag) // the sample has their durations, and none before
		q.top.Durations, q.top.Compare = q.group != "" && !ofCalls, !ofCalls
	}
	if err := q.top.Validate(); err != nil {
		return nil, badRequest(err, "Filter by words of the text, or by fields: "+strings.Join(s.filterFields(v), ", ")+" with =, !=, ~, !~, < or > and a value; a leading - excludes.")
	}
	return q, nil
}

func (s *queriesPage) load(ctx context.Context, v *view) (any, error) {
	q, err := s.request(v)
	if err != nil {
		return nil, err
	}
	top, err := s.statements.of(v).Top(ctx, q.top)
	if err != nil {
		return nil, statementProblem(err)
	}
	t := &queryTable{
		Filter: v.query.Get("filter"), FilterAction: v.r.URL.Path, Group: "Statement", Grouped: q.group != "", Fields: s.filterFields(v), Rows: queryRowsOf(v, top), Matching: top.Matching,
		First: (q.page-1)*queryRows + 1, Total: top.Total, Notes: sourceNotes(v, top.Source, top.From, top.To, top.Notes),
		Sparks: top.Source != statements.SourceCounters && q.top.Points > 0, Allowed: "words, schema=…, user=…, -not this",
	}
	if !v.texts {
		t.Allowed = "digest=…, schema=…, user=…"
	}
	if top.NoComparison != "" {
		t.Notes = append(t.Notes, "No comparison: "+top.NoComparison+".")
	}
	t.Words = s.filterWords(v, top)
	if t.Sparks {
		t.PromQL = promqlBox(s.queries.all(v.span.Length()).Top(q.top.By, queryRows))
	}
	s.fillRows(v, q, top, t)
	s.addLinks(v, q, t)
	return t, nil
}

// fillRows selects, groups and sorts the rows, and sets their cells.
func (s *queriesPage) fillRows(v *view, q *queryRequest, top *statements.Top, t *queryTable) {
	if q.counts {
		notes := s.addCounts(v, t.Rows, func(i int) (sqldigest.Digest, string) {
			r := &top.Rows[t.Rows[i].index]
			if r.TextCut {
				return r.Digest, ""
			}
			return r.Digest, r.Text
		})
		t.Notes = append(t.Notes, notes...)
	}
	if q.selective() {
		if n := len(top.Rows); n < top.Matching {
			t.Notes = append(t.Notes, fmt.Sprintf("Rows are selected among %s of %s, the first by %s.", count(uint64(n)), many(top.Matching, "statement"), q.top.By))
		}
		s.selectRows(v, q, top, t)
		if q.group != "" {
			s.groupRows(v, q, top, t)
		}
		if q.group != "" || q.by.server {
			sortRows(t.Rows, q.by, q.top.Ascending)
		}
		t.Matching = len(t.Rows)
		t.Rows = t.Rows[min(t.First-1, len(t.Rows)):]
		t.Rows = t.Rows[:min(queryRows, len(t.Rows))]
	}
	for i := range t.Rows {
		for _, c := range q.columns {
			cell := c.cell(&t.Rows[i])
			cell.Name = c.name
			t.Rows[i].Cells = append(t.Rows[i].Cells, cell)
		}
	}
}

// addLinks sets the links of the table's heads and pages, and the forms.
func (s *queriesPage) addLinks(v *view, q *queryRequest, t *queryTable) {
	for _, name := range sortedNames(v.query) {
		for _, value := range v.query[name] {
			if name != "filter" && name != "page" {
				t.Keep = append(t.Keep, pair{name, value})
			}
			if name != "column" {
				t.ChoiceKeep = append(t.ChoiceKeep, pair{name, value})
			}
		}
	}
	for i := range queryColumns {
		if c := &queryColumns[i]; !c.server || s.countsVisible(v) {
			t.Choice = append(t.Choice, columnChoice{c.id, c.name, c.title, slices.Contains(q.columns, c)})
		}
	}
	for _, c := range q.columns {
		head := columnHead{Name: c.name, Title: c.title}
		order := ""
		if c == q.by {
			head.Sort = "descending"
			if q.top.Ascending {
				head.Sort = "ascending"
			} else {
				order = "asc"
			}
		}
		head.Link = v.with("sort", c.id, "order", order, "page", "")
		t.Columns = append(t.Columns, head)
	}
	if q.page > 1 {
		t.Previous = v.with("page", strconv.Itoa(q.page-1))
	}
	if t.First-1+len(t.Rows) < t.Matching {
		t.Next = v.with("page", strconv.Itoa(q.page+1))
	}
	t.Groups = s.groupLinks(v, q)
}

// filterWords returns the fields of a filter, with the values that occur in the rows.
func (s *queriesPage) filterWords(v *view, top *statements.Top) string {
	var words []string
	for _, f := range s.filterFields(v) {
		if slices.Contains(numberFields, f) {
			words = append(words, f+">")
		} else {
			words = append(words, f+"=")
		}
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
	isNew := newIn(top)
	alive := aliveIn(top)
	varying := varyingParts(top.Rows)
	rows := make([]queryRow, 0, len(top.Rows))
	for i := range top.Rows {
		r := &top.Rows[i]
		id := hex.EncodeToString(r.Digest[:])
		row := queryRow{
			ID: id + "/" + keyName(&r.Key), Name: statementName(r.Text, r.TextCut, r.Digest), Key: keyName(varying.of(&r.Key)),
			Link: v.link("/query/" + id), New: isNew(r),
			Calls: r.Calls, Errors: r.Errors, Mean: r.Mean(), P99: r.P99, effects: r.Counts, First: r.First,
			Spark: spark("load", r.Points, unitLoad), TextCut: r.TextCut, index: i,
		}
		row.Load, row.PerSecond = r.Seconds/length, float64(r.Calls)/length
		if comparable {
			row.Change = changeOf(r.Seconds, r.Before.Seconds)
			row.earlier, row.shareBefore = &r.Before, ratio(r.Before.Seconds, top.Before.Seconds)
		}
		if top.Total.Seconds > 0 {
			row.Share = r.Seconds / top.Total.Seconds
		}
		if !row.New && len(r.Points) > 0 {
			row.addRise(v, top, r, alive)
		}
		row.write(length)
		rows = append(rows, row)
	}
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

// write formats the numbers of a row over a time of length seconds.
func (row *queryRow) write(length float64) {
	row.LoadText, row.CallRate, row.ErrorRate = unitActive.write(row.Load), unitRate.write(row.PerSecond), unitRate.write(float64(row.Errors)/length)
	row.MeanText, row.P99Text = duration(row.Mean), duration(row.P99)
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
