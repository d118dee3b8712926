package web

import (
	"context"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/visible"
)

// An incident reports on one page whether a statement became heavier: the change, its start, the affected
// callers, and the cause if there is evidence of one.
type incident struct {
	Digest   string     `json:"digest"`
	Text     string     `json:"text,omitempty"` // normalized; absent for accounts without statement texts
	TextCut  bool       `json:"text_cut,omitempty"`
	From     time.Time  `json:"from"` // start of the queried range
	To       time.Time  `json:"to"`
	Rising   bool       `json:"rising"`          // whether the load rose within the range
	Lasts    bool       `json:"lasts"`           // whether it is still higher at the end
	Since    *time.Time `json:"since,omitempty"` // the start of the rise
	Until    *time.Time `json:"until,omitempty"` // its end, if it is over
	Sentence string     `json:"sentence"`
	Cause    string     `json:"cause,omitempty"` // with its evidence

	CauseKind string         `json:"cause_kind,omitempty"`
	Evidence  []string       `json:"evidence"`
	Near      []nearEvent    `json:"near"` // events before the onset without evidence
	Onset     *incidentOnset `json:"onset,omitempty"`

	Before incidentSide `json:"before"` // outside of the rise
	Within incidentSide `json:"within"`

	Affected    []incidentCaller `json:"affected"`
	Differences []incidentDiffer `json:"differences"`
	PlanBefore  []string         `json:"plan_before,omitempty"`
	PlanAfter   []string         `json:"plan_after,omitempty"`
	PlanChanged *time.Time       `json:"plan_changed,omitempty"`
	Slow        []incidentCall   `json:"slow_calls"`
	AtServer    *incidentCounts  `json:"at_server,omitempty"`
	LockWaits   []incidentLock   `json:"lock_waits"`
	Link        string           `json:"link"` // to the page, with an absolute range

	view *queryView
	json string // links to the other forms
	svg  string
	all  string // to the statement's page
}

// An incidentOnset has the bounds of the start of a rise.
type incidentOnset struct {
	Earliest time.Time `json:"earliest"`
	Latest   time.Time `json:"latest"`
}

// An incidentSide has the averages of a statement outside of its rise, or within it: per second, and in
// seconds per call.
type incidentSide struct {
	Load     float64 `json:"load"`
	Calls    float64 `json:"calls_per_second"`
	Errors   float64 `json:"errors_per_second"`
	Duration float64 `json:"mean_seconds"`
}

// An incidentCaller is a user in a schema, with its share of the execution time of the range.
type incidentCaller struct {
	User   string  `json:"user"`
	Schema string  `json:"schema"`
	Calls  uint64  `json:"calls"`
	Share  float64 `json:"share"`
}

// An incidentCounts has the server's counts of all its clients, as a serverstats.Reader reads them.
type incidentCounts struct {
	Read   time.Time            `json:"read"`
	Before *incidentServerCount `json:"before,omitempty"`
	Since  *incidentServerCount `json:"since,omitempty"`
}

// An incidentServerCount has sums over some calls.
type incidentServerCount struct {
	Calls           uint64  `json:"calls"`
	Seconds         float64 `json:"seconds"`
	LockSeconds     float64 `json:"lock_seconds"`
	RowsExamined    uint64  `json:"rows_examined"`
	RowsSent        uint64  `json:"rows_sent"`
	RowsAffected    uint64  `json:"rows_affected"`
	TempTables      uint64  `json:"temporary_tables"`
	TempDiskTables  uint64  `json:"temporary_tables_on_disk"`
	SortMergePasses uint64  `json:"sort_merge_passes"`
	NoIndex         uint64  `json:"calls_without_index"`
}

func serverCountOf(c *serverstats.Counts) *incidentServerCount {
	if c.Calls == 0 {
		return nil
	}
	return &incidentServerCount{
		Calls: c.Calls, Seconds: float64(c.Time) / 1e9, LockSeconds: float64(c.LockTime) / 1e9, RowsExamined: c.RowsExamined, RowsSent: c.RowsSent,
		RowsAffected: c.RowsAffected, TempTables: c.TempTables, TempDiskTables: c.TempDiskTables, SortMergePasses: c.SortMergePasses, NoIndex: c.NoIndex,
	}
}

// An incidentLock has the sessions that waited for locks of one session.
type incidentLock struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Kind        string    `json:"kind"`
	Table       string    `json:"table,omitempty"` // absent for accounts without statement texts, as Text and Digest
	Connection  uint32    `json:"connection"`
	User        string    `json:"user"`
	Client      string    `json:"client"`
	Transaction float64   `json:"transaction_seconds"`
	Idle        bool      `json:"idle"`
	Digest      string    `json:"digest,omitempty"`
	Text        string    `json:"text,omitempty"`
	TextCut     bool      `json:"text_cut,omitempty"`
	Waiters     int       `json:"waiting"`
	Longest     float64   `json:"longest_wait_seconds"`
	Direct      bool      `json:"direct"`
}

// lockOf returns a lock for the JSON.
func lockOf(v *view, r *lockRow) incidentLock {
	w := &r.wait
	l := incidentLock{
		From: w.From, To: w.To, Kind: string(w.Kind), Connection: w.Holder.Connection, User: w.Holder.User, Client: w.Holder.Client,
		Transaction: w.Holder.Transaction.Seconds(), Idle: w.Holder.Idle, Waiters: w.Waiters, Longest: w.Longest.Seconds(), Direct: r.Direct,
	}
	if v.texts {
		l.Table, l.Text, l.TextCut = w.Table, w.Holder.Text, w.Holder.TextCut
		if w.Holder.Text != "" && !w.Holder.TextCut {
			l.Digest = w.Holder.Digest.String()
		}
	}
	return l
}

type incidentDiffer struct {
	Property string `json:"property"`
	Value    string `json:"value"`
	Before   string `json:"before"`
	Since    string `json:"since"`
}

type incidentCall struct {
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Rows    uint64    `json:"rows"`
	Error   uint16    `json:"error,omitempty"`
	Text    string    `json:"text,omitempty"`
	TextCut bool      `json:"text_cut,omitempty"` // only the beginning of the text
}

// Accessors for the template.

func (i *incident) pageTitle() string         { return "Incident: " + i.view.Name }
func (i *incident) Heat() template.HTML       { return i.view.Heat }
func (i *incident) Name() string              { return i.view.Name }
func (i *incident) Explained() *planChange    { return i.view.Explained }
func (i *incident) Differs() *callDifferences { return i.view.Differs }
func (i *incident) Counts() *serverCounts     { return i.view.Counts }
func (i *incident) Locks() []lockRow          { return i.view.Locks }
func (i *incident) LockProblem() string       { return i.view.LockProblem }
func (i *incident) MarkRows() []markRow       { return i.view.Marks }
func (i *incident) Notes() []string           { return i.view.Notes }
func (i *incident) JSON() string              { return i.json }
func (i *incident) SVG() string               { return i.svg }
func (i *incident) Statement() string         { return i.all }
func (i *incident) NearText() string          { return i.view.Why.Near }
func (i *incident) Waits() string             { return i.view.Waits }
func (i *incident) MaySeeTexts() bool         { return i.view.Texts }
func (s incidentSide) LoadText() string       { return unitLoad.write(s.Load) }
func (s incidentSide) RateText() string       { return unitRate.write(s.Calls) }
func (s incidentSide) DurationText() string   { return seconds(s.Duration) }
func (s incidentSide) ErrorsText() string     { return unitRate.write(s.Errors) }
func (c incidentCall) Took() time.Duration    { return time.Duration(c.Seconds * float64(time.Second)) }
func (c incidentCaller) ShareText() string    { return percent(c.Share) }
func (c incidentCaller) CallerText() string   { return c.User + " in " + c.Schema }
func (i *incident) load() *statements.Series  { return i.view.points }

// An incidentPage has the forms of incidents: a page, JSON and an image.
type incidentPage struct {
	query *queryPage
	pages *renderer
}

func (s *incidentPage) load(ctx context.Context, v *view) (any, error) { return s.of(ctx, v) }

// writeJSON writes the incident as JSON.
func (s *incidentPage) writeJSON(w http.ResponseWriter, i *incident) { s.pages.writeJSON(w, i.plain()) }

// writeCard writes the incident as an image.
func writeCard(w http.ResponseWriter, i *incident) {
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(visible.Text(i.plain().card()))) // a failed write means that the client disconnected
}

// form returns the handler of one form.
func (s *incidentPage) form(write func(http.ResponseWriter, *incident)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.pages.view(r)
		var err error
		if v.span, err = parseSpan(v.query, v.now); err != nil {
			s.pages.fail(w, r, badRequest(err, "Write times as now-1h, 2026-01-31 15:04 (UTC) or Unix seconds."))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		i, err := s.of(ctx, v)
		if err != nil {
			s.pages.fail(w, r, err)
			return
		}
		write(w, i)
	})
}

// of derives an incident from the data of the statement's page.
func (s *incidentPage) of(ctx context.Context, v *view) (*incident, error) {
	d, err := s.query.view(ctx, v)
	if err != nil {
		return nil, err
	}
	always := v.span.absolute().Query().Encode()
	i := &incident{
		Digest: d.ID, Text: d.Plain, TextCut: d.TextCut && d.Plain != "", From: v.span.From.UTC(), To: v.span.To.UTC(), Cause: d.Why.Cause, CauseKind: d.Why.Kind, view: d,
		Sentence: "The load did not rise within this range: " + unitLoad.write(d.Load) + ", " + unitRate.write(d.Rate) + ".",
		Link:     "/incident/" + d.ID + "?" + always, json: "/api/v1/incidents/" + d.ID + "?" + always,
		svg: "/incident/" + d.ID + "/card.svg?" + always, all: v.link("/query/" + d.ID),
		Evidence: append([]string{}, d.Why.Evidence...), Near: append([]nearEvent{}, d.Why.Events...), Affected: []incidentCaller{}, Differences: []incidentDiffer{}, Slow: []incidentCall{}, LockWaits: []incidentLock{},
	}
	if d.rise == nil && d.Rise != "" { // a new statement
		i.Sentence = d.Rise
	}
	i.Within = incidentSide{Load: d.Load, Calls: d.Rate, Duration: d.Mean.Seconds()}
	if r := d.rise; r != nil {
		i.Rising, i.Lasts, i.Sentence, i.Since = true, r.Lasts, d.Rise, &r.From
		if !r.Lasts {
			i.Until = &r.To
		}
		i.Onset = &incidentOnset{r.Earliest.UTC(), r.Latest.UTC()}
		i.Before, i.Within = sidesOf(r, d.points)
	}
	for _, p := range d.callers {
		if len(i.Affected) == maxBars {
			break
		}
		share := 0.0
		if d.Totals.Seconds > 0 {
			share = p.Seconds / d.Totals.Seconds
		}
		i.Affected = append(i.Affected, incidentCaller{User: p.User, Schema: p.Schema, Calls: p.Calls, Share: share})
	}
	if d.Differs != nil {
		for _, row := range d.Differs.Rows {
			i.Differences = append(i.Differences, incidentDiffer{row.Dimension, row.Value, row.Before, row.Within})
		}
	}
	if e := d.Explained; e != nil && e.Before != nil {
		i.PlanBefore, i.PlanAfter, i.PlanChanged = e.Before.lines(), e.After.lines(), &e.Changed
	}
	if c := d.Counts; c != nil && len(c.Rows) > 0 {
		i.AtServer = &incidentCounts{Read: c.At, Before: serverCountOf(&c.before), Since: serverCountOf(&c.since)}
	}
	for j := range d.Locks {
		i.LockWaits = append(i.LockWaits, lockOf(v, &d.Locks[j]))
	}
	for _, c := range d.Slow {
		i.Slow = append(i.Slow, incidentCall{Start: c.Start, Seconds: c.Duration.Seconds(), Rows: c.Rows, Error: c.ErrorNumber, Text: c.Text, TextCut: c.TextCut && c.Text != ""})
	}
	return i, nil
}

// plain returns the incident for other forms than a page: times are UTC.
func (i *incident) plain() *incident {
	i.Sentence, i.Cause = plainTimes(i.Sentence), plainTimes(i.Cause)
	for k := range i.Evidence {
		i.Evidence[k] = plainTimes(i.Evidence[k])
	}
	return i
}

// sidesOf returns the averages outside of a rise and within it.
func sidesOf(r *rise, points *statements.Series) (before, within incidentSide) {
	within.Load, before.Load = r.Inside, r.Outside
	within.Calls, before.Calls = r.Means(points.Calls)
	within.Errors, before.Errors = r.Means(points.Errors)
	for _, side := range []*incidentSide{&before, &within} {
		if side.Calls > 0 {
			side.Duration = side.Load / side.Calls
		}
	}
	return before, within
}

// lines returns the steps of a plan as text.
func (p *planView) lines() []string {
	var all []string
	for _, step := range p.Steps {
		all = append(all, step.Text)
	}
	return all
}

const (
	cardWidth, cardHeight = 1000, 400
	cardLine              = 110 // characters per line of text
)

// card returns an image of the incident for a chat: a summary as text, and the load as a line with the rise
// shaded. It requires no style sheet.
func (i *incident) card() string {
	var b chart.SVG
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 400" width="1000" height="400" font-family="system-ui, sans-serif" role="img"><title>`)
	b.Text(i.pageTitle())
	b.WriteString(`</title><rect width="1000" height="400" fill="#fcfcfa"/>`)
	y := 0.0
	line := func(size int, colour, family, text string) {
		for rest := []rune(text); len(rest) > 0; {
			n := min(len(rest), cardLine)
			y += float64(size) * 1.45
			b.WriteString(`<text x="20" font-size="` + strconv.Itoa(size) + `" fill="` + colour + `"`)
			if family != "" {
				b.WriteString(` font-family="` + family + `"`)
			}
			b.Attr("y", y)
			b.WriteString(">")
			b.Text(string(rest[:n]))
			b.WriteString("</text>")
			rest = rest[n:]
		}
	}
	y = 8
	line(15, "#1b1f23", "monospace", cutText(i.Name(), cardLine-10))
	line(17, "#1b1f23", "", cutText(i.Sentence, 3*cardLine/2))
	if i.Cause != "" {
		line(16, "#8a5a00", "", cutText(i.Cause, 3*cardLine/2))
	}
	if len(i.Affected) > 0 {
		line(14, "#5c656e", "", "Most affected: "+cutText(i.Affected[0].CallerText(), cardLine/2)+", "+i.Affected[0].ShareText()+" of its time")
	}
	i.drawLoad(&b, y+24, cardHeight-44)
	line2 := plainTimes(moment(i.From) + " – " + moment(i.To) + " UTC, load")
	y = cardHeight - 36
	line(13, "#5c656e", "", line2)
	b.WriteString("</svg>")
	return b.String()
}

// drawLoad draws the load between two heights of the card.
func (i *incident) drawLoad(b *chart.SVG, top, bottom float64) {
	points := i.load()
	if points == nil || len(points.Times) < 2 || bottom-top < 40 {
		return
	}
	low, high := chart.Extent(math.Inf(1), math.Inf(-1), points.Load)
	if low > high {
		return
	}
	y := chart.LinearScale(low, high)
	first, length := points.Times[0], float64(points.Times[len(points.Times)-1].Sub(points.Times[0]))
	at := func(t time.Time) float64 {
		return 20 + (cardWidth-40)*min(max(float64(t.Sub(first))/length, 0), 1)
	}
	if r := i.view.rise; r != nil {
		b.WriteString(`<rect fill="#f6e7c8"`)
		b.Attr("x", at(r.From))
		b.Attr("y", top)
		b.Attr("width", max(at(r.To)-at(r.From), 1))
		b.Attr("height", bottom-top)
		b.WriteString("/>")
	}
	b.WriteString(`<path fill="none" stroke="#0b6e75" stroke-width="2" d="`)
	move := "M"
	for k, value := range points.Load {
		if k >= len(points.Times) || !chart.IsNumber(value) {
			move = "M"
			continue
		}
		b.WriteString(move)
		b.Num(at(points.Times[k]))
		b.WriteByte(' ')
		b.Num(bottom - (bottom-top)*y.At(value))
		move = "L"
	}
	b.WriteString(`"/>`)
	for _, m := range i.view.lines {
		if m.At.Before(first) || m.At.After(points.Times[len(points.Times)-1]) {
			continue
		}
		b.WriteString(`<path stroke="#8a5a00" stroke-dasharray="4 3" d="M`)
		b.Num(at(m.At))
		b.WriteByte(' ')
		b.Num(top)
		b.WriteString("V")
		b.Num(bottom)
		b.WriteString(`"><title>`)
		b.Text(plainTimes(m.Name))
		b.WriteString("</title></path>")
	}
}
