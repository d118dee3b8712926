package top

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A Measure is a sort key of rows.
type Measure string

// The measures by their names on the command line.
const (
	ByLoad   Measure = "load"
	ByCalls  Measure = "calls"
	ByMean   Measure = "mean"
	ByP99    Measure = "p99"
	ByErrors Measure = "errors"
	ByRows   Measure = "rows"
)

// Measures returns all measures, in the order of the table's columns.
func Measures() []Measure { return []Measure{ByLoad, ByCalls, ByMean, ByP99, ByErrors, ByRows} }

// asked returns the measure's name in /api/v1/statements.
func (m Measure) asked() string {
	switch m {
	case ByCalls, ByMean, ByP99, ByErrors:
		return string(m)
	case ByRows:
		return "rows_sent"
	}
	return "seconds"
}

// A Frame is the displayed data of a gateway at one time.
type Frame struct {
	At       time.Time
	Live     Live
	Over     time.Duration // maximum time range of the rates
	Since    time.Time     // start of the counters
	Average  bool          // there is no earlier reading: the rates cover the time since Since
	Source   string        // as in /api/v1/statements
	Matching int           // rows that match the filter
	Rows     []Line
	Event    *Event    // nil: none
	Sessions *Sessions // nil: unknown
}

// A Line is one statement of a frame.
type Line struct {
	Key
	Text    string
	TextCut bool // only the beginning of the text
	// Rates over the window.
	Load, Calls, Errors, RowRate float64
	Mean, P99                    time.Duration
	Known                        bool // false: first seen in this reading, with earlier calls
	Total                        Counts
	First, Last                  time.Time
	Change                       *Change // nil: none is known
}

// value returns the sort key of a line.
func (l *Line) value(by Measure) float64 {
	switch by {
	case ByLoad:
		return l.Load
	case ByCalls:
		return l.Calls
	case ByMean:
		return float64(l.Mean)
	case ByP99:
		return float64(l.P99)
	case ByErrors:
		return l.Errors
	case ByRows:
		return l.RowRate
	}
	panic("BUG: top: no measure " + string(by))
}

// Sort sorts the rows by a measure, in descending order unless ascending is set.
func (f *Frame) Sort(by Measure, ascending bool) {
	slices.SortStableFunc(f.Rows, func(a, b Line) int {
		x, y := a.value(by), b.value(by)
		if ascending {
			x, y = y, x
		}
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Total.Seconds, a.Total.Seconds), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.User, b.User), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Backend, b.Backend))
	})
}

// Bounds of a History.
const (
	maxReadings = 128   // older ones are thinned out evenly
	maxKept     = 5_000 // rows: those without recent calls are forgotten
)

// calledSlack is how long before a reading a call may have ended that the reading does not count: calls are
// counted after their responses.
const calledSlack = 2 * time.Second

// A History keeps the readings of the window, to compute differences. The first reading has the leading
// statements, later ones those called since the one before.
type History struct {
	readings []past
	rows     map[Key]*Row // as read last
	filter   string       // of rows
	whole    bool         // a reading of the current counters had the leading statements
}

// A past reading consists of counters only. That of the oldest reading has all rows read until then.
type past struct {
	at    time.Time
	since time.Time // start of its counters
	all   bool      // no changed row is missing
	rows  map[Key]pastRow
}

// A pastRow has the counters of a Key at a time.
type pastRow struct {
	at time.Time
	Counts
	durations Durations
}

// Durations are the buckets of a histogram in ascending order: the microseconds that represent a bucket, and its
// number of calls.
type Durations [][2]float64

// quantile returns the q-quantile of the calls that d counts and before does not, as the gateway computes it.
func (d Durations) quantile(q float64, before Durations) time.Duration {
	calls := 0.0
	for _, b := range d {
		calls += b[1]
	}
	for _, b := range before {
		calls -= b[1]
	}
	rank := max(1, math.Ceil(q*calls))
	for _, b := range d {
		for len(before) > 0 && before[0][0] < b[0] {
			before = before[1:]
		}
		count := b[1]
		if len(before) > 0 && before[0][0] == b[0] {
			count -= before[0][1]
		}
		if rank -= count; count > 0 && rank <= 0 {
			return micros(b[0])
		}
	}
	return 0
}

// next returns the parameters of the next reading.
func (h *History) next(by Measure, filter string) Ask {
	ask := Ask{By: by, Filter: filter, Limit: MaxRows}
	if n := len(h.readings); n > 0 && h.whole && h.filter == filter {
		ask.CalledSince = h.readings[n-1].at.Add(-calledSlack)
	}
	return ask
}

// Frame returns the changes over the window that ends with r, and keeps r.
func (h *History) Frame(r *Reading, window time.Duration) *Frame {
	s := &r.Statements
	if n := len(h.readings); n > 0 && !h.readings[n-1].since.Equal(s.From) {
		h.readings, h.rows = nil, nil // another process responds, or its counters were reset
	}
	// The oldest reading is kept as the start of the window.
	for len(h.readings) > 1 && r.At.Sub(h.readings[1].at) >= window {
		h.drop(0)
	}
	h.update(r)
	f := &Frame{At: r.At, Live: r.Live, Since: s.From, Source: s.Source, Matching: s.Matching, Event: r.Event, Sessions: r.Sessions, Average: len(h.readings) == 0, Rows: make([]Line, 0, len(h.rows))}
	f.Over = r.At.Sub(s.From)
	if !f.Average {
		f.Over = r.At.Sub(h.readings[0].at)
	}
	for _, row := range h.rows {
		f.Rows = append(f.Rows, h.line(row, r.At, s.From))
	}
	h.keep(r)
	return f
}

// update replaces the rows of a reading. Others have not changed, unless r has the leading rows only.
func (h *History) update(r *Reading) {
	leading := r.Ask.CalledSince.IsZero()
	if h.rows == nil || leading {
		h.rows = make(map[Key]*Row, len(r.Statements.Statements))
	}
	h.filter, h.whole = r.Ask.Filter, leading || h.whole && len(h.readings) > 0
	for i := range r.Statements.Statements {
		row := &r.Statements.Statements[i]
		h.rows[row.Key] = row
	}
	if len(h.rows) <= maxKept {
		return
	}
	called := slices.SortedFunc(maps.Values(h.rows), func(a, b *Row) int { return a.Last.Compare(b.Last) })
	for _, row := range called[:len(called)-maxKept/2] {
		delete(h.rows, row.Key)
	}
}

// line returns the changes of a row since the oldest reading that covers it.
func (h *History) line(row *Row, now, since time.Time) Line {
	l := Line{Key: row.Key, Text: row.Text, TextCut: row.TextCut, Total: row.Counts, First: row.First, Last: row.Last, Change: row.Change, Known: true, P99: row.Counts.P99}
	var before pastRow
	at := since
	if len(h.readings) > 0 {
		l.Known = false
		for i := range h.readings {
			p := &h.readings[i]
			if c, ok := p.rows[row.Key]; ok {
				before, at, l.Known = c, c.at, true
				break
			}
			if row.First.After(p.at) {
				at, l.Known = p.at, true // it had no calls at that time
				break
			}
		}
	}
	seconds := now.Sub(at).Seconds()
	if !l.Known || seconds <= 0 || row.Counts.Calls < before.Calls {
		l.Known, l.P99 = false, 0
		return l
	}
	calls := row.Counts.Calls - before.Calls
	l.Calls = float64(calls) / seconds
	l.Load = max(0, row.Counts.Seconds-before.Seconds) / seconds
	l.Errors = float64(row.Counts.Errors-min(before.Errors, row.Counts.Errors)) / seconds
	rows := rowsOf(&row.Counts)
	l.RowRate = float64(rows-min(rowsOf(&before.Counts), rows)) / seconds
	if at.After(since) {
		l.P99 = row.Durations.quantile(0.99, before.durations)
	}
	if calls > 0 {
		l.Mean = time.Duration(max(0, row.Counts.Seconds-before.Seconds) / float64(calls) * float64(time.Second))
	}
	return l
}

// rowsOf returns the rows sent and changed.
func rowsOf(c *Counts) uint64 { return c.Counts[stmtstats.RowsSent] + c.Counts[stmtstats.RowsAffected] }

// keep adds the counters of a reading.
func (h *History) keep(r *Reading) {
	if n := len(h.readings); n >= maxReadings {
		h.drop(n / 2)
	}
	all := !r.Ask.CalledSince.IsZero() && len(r.Statements.Statements) < MaxRows
	p := past{at: r.At, since: r.Statements.From, all: all, rows: make(map[Key]pastRow, len(r.Statements.Statements))}
	for i := range r.Statements.Statements {
		row := &r.Statements.Statements[i]
		p.rows[row.Key] = pastRow{r.At, row.Counts, row.Durations}
	}
	h.readings = append(h.readings, p)
}

// drop removes a reading that is not the last. Its rows that the next one lacks are kept there.
func (h *History) drop(i int) {
	next := &h.readings[i+1]
	for key, row := range h.readings[i].rows {
		if _, ok := next.rows[key]; ok || len(next.rows) >= maxKept && h.rows[key] == nil {
			continue
		}
		if next.all {
			row.at = next.at // its counters were the same
		}
		next.rows[key] = row
	}
	h.readings = slices.Delete(h.readings, i, i+1)
}

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
