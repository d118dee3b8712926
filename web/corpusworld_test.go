package web

import (
	"context"
	"encoding/hex"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A world is an hour of a gateway, as a script of the corpus has it: its statements with their calls per second, and what
// the gateway records of them: samples every 15 s, sampled calls, plans by EXPLAIN, locks and events. It implements the
// sources of a Server. The onset of an incident is exact to the second; what is recorded is not.
type world struct {
	*rand.Rand
	start      time.Time
	began      int // second at which the history starts
	gap        [2]int
	onset      int // second
	statements []*worldStatement
	events     []markers.Marker
	locks      []serverstats.LockWait
	traffic    func(second int) float64
	hiccups    float64 // probability that a sample of all statements is slower
	slow       []slowdown

	noise map[int]float64 // by sample
}

const (
	worldSeconds = 3600
	worldSample  = 15
	worldPoint   = 30
)

// A second is what one second of a statement's calls is like.
type second struct {
	rate, took, rows, failed float64 // calls per second, seconds and rows per call, fraction of calls that fail
	errorNumber              uint16
	plan                     explain.Step
	backend, user, tag       string
	clients                  []string
	apart                    float64 // fraction of the calls that are those of the last of clients, or of userApart
	userApart                string
	tookApart                float64 // duration of these, if not 0
}

// A slowdown is a time in which the machine is slower for all statements, each by times on average.
type slowdown struct {
	from, to int // seconds
	times    float64
}

type worldStatement struct {
	text    string
	table   string
	digest  sqldigest.Digest
	base    second
	change  func(second int, s *second) // from the onset on, or at any time
	explain bool

	load, called, failed, rows []float64 // per sample, per second
}

// at returns a second of a statement.
func (w *world) at(st *worldStatement, second int) second {
	s := st.base
	s.rate *= w.traffic(second)
	if st.change != nil {
		st.change(second, &s)
	}
	if second < w.began || second >= w.gap[0] && second < w.gap[1] {
		s.rate = 0
	}
	return s
}

// record computes the samples of all statements.
func (w *world) record() {
	w.noise = make(map[int]float64)
	for i := range worldSeconds / worldSample {
		w.noise[i] = 1
		if w.Float64() < w.hiccups {
			w.noise[i] = 1.5 + 3*w.Float64()
		}
	}
	for _, st := range w.statements {
		st.digest = sqldigest.OfText([]byte(st.text))
		for i := range worldSeconds / worldSample {
			var load, called, failed, rows float64
			for k := range worldSample {
				s := w.at(st, i*worldSample+k)
				took := s.took
				if s.tookApart > 0 {
					took = s.took*(1-s.apart) + s.tookApart*s.apart
				}
				load, called, failed, rows = load+s.rate*took, called+s.rate, failed+s.rate*s.failed, rows+s.rate*s.rows
			}
			few := 1.0
			if called > 0 {
				few = max(0, 1+w.NormFloat64()/math.Sqrt(called)) // of a Poisson distribution
			}
			load *= few * math.Exp(0.12*w.NormFloat64()) * w.noise[i]
			for _, slow := range w.slow {
				if at := i * worldSample; at >= slow.from && at < slow.to {
					load *= slow.times * math.Exp(0.2*w.NormFloat64())
				}
			}
			st.load, st.called = append(st.load, load/worldSample), append(st.called, called*few/worldSample)
			st.failed, st.rows = append(st.failed, failed*few/worldSample), append(st.rows, rows*few/worldSample)
		}
	}
	w.sortEvents()
}

func (w *world) sortEvents() {
	for i := range w.events {
		if m := &w.events[i]; m.End.Before(m.Time) {
			m.End = m.Time
		}
	}
	slices.SortStableFunc(w.events, func(a, b markers.Marker) int { return a.Time.Compare(b.Time) })
}

func (w *world) time(second int) time.Time { return w.start.Add(time.Duration(second) * time.Second) }

// points returns samples as the points of a chart.
func points(samples []float64) []float64 {
	var all []float64
	for i := 0; i+1 < len(samples); i += worldPoint / worldSample {
		all = append(all, (samples[i]+samples[i+1])/2)
	}
	return all
}

func (w *world) series() statements.Series {
	s := statements.Series{Step: worldPoint * time.Second, End: w.time(worldSeconds)}
	for i := 0; i < worldSeconds; i += worldPoint {
		s.Times = append(s.Times, w.time(i))
	}
	return s
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v * worldSample
	}
	return total
}

// first returns the second of the first call, -1 if there is none, or the history's start if it was called before.
func (w *world) first(st *worldStatement) int {
	for second := range worldSeconds {
		if w.at(st, second).rate > 0 {
			return second
		}
	}
	return -1
}

func (w *world) row(st *worldStatement) (r statements.TopRow, ok bool) {
	first := w.first(st)
	if first < 0 {
		return r, false
	}
	s := w.at(st, first)
	r.Key = stmtstats.Key{Digest: st.digest, Schema: "shop", User: s.user, Backend: s.backend}
	r.Text, r.Points = st.text, points(st.load)
	r.Totals = statements.Totals{Calls: uint64(math.Ceil(sum(st.called))), Seconds: sum(st.load), Errors: uint64(sum(st.failed)), Counts: stmtstats.Counts{stmtstats.RowsSent: uint64(sum(st.rows))}}
	r.First, r.Last = w.time(first), w.time(worldSeconds)
	if r.New = first > 0; !r.New {
		r.First = time.Time{} // before the range
	}
	return r, true
}

// Top implements Statements.
func (w *world) Top(_ context.Context, q statements.TopQuery) (*statements.Top, error) {
	top := &statements.Top{From: w.time(w.began), To: w.time(worldSeconds), Source: statements.SourceSamples, Series: w.series()}
	all := &top.Series
	for range all.Times {
		for _, values := range []*[]float64{&all.Calls, &all.Load, &all.Errors, &all.P50, &all.P99, &all.P999} {
			*values = append(*values, 0)
		}
	}
	for _, st := range w.statements {
		if r, ok := w.row(st); ok {
			top.Rows = append(top.Rows, r)
			top.Total.Seconds += r.Seconds
			top.Total.Calls += r.Calls
			for i, n := range points(st.called) {
				all.Calls[i], all.Load[i] = all.Calls[i]+n, all.Load[i]+r.Points[i]
			}
		}
	}
	slices.SortFunc(top.Rows, func(a, b statements.TopRow) int { return int(math.Copysign(1, b.Seconds-a.Seconds)) })
	top.Matching = len(top.Rows)
	return top, nil
}

// Statement implements Statements.
func (w *world) Statement(_ context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st := w.statement(q.Digest)
	r, ok := w.row(st)
	if !ok {
		return nil, statements.ErrNoStatement
	}
	s := &statements.Statement{
		Digest: st.digest, Text: st.text, From: w.time(w.began), To: w.time(worldSeconds), Source: statements.SourceSamples, Totals: r.Totals, First: r.First, Last: r.Last,
		Parts: []statements.StatementPart{{Key: r.Key, Totals: r.Totals}}, Series: w.series(),
	}
	s.Series.Load, s.Series.Calls, s.Series.Errors, s.Series.Effects[stmtstats.RowsSent] = points(st.load), points(st.called), points(st.failed), points(st.rows)
	s.Series.Effects[stmtstats.RowsAffected], s.Series.P50, s.Series.P99 = make([]float64, len(r.Points)), make([]float64, len(r.Points)), make([]float64, len(r.Points))
	return s, nil
}

func (w *world) statement(digest string) *worldStatement {
	for _, st := range w.statements {
		if hex.EncodeToString(st.digest[:]) == digest {
			return st
		}
	}
	return nil
}

// Of implements CallSource: up to 8 calls per 15 s.
func (w *world) Of(digest [16]byte, from, to time.Time) []calls.Call {
	st := w.statement(hex.EncodeToString(digest[:]))
	random := rand.New(rand.NewPCG(uint64(digest[0]), uint64(from.Unix())))
	var all []calls.Call
	for i := range worldSeconds / worldSample {
		n := st.called[i] * worldSample
		kept := min(int(math.Ceil(n)), 8)
		for range kept {
			second := i*worldSample + random.IntN(worldSample)
			end := w.time(second)
			s := w.at(st, second)
			if end.Before(from) || !end.Before(to) || s.rate == 0 {
				continue
			}
			k := calls.Call{End: end, Weight: n / float64(kept), Schema: "shop", User: s.user, Backend: s.backend, Rows: uint64(s.rows)}
			took := s.took
			k.Client = s.clients[random.IntN(max(len(s.clients)-1, 1))]
			if random.Float64() < s.apart {
				if k.Client = s.clients[len(s.clients)-1]; s.userApart != "" {
					k.User = s.userApart
				}
				if s.tookApart > 0 {
					took = s.tookApart
				}
			}
			k.Took = time.Duration(took * math.Exp(0.4*random.NormFloat64()) * 1e9)
			if random.Float64() < s.failed {
				k.Error = s.errorNumber
			}
			if s.tag != "" {
				k.Tags = []calls.Tag{{Key: "release", Value: s.tag}}
			}
			all = append(all, k)
		}
	}
	return all
}

// All implements CallSource.
func (w *world) All(from, to time.Time) iter.Seq2[[16]byte, calls.Call] {
	return func(yield func([16]byte, calls.Call) bool) {
		for _, st := range w.statements {
			for _, call := range w.Of(st.digest, from, to) {
				if !yield(st.digest, call) {
					return
				}
			}
		}
	}
}

// Covers implements CallSource.
func (w *world) Covers() time.Duration { return time.Hour }

// State implements PlanSource: EXPLAIN runs at the start, every 10 minutes, some seconds after a schema change of the table,
// and when calls take twice as long, once per minute.
func (w *world) State(digest [16]byte) (explain.State, bool) {
	st := w.statement(hex.EncodeToString(digest[:]))
	if st == nil || !st.explain {
		return explain.State{}, false
	}
	random := rand.New(rand.NewPCG(uint64(digest[1]), uint64(w.onset)))
	var known explain.State
	last, lastTook := -1000, 0.0
	due := make(map[int]bool)
	for i := range w.events {
		if m := &w.events[i]; m.SchemaChange() && m.Names([]string{st.table}) {
			due[int(m.End.Sub(w.start).Seconds())+1+random.IntN(5)] = true
		}
	}
	for second := range worldSeconds {
		s := w.at(st, second)
		heavier := second%60 == 59 && lastTook > 0 && s.rate > 0 && s.took >= 2*lastTook && s.took-lastTook >= 0.001
		if s.rate == 0 || second-last < 600 && !due[second] && !heavier {
			continue
		}
		last, lastTook = second, s.took
		now := w.time(second)
		p := explain.Plan{ID: s.plan.String(), Steps: []explain.Step{s.plan}, First: now, Last: now}
		known.At = now
		if i := slices.IndexFunc(known.Plans, func(k explain.Plan) bool { return k.ID == p.ID }); i >= 0 {
			p.First = known.Plans[i].First
			known.Plans = slices.Delete(known.Plans, i, i+1)
			known.Plans = slices.Insert(known.Plans, 0, p)
			continue
		}
		if known.Plans = slices.Insert(known.Plans, 0, p); len(known.Plans) > 1 {
			known.Changes = append(known.Changes, explain.Change{At: now, Before: known.Plans[1], After: p})
		}
	}
	return known, true
}

// Between implements MarkerSource.
func (w *world) Between(from, to time.Time, _ int) []markers.Marker {
	var all []markers.Marker
	for _, m := range w.events {
		if !m.End.Before(from) && !m.Time.After(to) {
			all = append(all, m)
		}
	}
	return all
}

// TablesOf implements MarkerSource.
func (w *world) TablesOf(text, _ string) []string {
	for _, st := range w.statements {
		if st.text == text {
			return []string{st.table}
		}
	}
	return nil
}

// LockWaits implements CountSource; there are no counts.
func (w *world) LockWaits(from, to time.Time) ([]serverstats.LockWait, string) { return w.locks, "" }

type worldCounts struct{ *world }

func (worldCounts) Statement(sqldigest.Digest, string) (serverstats.Statement, serverstats.Status, bool) {
	return serverstats.Statement{}, serverstats.Status{}, false
}

func (worldCounts) Tables(context.Context, []string) ([]serverstats.Table, error) { return nil, nil }
