package web

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A PlanSource provides execution plans, as an explain.Prober does.
type PlanSource interface {
	// State returns the plans of a statement, and false if it is not explained.
	State(digest [16]byte) (explain.State, bool)
}

var _ PlanSource = (*explain.Prober)(nil)

// A planView is the display form of a plan on the page of its statement.
type planView struct {
	ID          string
	First, Last time.Time
	Steps       []planStep
	Cut         bool
}

// A planStep is one line of a plan.
type planStep struct {
	Text    string
	Changed bool // the other plan has no such step
}

// A planChange has the plans of a statement for its page.
type planChange struct {
	Present       *planView // nil: there is none
	Before, After *planView // of the last change; nil: there was none
	Changed       time.Time
	At            time.Time // of the last EXPLAIN
	Why           string    // reason for a missing plan, as a sentence
}

// explainedOf returns the plans of a statement. It returns nil if plans are not read, or if the account may
// not see statement texts: plans name tables and indexes.
func (s *queryPage) explainedOf(v *view, digest [16]byte) *planChange {
	if s.plans == nil || !v.texts {
		return nil
	}
	st, ok := s.plans.State(digest)
	if !ok {
		return &planChange{Why: "Only the statements with most load are explained."}
	}
	e := &planChange{At: st.At}
	switch {
	case st.Why != "":
		e.Why = "Not explained: " + sentence(st.Why)
	case len(st.Plans) == 0:
		e.Why = "Not explained yet: an execution has to be seen first."
	}
	if len(st.Plans) > 0 {
		e.Present = planViewOf(&st.Plans[0], nil)
	}
	if n := len(st.Changes); n > 0 {
		c := &st.Changes[n-1]
		e.Changed = c.At
		e.Before, e.After = planViewOf(&c.Before, &c.After), planViewOf(&c.After, &c.Before)
		if e.Present != nil && e.Present.ID == e.After.ID {
			e.Present = nil // it is displayed as After
		}
	}
	return e
}

// planViewOf returns a view of p that marks the steps missing in other, which may be nil.
func planViewOf(p, other *explain.Plan) *planView {
	view := &planView{ID: p.ID, First: p.First, Last: p.Last, Cut: p.Cut}
	for _, step := range p.Steps {
		changed := other != nil && !slices.ContainsFunc(other.Steps, func(o explain.Step) bool {
			return o.Depth == step.Depth && o.Table == step.Table && o.Access == step.Access && o.Key == step.Key
		})
		view.Steps = append(view.Steps, planStep{Text: step.String(), Changed: changed})
	}
	return view
}

// A CallSource provides sampled calls, as a calls.Sample does.
type CallSource interface {
	// Of returns the calls of a statement that ended within [from, to).
	Of(digest [16]byte, from, to time.Time) []calls.Call

	// All returns the calls of all statements that ended within [from, to), with their digests.
	All(from, to time.Time) iter.Seq2[[16]byte, calls.Call]

	// Covers returns the time from the oldest call to the newest one.
	Covers() time.Duration
}

var _ CallSource = (*calls.Sample)(nil)

// A callDifferences has the differences between calls of a statement and earlier ones, for its page.
type callDifferences struct {
	Says string // the compared calls, as a sentence
	Rows []differenceRow
	None string // reason for missing rows, as a sentence
}

// A differenceRow is one property.
type differenceRow struct {
	Dimension, Value, Before, Within string
	More                             bool
}

// differs compares the calls within a rise with those before it; without a rise, the second half of the counted range
// with the first. If the sample has too few calls, it compares the history's counts by user, schema and
// backend. It returns nil without a sample.
func (s *queryPage) differs(ctx context.Context, v *view, st *statements.Statement, r *rise) *callDifferences {
	if s.calls == nil {
		return nil
	}
	from, to := v.span.From, v.span.To
	if st.From.After(from) { // the history starts within the range
		from = st.From
	}
	since := from.Add(to.Sub(from) / 2)
	if r != nil {
		if since = r.From; !r.Lasts {
			to = r.To
		}
	}
	before, within := s.calls.Of(st.Digest, from, since), s.calls.Of(st.Digest, since, to)
	d := &callDifferences{Says: many(len(within), "sampled call") + " since " + exactClock(since, v.span.Length()) + " compared with " +
		count(uint64(len(before))) + " before. The sample covers " + duration(s.calls.Covers()) + "."}
	if len(before) < calls.LeastCalls || len(within) < calls.LeastCalls {
		d.Says = "Counts of the history since " + exactClock(since, v.span.Length()) + " compared with those before: the sample covers " +
			duration(s.calls.Covers()) + ", with " + count(uint64(len(within))) + " and " + many(len(before), "call") + "."
		if err := parallel.ForEach(ctx, 2, []bool{false, true}, func(ctx context.Context, late bool) error {
			if late {
				within = s.partsIn(ctx, v, st, since, to)
			} else {
				before = s.partsIn(ctx, v, st, from, since)
			}
			return nil
		}); err != nil {
			d.None = "Not compared: " + err.Error() + "."
			return d
		}
	}
	if !v.texts { // tags are parts of the text
		for _, set := range [][]calls.Call{before, within} {
			for i := range set {
				set[i].Tags = nil
			}
		}
	}
	for _, row := range calls.Compare(before, within) {
		value := row.Value
		if value == "" {
			value = "(none)"
		}
		d.Rows = append(d.Rows, differenceRow{row.Dimension, cutText(value, shownValue), percent(row.Before), percent(row.Within), row.Within > row.Before})
	}
	switch {
	case len(d.Rows) > 0:
	case len(before) < calls.LeastCalls || len(within) < calls.LeastCalls:
		d.None = "There are too few calls to compare: " + strconv.Itoa(calls.LeastCalls) + " on each side are required."
	default:
		d.None = "No user, client, schema, tag, backend, row count or error differs by a tenth of the calls."
	}
	return d
}

// partsIn returns the history's counts of a range as calls, at least calls.LeastCalls if there are enough.
func (s *queryPage) partsIn(ctx context.Context, v *view, st *statements.Statement, from, to time.Time) []calls.Call {
	q := statements.StatementQuery{Digest: sqldigest.Digest(st.Digest).String(), From: from, To: to}
	if st.Source == statements.SourceCounters || q.Validate() != nil {
		return nil
	}
	part, err := s.statements.of(v).Statement(ctx, q)
	if err != nil { // no call in that time
		return nil
	}
	var all []calls.Call
	for i := range part.Parts {
		p := &part.Parts[i]
		n := min(p.Calls, calls.LeastCalls)
		for range n {
			all = append(all, calls.Call{Weight: float64(p.Calls) / float64(n), User: p.User, Schema: p.Schema, Backend: p.Backend})
		}
	}
	return all
}

// A CountSource provides the server's counts of statements and statistics of tables, as a serverstats.Reader does.
type CountSource interface {
	// Statement returns the counts of the statement with a digest and a normalized text, which is "" if it is truncated, and
	// false if there are none.
	Statement(digest sqldigest.Digest, normalized string) (serverstats.Statement, serverstats.Status, bool)

	// Tables returns statistics of tables, given as schema.table.
	Tables(ctx context.Context, names []string) ([]serverstats.Table, error)

	// LockWaits returns the waits for locks that overlap a time range, the newest first, and the reason for which
	// some are unknown.
	LockWaits(from, to time.Time) (all []serverstats.LockWait, problem string)
}

var _ CountSource = (*serverstats.Reader)(nil)

// tablesWait is the time that a page waits for the statistics of tables.
const tablesWait = 300 * time.Millisecond

// A serverCounts has the server's counts of a statement for its page.
type serverCounts struct {
	Heads  []string // of the columns of Rows
	Rows   []serverRow
	Notes  []string
	At     time.Time // of the last reading
	Tables []tableRow
	Why    string // reason for missing statistics of tables, as a sentence

	before, since serverstats.Counts // since is of all intervals without a rise
}

type serverRow struct {
	Name   string
	Values []string
}

// A tableRow is a table of the statement.
type tableRow struct {
	Name, Rows, Data string
	Indexes          []string
}

// countsOf returns the server's counts of a statement, before and since a rise if there is one. It returns nil without
// a source, or if the account may not see statement texts.
func (s *queryPage) countsOf(ctx context.Context, v *view, st *statements.Statement, r *rise) *serverCounts {
	if s.counts == nil || !v.texts {
		return nil
	}
	d := &serverCounts{}
	if s.tables.known() && st.Text != "" {
		d.addTables(ctx, s.counts, s.tables.of(st))
	}
	text := st.Text
	if st.TextCut {
		text = ""
	}
	counts, status, ok := s.counts.Statement(st.Digest, text)
	d.At, d.Notes = status.At, status.Notes
	switch {
	case status.Problem != "":
		d.Notes = append(d.Notes, "Counts of the server unavailable: "+strings.TrimSuffix(status.Problem, ".")+".")
	case status.At.IsZero():
		d.Notes = append(d.Notes, "The server's counts are not read yet.")
	case text == "" && !ok:
		d.Notes = append(d.Notes, "Not joined with the server's counts: the text is truncated, and the server has no whole sample of the statement.")
	case !ok || len(counts.Intervals) == 0:
		d.Notes = append(d.Notes, "The server has counted no call of this statement since the first reading.")
	}
	if !counts.Reset.IsZero() {
		d.Notes = append(d.Notes, "The server's counters were reset at "+exactClock(counts.Reset, v.span.Length())+" "+utc+" or in the minute before; the counts start then.")
	}
	d.addIntervals(counts.Intervals, r, v.span.Length())
	return d
}

// addIntervals adds the counts before and since a rise, or of all intervals.
func (d *serverCounts) addIntervals(all []serverstats.Interval, r *rise, looked time.Duration) {
	var before, since []serverstats.Interval
	for _, i := range all {
		switch {
		case r == nil || !i.From.Before(r.From):
			since = append(since, i)
		case !i.To.After(r.From):
			before = append(before, i)
		}
	}
	var columns []serverstats.Counts
	for _, of := range []struct {
		all []serverstats.Interval
		sum *serverstats.Counts
	}{{before, &d.before}, {since, &d.since}} {
		for i := range of.all {
			of.sum.Add(&of.all[i].Counts)
		}
		if of.sum.Calls > 0 {
			d.Heads = append(d.Heads, exactClock(of.all[0].From, looked)+" – "+exactClock(of.all[len(of.all)-1].To, looked))
			columns = append(columns, *of.sum)
		}
	}
	row := func(name string, always bool, value func(c *serverstats.Counts) float64, format func(float64) string) {
		r := serverRow{Name: name}
		for i := range columns {
			x := value(&columns[i])
			always = always || x > 0
			r.Values = append(r.Values, format(x))
		}
		if always && len(columns) > 0 {
			d.Rows = append(d.Rows, r)
		}
	}
	perCall := func(n func(c *serverstats.Counts) uint64) func(*serverstats.Counts) float64 {
		return func(c *serverstats.Counts) float64 { return float64(n(c)) / float64(c.Calls) }
	}
	nanos := func(n float64) string { return seconds(n / 1e9) }
	row("Calls", true, func(c *serverstats.Counts) float64 { return float64(c.Calls) }, short)
	row("Time per call", true, perCall(func(c *serverstats.Counts) uint64 { return c.Time }), nanos)
	row("Rows examined per call", true, perCall(func(c *serverstats.Counts) uint64 { return c.RowsExamined }), short)
	row("Rows sent per call", true, perCall(func(c *serverstats.Counts) uint64 { return c.RowsSent }), short)
	row("Rows changed per call", false, perCall(func(c *serverstats.Counts) uint64 { return c.RowsAffected }), short)
	row("Lock time per call", true, perCall(func(c *serverstats.Counts) uint64 { return c.LockTime }), nanos)
	row("Temporary tables per call", false, perCall(func(c *serverstats.Counts) uint64 { return c.TempTables }), short)
	row("Temporary tables on disk per call", false, perCall(func(c *serverstats.Counts) uint64 { return c.TempDiskTables }), short)
	row("Sort merge passes per call", false, perCall(func(c *serverstats.Counts) uint64 { return c.SortMergePasses }), short)
	row("Calls without an index", false, perCall(func(c *serverstats.Counts) uint64 { return c.NoIndex }), percent)
}

// addTables adds the statistics of tables.
func (d *serverCounts) addTables(ctx context.Context, counts CountSource, names []string) {
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tablesWait)
	defer cancel()
	tables, err := counts.Tables(ctx, names)
	if err != nil {
		d.Why = "Statistics of tables unavailable: " + err.Error() + "."
		return
	}
	for i := range tables {
		t := &tables[i]
		row := tableRow{Name: t.Schema + "." + t.Name, Rows: "about " + short(float64(t.Rows)), Data: bytesText(float64(t.DataBytes))}
		if t.Missing {
			row.Rows, row.Data = noValue, noValue
			row.Indexes = []string{"The table does not exist, or the control account may not see it."}
		}
		for j := range t.Indexes {
			x := &t.Indexes[j]
			text := x.Name + " (" + strings.Join(x.Columns, ", ") + ")"
			switch {
			case x.Unique:
				text += ", unique"
			case x.Cardinality > 0:
				text += ", about " + about(float64(x.Cardinality), "value")
			}
			row.Indexes = append(row.Indexes, text)
		}
		d.Tables = append(d.Tables, row)
	}
}

// lockEnded is the time after the last reading of a lock after which its waits are considered over.
const lockEnded = 35 * time.Second

// A lockRow is a session that holds a lock others wait for.
type lockRow struct {
	From, To    time.Time
	Holder      string // the session in words
	Lock        string // kind and table
	Transaction string
	Waiters     int
	Longest     time.Duration
	Text, Link  string // of its last statement; "" if unknown or hidden
	Direct      bool   // the statement of the page waits for it

	wait serverstats.LockWait
}

// lockRowOf returns a row, without table and text for accounts without statement texts.
func lockRowOf(v *view, w *serverstats.LockWait) lockRow {
	h := &w.Holder
	r := lockRow{From: w.From, To: w.To, Holder: "connection " + strconv.FormatUint(uint64(h.Connection), 10), Lock: string(w.Kind) + " lock", Waiters: w.Waiters, Longest: w.Longest, wait: *w}
	if h.Connection == 0 {
		r.Holder = "an unknown connection"
	}
	if by := (&markers.Marker{User: h.User, Client: h.Client}).By(); by != "" {
		r.Holder += " (" + by + ")"
	}
	if r.Transaction = noValue; h.Transaction > 0 {
		r.Transaction = duration(h.Transaction)
	}
	if !v.texts {
		return r
	}
	if w.Table != "" {
		r.Lock += " on " + w.Table
	}
	if h.Text != "" {
		if r.Text = cutText(h.Text, maxLine); !h.TextCut {
			r.Link = v.link("/query/" + h.Digest.String())
		}
	}
	return r
}

// Sentence describes the row.
func (r *lockRow) Sentence(now time.Time) string {
	holds, wait := " held a ", " waited"
	if now.Sub(r.To) < lockEnded {
		if holds, wait = " holds a ", " wait"; r.Waiters == 1 {
			wait = " waits"
		}
	}
	text := strings.ToUpper(r.Holder[:1]) + r.Holder[1:] + holds + r.Lock
	if r.Transaction != noValue {
		text += " in a transaction of " + r.Transaction
	}
	return text + "; " + quantity.Of(r.Waiters, "session") + wait + ", up to " + duration(r.Longest) + "."
}

// A lockReader reads waits for locks.
type lockReader struct {
	counts CountSource // nil: there are none
	tables *tableReader
}

// of returns the locks that a statement, or another one on its tables, waited for in the view's range, or that it
// held.
func (s *lockReader) of(v *view, st *statements.Statement) (rows []lockRow, problem string) {
	if s.counts == nil {
		return nil, ""
	}
	all, problem := s.counts.LockWaits(v.span.From, v.span.To)
	var tables []string
	if s.tables.known() && len(all) > 0 {
		tables = s.tables.of(st)
	}
	for i := range all {
		w := &all[i]
		direct := slices.Contains(w.Waiting, sqldigest.Digest(st.Digest))
		if direct || w.Holder.Digest == sqldigest.Digest(st.Digest) || slices.ContainsFunc(tables, func(t string) bool { return strings.EqualFold(t, w.Table) }) {
			row := lockRowOf(v, w)
			row.Direct = direct
			rows = append(rows, row)
		}
	}
	return rows, problem
}

// events returns the waits for locks in the view's range, for the first page.
func (s *lockReader) events(v *view) []Event {
	if s.counts == nil {
		return nil
	}
	waits, _ := s.counts.LockWaits(v.span.From, v.span.To)
	var all []Event
	for i := range waits[:min(len(waits), maxRises)] {
		w := &waits[i]
		row := lockRowOf(v, w)
		lasts := v.now.Sub(w.To) < lockEnded
		e := Event{Time: w.From, Lasts: lasts, Grave: lasts, Name: "Lock wait", Text: row.Sentence(v.now)}
		if len(w.Waiting) > 0 {
			e.Link = v.link("/incident/" + w.Waiting[0].String())
		}
		all = append(all, e)
	}
	return all
}
