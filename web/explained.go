package web

import (
	"slices"
	"time"

	"github.com/taredb/tare/explain"
)

// PlanSource is where pages find execution plans. An explain.Prober is one.
type PlanSource interface {
	// State returns what is known of a statement; false when it is not explained.
	State(digest [16]byte) (explain.State, bool)
}

var _ PlanSource = (*explain.Prober)(nil)

// A planView is a plan as the page of its statement shows it.
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

// An explained is what the page of a statement shows of its plans.
type explained struct {
	Present       *planView // nil: there is none
	Before, After *planView // of the last change; nil: there was none
	Changed       time.Time
	At            time.Time // of the last EXPLAIN
	Why           string    // there is no plan; a sentence
}

// explainedOf returns what is known of the plans of a statement; nil where none are read, or the account may not see
// texts: plans name tables and indexes.
func (s *Server) explainedOf(v *view, digest [16]byte) *explained {
	if s.opts.PlanSource == nil || !v.texts {
		return nil
	}
	st, ok := s.opts.PlanSource.State(digest)
	if !ok {
		return &explained{Why: "Only the statements with most load are explained."}
	}
	e := &explained{At: st.At}
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
			e.Present = nil // it is shown as After
		}
	}
	return e
}

// planViewOf returns a plan in which the steps that another one has not are marked; nil stands for no other.
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
