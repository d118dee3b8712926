package web

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A queryColumn is a column of the table of queries.
type queryColumn struct {
	id          string // in URLs; the name of a statements.Measure, or a count of the server
	name, title string
	optional    bool                    // not shown unless it is chosen
	server      bool                    // from the server's counts, which have no ranking of all statements
	value       func(*queryRow) float64 // by which rows are sorted; NaN: unknown
	cell        func(*queryRow) queryCell
}

// A queryCell is a value of a row.
type queryCell struct {
	Name, Text, Sub string
	Change          change // of the value, compared with the previous range
	Bad             bool
}

// queryColumns are the columns in their order.
//
//nolint:gochecknoglobals // a table
var queryColumns = slices.Concat(callColumns, effectColumns(), serverColumns)

var callColumns = []queryColumn{
	{
		id: statements.BySeconds.String(), name: "Load", title: "Calls running on average (execution seconds per second), and the share of all",
		value: func(r *queryRow) float64 { return r.Load },
		cell: func(r *queryRow) queryCell {
			return queryCell{Text: r.LoadText, Sub: percent(r.Share), Change: r.Change}
		},
	},
	{
		id: "share", name: "Share", title: "Share of the execution time of all statements", optional: true,
		value: func(r *queryRow) float64 { return r.Share },
		cell: func(r *queryRow) queryCell {
			return queryCell{Text: percent(r.Share), Change: changeOf(r.Share, r.shareBefore)}
		},
	},
	{
		id: statements.ByCalls.String(), name: "Calls", title: "Calls per second, and in total",
		value: func(r *queryRow) float64 { return float64(r.Calls) },
		cell: func(r *queryRow) queryCell {
			return queryCell{Text: r.CallRate, Sub: unitCount.write(float64(r.Calls)), Change: changeOf(float64(r.Calls), r.before(func(t *statements.Totals) float64 { return float64(t.Calls) }))}
		},
	},
	{
		id: statements.ByMean.String(), name: "Mean", title: "Average duration of a call",
		value: func(r *queryRow) float64 { return r.Mean.Seconds() },
		cell: func(r *queryRow) queryCell {
			return queryCell{Text: r.MeanText, Change: changeOf(r.Mean.Seconds(), r.before(func(t *statements.Totals) float64 { return t.Mean().Seconds() }))}
		},
	},
	{
		id: statements.ByP99.String(), name: "p99", title: "99 of 100 calls took at most this long",
		value: func(r *queryRow) float64 { return r.P99.Seconds() },
		cell: func(r *queryRow) queryCell {
			return queryCell{Text: r.P99Text, Change: changeOf(r.P99.Seconds(), r.before(func(t *statements.Totals) float64 { return t.P99.Seconds() }))}
		},
	},
	{
		id: statements.ByErrors.String(), name: "Errors", title: "Failed calls per second, and in total",
		value: func(r *queryRow) float64 { return float64(r.Errors) },
		cell: func(r *queryRow) queryCell {
			if r.Errors == 0 {
				return queryCell{Text: "0"}
			}
			return queryCell{Text: r.ErrorRate, Sub: unitCount.write(float64(r.Errors)), Bad: true}
		},
	},
}

var serverColumns = []queryColumn{
	ofServer("rows_examined", "Examined", "Rows that the server read, and per call", false, unitCount, func(c *serverstats.Counts) float64 { return float64(c.RowsExamined) }),
	{
		id: "examined_per_sent", name: "Examined per sent", title: "Rows that the server read per row that it sent", optional: true, server: true,
		value: func(r *queryRow) float64 {
			return r.counted(func(c *serverstats.Counts) float64 { return float64(c.RowsExamined) / float64(max(c.RowsSent, 1)) })
		},
		cell: func(r *queryRow) queryCell {
			return queryCell{Text: unitCount.write(r.counted(func(c *serverstats.Counts) float64 { return float64(c.RowsExamined) / float64(max(c.RowsSent, 1)) }))}
		},
	},
	ofServer("no_index", "No index", "Calls that read a table without an index, and per call", true, unitCount, func(c *serverstats.Counts) float64 { return float64(c.NoIndex) }),
	ofServer("temp_tables", "Temporary tables", "Temporary tables, and per call", true, unitCount, func(c *serverstats.Counts) float64 { return float64(c.TempTables) }),
	ofServer("temp_disk_tables", "On disk", "Temporary tables on disk, and per call", true, unitCount, func(c *serverstats.Counts) float64 { return float64(c.TempDiskTables) }),
	ofServer("lock_time", "Lock time", "Time that calls waited for locks of tables, and per call", true, unitSeconds, func(c *serverstats.Counts) float64 { return float64(c.LockTime) / 1e9 }),
	{
		id: statements.ByFirstSeen.String(), name: "First seen", title: "End of the first call",
		value: func(r *queryRow) float64 { return float64(r.First.UnixMilli()) },
		cell:  func(r *queryRow) queryCell { return queryCell{Text: moment(r.First)} },
	},
}

// effectColumns returns the columns of the effects of calls, of which only the rows sent are shown without being chosen.
func effectColumns() (columns []queryColumn) {
	for _, c := range stmtstats.Effects() {
		info, u := c.Info(), unitOf(c)
		columns = append(columns, queryColumn{
			id: c.String(), name: info.Title, title: strings.TrimSuffix(info.Help, "."), optional: c != stmtstats.RowsSent,
			value: func(r *queryRow) float64 { return float64(r.effects[c]) },
			cell:  func(r *queryRow) queryCell { return queryCell{Text: u.write(float64(r.effects[c]))} },
		})
	}
	return columns
}

// effectNames returns the names of the effects of calls, which are fields of filters.
func effectNames() (names []string) {
	for _, c := range stmtstats.Effects() {
		names = append(names, c.String())
	}
	return names
}

// unitOf returns the unit of an effect of calls.
func unitOf(c stmtstats.Counter) unit {
	if c.Info().Unit == stmtstats.BytesUnit {
		return unitBytes
	}
	return unitCount
}

// An effectView is an effect of the calls of a statement.
type effectView struct{ Name, Text string }

func effectViews(counts *stmtstats.Counts) (views []effectView) {
	for _, c := range stmtstats.Effects() {
		text := short(float64(counts[c]))
		if u := unitOf(c); u == unitBytes {
			text = u.write(float64(counts[c]))
		}
		views = append(views, effectView{c.Info().Title, text})
	}
	return views
}

// effectCharts returns the charts of the effects that the calls of a statement have.
func effectCharts(st *statements.Statement, points *statements.Series, ask statements.ChartQuery) (charts []lineChart) {
	for _, c := range stmtstats.Effects() {
		info, u := c.Info(), unitRate
		if st.Counts[c] == 0 || !info.Chart {
			continue
		}
		if info.Unit == stmtstats.BytesUnit {
			u = unitByteRate
		}
		charts = append(charts, lineChart{
			ID: c.String(), Title: info.Title, Unit: u, Area: true, Series: []series{{strings.ToLower(info.Title), points.Effects[c]}}, PromQL: ask.Effect(c),
		})
	}
	return charts
}

// ofServer returns the column of a count of the server, with its value per call.
func ofServer(id, name, title string, optional bool, u unit, n func(*serverstats.Counts) float64) queryColumn {
	return queryColumn{
		id: id, name: name, title: title, optional: optional, server: true,
		value: func(r *queryRow) float64 { return r.counted(n) },
		cell: func(r *queryRow) queryCell {
			c := queryCell{Text: u.write(r.counted(n))}
			if r.counts != nil && r.counts.Calls > 0 {
				c.Sub = u.write(n(r.counts)/float64(r.counts.Calls)) + " each"
			}
			return c
		},
	}
}

// columnOf returns the column with an id, or nil.
func columnOf(id string) *queryColumn {
	i := slices.IndexFunc(queryColumns, func(c queryColumn) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return &queryColumns[i]
}

// countsVisible reports whether the server's counts are read, and visible to the account.
func (s *queriesPage) countsVisible(v *view) bool { return s.counts != nil && v.texts }

// before returns a value of the previous range, or 0 if there is none to compare with.
func (row *queryRow) before(value func(*statements.Totals) float64) float64 {
	if row.earlier == nil {
		return 0
	}
	return value(row.earlier)
}

// counted returns a count of the server, or NaN if it is unknown.
func (row *queryRow) counted(n func(*serverstats.Counts) float64) float64 {
	if row.counts == nil {
		return math.NaN()
	}
	return n(row.counts)
}

// sortRows sorts rows by a column. Unknown values come last.
func sortRows(rows []queryRow, by *queryColumn, ascending bool) {
	slices.SortStableFunc(rows, func(a, b queryRow) int {
		x, y := by.value(&a), by.value(&b)
		if !chart.IsNumber(x) || !chart.IsNumber(y) {
			return cmp.Compare(boolInt(chart.IsNumber(y)), boolInt(chart.IsNumber(x)))
		}
		if ascending {
			x, y = y, x
		}
		return cmp.Compare(y, x)
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// addCounts sets the server's counts of rows within the view's time range, and returns notes on them. Of statements whose text is
// truncated, the whole text is unknown: they are found by their digests.
func (s *queriesPage) addCounts(v *view, rows []queryRow, of func(i int) (digest sqldigest.Digest, text string)) (notes []string) {
	var status serverstats.Status
	var from time.Time
	for i := range rows {
		found, now, ok := s.counts.Statement(of(i))
		status = now
		if !ok {
			continue
		}
		var sum serverstats.Counts
		for k := range found.Intervals {
			in := &found.Intervals[k]
			if !in.To.After(v.span.From) || !in.From.Before(v.span.To) {
				continue
			}
			sum.Add(&in.Counts)
			if from.IsZero() || in.From.Before(from) {
				from = in.From
			}
		}
		if sum.Calls > 0 {
			rows[i].counts = &sum
		}
	}
	switch {
	case status.Problem != "":
		notes = append(notes, "Counts of the server unavailable: "+sentence(status.Problem))
	case from.IsZero():
		notes = append(notes, "The server has counted no call of these statements since the first reading.")
	default:
		notes = append(notes, "Counts of the server (rows examined, indexes, temporary tables, locks) are of all its clients, since "+exactClock(from, v.span.Length())+" at the earliest.")
	}
	return notes
}
