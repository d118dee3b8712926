package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/stmtstats"
)

// Top ranks the statements of this gateway within a time, or of all in the bucket. Up to six hours are answered
// from the samples and the counters, to the second; what is longer, or older than what is on local disk, from rollups of whole hours
// and from what the counters say of the current one.
func (a *Archive) Top(ctx context.Context, q TopQuery) (*Top, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	p, err := a.plan(ctx, question{from: q.From, to: q.To, all: q.AllInstances})
	if err != nil {
		return nil, fmt.Errorf("rank statements: %w", err)
	}
	var top *Top
	if err := p.try(func() (err error) { top, err = p.top(ctx, &q); return err }); err != nil {
		return nil, fmt.Errorf("rank statements: %w", err)
	}
	if q.Compare {
		if err := a.compare(ctx, &q, top); err != nil {
			return nil, fmt.Errorf("rank statements: %w", err)
		}
	}
	if q.Points > 0 {
		if err := a.points(ctx, &q, top, p); err != nil {
			return nil, fmt.Errorf("rank statements: %w", err)
		}
	}
	top.Notes = append(top.Notes, p.notes...)
	return top, nil
}

// top ranks what the files of a plan have.
func (p *plan) top(ctx context.Context, q *TopQuery) (*Top, error) {
	f, _ := parseFilter(q.Filter) // Validate has read it
	r := ranking{query: q, filter: f}
	defer r.unzipper.close()
	var all counts
	var spread stmtstats.Histogram
	var details []*detail
	if err := p.together(ctx, func(files []*openFile) error {
		for _, file := range files {
			if err := file.addTotals(&all, &spread); err != nil {
				return file.failed(err)
			}
		}
		if err := r.run(ctx, files); err != nil {
			return err
		}
		for _, row := range r.shown() {
			details = append(details, &detail{print: row.print})
		}
		reader := newDetailer(details)
		defer reader.close()
		for _, file := range files {
			if ctx.Err() != nil {
				break
			}
			if err := reader.add(file.rollupFile); err != nil {
				return file.failed(err)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	top := &Top{From: p.from, To: p.to, Source: p.source, Total: all.totals(&spread), Matching: r.matching}
	for _, d := range details {
		d.spread.Nanos = d.counts.nanos
		row := TopRow{Key: d.key, Text: d.text, Totals: d.counts.totals(&d.spread), New: d.first >= p.from.UnixMilli(), Last: time.UnixMilli(d.last)}
		if d.first > 0 {
			row.First = time.UnixMilli(d.first)
		}
		top.Rows = append(top.Rows, row)
	}
	return top, nil
}

// compare fills in the time before.
func (a *Archive) compare(ctx context.Context, q *TopQuery, top *Top) error {
	from := top.From.Add(-top.To.Sub(top.From).Truncate(time.Second))
	if top.Source == SourceRollups {
		from = from.Truncate(rollupHour)
	}
	p, err := a.plan(ctx, question{from: from, to: top.From, all: q.AllInstances, past: true})
	if err != nil {
		return err
	}
	err = p.try(func() error {
		var all counts
		var spread stmtstats.Histogram
		details := top.details()
		reader := newDetailer(details)
		defer reader.close()
		err := p.each(ctx, func(file *rollupFile, _ *planned) error {
			return errors.Join(file.addTotals(&all, &spread), reader.add(file))
		})
		top.Before = all.totals(&spread)
		for i, d := range details {
			top.Rows[i].Before = d.counts.totals(&d.spread)
		}
		return err
	})
	top.Notes = append(top.Notes, p.notes...)
	return err
}

// details are empty ones of the rows.
func (top *Top) details() []*detail {
	details := make([]*detail, len(top.Rows))
	for i := range top.Rows {
		k := &top.Rows[i].Key
		details[i] = &detail{print: printOf(k), key: *k, known: true}
	}
	return details
}
