package web

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/telemetry"
)

// Copies are the known copies: running ones, and those recorded in a target. Sources that cannot be read are
// reported in Problems.
type Copies struct {
	Target   string // target whose state tables were read, without a password; "" for none
	Jobs     []state.Job
	Sockets  string // directory that was searched for running copies; "" for none
	Running  []*telemetry.Status
	Problems []string
}

// copiesPage returns the page of copies of tables.
func (s *Server) copiesPage() page {
	return page{path: "/copies", title: "Copies", template: "copies", key: "c", fixed: true, follow: true, load: s.copies}
}

// copiesData is the data of the page.
type copiesData struct {
	Copies
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
