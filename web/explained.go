package web

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/taredb/tare/calls"
	"github.com/taredb/tare/explain"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/statements"
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
func (s *Server) explainedOf(v *view, digest [16]byte) *planChange {
	if s.opts.PlanSource == nil || !v.texts {
		return nil
	}
	st, ok := s.opts.PlanSource.State(digest)
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

	// Covers returns the time that a full sample covers.
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

// differs compares the calls within a rise with those before it; without a rise, the second half of the range
// with the first. If the sample has too few calls, it compares the history's counts by user, schema and
// backend. It returns nil without a sample.
func (s *Server) differs(ctx context.Context, v *view, st *statements.Statement, r *rise) *callDifferences {
	if s.opts.Calls == nil {
		return nil
	}
	from, to := v.span.From, v.span.To
	since := from.Add(v.span.Length() / 2)
	if r != nil {
		if since = r.From; !r.Lasts {
			to = r.To
		}
	}
	before, within := s.opts.Calls.Of(st.Digest, from, since), s.opts.Calls.Of(st.Digest, since, to)
	d := &callDifferences{Says: count(uint64(len(within))) + " sampled calls since " + exactClock(since, v.span.Length()) + " compared with " +
		count(uint64(len(before))) + " before. The sample covers the last " + duration(s.opts.Calls.Covers()) + "."}
	if len(before) < calls.LeastCalls || len(within) < calls.LeastCalls {
		d.Says = "Counts of the history since " + exactClock(since, v.span.Length()) + " compared with those before: the sample covers the last " +
			duration(s.opts.Calls.Covers()) + ", with " + count(uint64(len(within))) + " and " + count(uint64(len(before))) + " calls."
		before, within = s.partsIn(ctx, v, st, from, since), s.partsIn(ctx, v, st, since, to)
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
func (s *Server) partsIn(ctx context.Context, v *view, st *statements.Statement, from, to time.Time) []calls.Call {
	q := statements.StatementQuery{Digest: sqldigest.Digest(st.Digest).String(), From: from, To: to}
	if st.Source == statements.SourceCounters || q.Validate() != nil {
		return nil
	}
	part, err := s.statements(v).Statement(ctx, q)
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
