package top

import (
	"cmp"
	"math"
	"slices"
	"time"
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
	Event    *Event // nil: none
}

// A Line is one statement of a frame.
type Line struct {
	Key
	Text string
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
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Total.Seconds, a.Total.Seconds), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.User, b.User))
	})
}

// maxReadings bounds the readings of a History; older ones are thinned out evenly.
const maxReadings = 128

// A History keeps the readings of the window, to compute differences.
type History struct {
	readings []past
}

// A past reading consists of counters only.
type past struct {
	at    time.Time
	since time.Time // start of its counters
	rows  map[Key]pastRow
}

// A pastRow has the counters of a Key.
type pastRow struct {
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

// Frame returns the changes over the window that ends with r, and keeps r.
func (h *History) Frame(r *Reading, window time.Duration) *Frame {
	s := &r.Statements
	if n := len(h.readings); n > 0 && !h.readings[n-1].since.Equal(s.From) {
		h.readings = nil // another process responds, or its counters were reset
	}
	// The oldest reading is kept as the start of the window.
	for len(h.readings) > 1 && r.At.Sub(h.readings[1].at) >= window {
		h.readings = h.readings[1:]
	}
	f := &Frame{At: r.At, Live: r.Live, Since: s.From, Source: s.Source, Matching: s.Matching, Event: r.Event, Average: len(h.readings) == 0, Rows: make([]Line, 0, len(s.Statements))}
	f.Over = r.At.Sub(s.From)
	if !f.Average {
		f.Over = r.At.Sub(h.readings[0].at)
	}
	for i := range s.Statements {
		f.Rows = append(f.Rows, h.line(&s.Statements[i], r.At, s.From))
	}
	h.keep(r)
	return f
}

// line returns the changes of a row since the oldest reading that covers it.
func (h *History) line(row *Row, now, since time.Time) Line {
	l := Line{Key: row.Key, Text: row.Text, Total: row.Counts, First: row.First, Last: row.Last, Change: row.Change, Known: true, P99: micros(row.P99)}
	var before pastRow
	at := since
	if len(h.readings) > 0 {
		l.Known = false
		for i := range h.readings {
			p := &h.readings[i]
			if c, ok := p.rows[row.Key]; ok {
				before, at, l.Known = c, p.at, true
				break
			}
			if row.First.After(p.at) {
				at, l.Known = p.at, true // it had no calls at that time
				break
			}
		}
	}
	seconds := now.Sub(at).Seconds()
	if !l.Known || seconds <= 0 || row.Calls < before.Calls {
		l.Known, l.P99 = false, 0
		return l
	}
	calls := row.Calls - before.Calls
	l.Calls = float64(calls) / seconds
	l.Load = max(0, row.Seconds-before.Seconds) / seconds
	l.Errors = float64(row.Errors-min(before.Errors, row.Errors)) / seconds
	rows := row.RowsSent + row.RowsAffected
	l.RowRate = float64(rows-min(before.RowsSent+before.RowsAffected, rows)) / seconds
	if at.After(since) {
		l.P99 = row.Durations.quantile(0.99, before.durations)
	}
	if calls > 0 {
		l.Mean = time.Duration(max(0, row.Seconds-before.Seconds) / float64(calls) * float64(time.Second))
	}
	return l
}

func (h *History) keep(r *Reading) {
	if n := len(h.readings); n >= maxReadings {
		h.readings = slices.Delete(h.readings, n/2, n/2+1)
	}
	p := past{at: r.At, since: r.Statements.From, rows: make(map[Key]pastRow, len(r.Statements.Statements))}
	for i := range r.Statements.Statements {
		row := &r.Statements.Statements[i]
		p.rows[row.Key] = h.reused(row)
	}
	h.readings = append(h.readings, p)
}

// reused returns the counters of a row, with the buckets of the latest reading if there were no calls after it.
func (h *History) reused(row *Row) pastRow {
	if n := len(h.readings); n > 0 {
		if last, ok := h.readings[n-1].rows[row.Key]; ok && last.Calls == row.Calls {
			return last
		}
	}
	return pastRow{row.Counts, row.Durations}
}

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
