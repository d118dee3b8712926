package incidents

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
)

const (
	// Reach is the maximum time between an event and an onset that it is near to.
	Reach = 10 * time.Minute

	// DeployReach is the maximum time between a reported event, such as a deployment, and the first call of a new
	// statement, or a change of the tags: instances are replaced one after the other. tightReach is that for evidence
	// that another change explains as well.
	DeployReach = 3 * time.Minute
	tightReach  = 30 * time.Second

	// schemaReach is the maximum time between a schema change and an onset of a statement that is called all the time: the
	// next call has the new plan.
	schemaReach = 2 * time.Minute

	// planLate is the maximum time after the onset at which a changed plan is seen first: EXPLAIN follows when calls
	// take longer.
	planLate = 3 * time.Minute

	// clocks is the tolerance between times that are read at different points of a call.
	clocks = 2 * time.Second

	maxNear = 3
)

// A Kind is the kind of a cause.
type Kind string

// The kinds of causes.
const (
	KindLock    Kind = "lock"    // another session holds a lock that the statement waits for
	KindDDL     Kind = "ddl"     // a schema change
	KindAnalyze Kind = "analyze" // updated statistics
	KindPlan    Kind = "plan"    // a changed plan, for a reason that is not known
	KindDeploy  Kind = "deploy"  // a reported event
	KindSwitch  Kind = "switch"  // another server
	KindCaller  Kind = "caller"  // one user or client
	KindErrors  Kind = "errors"  // failing calls
	KindServer  Kind = "server"  // all statements became slower
	KindTraffic Kind = "traffic" // all statements are called more
)

// A Side has the averages of a statement before its onset, or since: per second.
type Side struct {
	Load, Calls, Errors, Rows float64
}

// took returns the mean duration of a call in seconds, 0 if there is none.
func (s *Side) took() float64 {
	if s.Calls > 0 {
		return s.Load / s.Calls
	}
	return 0
}

// A Lock is the wait of sessions for the locks of one session.
type Lock struct {
	From, To time.Time
	Lasts    bool
	Direct   bool // the statement waits for it
	Waiters  int
	Holder   string // for messages
	Names    bool   // Holder has names of tables
}

// Others has what happened to the other statements at the onset.
type Others struct {
	Statements int // with load before the onset
	Rose       int // of them, whose load rose at the onset
	Calls      [2]float64
	User       time.Time // first call of any other statement by the callers of this one; zero: there is none
	UserKnown  bool      // User is known
}

// A Case is a statement whose load rose, or that is new.
type Case struct {
	Digest string
	Text   string   // normalized; "" if unknown
	Tables []string // schema.table
	New    bool     // the statement was never called before the onset
	Onset  Onset
	Until  time.Time // end of the rise

	Before, Within Side
	Events         []markers.Marker
	Plans          explain.State
	Locks          []Lock
	Calls          [2][]calls.Call // sampled before the onset, and since
	Others         *Others         // nil: unknown
}

// An Evidence is one reason for which an event is the cause.
type Evidence struct {
	Text  string
	Names bool // it has names of tables, indexes or tags, which not all accounts may see
}

// A Cause has evidence.
type Cause struct {
	Kind     Kind
	Event    *markers.Marker // nil: no event is known
	Text     string          // of a cause without an event
	Names    bool            // Text has names
	Evidence []Evidence
	strength int // the strongest cause is named
}

// A Near is an event before the onset without evidence.
type Near struct {
	Event  markers.Marker
	Before time.Duration // until the onset; 0: it lasted until then
	Veto   string        // evidence that it is not the cause; "" if there is none
}

// A Finding is the result of Find.
type Finding struct {
	Cause *Cause // nil: no event has evidence
	Near  []Near // the nearest first
}

// Find returns the cause of a case, and the events near to its onset.
func Find(c *Case) Finding {
	var f Finding
	var all []*Cause
	add := func(found *Cause) {
		if found != nil {
			all = append(all, found)
		}
	}
	near := c.nearEvents()
	vetoes := make(map[int]string)
	for i := range near {
		m := &near[i]
		var found *Cause
		var veto string
		switch {
		case m.SchemaChange():
			found, veto = c.schemaChange(m)
		case m.Kind == markers.KindSwitch:
			found = c.switched(m)
		case reported(m):
			found = c.deployed(m)
		}
		if found != nil {
			found.Event = m
			add(found)
		}
		vetoes[i] = veto
	}
	add(c.locked())
	add(c.planChanged())
	add(c.called())
	add(c.failing())
	add(c.everywhere())
	if len(all) > 0 {
		f.Cause = slices.MaxFunc(all, func(a, b *Cause) int {
			return cmp.Or(cmp.Compare(a.strength, b.strength), cmp.Compare(c.distance(b.Event), c.distance(a.Event)))
		})
	}
	for i := range near {
		if m := &near[i]; m.Kind != markers.KindPlan && (f.Cause == nil || f.Cause.Event != m) && !(m.Kind == markers.KindLock && f.Cause != nil && f.Cause.Kind == KindLock) {
			f.Near = append(f.Near, Near{*m, c.distance(m), vetoes[i]})
		}
	}
	slices.SortStableFunc(f.Near, func(a, b Near) int { return cmp.Compare(a.Before, b.Before) })
	f.Near = f.Near[:min(len(f.Near), maxNear)]
	return f
}

// reported reports whether a client reported the event.
func reported(m *markers.Marker) bool {
	switch m.Kind {
	case markers.KindDDL, markers.KindAnalyze, markers.KindSwitch, markers.KindPause, markers.KindCopy, markers.KindRestart, markers.KindRules,
		markers.KindBackend, markers.KindPlan, markers.KindLock:
		return false
	}
	return true
}

// nearEvents returns the events that started before the onset, at the latest within its uncertainty, and ended at most Reach
// before it. A schema change is not near to its own load.
func (c *Case) nearEvents() []markers.Marker {
	var near []markers.Marker
	for i := range c.Events {
		m := &c.Events[i]
		if m.Time.After(c.Onset.Latest) || m.End.Before(c.Onset.Earliest.Add(-Reach)) || c.Text != "" && m.SchemaChange() && m.Text == c.Text {
			continue
		}
		near = append(near, *m)
	}
	return near
}

// distance returns the time from the end of an event to the onset, 0 if it lasted until then.
func (c *Case) distance(m *markers.Marker) time.Duration {
	if m == nil {
		return 0
	}
	return max(c.Onset.At.Sub(m.End), 0)
}

// longer reports whether calls take longer since the onset, or none has finished.
func (c *Case) longer() bool {
	before, within := c.Before.took(), c.Within.took()
	return !c.New && (before == 0 || c.Within.Calls == 0 || within >= 1.4*before)
}

// plansAround returns the plan before an event, and the one since; nil if unknown. The plan before is confirmed by an
// EXPLAIN at or before the event, or was replaced after it.
func (c *Case) plansAround(m *markers.Marker) (before, after *explain.Plan, changed time.Time) {
	for i := range c.Plans.Changes {
		if ch := &c.Plans.Changes[i]; !ch.At.Before(m.Time.Add(-clocks)) {
			if ch.Before.Last.After(m.End) { // the plan of before was still chosen after the event
				return &ch.Before, &ch.Before, time.Time{}
			}
			return &ch.Before, &ch.After, ch.At
		}
	}
	if len(c.Plans.Plans) == 0 {
		return nil, nil, time.Time{}
	}
	present := &c.Plans.Plans[0]
	if present.First.After(m.Time.Add(clocks)) {
		return nil, present, time.Time{}
	}
	if c.Plans.At.After(m.End) {
		return present, present, time.Time{}
	}
	return present, nil, time.Time{}
}

func uses(p *explain.Plan, index string) bool {
	return p != nil && slices.ContainsFunc(p.Steps, func(s explain.Step) bool { return strings.EqualFold(s.Key, index) })
}

// schemaChange returns a schema change as the cause, or the evidence that it is not.
func (c *Case) schemaChange(m *markers.Marker) (*Cause, string) {
	if len(m.Tables) > 0 && len(c.Tables) > 0 && !m.Names(c.Tables) {
		return nil, "another table"
	}
	if len(m.Tables) == 0 || len(c.Tables) == 0 {
		return nil, ""
	}
	if c.New {
		return nil, ""
	}
	if !c.longer() {
		return nil, "calls do not take longer"
	}
	if c.distance(m) > schemaReach && c.Before.Calls*schemaReach.Seconds() >= calls.LeastCalls {
		return nil, "its calls were as before for " + c.distance(m).Round(time.Second).String()
	}
	before, after, changed := c.plansAround(m)
	isChanged := !changed.IsZero() && !changed.After(c.Onset.Latest.Add(planLate))
	if before != nil && after != nil && !isChanged {
		return nil, "the plan did not change"
	}
	found := &Cause{Kind: KindDDL, strength: 60}
	if m.Kind == markers.KindAnalyze {
		found.Kind, found.strength = KindAnalyze, 55
	}
	named := indexesOf(m.Text)
	used := false
	for _, x := range named {
		if x.gone && uses(before, x.name) {
			found.Evidence = append(found.Evidence, Evidence{"index " + x.name + " was used before", true})
			used = true
		}
		if x.fresh && isChanged && uses(after, x.name) && !uses(before, x.name) {
			found.Evidence = append(found.Evidence, Evidence{"index " + x.name + " is used since", true})
			used = true
		}
	}
	if len(named) > 0 && !used && (before != nil || after != nil) {
		return nil, "its index was not used"
	}
	if isChanged {
		found.Evidence = append([]Evidence{{"plan changed " + laterBy(changed.Sub(m.End)), false}}, found.Evidence...)
	}
	if len(found.Evidence) == 0 {
		return nil, ""
	}
	if used {
		found.strength += 10
	}
	return found, ""
}

// planChanged returns a changed plan as the cause.
func (c *Case) planChanged() *Cause {
	for i := range c.Plans.Changes {
		ch := &c.Plans.Changes[i]
		if !c.longer() || ch.Before.Last.After(c.Onset.Latest) || ch.At.Before(c.Onset.Earliest) || ch.At.After(c.Onset.Latest.Add(planLate)) {
			continue
		}
		return &Cause{
			Kind: KindPlan, Text: "another plan, seen " + clockOf(ch.At), strength: 50,
			Evidence: []Evidence{{differing(&ch.Before, &ch.After), true}, {"calls take longer", false}},
		}
	}
	return nil
}

// differing describes the first different step of two plans.
func differing(before, after *explain.Plan) string {
	step := func(p *explain.Plan, i int) string {
		if i >= len(p.Steps) {
			return "nothing"
		}
		s := p.Steps[i]
		s.Depth = 0
		return s.String()
	}
	for i := range max(len(before.Steps), len(after.Steps)) {
		if i >= len(before.Steps) || i >= len(after.Steps) || before.Steps[i].Table != after.Steps[i].Table ||
			before.Steps[i].Access != after.Steps[i].Access || before.Steps[i].Key != after.Steps[i].Key {
			return step(before, i) + " → " + step(after, i)
		}
	}
	return "another plan"
}

// locked returns a wait for locks as the cause: the statement itself waits, from the onset on, in as many sessions as
// explain a part of the load, and for a part of the rise.
func (c *Case) locked() *Cause {
	var first *Lock
	var waiting time.Duration
	for i := range c.Locks {
		l := &c.Locks[i]
		if !l.Direct || l.From.After(c.Onset.Latest) && first == nil || l.To.Before(c.Onset.Earliest) {
			continue
		}
		to := l.To
		if l.Lasts && c.Until.After(to) {
			to = c.Until
		}
		waiting += min(to.Sub(l.From), to.Sub(c.Onset.At))
		if first == nil {
			first = l
		}
	}
	if first == nil || !c.longer() || float64(first.Waiters) < (c.Within.Load-c.Before.Load)/3 || waiting < c.Until.Sub(c.Onset.At)/3 {
		return nil
	}
	return &Cause{Kind: KindLock, Text: first.Holder, Names: first.Names, strength: 90, Evidence: []Evidence{{"its calls wait for that session", false}}}
}

// switched returns a switch to another server as the cause, if the calls moved there.
func (c *Case) switched(m *markers.Marker) *Cause {
	for _, d := range calls.Compare(c.Calls[0], c.Calls[1]) {
		if d.Dimension == calls.DimensionBackend && d.Within-d.Before >= 0.5 && c.longer() && c.distance(m) <= DeployReach {
			return &Cause{Kind: KindSwitch, strength: 45, Evidence: []Evidence{{"calls take longer at " + d.Value, false}}}
		}
	}
	return nil
}
