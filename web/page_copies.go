package web

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/telemetry"
)

// Copies are what is known of copies: those that run, and those that a target remembers. What cannot be
// read is told in the Problems.
type Copies struct {
	Target   string // whose state tables were read, without a password; "" when none is
	Jobs     []state.Job
	Sockets  string // the directory that running copies were looked for in; "" when it is not
	Running  []*telemetry.Status
	Problems []string
}

// copiesPage shows copies of tables.
func (s *Server) copiesPage() page {
	return page{path: "/copies", title: "Copies", template: "copies", key: "c", fixed: true, follow: true, answer: s.copies}
}

// copiesData is what the page shows.
type copiesData struct {
	Copies
	Rows []jobRow
}

// A jobRow is one table that is or was copied.
type jobRow struct {
	state.Job
	Class string  // of its phase
	Done  float64 // share of the chunks that are cut
	Took  string
	Rate  float64 // rows a second, on average; NaN: not known
	Spec  string  // "" for who sees no texts: conditions hold values
}

func (s *Server) copies(ctx context.Context, v *view) (any, error) {
	d := copiesData{Copies: s.opts.Copies(ctx)}
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

// sort puts what is not finished first: that is what somebody comes for.
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
