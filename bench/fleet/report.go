package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
)

// A configuration is a fleet that is measured.
type configuration struct {
	name      string
	instances int
	kind      kind
}

// A result is what a configuration showed.
type result struct {
	name              string
	ready             []time.Duration
	fresh, last, peak []float64 // MiB of memory
	cold, warm        []float64 // milliseconds, by query
	coldBytes, bytes  map[string]float64
	phases            [3]phase
	whole             time.Duration // from the start of a new instance until responses are complete; 0: no load
}

// A report has the results of all configurations.
type report struct {
	queries []*query
	rounds  int
	results []result
}

// measure runs the configuration and adds its result to the report.
func (c configuration) measure(ctx context.Context, o *options, r *report) (err error) {
	dir, err := os.MkdirTemp("", "fleet-data-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := startFleet(ctx, o, c.kind, c.instances, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	one := result{name: c.name, ready: slices.Clone(f.started)}
	if one.fresh, err = f.memory("VmRSS"); err != nil {
		return err
	}
	if err := one.query(ctx, o, f, r.queries); err != nil {
		return err
	}
	for field, list := range map[string]*[]float64{"VmRSS": &one.last, "VmHWM": &one.peak} {
		if *list, err = f.memory(field); err != nil {
			return err
		}
	}
	if o.load > 0 && c.instances > 1 {
		if one.phases, one.whole, err = f.underLoad(ctx, o, r.queries); err != nil {
			return err
		}
	}
	r.results = append(r.results, one)
	return nil
}

// query runs each query once, then repeats them.
func (r *result) query(ctx context.Context, o *options, f *fleet, queries []*query) (err error) {
	for _, q := range queries {
		ms, err := q.checked(ctx, f.querier)
		if err != nil {
			return err
		}
		r.cold = append(r.cold, ms)
	}
	if r.coldBytes, err = f.metrics(ctx); err != nil {
		return err
	}
	for _, q := range queries {
		var rounds []float64
		for range o.rounds {
			ms, err := q.checked(ctx, f.querier)
			if err != nil {
				return err
			}
			rounds = append(rounds, ms)
		}
		r.warm = append(r.warm, programs.Median(rounds))
	}
	r.bytes, err = f.metrics(ctx)
	return err
}

// checked runs a query, compares its result with that of the first configuration, and returns its milliseconds.
func (q *query) checked(ctx context.Context, querier string) (ms float64, err error) {
	r, took, err := q.run(ctx, querier)
	switch {
	case err != nil:
		return 0, err
	case r.Status != "success" || r.partial():
		return 0, fmt.Errorf("%s: %s %s %v", q.name, r.Status, r.Error, r.Warnings)
	case q.want == nil:
		if len(fmt.Sprint(r.Data)) < 100 {
			return 0, fmt.Errorf("%s: a result of %v", q.name, r.Data)
		}
		q.want = r.Data
	case !reflect.DeepEqual(r.Data, q.want):
		return 0, fmt.Errorf("%s: the result differs from the first configuration's: %s", q.name, difference(r.Data, q.want))
	}
	return milliseconds(took), nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *report) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	row("\ninstances", "ready (s)", "RSS at start (MiB)", "after the queries", "peak")
	for i := range r.results {
		one := &r.results[i]
		row(one.name, seconds(one.ready), list(one.fresh), list(one.last), list(one.peak))
	}
	for _, part := range []struct {
		title  string
		values func(*result) []float64
	}{{"first time (ms)", func(r *result) []float64 { return r.cold }}, {"median of the rounds (ms)", func(r *result) []float64 { return r.warm }}} {
		header := []string{"\n" + part.title}
		for _, q := range r.queries {
			header = append(header, q.name)
		}
		row(header...)
		for i := range r.results {
			cells := []string{r.results[i].name}
			for _, ms := range part.values(&r.results[i]) {
				cells = append(cells, fmt.Sprintf("%.1f", ms))
			}
			row(cells...)
		}
	}
	row("\nMiB read, first time / per round", "fetched", "from memory", "from memcached")
	for i := range r.results {
		row(r.results[i].bytesRead(r.rounds)...)
	}
	row("\nunder load", "", "complete", "marked", "refused", "median (ms)", "p99 (ms)", "complete after (s)")
	for i := range r.results {
		r.results[i].writeLoad(row)
	}
	return w.Flush()
}

// bytesRead returns the row of the bytes read. Origins that the instances do not count have no value.
func (r *result) bytesRead(rounds int) []string {
	cells := []string{r.name}
	for _, origin := range origins {
		cold, counted := r.coldBytes[origin]
		text := "–"
		if counted {
			text = fmt.Sprintf("%.1f / %.1f", cold/(1<<20), (r.bytes[origin]-cold)/(1<<20)/float64(rounds))
		}
		cells = append(cells, text)
	}
	return cells
}

// writeLoad writes a row for each phase of the load.
func (r *result) writeLoad(row func(...string)) {
	if r.whole == 0 {
		return
	}
	for n, name := range phaseNames {
		p := &r.phases[n]
		cells := []string{r.name, name}
		for _, count := range p.counts {
			cells = append(cells, fmt.Sprint(count))
		}
		slices.Sort(p.latencies)
		for _, percent := range []int{50, 99} {
			text := "–"
			if k := len(p.latencies); k > 0 {
				text = fmt.Sprintf("%.1f", milliseconds(p.latencies[(k-1)*percent/100]))
			}
			cells = append(cells, text)
		}
		if n == 2 {
			cells = append(cells, fmt.Sprintf("%.1f", r.whole.Seconds()))
		}
		row(cells...)
	}
}

func seconds(all []time.Duration) string {
	var texts []string
	for _, d := range all {
		texts = append(texts, fmt.Sprintf("%.2f", d.Seconds()))
	}
	return strings.Join(texts, " ")
}

func list(mib []float64) string {
	var texts []string
	for _, v := range mib {
		texts = append(texts, fmt.Sprintf("%.0f", v))
	}
	return strings.Join(texts, " ")
}
