package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
)

// A subject is a store that is measured.
type subject struct {
	name   string
	thanos bool
	atOnce bool // queried as soon as it is ready
}

func subjects() []subject {
	return []subject{{"tare", false, false}, {"tare, at once", false, true}, {"thanos", true, false}}
}

// A sample is the result of one start.
type sample struct {
	ready, prepared, first, next float64 // milliseconds
	peak, budget                 float64 // bytes
	resident                     float64 // MiB
	requestsBefore, requests     float64
	chunks, bytes                int
}

// A row has the results of a subject over a bucket.
type row struct {
	place   string
	blocks  int
	subject subject
	samples []sample
}

// A report has the results of all subjects.
type report struct{ rows []*row }

// measure measures all subjects over all buckets.
func (r *report) measure(ctx context.Context, o *options, tmp string, out io.Writer) error {
	for _, name := range []string{"directory", "S3"} {
		if !strings.Contains(name, o.only) {
			continue
		}
		for _, n := range o.blocks {
			p := &place{name: name, dir: o.dir(n)}
			if name == "S3" {
				var err error
				if p.s3, err = startS3(p.dir, o.latency); err != nil {
					return err
				}
			}
			err := r.bucket(ctx, o, p, n, tmp)
			if p.s3 != nil {
				err = errors.Join(err, p.s3.server.Close())
			}
			if err != nil {
				return fmt.Errorf("%s, %d blocks: %w", name, n, err)
			}
			fmt.Fprintf(out, "measured: %s, %d blocks\n", name, n)
		}
	}
	return nil
}

// bucket measures all subjects over one bucket, in turn.
func (r *report) bucket(ctx context.Context, o *options, p *place, blocks int, tmp string) error {
	var rows []*row
	for _, s := range subjects() {
		if s.atOnce && !o.atOnce {
			continue
		}
		rows = append(rows, &row{place: p.name, blocks: blocks, subject: s})
	}
	r.rows = append(r.rows, rows...)
	starts := o.starts
	if blocks >= manyBlocks {
		starts = 1
	}
	for range starts {
		for _, row := range rows {
			s, err := row.subject.measure(ctx, o, p, tmp)
			if err != nil {
				return fmt.Errorf("%s: %w", row.subject.name, err)
			}
			if want := rows[0].samples; s.chunks < blocks || len(want) > 0 && (s.chunks != want[0].chunks || s.bytes != want[0].bytes) {
				return fmt.Errorf("%s: %d chunks with %d bytes, which is not what Tare returned first", row.subject.name, s.chunks, s.bytes)
			}
			row.samples = append(row.samples, s)
		}
	}
	return nil
}

// measure starts the store, queries it and stops it.
func (j subject) measure(ctx context.Context, o *options, p *place, tmp string) (m sample, err error) {
	data, err := os.MkdirTemp(tmp, "data-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	requests := func() float64 {
		if p.s3 == nil {
			return 0
		}
		return float64(p.s3.requests.Load())
	}
	atStart := requests()
	began := time.Now()
	s, err := startStore(ctx, o, j.thanos, p, data)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	m.ready = milliseconds(time.Since(began))
	m.prepared = m.ready
	if !j.thanos && !j.atOnce {
		if _, err := s.settled(ctx); err != nil {
			return m, err
		}
		m.prepared = milliseconds(time.Since(began)) - 1000 // settled returns after a second without a change
		m.prepared = max(m.prepared, m.ready)
	}
	before := requests()
	m.requestsBefore = before - atStart
	took, chunks, bytes, err := s.query(ctx)
	if err != nil {
		return m, err
	}
	m.first, m.chunks, m.bytes, m.requests = milliseconds(took), chunks, bytes, requests()-before
	var rounds []float64
	for range o.rounds {
		took, n, size, err := s.query(ctx)
		if err != nil {
			return m, err
		}
		if n != chunks || size != bytes {
			return m, fmt.Errorf("%d chunks with %d bytes, after %d with %d", n, size, chunks, bytes)
		}
		rounds = append(rounds, milliseconds(took))
	}
	m.next = programs.Median(rounds)
	if m.resident, err = s.resident(); err != nil || j.thanos {
		return m, err
	}
	if m.peak, err = s.metric(ctx, "tare_store_reserved_peak_bytes"); err != nil {
		return m, err
	}
	m.budget, err = s.metric(ctx, `tare_store_budget_bytes{budget="query"}`)
	return m, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// median returns the median of a value of all starts.
func (r *row) median(value func(*sample) float64) float64 {
	var all []float64
	for i := range r.samples {
		all = append(all, value(&r.samples[i]))
	}
	return programs.Median(all)
}

// write writes a row per store, with its times as ratios of Thanos'.
func (r *report) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nplace\tblocks\tstore\tready (s)\theaders loaded (s)\tfirst (ms)\t× Thanos\tnext (ms)\t× Thanos\treserved (MiB)\tof the budget\tRSS (MiB)\trequests before\tduring the first")
	first := func(m *sample) float64 { return m.first }
	next := func(m *sample) float64 { return m.next }
	for _, row := range r.rows {
		if len(row.samples) == 0 {
			continue
		}
		ratio := func(value func(*sample) float64) string {
			for _, other := range r.rows {
				if other.subject.thanos && other.place == row.place && other.blocks == row.blocks && len(other.samples) > 0 {
					return fmt.Sprintf("%.2f", row.median(value)/other.median(value))
				}
			}
			return "–"
		}
		reserved, part := "–", "–"
		if peak := row.median(func(m *sample) float64 { return m.peak }); peak > 0 {
			reserved = fmt.Sprintf("%.1f", peak/(1<<20))
			part = fmt.Sprintf("%.0f %%", 100*peak/row.median(func(m *sample) float64 { return m.budget }))
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.2f\t%.2f\t%.1f\t%s\t%.1f\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\n",
			row.place, row.blocks, row.subject.name,
			row.median(func(m *sample) float64 { return m.ready })/1000, row.median(func(m *sample) float64 { return m.prepared })/1000,
			row.median(first), ratio(first), row.median(next), ratio(next), reserved, part,
			row.median(func(m *sample) float64 { return m.resident }),
			row.median(func(m *sample) float64 { return m.requestsBefore }), row.median(func(m *sample) float64 { return m.requests }))
	}
	return w.Flush()
}
