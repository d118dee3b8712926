package web

import (
	"context"
	"fmt"
	"html"
	"iter"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A catalogue is the sources of the page of queries, with random statements. It implements them in the simplest way, so
// that the page's tables can be compared with it.
type catalogue struct {
	from, to time.Time
	rows     []statements.TopRow
	counts   map[string]serverstats.Counts
	cut      map[[16]byte]string // whole texts of statements whose text is cut
	calls    map[[16]byte][]calls.Call
}

func newCatalogue(t *testing.T) *catalogue {
	rng := newRand(testseed.New(t))
	c := &catalogue{counts: make(map[string]serverstats.Counts), calls: make(map[[16]byte][]calls.Call)}
	c.to = time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	c.from = c.to.Add(-time.Hour)
	for i := range 120 {
		r := statements.TopRow{Text: fmt.Sprintf("SELECT c%d FROM t%d", i, i%5), Key: stmtstats.Key{Schema: fmt.Sprintf("s%d", rng.IntN(3)), User: fmt.Sprintf("u%d", rng.IntN(4)), Backend: "db:3306"}}
		r.Digest = [16]byte{2, byte(i)}
		n := 1 + rng.Uint64N(1000)
		r.Totals = statements.Totals{Calls: n, Errors: rng.Uint64N(3), Counts: stmtstats.Counts{stmtstats.RowsSent: rng.Uint64N(1e6), stmtstats.RowsAffected: rng.Uint64N(100), stmtstats.BytesSent: rng.Uint64N(1e9)}, Seconds: float64(n) * rng.Float64()}
		r.P99 = time.Duration(float64(r.Mean()) * (1 + rng.Float64()))
		r.Before = r.Totals
		r.Before.Calls *= 2
		r.Durations = []stmtstats.Bucket{{Duration: r.Mean(), Count: n}}
		r.First, r.Last = c.from.Add(time.Duration(i)*time.Second), c.to
		c.rows = append(c.rows, r)
		if i%3 > 0 {
			c.counts[r.Text] = serverstats.Counts{
				Calls: n, RowsExamined: rng.Uint64N(1e6), RowsSent: rng.Uint64N(1e3), NoIndex: rng.Uint64N(2) * n, TempTables: rng.Uint64N(9), TempDiskTables: rng.Uint64N(2), LockTime: rng.Uint64N(1e9),
			}
		}
		for range rng.IntN(4) {
			c.calls[r.Digest] = append(c.calls[r.Digest], calls.Call{
				End: c.to.Add(-time.Minute), Took: time.Millisecond, Weight: 2, Client: fmt.Sprintf("10.0.0.%d", rng.IntN(3)), Tags: []calls.Tag{{Key: "route", Value: fmt.Sprintf("/r%d", rng.IntN(3))}},
			})
		}
	}
	return c
}

func (c *catalogue) Top(_ context.Context, q statements.TopQuery) (*statements.Top, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	top := &statements.Top{From: c.from, To: c.to, Source: statements.SourceSamples, Matching: len(c.rows)}
	for i := range c.rows {
		top.Total.Add(&c.rows[i].Totals)
		top.Before.Add(&c.rows[i].Before)
	}
	rows := slices.Clone(c.rows)
	column := columnOf(q.By.String())
	slices.SortStableFunc(rows, func(a, b statements.TopRow) int {
		x, y := queryRowsOf(&view{}, &statements.Top{Rows: []statements.TopRow{a}})[0], queryRowsOf(&view{}, &statements.Top{Rows: []statements.TopRow{b}})[0]
		return int(math.Copysign(1, column.value(&y)-column.value(&x)))
	})
	top.Rows = rows[min(q.Offset, len(rows)):min(q.Offset+q.Limit, len(rows))]
	return top, nil
}

func (c *catalogue) Statement(context.Context, statements.StatementQuery) (*statements.Statement, error) {
	return nil, statements.ErrNoStatement
}

func (c *catalogue) All(time.Time, time.Time) iter.Seq2[[16]byte, calls.Call] {
	return func(yield func([16]byte, calls.Call) bool) {
		for digest, all := range c.calls {
			for _, call := range all {
				if !yield(digest, call) {
					return
				}
			}
		}
	}
}

func (c *catalogue) Of([16]byte, time.Time, time.Time) []calls.Call { return nil }
func (c *catalogue) Covers() time.Duration                          { return 30 * time.Minute }

// catalogueCounts implements CountSource.
type catalogueCounts struct {
	fakeCounts
	of *catalogue
}

func (c catalogueCounts) Statement(digest sqldigest.Digest, text string) (serverstats.Statement, serverstats.Status, bool) {
	if text == "" {
		text = c.of.cut[digest]
	}
	n, ok := c.of.counts[text]
	return serverstats.Statement{Intervals: []serverstats.Interval{
		{From: c.of.from.Add(-time.Hour), To: c.of.from, Counts: serverstats.Counts{Calls: 1e6, RowsExamined: 1e15}}, // before the range
		{From: c.of.to.Add(-time.Minute), To: c.of.to, Counts: n},
	}}, serverstats.Status{At: c.of.to}, ok
}

// catalogueTables implements MarkerSource.
type catalogueTables struct{ MarkerSource }

func (catalogueTables) TablesOf(text, schema string) []string {
	_, table, _ := strings.Cut(text, " FROM ")
	return []string{schema + "." + table}
}

func (c *catalogue) server(t *testing.T) *Server {
	o := testOptions()
	store, err := markers.Open(markers.Options{Log: o.Log, Now: func() time.Time { return c.to }})
	if err != nil {
		t.Fatal(err)
	}
	o.Statements, o.Calls, o.Counts, o.Markers = c, c, catalogueCounts{of: c}, catalogueTables{store}
	o.Gate = testGate(t, o.Log)
	o.Now = func() time.Time { return c.to }
	return New(o)
}

var queryRowOf = regexp.MustCompile(`(?s)<tr data-row="([^"]*)"><td class="statement">(?:<a [^>]*>)?([^<]*).*?</tr>`)

// tableOf returns the first cells of all pages of a table, in order.
func tableOf(t *testing.T, s *Server, query url.Values) (names []string) {
	t.Helper()
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		code, body := browse(t, s.Handler(), "/queries?"+query.Encode(), "dba")
		if code != 200 {
			t.Fatalf("%v: %d %.500s", query, code, body)
		}
		found := queryRowOf.FindAllStringSubmatch(body, -1)
		for _, m := range found {
			names = append(names, html.UnescapeString(m[2]))
		}
		if !strings.Contains(body, `rel="next">Next`) {
			return names
		}
	}
}

// TestQueriesAreSorted sorts by each column in both orders, and compares the pages with the values of the sources.
func TestQueriesAreSorted(t *testing.T) {
	c := newCatalogue(t)
	s := c.server(t)
	v := &view{span: spanOf(c.from, c.to), texts: true}
	for i := range queryColumns {
		col := &queryColumns[i]
		all := queryRowsOf(v, &statements.Top{From: c.from, To: c.to, Rows: c.rows})
		for k := range all {
			if n, ok := c.counts[c.rows[k].Text]; ok {
				all[k].counts = &n
			}
		}
		for _, order := range []string{"", "asc"} {
			if order == "asc" && !col.server {
				continue // the order of a ranking is that of the source
			}
			got := tableOf(t, s, url.Values{"sort": {col.id}, "order": {order}})
			if len(got) != len(c.rows) {
				t.Fatalf("%s: %d rows of %d", col.id, len(got), len(c.rows))
			}
			last := math.Inf(1)
			if order == "asc" {
				last = math.Inf(-1)
			}
			for _, name := range got {
				row := &all[slices.IndexFunc(all, func(r queryRow) bool { return r.Name == name })]
				value := col.value(row)
				if math.IsNaN(value) { // last
					last = math.NaN()
					continue
				}
				if math.IsNaN(last) || order == "" && value > last || order == "asc" && value < last {
					t.Fatalf("%s %s: %s has %v after %v", col.id, order, name, value, last)
				}
				last = value
			}
		}
	}
}

// TestQueriesAreFiltered filters by each field that a ranking does not know, and compares with the values of the sources.
func TestQueriesAreFiltered(t *testing.T) {
	c := newCatalogue(t)
	s := c.server(t)
	called := func(r *statements.TopRow, match func(*calls.Call) bool) bool {
		return slices.ContainsFunc(c.calls[r.Digest], func(call calls.Call) bool { return match(&call) })
	}
	count := func(n func(*serverstats.Counts) bool) func(*statements.TopRow) bool {
		return func(r *statements.TopRow) bool { k, ok := c.counts[r.Text]; return ok && n(&k) }
	}
	for filter, want := range map[string]func(*statements.TopRow) bool{
		"calls>500":                     func(r *statements.TopRow) bool { return r.Calls > 500 },
		"errors=0":                      func(r *statements.TopRow) bool { return r.Errors == 0 },
		"errors>0":                      func(r *statements.TopRow) bool { return r.Errors > 0 },
		"mean_ns>300ms":                 func(r *statements.TopRow) bool { return r.Mean() > 300*time.Millisecond },
		"p99_ns<200ms":                  func(r *statements.TopRow) bool { return r.P99 < 200*time.Millisecond },
		"rows_sent<1000":                func(r *statements.TopRow) bool { return r.Counts[stmtstats.RowsSent] < 1000 },
		"rows_affected>50":              func(r *statements.TopRow) bool { return r.Counts[stmtstats.RowsAffected] > 50 },
		"rows_examined>500000":          count(func(n *serverstats.Counts) bool { return n.RowsExamined > 500000 }),
		"examined_per_sent>1000":        count(func(n *serverstats.Counts) bool { return float64(n.RowsExamined)/float64(max(n.RowsSent, 1)) > 1000 }),
		"no_index>0":                    count(func(n *serverstats.Counts) bool { return n.NoIndex > 0 }),
		"temp_tables>4":                 count(func(n *serverstats.Counts) bool { return n.TempTables > 4 }),
		"temp_disk_tables>0 no_index>0": count(func(n *serverstats.Counts) bool { return n.TempDiskTables > 0 && n.NoIndex > 0 }),
		"lock_ns>500ms":                 count(func(n *serverstats.Counts) bool { return n.LockTime > 5e8 }),
		"table~.t3":                     func(r *statements.TopRow) bool { return strings.HasSuffix(r.Text, "t3") },
		"client=10.0.0.1": func(r *statements.TopRow) bool {
			return called(r, func(k *calls.Call) bool { return k.Client == "10.0.0.1" })
		},
		"tag_route=/r2": func(r *statements.TopRow) bool {
			return called(r, func(k *calls.Call) bool { return k.Tags[0].Value == "/r2" })
		},
		"tag_route=/r2 client!=10.0.0.2": func(r *statements.TopRow) bool {
			return called(r, func(k *calls.Call) bool { return k.Tags[0].Value == "/r2" && k.Client != "10.0.0.2" })
		},
	} {
		var names []string
		for i := range c.rows {
			if want(&c.rows[i]) {
				names = append(names, c.rows[i].Text)
			}
		}
		got := tableOf(t, s, url.Values{"filter": {filter}})
		slices.Sort(got)
		slices.Sort(names)
		if !slices.Equal(got, names) {
			t.Errorf("%s: %d rows %.200v, want %d", filter, len(got), got, len(names))
		}
	}
}

// TestQueriesAreGrouped compares the sums of groups with those of their statements.
func TestQueriesAreGrouped(t *testing.T) {
	c := newCatalogue(t)
	s := c.server(t)
	v := &view{span: spanOf(c.from, c.to), texts: true}
	for group, of := range map[string]func(*statements.TopRow) string{
		"user":   func(r *statements.TopRow) string { return r.User },
		"schema": func(r *statements.TopRow) string { return r.Schema },
		"table":  func(r *statements.TopRow) string { return catalogueTables{}.TablesOf(r.Text, r.Schema)[0] },
	} {
		want := make(map[string]float64)
		for i := range c.rows {
			want[of(&c.rows[i])] += c.rows[i].Seconds
		}
		v.query, v.r = url.Values{"group": {group}, "sort": {"rows_examined"}}, newRequest(t, "")
		page, err := s.parts.queries.load(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		table := page.(*queryTable)
		if len(table.Rows) != len(want) {
			t.Errorf("by %s: %d groups, want %d", group, len(table.Rows), len(want))
		}
		examined, calls := 0.0, uint64(0)
		for i := range table.Rows {
			r := &table.Rows[i]
			if math.Abs(r.Load*3600-want[r.ID]) > 1e-6*want[r.ID] {
				t.Errorf("by %s: %s has a load of %v, want %v", group, r.ID, r.Load, want[r.ID]/3600)
			}
			if r.earlier.Calls != 2*r.Calls || r.P99 == 0 {
				t.Errorf("by %s: %s had %d calls before %d, p99 %v", group, r.ID, r.earlier.Calls, r.Calls, r.P99)
			}
			calls += r.Calls
			if r.counts != nil {
				examined += float64(r.counts.RowsExamined)
			}
		}
		all := 0.0
		for _, n := range c.counts {
			all += float64(n.RowsExamined)
		}
		if examined != all {
			t.Errorf("by %s: %v rows examined, want %v", group, examined, all)
		}
	}
	weight, n := make(map[string]float64), 0.0
	for _, all := range c.calls {
		for i := range all {
			weight[all[i].Tags[0].Value] += all[i].Weight
			n += all[i].Weight
		}
	}
	for _, group := range []string{"tag", "tag_route", "client"} {
		v.query = url.Values{"group": {group}}
		page, err := s.parts.queries.load(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, r := range page.(*queryTable).Rows {
			sum += float64(r.Calls)
			if group != "client" && float64(r.Calls) != weight[r.ID] {
				t.Errorf("%s %s: %d calls, want %v", group, r.ID, r.Calls, weight[r.ID])
			}
		}
		if sum != n {
			t.Errorf("by %s: %v calls, want %v", group, sum, n)
		}
	}
}

// TestQueriesOfAccounts expects accounts without texts to see neither tables, tags nor the server's counts, and the choice
// of columns to be in the links.
func TestQueriesOfAccounts(t *testing.T) {
	c := newCatalogue(t)
	h := c.server(t).Handler()
	for query, want := range map[string]int{
		"group=user": 200, "group=client": 200, "filter=client%3D10.0.0.1": 200, "filter=errors%3E0": 200,
		"group=table": 403, "group=tag": 403, "group=tag_route": 403, "filter=tag_route%3D/r1": 403, "filter=table%3Ds0.t1": 403, "filter=no_index%3E0": 400, "filter=t1": 403,
	} {
		if code, body := browse(t, h, "/queries?"+query, "guest"); code != want || strings.Contains(body, "SELECT c") {
			t.Errorf("%s: %d, want %d", query, code, want)
		}
		if code, _ := browse(t, h, "/queries?"+query, "dba"); code != 200 {
			t.Errorf("%s: %d for an account with texts", query, code)
		}
	}
	for query, want := range map[string]int{"group=nothing": 400, "sort=nothing": 400, "filter=rows_examined": 200, "filter=nothing%3D1": 400, "column=nothing": 200} {
		if code, body := browse(t, h, "/queries?"+query, "dba"); code != want {
			t.Errorf("%s: %d, want %d: %.300s", query, code, want, body)
		}
	}
	s := c.server(t)
	s.parts.queries.tags = []string{"route"}
	for query, want := range map[string]bool{"group=tag_route": true, "group=tag": true, "group=tag_none": false, "group=client": false, "group=user": false} {
		if _, body := browse(t, s.Handler(), "/queries?"+query, "dba"); strings.Contains(html.UnescapeString(body), `topk(50, sum by (value) (rate(tare_tag_query_seconds_total{tag="route"`) != want {
			t.Errorf("%s: the PromQL of the tag's counts is there: %v, want %v", query, !want, want)
		}
	}
	_, body := browse(t, h, "/queries?column=calls&column=no_index&from=now-1h", "dba")
	heads := regexp.MustCompile(`<th scope="col" class="n"[^>]*><a href="([^"]*)"[^>]*>([^<]*)`).FindAllStringSubmatch(body, -1)
	var names []string
	for _, m := range heads {
		names = append(names, strings.TrimRight(m[2], " ↓"))
		if link := html.UnescapeString(m[1]); !strings.Contains(link, "column=calls&column=no_index") {
			t.Errorf("the link %s loses the columns", link)
		}
	}
	if want := []string{"Load", "Calls", "No index"}; !slices.Equal(names, want) {
		t.Errorf("columns %q, want %q", names, want)
	}
}

// TestTablesOfCutTexts cuts the texts of every second statement: their tables are those of the cached plans, and the server's
// counts are found by their digests.
func TestTablesOfCutTexts(t *testing.T) {
	c := newCatalogue(t)
	c.cut = make(map[[16]byte]string)
	want, planned := make(map[string]float64), make(map[[16]byte][]string)
	for i := range c.rows {
		r := &c.rows[i]
		table := catalogueTables{}.TablesOf(r.Text, r.Schema)[0]
		want[table] += r.Seconds
		if i%2 == 0 {
			planned[r.Digest] = append(planned[r.Digest], table)
			c.cut[r.Digest] = r.Text
			r.Text, r.TextCut = r.Text[:4], true
		}
	}
	s := c.server(t)
	s.parts.queries.tables.planned = func(of map[[16]byte][]string) {
		for digest := range of {
			of[digest] = planned[digest]
		}
	}
	v := &view{span: spanOf(c.from, c.to), texts: true, r: newRequest(t, ""), query: url.Values{"group": {"table"}, "sort": {"rows_examined"}}}
	page, err := s.parts.queries.load(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	rows := page.(*queryTable).Rows
	examined := 0.0
	for _, n := range c.counts {
		examined += float64(n.RowsExamined)
	}
	for i := range rows {
		if n := rows[i].counts; n != nil {
			examined -= float64(n.RowsExamined)
		}
	}
	if examined != 0 {
		t.Errorf("%v rows examined by statements with cut texts are missing", examined)
	}
	if len(rows) != len(want) {
		t.Errorf("%d groups, want %d", len(rows), len(want))
	}
	for i := range rows {
		if r := &rows[i]; math.Abs(r.Load*3600-want[r.ID]) > 1e-6*want[r.ID] {
			t.Errorf("%s has a load of %v, want %v", r.ID, r.Load, want[r.ID]/3600)
		}
	}
	if len(rows) == 0 {
		return
	}
	table, matching := rows[0].ID, 0
	for i := range c.rows {
		r := &c.rows[i]
		if r.TextCut && planned[r.Digest][0] == table || !r.TextCut && (catalogueTables{}).TablesOf(r.Text, r.Schema)[0] == table {
			matching++
		}
	}
	v.query = url.Values{"filter": {"table=" + table}}
	if page, err = s.parts.queries.load(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if n := len(page.(*queryTable).Rows); n != matching || n == 0 {
		t.Errorf("%d statements of table %s, want %d", n, table, matching)
	}
}
