package web

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/incidents"
	"github.com/taredb/tare/internal/testseed"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 50)) }

const (
	corpusRounds    = 4 // of each script
	corpusPrecision = 0.95
	corpusRecall    = 0.80
	corpusSeed      = 20260301
)

// played is the result of one script.
type played struct {
	attention   bool // something needs attention
	named       bool // the expected cause of the main event
	right, bold int  // causes in bold
	wrong       []string
}

// play plays a script once, and reads the overview, and the incident page of each statement that needs attention.
func (c *script) run(t *testing.T, seed uint64) (p played) {
	w := newWorld(seed)
	main := w.statements[0]
	c.play(w, main)
	if !c.none || w.IntN(2) == 0 {
		w.decoys(main)
	}
	w.record()
	o := testOptions()
	o.Statements, o.Markers, o.PlanSource, o.Calls, o.Counts = w, w, w, w, worldCounts{w}
	o.Now = func() time.Time { return w.time(worldSeconds) }
	o.Attention = Attention{LeastLoad: 0.05, Interval: worldSample * time.Second}
	s := New(o)
	v := &view{now: o.Now(), span: spanOf(w.start, w.time(worldSeconds)), texts: true, Attention: o.Attention, query: url.Values{}}
	page, err := s.parts.overview.load(context.WithoutCancel(t.Context()), v)
	if err != nil {
		t.Fatal(err)
	}
	counted := make(map[incidents.Kind]bool) // a cause of many statements counts once
	for _, e := range page.(*overview).Events {
		if e.Name != "Heavier" && e.Name != "New statement" && e.Name != "New caller" {
			continue
		}
		p.attention = true
		digest := strings.TrimPrefix(strings.Split(e.Link, "?")[0], "/query/")
		st := w.statement(digest)
		found, kind := e.Cause, kindOf(t, s, v, digest)
		if found == "" {
			continue
		}
		ok := (kind == c.want || slices.Contains(c.also, kind)) && c.names(w, found)
		if ok && counted[kind] {
			continue
		}
		counted[kind] = true
		p.bold++
		if kind == "" {
			t.Errorf("%s: the page of %s has no cause, the overview has %s", c.name, st.text, found)
		}
		if ok {
			p.right++
			p.named = true
		} else {
			p.wrong = append(p.wrong, fmt.Sprintf("%s: %s", st.text, found))
		}
	}
	return p
}

// names reports whether a cause that is an event names the right one: the schema change or deployment at the onset.
func (c *script) names(w *world, found string) bool {
	for i := range w.events {
		m := &w.events[i]
		if m.Kind == "lock" || !strings.Contains(found, m.Name()+", "+exactClock(m.Time, time.Hour)) {
			continue
		}
		return !m.Time.After(w.time(w.onset)) && !m.End.Before(w.time(w.onset-90))
	}
	return true
}

// kindOf returns the kind of the cause on the page of an incident.
func kindOf(t *testing.T, s *Server, v *view, digest string) incidents.Kind {
	r := newRequest(t, digest)
	i, err := s.parts.incident.of(r.Context(), &view{r: r, query: v.query, now: v.now, span: v.span, texts: true, Attention: v.Attention})
	if err != nil {
		t.Fatal(err)
	}
	return incidents.Kind(i.CauseKind)
}

// TestCorpus plays the corpus of scripted incidents, and expects the causes in bold to be right. With -v it prints the
// result of each kind: go test ./web -run TestCorpus -v. With another seed (TARE_TEST_SEED) it plays other worlds.
func TestCorpus(t *testing.T) {
	rounds, seed := corpusRounds, uint64(corpusSeed)
	if os.Getenv(testseed.Env) != "" { // other loads, times and events nearby
		seed = testseed.New(t)
	}
	if testing.Short() {
		rounds = 2
	}
	var right, bold, named, expected, incidentCount, noIncident, alarms int
	for k := range scripts {
		c := &scripts[k]
		var all played
		ok, noticed := 0, 0
		for round := range rounds {
			p := c.run(t, seed+uint64(1000*k+round))
			all.right, all.bold, all.wrong = all.right+p.right, all.bold+p.bold, append(all.wrong, p.wrong...)
			if p.attention {
				noticed++
			}
			if p.named {
				ok++
			}
		}
		right, bold = right+all.right, bold+all.bold
		switch {
		case c.none:
			noIncident += rounds
			alarms += noticed
		default:
			incidentCount += rounds
		}
		if c.want != "" {
			expected, named = expected+rounds, named+ok
		}
		t.Logf("%-36s noticed %d of %d, cause %q named %d, in bold %d, wrong %d", c.name, noticed, rounds, c.want, ok, all.bold, len(all.wrong))
		for _, text := range all.wrong {
			t.Logf("    wrong: %s", text)
		}
	}
	precision, recall := float64(right)/float64(max(bold, 1)), float64(named)/float64(expected)
	t.Logf("%d incidents, %d others; precision %.3f (%d of %d), recall %.3f (%d of %d), false alarms %d", incidentCount, noIncident, precision, right, bold, recall, named, expected, alarms)
	if precision < corpusPrecision || recall < corpusRecall || alarms > 0 {
		t.Errorf("precision %.3f, want %v; recall %.3f, want %v; %d false alarms, want none", precision, corpusPrecision, recall, corpusRecall, alarms)
	}
}

func newRequest(t *testing.T, digest string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/incident/"+digest, nil)
	r.SetPathValue("digest", digest)
	return r
}
