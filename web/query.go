package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/incidents"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A queryPage shows one statement.
type queryPage struct {
	statements *statementReader
	tables     *tableReader
	marks      *markReader
	locks      *lockReader
	causes     *causeFinder
	queries    chartQueries
	plans      PlanSource  // nil: there are none
	calls      CallSource  // nil: there are none
	counts     CountSource // nil: there are none
}

// A queryView is the data of the page of one statement.
type queryView struct {
	ID      string
	Name    string
	Text    template.HTML
	Plain   string // text without markup
	List    string // link to the queries of the same range
	TextCut bool
	Notes   []string

	Totals  statements.Totals
	Mean    time.Duration
	Load    float64
	Rate    float64
	Classes []classCount
	Effects []effectView
	First   time.Time
	Last    time.Time
	Rise    string // start and factors of a rise of its load; "" if there is none
	Why     whyText
	Waits   string // for a lock of another session, as a sentence; "" if it does not
	Marks   []markRow

	rise      *rise              // nil: there is none
	points    *statements.Series // nil: there are none
	callers   []statements.StatementPart
	lines     []mark
	Incident  string           // link to the incident page
	Differs   *callDifferences // nil: calls are not sampled
	Explained *planChange      // nil: plans are not read, or not visible to the account
	Counts    *serverCounts    // nil: the server's counts are not read, or not visible to the account

	Locks       []lockRow
	LockProblem string // reason for which some are unknown

	Charts []template.HTML
	Heat   template.HTML
	Parts  []barChart
	Slow   []stmtstats.SlowCall
	Texts  bool // whether some of Slow have a text
	Info   template.HTML
}

type classCount struct {
	Name  string
	Count uint64
}

func (q *queryView) pageTitle() string { return q.Name }

func (s *queryPage) load(ctx context.Context, v *view) (any, error) { return s.view(ctx, v) }

// view returns the data of the page, which are those of incidents too.
func (s *queryPage) view(ctx context.Context, v *view) (*queryView, error) {
	q := statements.StatementQuery{Digest: strings.ToLower(v.r.PathValue("digest")), From: v.span.From, To: v.span.To, Points: chartPoints}
	if isDigestPrefix(q.Digest) {
		whole, err := s.wholeDigest(ctx, v, q.Digest)
		if err != nil {
			return nil, err
		}
		q.Digest = whole
	}
	if err := q.Validate(); err != nil {
		return nil, badRequest(err, fmt.Sprintf("Give at least the first %d digits.", minDigestPrefix), "Open a statement from the table of queries.")
	}
	st, err := s.statements.of(v).Statement(ctx, q)
	if err != nil {
		return nil, statementProblem(err)
	}
	d := &queryView{
		ID: hex.EncodeToString(st.Digest[:]), TextCut: st.TextCut, Totals: st.Totals, Mean: st.Mean(), Effects: effectViews(&st.Counts),
		First: st.First, Last: st.Last, Slow: st.Slow, List: v.link("/queries"),
		Notes: sourceNotes(v, st.Source, st.From, st.To, st.Notes),
	}
	d.Name = statementName(st.Text, st.TextCut, st.Digest)
	if st.Text != "" {
		d.Plain, d.Text = st.Text, formatSQL(st.Text)
	}
	length, _ := covered(v, &statements.Top{From: st.From, To: st.To})
	d.Load, d.Rate = st.Seconds/length, float64(st.Calls)/length
	for c, n := range st.Classes {
		if n > 0 {
			d.Classes = append(d.Classes, classCount{stmtstats.ErrorClass(c).String(), n})
		}
	}
	for _, slow := range st.Slow {
		d.Texts = d.Texts || slow.Text != ""
	}
	d.Parts, d.callers = partsOf(v, st), st.Parts
	d.Incident = v.link("/incident/" + d.ID)
	d.Explained = s.explainedOf(v, st.Digest)
	marks := s.marks.of(ctx, v)
	d.Marks = markRows(v, marks)
	if st.Source != statements.SourceCounters {
		s.draw(ctx, d, v, st, marks)
	}
	d.Differs = s.differs(ctx, v, st, d.rise)
	d.Counts = s.countsOf(ctx, v, st, d.rise)
	d.Locks, d.LockProblem = s.locks.of(v, st)
	for i := range d.Locks {
		if l := &d.Locks[i]; l.Direct && d.Why.Kind != string(incidents.KindLock) && (d.rise == nil || v.now.Sub(l.To) < lockEnded) {
			if d.Waits = l.Sentence(v.now); d.rise == nil { // no call has finished yet
				d.Why.Kind, d.Why.Cause = string(incidents.KindLock), d.Waits
			}
			break
		}
	}
	return d, nil
}

// minDigestPrefix is the minimum length of a digest prefix in digits.
const minDigestPrefix = 6

// isDigestPrefix reports whether text is a prefix of a digest in hexadecimal digits.
func isDigestPrefix(text string) bool {
	return len(text) >= minDigestPrefix && len(text) < 2*len([16]byte{}) && strings.Trim(text, "0123456789abcdef") == ""
}

// wholeDigest returns the digest with the prefix, among the statements of the view's range.
func (s *queryPage) wholeDigest(ctx context.Context, v *view, prefix string) (string, error) {
	top, err := s.statements.of(v).Top(ctx, statements.TopQuery{From: v.span.From, To: v.span.To, Filter: "digest=" + prefix, Limit: queryRows})
	if err != nil {
		return "", statementProblem(err)
	}
	var found []string
	for i := range top.Rows {
		if id := hex.EncodeToString(top.Rows[i].Digest[:]); !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", notFound("No call in this range of a digest that begins with "+prefix, "Choose a longer range.", "Search the queries.")
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	return "", notFound("Several digests begin with "+prefix+": "+strings.Join(found, ", "), "Give more digits.")
}

// draw adds the charts over time.
func (s *queryPage) draw(ctx context.Context, d *queryView, v *view, st *statements.Statement, marks []markers.Marker) {
	points := &st.Series
	ask, lines := s.queries.digest(d.ID, points.Step), chartMarks(marks)
	bounds := make([]float64, len(st.Heat.Bounds))
	for i, b := range st.Heat.Bounds {
		bounds[i] = b.Seconds()
	}
	d.points, d.lines = points, lines
	end := st.To
	if len(points.Times) > 0 {
		end = points.End
	}
	heatLines := lines
	points.End = end
	found, rising, others := s.statements.riseOf(ctx, v, st)
	if rising {
		heatLines = append(slices.Clone(lines), mark{At: found.From, Name: "heavier since " + exactClock(found.From, v.span.Length()) + " UTC"})
	}
	over, drawn := s.statements.fitStatement(ctx, v, st)
	if drawn != st {
		if end = drawn.To; len(drawn.Series.Times) > 0 {
			end = drawn.Series.End
		}
	}
	d.Heat = heatMap{
		ID: "heat", Title: "How long calls took", From: over.From, To: over.To, Times: drawn.Series.Times, End: end, Bounds: bounds, Counts: drawn.Heat.Counts,
		Unit: unitSeconds, PromQL: ask.Heat(), Marks: heatLines,
	}.HTML()
	if rising {
		d.Rise = riseText(found, points, v.span.Length())
		d.Why = s.causes.ofRise(ctx, v, st, found, marks, others)
		d.rise = found
	}
	if load := st.Seconds / max(v.span.To.Sub(st.First), leastCovered).Seconds(); !rising && load >= v.LeastLoad && st.First.After(st.From) {
		if top := s.statements.newAmong(ctx, v, st); top != nil {
			d.Rise = "New since " + exactClock(st.First, v.span.Length()) + ": load " + unitLoad.write(load) + "."
			d.Why = s.causes.ofNew(ctx, v, st, marks, top)
		}
	}
	points = &drawn.Series
	chart := func(c lineChart) {
		c.From, c.To, c.Times, c.Marks = over.From, over.To, points.Times, lines
		d.Charts = append(d.Charts, c.HTML())
	}
	chart(lineChart{
		ID: "calls", Title: "Calls", Unit: unitRate, Area: true, Series: []series{{"calls", points.Calls}},
		PromQL: ask.Calls(),
	})
	chart(lineChart{
		ID: "latency", Title: "Latency", Unit: unitSeconds, Log: true,
		Series: []series{{"p50", called(points.P50, points.Calls)}, {"p99", called(points.P99, points.Calls)}},
		PromQL: ask.Quantile(0.99),
	})
	chart(lineChart{
		ID: "load", Title: "Load", Unit: unitLoad, Area: true, Series: []series{{"load", points.Load}},
		PromQL: ask.Load(),
	})
	for _, c := range effectCharts(st, points, ask) {
		chart(c)
	}
	if st.Errors > 0 {
		chart(lineChart{
			ID: "errors", Title: "Errors", Unit: unitRate, Series: []series{{"errors", points.Errors}},
			PromQL: ask.Errors(),
		})
	}
	if d.Plain != "" {
		d.Info = promqlBox("tare_digest_info" + ask.Selector)
	}
}

// fitStatement is fitTop for the charts of one statement.
func (s *statementReader) fitStatement(ctx context.Context, v *view, st *statements.Statement) (span, *statements.Statement) {
	over, ok := fitted(v.span, st.From, st.To)
	if !ok || st.Source != statements.SourceSamples {
		return v.span, st
	}
	part, err := s.of(v).Statement(ctx, statements.StatementQuery{Digest: sqldigest.Digest(st.Digest).String(), From: over.From, To: over.To, Points: chartPoints})
	if err != nil || !slices.Equal(part.Heat.Bounds, st.Heat.Bounds) {
		s.log.Debug("charts are drawn over the whole range", "error", err)
		return v.span, st
	}
	return over, part
}

// riseText describes the start of a rise, and the contributions of call rate and duration: "6× heavier since
// 02:30: each call takes 3× longer (20 → 60 ms); 2× as many calls (10 → 20 /s)."
func riseText(r *rise, points *statements.Series, looked time.Duration) string {
	text := "Load " + unitLoad.write(r.Inside) + " " + r.When(looked) + ", almost none otherwise"
	if times := timesText(r.Inside, r.Outside); times != "" {
		text = factor(times) + " heavier " + r.When(looked)
	}
	calls, otherCalls := r.Means(points.Calls)
	if calls == 0 || otherCalls == 0 {
		return text + "."
	}
	text += ": " + durationChange(r.Inside/calls, r.Outside/otherCalls) + "; " + rateChange(calls, otherCalls)
	if failed, _ := r.Means(points.Errors); failed > 0 {
		text += "; errors " + unitRate.write(failed)
	}
	return text + "."
}

// unchanged is the maximum relative difference that is reported as no change.
const unchanged = 0.15

// durationChange compares the mean durations of a call in seconds.
func durationChange(now, before float64) string {
	span := " (" + seconds(before) + " → " + seconds(now) + ")"
	switch times := timesText(now, before); {
	case math.Abs(now-before) <= unchanged*before:
		return "duration of a call unchanged (" + seconds(now) + ")"
	case now < before:
		return "each call is shorter" + span
	case times == "":
		return "each call takes longer" + span
	default:
		return "each call takes " + factor(times) + " longer" + span
	}
}

// rateChange compares the calls per second.
func rateChange(now, before float64) string {
	span := " (" + unitRate.write(before) + " → " + unitRate.write(now) + ")"
	switch times := timesText(now, before); {
	case math.Abs(now-before) <= unchanged*before:
		return "call rate unchanged (" + unitRate.write(now) + ")"
	case now < before:
		return "fewer calls" + span
	case times == "":
		return "more calls" + span
	default:
		return factor(times) + " as many calls" + span
	}
}

// factor converts "× 6" to "6×".
func factor(times string) string { return strings.TrimPrefix(times, "× ") + "×" }

// called returns the values of points with calls, and NaN for other points, which have no latency.
func called(values, calls []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if out[i] = v; v <= 0 || i < len(calls) && calls[i] == 0 {
			out[i] = math.NaN()
		}
	}
	return out
}

// partsOf returns charts of the callers of the statement, by user and schema.
func partsOf(v *view, st *statements.Statement) []barChart {
	if len(st.Parts) == 0 {
		return nil
	}
	var charts []barChart
	for _, by := range []struct {
		of, title string
		name      func(*stmtstats.Key) string
	}{
		{"schema", "By schema", func(k *stmtstats.Key) string { return k.Schema }},
		{"user", "By user", func(k *stmtstats.Key) string { return k.User }},
		{"backend", "By backend", func(k *stmtstats.Key) string { return k.Backend }},
	} {
		c := barChart{Title: by.title, Of: by.of, Unit: unitSeconds, Whole: st.Seconds}
		place := map[string]int{}
		var calls []uint64
		for i := range st.Parts {
			p := &st.Parts[i]
			name := by.name(&p.Key)
			at, known := place[name]
			if !known {
				at = len(c.Bars)
				place[name] = at
				b := bar{Name: name}
				if name == "" {
					b.Name = "(none)"
				} else {
					b.Link = v.link("/queries", "filter", by.of+"="+name)
				}
				c.Bars, calls = append(c.Bars, b), append(calls, 0)
			}
			c.Bars[at].Value += p.Seconds
			calls[at] += p.Calls
		}
		for i := range c.Bars {
			c.Bars[i].Note = callsText(calls[i])
		}
		slices.SortStableFunc(c.Bars, func(a, b bar) int { return cmp.Compare(b.Value, a.Value) }) // parts are sorted, their sums are not
		c.Bars = c.Bars[:min(len(c.Bars), maxBars)]
		charts = append(charts, c)
	}
	return charts
}

// maxBars bounds the users or schemas that are shown separately; those with the most time come first.
const maxBars = 12
