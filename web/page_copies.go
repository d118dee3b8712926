package web

import (
	"context"
	"html/template"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// Copies are the known copies and alterations of tables: running ones, and those recorded in a target. Sources that cannot be read are
// reported in Problems. Running ones of servers other than the gateway's are not included.
type Copies struct {
	Target  string // target whose state tables were read, without a password; "" for none
	Backend string // identity of the server behind the gateway; "" if unknown

	TargetIsBackend bool // they are the same server

	Jobs     []state.Job
	Sockets  []string // directories that were searched for running ones
	Running  []*telemetry.Status
	Problems []string
}

// A copiesPage shows the copies of tables.
type copiesPage struct {
	source func(context.Context) Copies // nil: there are none
	cache  copiesCache
}

// recent returns the state of copies, which other pages than that of copies share for a while. It is empty without a source.
func (s *copiesPage) recent(ctx context.Context, now time.Time) Copies {
	if s.source == nil {
		return Copies{}
	}
	return s.cache.get(ctx, now, s.source)
}

// copiesData is the data of the page.
type copiesData struct {
	Copies
	Runs []copyRun // the running ones
	Rows []jobRow
}

// A jobRow is one table of a copy.
type jobRow struct {
	state.Job
	Class string  // class of its phase
	Done  float64 // fraction of the chunks that were cut
	Took  string
	Rate  float64 // average rows per second; NaN: unknown
	Spec  string  // "" for accounts that may not see texts: conditions contain values
}

func (s *copiesPage) load(ctx context.Context, v *view) (any, error) {
	d := copiesData{Copies: s.source(ctx)}
	for _, running := range d.Running {
		d.Runs = append(d.Runs, newCopyRun(running, v))
	}
	for _, j := range d.Jobs {
		d.Rows = append(d.Rows, jobRowOf(j, v))
	}
	d.sort()
	return d, nil
}

func jobRowOf(j state.Job, v *view) jobRow {
	r := jobRow{Job: j, Class: "busy", Rate: math.NaN()}
	if v.texts {
		r.Spec = cutText(j.Spec, 4*shownValue)
	}
	if j.Chunks > 0 {
		r.Done = float64(j.Copied) / float64(j.Chunks)
	}
	took := v.now.Sub(j.Started)
	if j.Finished != nil {
		r.Class, took = "ok", j.Finished.Sub(j.Started)
		if j.Chunks == 0 {
			r.Done = 1 // a table without rows
		}
	}
	r.Took = seconds(max(took, 0).Round(time.Second).Seconds())
	if took >= time.Second && j.Finished != nil {
		r.Rate = float64(j.Rows) / took.Seconds()
	}
	return r
}

// sort puts unfinished copies first.
func (d *copiesData) sort() {
	slices.SortStableFunc(d.Rows, func(a, b jobRow) int {
		switch {
		case (a.Finished == nil) == (b.Finished == nil):
			return 0
		case a.Finished == nil:
			return -1
		}
		return 1
	})
}

// shownWait is how long a wait lasts in seconds before a page shows it.
const shownWait = 2

// A copyRun is a running copy or alteration.
type copyRun struct {
	*telemetry.Status
	Phase telemetry.RunPhase     // empty if the step of an alteration has the same name
	Waits []telemetry.WaitStatus // those that have lasted for a while
	Took  string
	Live  template.HTML // chart of the p99 of live statements
}

func newCopyRun(s *telemetry.Status, v *view) copyRun {
	if !v.texts {
		s = withoutTexts(s)
	}
	r := copyRun{Status: s, Phase: s.Phase, Took: noValue}
	if s.Alter != nil && string(s.Alter.Step()) == string(s.Phase) {
		r.Phase = ""
	}
	for _, w := range s.Waits {
		if w.Seconds >= shownWait {
			r.Waits = append(r.Waits, w)
		}
	}
	if !s.Started.IsZero() {
		r.Took = seconds(max(v.now.Sub(s.Started), 0).Round(time.Second).Seconds())
	}
	return r
}

// withoutTexts returns a status without the clauses of an ALTER TABLE and the errors that may contain parts of them.
func withoutTexts(s *telemetry.Status) *telemetry.Status {
	if s.Alter == nil {
		return s
	}
	public, a := *s, *s.Alter
	a.Alter, a.Why, a.Tries = "", "", slices.Clone(a.Tries)
	for i := range a.Tries {
		if a.Tries[i].Error != "" {
			a.Tries[i].Error = "failed"
		}
	}
	if a.Old != nil && a.Old.NoWay != "" {
		old := *a.Old
		old.NoWay = "no way back"
		a.Old = &old
	}
	public.Alter = &a
	return &public
}

// A Progress is the state of the copy or alteration that a process executes.
type Progress struct {
	telemetry.Status
	Live  *throttle.LiveStatus `json:"live,omitempty"` // p99 of live statements; nil: no gateway is known
	Lines []ProgressLine       `json:"lines"`          // the latest of the terminal, the oldest first; none for accounts without texts
}

// A ProgressLine is a line of the terminal.
type ProgressLine struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// A progressPage shows the copy or alteration that the process executes.
type progressPage struct {
	source func() Progress
	pages  *renderer
	listed func(access.Account) []endpoint
}

// progress returns the progress for an account.
func (s *progressPage) progress(texts bool) Progress {
	p := s.source()
	if !texts {
		p.Status, p.Lines = *withoutTexts(&p.Status), []ProgressLine{}
	}
	return p
}

// serve serves /api/v1/progress.
func (s *progressPage) serve(w http.ResponseWriter, r *http.Request) {
	s.pages.writeJSON(w, s.progress(access.SeesTexts(r.Context())))
}

// progressData is the data of the page.
type progressData struct {
	Run       copyRun
	Lines     []ProgressLine // the newest first
	Endpoints []endpoint
}

func (s *progressPage) load(_ context.Context, v *view) (any, error) {
	p := s.progress(v.texts)
	d := progressData{Run: newCopyRun(&p.Status, v), Lines: slices.Clone(p.Lines), Endpoints: s.listed(v.account)}
	slices.Reverse(d.Lines)
	d.Run.Live = liveChart(&p, v.now)
	return d, nil
}

// liveChart draws the p99 of live statements with its limit, and marks the steps of an alteration.
func liveChart(p *Progress, now time.Time) template.HTML {
	if p.Live == nil {
		return ""
	}
	c := lineChart{ID: "live", Title: "p99 of live statements", Unit: unitSeconds, To: now}
	p99, limit := series{Name: "p99"}, series{Name: "limit"}
	for _, point := range p.Live.Points {
		c.Times = append(c.Times, point.Time)
		v := math.NaN()
		if point.P99 != nil {
			v = *point.P99 / 1000
		}
		p99.Values, limit.Values = append(p99.Values, v), append(limit.Values, p.Live.Limit/1000)
	}
	if c.Series = []series{p99}; p.Live.Limit > 0 {
		c.Series = append(c.Series, limit)
	}
	if p.Alter != nil {
		for _, step := range p.Alter.Steps {
			c.Marks = append(c.Marks, mark{At: step.Start, Name: exactClock(step.Start, time.Hour) + " UTC " + string(step.Step)})
		}
	}
	return c.HTML()
}
