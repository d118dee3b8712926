package web

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/incidents"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Attention configures what needs attention.
type Attention struct {
	LeastLoad float64       // the load that a statement must have added, or a new one have: the average number of concurrent calls
	Interval  time.Duration // between two samples of the history
}

// A rise is a rise of the load of a statement, for the pages.
type rise struct{ incidents.Rise }

// findRise searches for a rise of a statement's load by at least least. top has the other statements at the same points, by
// which noise of the machine is recognized; nil: unknown.
func findRise(points *statements.Series, load, alive []float64, first time.Time, interval time.Duration, least float64, top *statements.Top, digest [16]byte) (*rise, bool) {
	series := incidents.Series{
		Times: points.Times, End: points.End, Values: load, Alive: alive, Known: first, Step: points.Step, Interval: interval,
	}
	var r incidents.Rise
	var ok bool
	if top != nil && slices.Equal(top.Series.Times, points.Times) {
		r, ok = incidents.FindRiseBeyond(series, loadsOfOthers(top, digest), top.Series.Calls)
	} else {
		r, ok = incidents.FindRise(series)
	}
	if !ok || r.Inside-r.Outside < least {
		return nil, false
	}
	return &rise{r}, true
}

// Times formats the factor of the rise, or returns "" if there was nothing before.
func (r *rise) Times() string { return timesText(r.Inside, r.Outside) }

// timesText formats the factor between two values.
func timesText(now, before float64) string {
	if !(before > 0) || math.IsInf(now/before, 0) || now/before > 1e4 {
		return ""
	}
	if v := now / before; v < 9.95 {
		return "× " + trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return "× " + short(math.Round(now/before))
}

// When formats the start of the rise, or start and end, with the precision that suits the range.
func (r *rise) When(looked time.Duration) string {
	if r.Lasts {
		return "since " + clock(r.From, looked)
	}
	return clock(r.From, looked) + " – " + clock(r.To, looked)
}

// addRise sets the rise of the statement's load.
func (row *queryRow) addRise(v *view, top *statements.Top, r *statements.TopRow, alive []float64) {
	found, ok := findRise(&top.Series, r.Points, alive, r.First, v.Interval, v.LeastLoad, top, r.Digest)
	if !ok {
		return
	}
	share := row.Share // of the load of all statements during the rise, if known
	if all, _ := found.Means(top.Series.Load); all > 0 {
		share = found.Inside / all
	}
	if share >= riseShare {
		row.Rise, row.RiseText = found, strings.TrimSpace(found.Times()+" "+found.When(v.span.Length()))
	}
}

// riseOf returns the rise of a statement for its page. The other statements, by which noise of the machine is
// recognized, are read only if there is a rise; otherwise top is nil.
func (s *statementReader) riseOf(ctx context.Context, v *view, st *statements.Statement) (found *rise, ok bool, top *statements.Top) {
	find := func() {
		found, ok = findRise(&st.Series, st.Series.Load, nil, st.First, v.Interval, v.LeastLoad, top, st.Digest)
	}
	if find(); !ok {
		return nil, false, nil
	}
	var err error
	if top, err = s.of(v).Top(ctx, othersQuery(v)); err != nil {
		s.log.Debug("a rise is not compared with other statements", "error", err)
		return found, ok, nil
	}
	find()
	return found, ok, top
}

// loadsOfOthers returns the points of the other statements of a ranking.
func loadsOfOthers(top *statements.Top, digest [16]byte) [][]float64 {
	var all [][]float64
	for i := range top.Rows {
		if o := &top.Rows[i]; o.Digest != digest && o.Seconds >= leastOther*top.To.Sub(top.From).Seconds() {
			all = append(all, o.Points)
		}
	}
	return all
}

// aliveIn returns a value per point that is positive if the gateway was counting then: if calls are known,
// points with calls, otherwise all points from the first load on.
func aliveIn(top *statements.Top) []float64 {
	if len(top.Series.Calls) > 0 {
		return top.Series.Calls
	}
	alive := make([]float64, len(top.Series.Times))
	seen := 0.0
	for i := range alive {
		for r := range top.Rows {
			if points := top.Rows[r].Points; seen == 0 && i < len(points) && points[i] > 0 {
				seen = 1
			}
		}
		alive[i] = seen
	}
	return alive
}

// newIn returns whether a row is of a statement that was never called before. In a history that starts within the range
// every statement is; then those are new that were first called when it had counted others for a while.
func newIn(top *statements.Top) func(r *statements.TopRow) bool {
	if top.Source == statements.SourceCounters {
		return func(*statements.TopRow) bool { return false }
	}
	since := top.From
	if all := func(r statements.TopRow) bool { return !r.New }; !slices.ContainsFunc(top.Rows, all) {
		since = top.To
		for i := range top.Rows {
			if first := top.Rows[i].First; first.Before(since) {
				since = first
			}
		}
		since = since.Add(max(newAfter, top.To.Sub(since)/riseBefore))
	}
	return func(r *statements.TopRow) bool { return r.New && !r.First.Before(since) }
}

// newAmong returns the statements of the range if st is a new one among them, otherwise nil.
func (s *statementReader) newAmong(ctx context.Context, v *view, st *statements.Statement) *statements.Top {
	top, err := s.of(v).Top(ctx, othersQuery(v))
	if err != nil {
		s.log.Debug("a statement is not compared with new ones", "error", err)
		return nil
	}
	isNew := newIn(top)
	for i := range top.Rows {
		if r := &top.Rows[i]; r.Digest == st.Digest && !isNew(r) {
			return nil
		}
	}
	return top
}

// othersQuery is the query for the other statements of a range.
func othersQuery(v *view) statements.TopQuery {
	return statements.TopQuery{From: v.span.From, To: v.span.To, Limit: queryRows, Points: chartPoints}
}

const (
	// newAfter is the minimum time after the first statement of a history for which statements are not new, and
	// riseBefore the minimum fraction of the time since: clients that start are not new statements.
	newAfter   = time.Minute
	riseBefore = 8
)

// A whyText is the cause of a rise, or of a new statement, with its evidence, and the events near to it without.
type whyText struct {
	Kind     string   // of the cause; "" if there is none
	Cause    string   // a sentence; "" if there is none
	Evidence []string // of the cause
	Near     string   // sentences; "" if there are none
	Events   []nearEvent
}

// A nearEvent is an event before the onset without evidence.
type nearEvent struct {
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`
	Before float64   `json:"seconds_before"`
	Why    string    `json:"not_the_cause,omitempty"`
}

// whyOf describes a finding.
func whyOf(v *view, f *incidents.Finding) whyText {
	var w whyText
	looked := v.span.Length()
	if c := f.Cause; c != nil {
		w.Kind = string(c.Kind)
		name := c.Text
		if c.Names && !v.texts {
			name = string(c.Kind)
		}
		if c.Event != nil {
			name = markName(c.Event, looked)
		}
		for _, e := range c.Evidence {
			if v.texts || !e.Names {
				w.Evidence = append(w.Evidence, cutText(e.Text, maxLine))
			}
		}
		w.Cause = "Caused by " + name
		if len(w.Evidence) > 0 {
			w.Cause += ": " + strings.Join(w.Evidence, ", ")
		}
		w.Cause += "."
	}
	var near []string
	for i := range f.Near {
		n := &f.Near[i]
		e := nearEvent{Name: strings.TrimRight(cutText(n.Event.Name(), maxLine), ".; "), Time: n.Event.Time, Before: n.Before.Round(time.Second).Seconds(), Why: n.Veto}
		w.Events = append(w.Events, e)
		text := e.Name + ", " + duration(n.Before.Round(time.Second)) + " before"
		if n.Before < time.Second {
			text = e.Name + ", at the same time"
		}
		if n.Veto != "" {
			text += " (" + n.Veto + ")"
		}
		near = append(near, text)
	}
	if len(near) > 0 {
		w.Near = "Near in time, without evidence: " + strings.Join(near, "; ") + "."
	}
	return w
}

// markName returns an event with its time and account.
func markName(m *markers.Marker, looked time.Duration) string {
	name := strings.TrimRight(cutText(m.Name(), maxLine), ".; ") + ", " + exactClock(m.Time, looked)
	if by := m.By(); by != "" {
		name += ", by " + by
	}
	return name
}

// A causeFinder finds the causes of rises and of new statements.
type causeFinder struct {
	statements *statementReader
	tables     *tableReader
	locks      *lockReader
	plans      PlanSource // nil: there are none
	calls      CallSource // nil: there are none
}

// ofNew returns the cause of a new statement, and ofRise that of a rise. top has the other statements of the range;
// nil: it is queried if necessary.
func (s *causeFinder) ofNew(ctx context.Context, v *view, st *statements.Statement, marks []markers.Marker, top *statements.Top) whyText {
	onset := incidents.Onset{At: st.First, Earliest: st.First.Add(-st.Mean() - v.Interval), Latest: st.First}
	c := s.caseOf(v, st, onset, v.span.To, marks)
	c.New = true
	return s.find(ctx, v, st, c, top)
}

func (s *causeFinder) ofRise(ctx context.Context, v *view, st *statements.Statement, r *rise, marks []markers.Marker, top *statements.Top) whyText {
	c := s.caseOf(v, st, s.sharper(ctx, v, st, r), r.To, marks)
	c.Before, c.Within = sidesIn(&st.Series, r)
	return s.find(ctx, v, st, c, top)
}

// ofRow returns the cause of a row of a ranking: of its rise, or of a new statement.
func (s *causeFinder) ofRow(ctx context.Context, v *view, top *statements.Top, i int, r *rise, marks []markers.Marker) whyText {
	q := statements.StatementQuery{Digest: sqldigest.Digest(top.Rows[i].Digest).String(), From: v.span.From, To: v.span.To, Points: chartPoints}
	st, err := s.statements.of(v).Statement(ctx, q)
	if err != nil {
		s.statements.log.Debug("a cause is not known", "digest", q.Digest, "error", err)
		return whyText{}
	}
	whole, ok := findRise(&st.Series, st.Series.Load, nil, st.First, v.Interval, 0, top, st.Digest)
	switch {
	case ok: // of all its callers, as on its page
		r = whole
	case r == nil:
		return s.ofNew(ctx, v, st, marks, top)
	}
	return s.ofRise(ctx, v, st, r, marks, top)
}

// sharpPoints is the number of points around an onset with which it is determined again, if points are longer than
// two intervals of the history.
const sharpPoints = 120

// sharper returns the onset of a rise with the precision of the history.
func (s *causeFinder) sharper(ctx context.Context, v *view, st *statements.Statement, r *rise) incidents.Onset {
	step := st.Series.Step
	if step <= 2*v.Interval {
		return r.Onset
	}
	q := statements.StatementQuery{Digest: sqldigest.Digest(st.Digest).String(), From: r.From.Add(-3 * step), To: r.From.Add(3 * step), Points: sharpPoints}
	if q.To.After(v.now) {
		q.To = v.now
	}
	near, err := s.statements.of(v).Statement(ctx, q)
	if err != nil {
		s.statements.log.Debug("an onset is as exact as the chart", "digest", q.Digest, "error", err)
	}
	if err != nil || near.Series.Step >= step {
		return r.Onset
	}
	if sharp, ok := findRise(&near.Series, near.Series.Load, nil, st.First, v.Interval, 0, nil, st.Digest); ok && !sharp.At.Before(r.Earliest) && !sharp.At.After(r.Latest) {
		return sharp.Onset
	}
	return r.Onset
}

// caseOf returns the case of a statement whose load rose at onset.
func (s *causeFinder) caseOf(v *view, st *statements.Statement, onset incidents.Onset, until time.Time, marks []markers.Marker) *incidents.Case {
	c := &incidents.Case{Digest: sqldigest.Digest(st.Digest).String(), Text: st.Text, Onset: onset, Until: until, Events: marks}
	if s.tables.known() {
		c.Tables = s.tables.of(st)
	}
	if s.plans != nil {
		c.Plans, _ = s.plans.State(st.Digest)
	}
	if s.calls != nil {
		c.Calls = [2][]calls.Call{s.calls.Of(st.Digest, v.span.From, onset.Earliest), s.calls.Of(st.Digest, onset.Latest, until)}
	}
	rows, _ := s.locks.of(v, st)
	for _, r := range slices.Backward(rows) { // the oldest first
		holder := "a " + r.Lock + " of " + r.Holder
		if r.Transaction != noValue {
			holder += " in a transaction of " + r.Transaction
		}
		c.Locks = append(c.Locks, incidents.Lock{From: r.From, To: r.To, Lasts: v.now.Sub(r.To) < lockEnded, Direct: r.Direct, Waiters: r.Waiters, Holder: holder})
	}
	return c
}

// find finds the cause of a case.
func (s *causeFinder) find(ctx context.Context, v *view, st *statements.Statement, c *incidents.Case, top *statements.Top) whyText {
	if top == nil {
		all, err := s.statements.of(v).Top(ctx, othersQuery(v))
		if err != nil {
			s.statements.log.Debug("a cause is looked for without the other statements", "error", err)
		} else {
			top = all
		}
	}
	if top != nil {
		c.Others = othersOf(top, st, c.Onset)
	}
	f := incidents.Find(c)
	return whyOf(v, &f)
}

// onsetWindow is the number of points on each side of an onset whose averages are compared.
const onsetWindow = 20

// sidesIn returns the averages before a rise, and within it.
func sidesIn(points *statements.Series, r *rise) (before, within incidents.Side) {
	mean := func(values []float64, from, to int) float64 {
		sum, n := 0.0, 0.0
		for i := max(from, 0); i < min(to, len(values)); i++ {
			if chart.IsNumber(values[i]) {
				sum, n = sum+values[i], n+1
			}
		}
		return sum / max(n, 1)
	}
	side := func(from, to int) incidents.Side {
		return incidents.Side{
			Load: mean(points.Load, from, to), Calls: mean(points.Calls, from, to), Errors: mean(points.Errors, from, to), Rows: mean(points.Effects[stmtstats.RowsSent], from, to),
		}
	}
	first := min(r.First+1, r.Past-1) // the first point may include a time before
	return side(r.First-1-onsetWindow, r.First-1), side(first, r.Past)
}

// leastOther is the minimum load of another statement whose rise is considered.
const leastOther = 0.001

// othersOf returns what happened to the other statements at an onset.
func othersOf(top *statements.Top, st *statements.Statement, onset incidents.Onset) *incidents.Others {
	o := &incidents.Others{}
	users := make(map[string]bool)
	for i := range st.Parts {
		users[st.Parts[i].User] = true
	}
	window := func(values []float64) (before, within float64) {
		var n, m float64
		reach := time.Duration(onsetWindow/2) * top.Series.Step
		for i, v := range values {
			if i >= len(top.Series.Times) || !chart.IsNumber(v) {
				continue
			}
			switch at := top.Series.Times[i]; {
			case !at.Add(top.Series.Step).After(onset.Earliest) && onset.Earliest.Sub(at) <= reach:
				before, n = before+v, n+1
			case !at.Before(onset.Latest) && at.Sub(onset.Latest) <= reach:
				within, m = within+v, m+1
			}
		}
		return before / max(n, 1), within / max(m, 1)
	}
	for i := range top.Rows {
		r := &top.Rows[i]
		if r.Digest == st.Digest {
			continue
		}
		if users[r.User] && (!o.UserKnown || r.First.Before(o.User)) {
			o.User, o.UserKnown = r.First, true
			if r.First.IsZero() {
				o.User = time.Unix(0, 0) // before the history
			}
		}
		if before, within := window(r.Points); before >= leastOther {
			o.Statements++
			if within >= 1.5*before {
				o.Rose++
			}
		}
	}
	o.UserKnown = o.UserKnown || top.Matching <= len(top.Rows)
	o.Calls[0], o.Calls[1] = window(top.Series.Calls)
	return o
}
