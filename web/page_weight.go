package web

import (
	"context"
	"html/template"
	"time"

	"github.com/taredb/tare/internal/localstate"
)

// weightPage shows what the process itself costs.
func (s *Server) weightPage() page {
	return page{path: "/weight", title: "Weight", template: "weight", key: "w", fixed: true, follow: true, answer: s.weight}
}

// weightData is what the page shows.
type weightData struct {
	Name, Names string // of what is counted: "statement", "statements"; "" when nothing is
	Lately      weightDelta
	Started     weightDelta // since then
	Compared    bool        // Lately is between two looks; else it is Started
	Up          string
	Now         weighing
	Limit       float64 // bytes; 0: none
	Owners      []ownerRow
	Owned       float64
	Others      float64 // live beyond Owned
	Off         string  // of Owned from Now.Live
	Charts      []template.HTML
	Losses      []localstate.Loss
}

func (s *Server) weight(_ context.Context, v *view) (any, error) {
	source := s.opts.Weight
	looks := s.weigher.look(v.now)
	d := weightData{Name: source.StatementName, Now: looks[len(looks)-1], Limit: float64(memoryLimit())}
	if d.Name != "" {
		d.Names = d.Name + "s"
	}
	d.Started = d.Now.since(&s.weigher.start)
	d.Up = seconds(d.Started.Seconds)
	d.Lately = d.Started
	if n := len(looks); n > 1 {
		// About ten seconds back: less would show each collection as a burst.
		k := n - 2
		for k > 0 && d.Now.At.Sub(looks[k].At) < 10*time.Second {
			k--
		}
		d.Compared, d.Lately = true, d.Now.since(&looks[k])
	}
	if source.Heap != nil {
		d.Owners, d.Owned = ownerRows(source.Heap())
		if d.Now.Live > 0 {
			d.Off = offText(d.Owned/d.Now.Live - 1)
			d.Others = max(d.Now.Live-d.Owned, 0)
		}
	}
	if source.Losses != nil {
		d.Losses = source.Losses()
	}
	if len(looks) > 2 {
		d.Charts = weightCharts(looks)
	}
	return d, nil
}

// weightCharts draw the looks that are remembered.
func weightCharts(looks []weighing) []template.HTML {
	n := len(looks) - 1
	times := make([]time.Time, n)
	lines := make([][]float64, 6)
	for i := range lines {
		lines[i] = make([]float64, n)
	}
	for i := range n {
		w := &looks[i+1]
		d := w.since(&looks[i])
		times[i] = w.At
		for k, value := range []float64{d.CPU, d.CPU * d.GCShare, w.Live, w.Heap, float64(w.RSS), w.Goroutines} {
			lines[k][i] = value
		}
	}
	return []template.HTML{
		lineChart{ID: "cpu", Title: "CPU", Times: times, Unit: unitPercent, Area: true, Series: []series{
			{"all", lines[0]}, {"garbage collection", lines[1]},
		}}.HTML(),
		lineChart{ID: "memory", Title: "Memory", Times: times, Unit: unitBytes, Series: []series{
			{"live", lines[2]}, {"heap", lines[3]}, {"resident", lines[4]},
		}}.HTML(),
		lineChart{ID: "goroutines", Title: "Goroutines", Times: times, Unit: unitCount, Series: []series{{"goroutines", lines[5]}}}.HTML(),
	}
}

// offText says how far a sum is from what was measured.
func offText(off float64) string {
	switch {
	case off > 0:
		return percent(off) + " more"
	case off < 0:
		return percent(-off) + " less"
	}
	return "the same"
}
