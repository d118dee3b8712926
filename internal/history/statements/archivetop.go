package statements

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/spans"
)

// Top ranks the statements of this gateway within a time range, or those of all gateways in the bucket.
// Ranges of up to six hours are read from the samples and the counters, exact to the second. Longer ranges,
// and ranges that start before the local samples, are read from rollups of whole hours, and from the counters
// for the current hour.
func (a *ArchiveReader) Top(ctx context.Context, q TopQuery) (top *Top, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if cause := a.archive.Waiting(); cause != nil {
		top, err := TableReader{a.table}.Top(ctx, q)
		if err == nil {
			top.Notes = append(top.Notes, waitingNote(cause))
		}
		return top, err
	}
	ctx, read := startReading(ctx, "rank statements")
	defer func() {
		if top != nil {
			read.set(spans.Source.String(top.Source), spans.Matching.Int(top.Matching))
		}
		read.finish(err)
	}()
	p, err := a.plan(ctx, planQuery{from: q.From, to: q.To, all: q.AllInstances})
	if err != nil {
		return nil, fmt.Errorf("rank statements: %w", err)
	}
	if err := p.try(func() (err error) { top, err = p.top(ctx, &q, a.halved); return err }); err != nil {
		return nil, fmt.Errorf("rank statements: %w", err)
	}
	a.completeTexts(top.Rows)
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

// top ranks the rows in the files of a plan.
func (p *plan) top(ctx context.Context, q *TopQuery, halved int) (*Top, error) {
	f, _ := parseFilter(q.Filter) // Validate has parsed it
	r := ranking{query: q, filter: f, halved: halved}
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	var details []*rollup.Detail
	defer func() { rollup.Release(details) }()
	if err := p.together(ctx, func(files []*openFile) error {
		for _, file := range files {
			if err := file.AddTotals(&all, &spread); err != nil {
				return file.failed(err)
			}
		}
		if err := r.run(ctx, files); err != nil {
			return err
		}
		for _, row := range r.shown() {
			details = append(details, &rollup.Detail{Print: row.print})
		}
		reader := rollup.NewDetailReader(details)
		defer reader.Close()
		for _, file := range files {
			if ctx.Err() != nil {
				break
			}
			if err := reader.Add(file.File); err != nil {
				return file.failed(err)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	top := &Top{From: p.from, To: p.to, Source: p.source, Total: newTotals(&all, &spread), Matching: r.matching}
	for _, d := range details {
		row := TopRow{Key: d.Key, Text: d.Text, TextCut: isCut(d.Text, d.Key.Digest), Totals: newTotals(&d.Counts, d.Durations()), New: d.First >= p.from.UnixMilli(), Last: time.UnixMilli(d.Last)}
		if d.First > 0 {
			row.First = time.UnixMilli(d.First)
		}
		if q.Durations {
			row.Durations = d.Durations().NonEmpty()
		}
		top.Rows = append(top.Rows, row)
	}
	return top, nil
}

// completeTexts replaces cut texts by those of the table, which are longer than labels.
func (a *ArchiveReader) completeTexts(rows []TopRow) {
	texts := make(map[[16]byte]string)
	for i := range rows {
		if rows[i].TextCut {
			texts[rows[i].Digest] = rows[i].Text
		}
	}
	if len(texts) == 0 {
		return
	}
	a.table.LongerTexts(texts)
	for i := range rows {
		if r := &rows[i]; r.TextCut {
			r.Text = texts[r.Digest]
			r.TextCut = isCut(r.Text, r.Digest)
		}
	}
}

// compare fills in the previous time range.
func (a *ArchiveReader) compare(ctx context.Context, q *TopQuery, top *Top) error {
	from := top.From.Add(-top.To.Sub(top.From).Truncate(time.Second))
	if top.Source == SourceRollups {
		from = from.Truncate(rollup.Hour)
	}
	p, err := a.plan(ctx, planQuery{from: from, to: top.From, all: q.AllInstances, past: true})
	if err != nil {
		return err
	}
	err = p.try(func() error {
		var all stmtstats.Counts
		var spread stmtstats.Histogram
		details := top.details()
		defer rollup.Release(details)
		reader := rollup.NewDetailReader(details)
		defer reader.Close()
		err := p.each(ctx, func(file *rollup.File, _ *planned) error {
			return errors.Join(file.AddTotals(&all, &spread), reader.Add(file))
		})
		top.Before = newTotals(&all, &spread)
		for i, d := range details {
			top.Rows[i].Before = newTotals(&d.Counts, d.Durations())
		}
		return err
	})
	top.Notes = append(top.Notes, p.notes...)
	if err != nil {
		return err
	}
	return a.checkCoverage(ctx, top, p)
}

// details returns empty details of the rows.
func (top *Top) details() []*rollup.Detail {
	details := make([]*rollup.Detail, len(top.Rows))
	for i := range top.Rows {
		k := &top.Rows[i].Key
		details[i] = &rollup.Detail{Print: rollup.PrintOf(k), Key: *k, Known: true}
	}
	return details
}
