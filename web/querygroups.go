package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/querylog"
)

// Dimensions by which statements are grouped, and fields of filters that a ranking does not know.
const (
	byUser, bySchema, byBackend = "user", "schema", "backend"
	byTable                     = "table"
	byClient                    = "client"
	byTag                       = "tag" // followed by _ and the key

	tagField = byTag + "_"

	// maxTagKeys bounds the keys of tags that are offered.
	maxTagKeys = 12
)

// numberFields are the fields of filters with numbers: *_ns are nanoseconds, and take durations.
//
//nolint:gochecknoglobals // a table
var numberFields = slices.Concat([]string{"calls", "errors", "mean_ns", "p99_ns"}, effectNames(), []string{"rows_examined", "examined_per_sent", "no_index", "temp_tables", "temp_disk_tables", "lock_ns"})

// isServerField reports whether a field is a count of the server.
func isServerField(name string) bool {
	c := columnOf(strings.Replace(name, "lock_ns", "lock_time", 1))
	return c != nil && c.server
}

// FieldValue implements querylog.Filterable. An unknown number has no value.
func (row *queryRow) FieldValue(name string) querylog.Value {
	switch name {
	case "mean_ns":
		return querylog.Value{Number: float64(row.Mean)}
	case "p99_ns":
		return querylog.Value{Number: float64(row.P99)}
	case "lock_ns":
		return querylog.Value{Number: row.counted(func(c *serverstats.Counts) float64 { return float64(c.LockTime) })}
	}
	if c := columnOf(name); c != nil {
		return querylog.Value{Number: c.value(row)}
	}
	return querylog.Value{}
}

// namedTable is a table of a statement, for a filter.
type namedTable string

// FieldValue implements querylog.Filterable.
func (t namedTable) FieldValue(string) querylog.Value { return querylog.StringValue(string(t)) }

// sampledCall is a call of the sample, for a filter.
type sampledCall struct{ *calls.Call }

// FieldValue implements querylog.Filterable.
func (c sampledCall) FieldValue(name string) querylog.Value {
	if name == byClient {
		return querylog.StringValue(c.Client)
	}
	return querylog.StringValue(c.tag(strings.TrimPrefix(name, tagField)))
}

func (c sampledCall) tag(key string) string {
	for _, t := range c.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

// filterFields returns the fields of filters that the account may use.
func (s *queriesPage) filterFields(v *view) []string {
	fields := append(statements.FilterFields(), byTable, byClient, tagField+"KEY")
	for _, f := range numberFields {
		if !isServerField(f) || s.countsVisible(v) {
			fields = append(fields, f)
		}
	}
	if s.calls == nil {
		fields = slices.DeleteFunc(fields, func(f string) bool { return f == byClient || strings.HasPrefix(f, tagField) })
	}
	if !s.tables.known() {
		fields = slices.DeleteFunc(fields, func(f string) bool { return f == byTable })
	}
	return fields
}

// splitFilter divides the filter of a request into the parts for the ranking, for rows, for tables and for sampled calls.
func (s *queriesPage) splitFilter(v *view, q *queryRequest) error {
	f, err := querylog.ParseFilter(q.top.Filter)
	if err != nil {
		return nil // Validate returns the error
	}
	isCall := func(name string) bool {
		return s.calls != nil && (name == byClient || strings.HasPrefix(name, tagField))
	}
	isTable := func(name string) bool { return s.tables.known() && name == byTable }
	isRow := func(name string) bool {
		return slices.Contains(numberFields, name) && (!isServerField(name) || s.countsVisible(v))
	}
	q.rows, q.calls, q.tables = f.Select(isRow), f.Select(isCall), f.Select(isTable)
	rest := f.Select(func(name string) bool { return !isRow(name) && !isCall(name) && !isTable(name) })
	if q.rows.Empty() && q.calls.Empty() && q.tables.Empty() {
		return nil
	}
	q.top.Filter = rest.String()
	q.counts = !q.rows.Select(isServerField).Empty()
	if hidden := f.Select(func(name string) bool { return name == byTable || strings.HasPrefix(name, tagField) }); !v.texts && !hidden.Empty() {
		return textsRequired("filter by tables and tags")
	}
	return nil
}

// checkGroup returns an error if rows cannot be grouped by a dimension.
func (s *queriesPage) checkGroup(v *view, group string) error {
	isTag := group == byTag || strings.HasPrefix(group, tagField)
	switch {
	case group == "", group == byUser, group == bySchema, group == byBackend:
		return nil
	case (isTag || group == byTable) && !v.texts:
		return textsRequired("group by tables and tags")
	case group == byTable && s.tables.known(), (isTag || group == byClient) && s.calls != nil:
		return nil
	}
	return badRequest(fmt.Errorf("statements cannot be grouped by %.40q", group), "Choose one of the groups above the table.")
}

// textsRequired is the error of an account without texts: tables and tags are parts of texts.
func textsRequired(what string) error {
	return &problem{Status: http.StatusForbidden, What: "This account sees no statement texts, so it cannot " + what + ".", Try: []string{"Use schema, user, backend or client."}}
}

// selectRows keeps the rows that meet the parts of the filter that a ranking does not know. A condition on tables holds if
// it holds for one of them, conditions on clients and tags if all hold for one of the sampled calls.
func (s *queriesPage) selectRows(v *view, q *queryRequest, top *statements.Top, t *queryTable) {
	var called map[[16]byte]bool
	if !q.calls.Empty() {
		called = make(map[[16]byte]bool)
		for digest, call := range s.calls.All(v.span.From, v.span.To) {
			if !called[digest] && q.calls.Match(sampledCall{&call}) {
				called[digest] = true
			}
		}
		t.Notes = append(t.Notes, "Clients and tags are those of sampled calls, of the last "+duration(s.calls.Covers())+".")
	}
	var tables func(*statements.TopRow) []string
	if !q.tables.Empty() {
		tables = s.tables.ofRows(top.Rows)
	}
	t.Rows = slices.DeleteFunc(t.Rows, func(row queryRow) bool {
		r := &top.Rows[row.index]
		if !q.rows.Match(&row) || called != nil && !called[r.Digest] {
			return true
		}
		return tables != nil && !slices.ContainsFunc(tables(r), func(name string) bool { return q.tables.Match(namedTable(name)) })
	})
}

// A queryGroup adds up statements, or sampled calls, with a property.
type queryGroup struct {
	totals, before statements.Totals
	counts         serverstats.Counts
	counted        bool
	first          time.Time
	durations      map[time.Duration]float64 // calls
	digests        map[[16]byte]struct{}
}

// p99 returns the 99th percentile of the durations.
func (g *queryGroup) p99() time.Duration {
	all := 0.0
	for _, n := range g.durations {
		all += n
	}
	seen := 0.0
	for _, d := range slices.Sorted(maps.Keys(g.durations)) {
		if seen += g.durations[d]; seen >= 0.99*all {
			return d
		}
	}
	return 0
}

// groups are the groups of a request by their names.
type groups map[string]*queryGroup

func (gs groups) of(name string) *queryGroup {
	g := gs[name]
	if g == nil {
		g = &queryGroup{durations: make(map[time.Duration]float64), digests: make(map[[16]byte]struct{})}
		gs[name] = g
	}
	return g
}

// groupRows replaces the rows by groups of them.
func (s *queriesPage) groupRows(v *view, q *queryRequest, top *statements.Top, t *queryTable) {
	length, comparable := covered(v, top)
	found, whole := make(groups), top.Total.Seconds
	t.Group = strings.ToUpper(q.group[:1]) + q.group[1:]
	if q.group == byClient || strings.HasPrefix(q.group, byTag) {
		comparable = false
		length, whole = s.groupCalls(v, q, top, t, found)
	} else {
		of := s.groupsBy(q.group, top.Rows)
		for i := range t.Rows {
			row := &t.Rows[i]
			r := &top.Rows[row.index]
			for _, name := range of(r) {
				found.of(name).add(row, r)
			}
		}
		if q.group == byTable {
			t.Notes = append(t.Notes, "A statement of several tables is counted for each of them.")
		}
	}
	t.Rows = t.Rows[:0]
	for name, g := range found {
		row := queryRow{
			ID: name, Name: cmp.Or(name, "(none)"), Key: many(len(g.digests), "statement"), Link: groupLinkOf(v, q.group, name), index: -1,
			Calls: g.totals.Calls, Errors: g.totals.Errors, effects: g.totals.Counts,
			First: g.first, Mean: g.totals.Mean(), P99: g.p99(), Load: g.totals.Seconds / length, PerSecond: float64(g.totals.Calls) / length,
			Share: ratio(g.totals.Seconds, whole),
		}
		if g.counted {
			row.counts = &g.counts
		}
		if comparable {
			row.Change = changeOf(g.totals.Seconds, g.before.Seconds)
			row.earlier, row.shareBefore = &g.before, ratio(g.before.Seconds, top.Before.Seconds)
		}
		row.write(length)
		t.Rows = append(t.Rows, row)
	}
	slices.SortFunc(t.Rows, func(a, b queryRow) int { return cmp.Compare(a.ID, b.ID) })
}

// add adds a statement.
func (g *queryGroup) add(row *queryRow, r *statements.TopRow) {
	g.totals.Add(&r.Totals)
	g.before.Add(&r.Before)
	g.digests[r.Digest] = struct{}{}
	for _, b := range r.Durations {
		g.durations[b.Duration] += float64(b.Count)
	}
	if row.counts != nil {
		g.counts.Add(row.counts)
		g.counted = true
	}
	if g.first.IsZero() || r.First.Before(g.first) {
		g.first = r.First
	}
}

// groupsBy returns a function that returns the groups of each row.
func (s *queriesPage) groupsBy(group string, rows []statements.TopRow) func(r *statements.TopRow) []string {
	switch group {
	case byUser:
		return func(r *statements.TopRow) []string { return []string{r.User} }
	case bySchema:
		return func(r *statements.TopRow) []string { return []string{r.Schema} }
	case byBackend:
		return func(r *statements.TopRow) []string { return []string{r.Backend} }
	}
	tables := s.tables.ofRows(rows)
	return func(r *statements.TopRow) []string {
		if names := tables(r); len(names) > 0 {
			return names
		}
		return []string{""}
	}
}

// groupCalls groups the sampled calls of the rows' statements. It returns the time in seconds that they cover, and the
// execution time of all sampled calls.
func (s *queriesPage) groupCalls(v *view, q *queryRequest, top *statements.Top, t *queryTable, found groups) (length, whole float64) {
	wanted := make(map[[16]byte]bool, len(t.Rows))
	for i := range t.Rows {
		wanted[top.Rows[t.Rows[i].index].Digest] = true
	}
	key := strings.TrimPrefix(q.group, tagField)
	if q.group == byTag {
		key = ""
		if keys := s.tagKeys(v); len(keys) > 0 {
			key = keys[0]
		}
		q.group = tagField + key
	}
	if q.group != byClient {
		t.Group = "Tag " + key
	}
	if q.group != byClient && slices.Contains(s.tags, key) { // the chosen statements do not limit it
		t.PromQL = promqlBox(s.queries.tag(key, v.span.Length()).TagLoad(queryRows))
	}
	weights := make(map[string]float64)
	failed := make(map[string]float64)
	for digest, call := range s.calls.All(v.span.From, v.span.To) {
		whole += call.Weight * call.Took.Seconds()
		if !wanted[digest] || !q.calls.Empty() && !q.calls.Match(sampledCall{&call}) {
			continue
		}
		name := call.Client
		if q.group != byClient {
			name = sampledCall{&call}.tag(key)
		}
		g := found.of(name)
		g.totals.Seconds += call.Weight * call.Took.Seconds()
		g.durations[call.Took] += call.Weight
		g.digests[digest] = struct{}{}
		if weights[name] += call.Weight; call.Error != 0 {
			failed[name] += call.Weight
		}
		if start := call.End.Add(-call.Took); g.first.IsZero() || start.Before(g.first) {
			g.first = call.End
		}
	}
	for name, g := range found {
		g.totals.Calls, g.totals.Errors = uint64(weights[name]+0.5), uint64(failed[name]+0.5)
	}
	covers := s.calls.Covers()
	t.Notes = append(t.Notes, "Estimated from a sample of the calls of the last "+duration(covers)+".")
	return max(min(v.span.Length(), covers).Seconds(), leastCovered.Seconds()), whole
}

// tagKeys returns the keys of the sampled calls' tags, the most frequent first.
func (s *queriesPage) tagKeys(v *view) []string {
	n := make(map[string]float64)
	for _, call := range s.calls.All(v.span.From, v.span.To) {
		for _, tag := range call.Tags {
			n[tag.Key] += call.Weight
		}
	}
	keys := slices.Collect(maps.Keys(n))
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(a, b)) })
	return keys[:min(len(keys), maxTagKeys)]
}

// groupLinkOf returns the link to the statements of a group; "" for tags whose key is no name of a field.
func groupLinkOf(v *view, group, name string) string {
	if strings.Trim(group, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return ""
	}
	if strings.ContainsAny(name, " \"\\") || name == "" {
		name = strconv.Quote(name)
	}
	return v.with("filter", strings.TrimSpace(v.query.Get("filter")+" "+group+"="+name), "group", "", "page", "")
}

// A groupLink is a link to a grouped table.
type groupLink struct {
	Name, Link string
	Here       bool
}

// groupLinks returns the links to all groups that the account may see; keys of tags are read only for a grouped table.
func (s *queriesPage) groupLinks(v *view, q *queryRequest) []groupLink {
	names := []string{"", byUser, bySchema, byBackend}
	if s.tables.known() && v.texts {
		names = append(names, byTable)
	}
	if s.calls != nil {
		names = append(names, byClient)
		switch {
		case !v.texts:
		case q.group == "":
			names = append(names, byTag)
		default:
			for _, key := range s.tagKeys(v) {
				names = append(names, tagField+key)
			}
		}
	}
	var links []groupLink
	for _, name := range names {
		text := cmp.Or(name, "statement")
		if key, ok := strings.CutPrefix(name, tagField); ok {
			text = "tag " + key
		}
		links = append(links, groupLink{text, v.with("group", name, "page", ""), name == q.group})
	}
	return links
}
