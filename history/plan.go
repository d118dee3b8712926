package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// shortRange is the longest time that is answered from samples.
const shortRange = 6 * time.Hour

// A planned is a file that an answer is made of.
type planned struct {
	name       string
	begin, end time.Time
	fallback   []*planned // instead of it, where it cannot be read
	open       func() (*rollupFile, func() error, error)
}

// A plan is which files answer for a time.
type plan struct {
	from, to time.Time
	source   string
	files    []*planned // the newest first
	notes    []string
}

// A planError is what is wrong with a file of a plan.
type planError struct {
	file *planned
	err  error
}

func (e *planError) Error() string { return e.file.name + ": " + e.err.Error() }
func (e *planError) Unwrap() error { return e.err }

// each opens the files one after the other.
func (p *plan) each(ctx context.Context, visit func(*rollupFile, *planned) error) error {
	for _, file := range p.files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f, end, err := file.open()
		if err == nil {
			err = errors.Join(visit(f, file), end())
		}
		if err != nil && ctx.Err() == nil {
			return &planError{file, err}
		}
	}
	return nil
}

// without leaves out a file that cannot be read, for what stands in for it or with a note.
func (p *plan) without(bad *planError) {
	i := slices.Index(p.files, bad.file)
	if i < 0 {
		panic("BUG: history: a file is not part of its plan")
	}
	p.files = slices.Replace(p.files, i, i+1, bad.file.fallback...)
	if len(bad.file.fallback) == 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s is left out: %v", bad.file.name, bad.err))
	}
}

// try does what reads the plan's files until all of them can be read.
func (p *plan) try(read func() error) error {
	for {
		err := read()
		var bad *planError
		if !errors.As(err, &bad) {
			return err
		}
		p.without(bad)
	}
}

// memoryFile makes a file of rows.
func memoryFile(name string, begin, end time.Time, rows []rollupRow) (*planned, error) {
	for i := range rows {
		if row := &rows[i]; row.first < begin.UnixMilli() {
			row.first = 0 // it was before
		}
	}
	text, err := (&rollup{start: begin.UTC().Truncate(rollupHour), span: rollupHour, rows: rows}).encode()
	if err != nil {
		return nil, err
	}
	return &planned{name: name, begin: begin, end: end, open: func() (*rollupFile, func() error, error) {
		f, err := openRollup(bytes.NewReader(text), int64(len(text)))
		return f, func() error { return nil }, err
	}}, nil
}

// plan says what answers for a time. With hours it takes hours where it can, else days.
func (a *Archive) plan(ctx context.Context, from, to time.Time, all, hours bool) (*plan, error) {
	now := a.options.Now()
	if from, to, ok := a.short(from, to); ok && !all {
		return a.planSamples(ctx, from, to, now)
	}
	if to.After(now) {
		to = now
	}
	done := a.rollups.until()
	p := &plan{source: SourceRollups, from: from.UTC().Truncate(rollupHour), to: to}
	if done.IsZero() || to.After(done) {
		if done.IsZero() {
			done = time.UnixMilli(min(localStart(a.db), now.UnixMilli())).UTC()
		}
		if err := a.planRest(ctx, p, done, now); err != nil {
			return nil, err
		}
	} else if whole := to.UTC().Truncate(rollupHour); whole.Before(to) {
		p.to = whole.Add(rollupHour)
	}
	if now.Sub(p.from) > hourAge { // there are only days of it
		p.from = p.from.Truncate(rollupDay)
	}
	if now.Sub(p.to) > hourAge && p.to.Truncate(rollupDay).Before(p.to) {
		p.to = p.to.Truncate(rollupDay).Add(rollupDay)
	}
	local := a.rollups.list(func(n rollupName) bool { return !n.begin().Before(p.from) && !n.end().After(p.to) })
	p.files = append(p.files, choose(local, hours, a.localFile)...)
	a.planRemote(ctx, p, all, hours)
	slices.SortStableFunc(p.files, func(a, b *planned) int { return b.begin.Compare(a.begin) })
	return p, nil
}

// short says whether samples answer for a time, and which part of it they have: up to now, and from when the
// history began.
func (a *Archive) short(from, to time.Time) (time.Time, time.Time, bool) {
	now := a.options.Now()
	if to.After(now) {
		to = now
	}
	start := time.UnixMilli(min(localStart(a.db), to.UnixMilli()))
	if from.Before(start) {
		older := a.rollups.list(func(n rollupName) bool { return n.end().Before(start) })
		if len(older) > 0 {
			return from, to, false
		}
		from = start
	}
	if from.After(to) {
		from = to
	}
	return from, to, to.Sub(from) <= shortRange
}

// planSamples answers from what was counted at two times.
func (a *Archive) planSamples(ctx context.Context, from, to, now time.Time) (*plan, error) {
	rows, err := a.sampled(ctx, from, to, now, nil)
	if err != nil {
		return nil, err
	}
	if err := a.giveTexts(ctx, rows, from, to); err != nil {
		return nil, err
	}
	file, err := memoryFile("the samples", from, to, rows)
	return &plan{from: from, to: to, source: SourceSamples, files: []*planned{file}}, err
}

// sampled is what was counted between two times, of all or of one digest. It goes up to now where that is asked for.
func (a *Archive) sampled(ctx context.Context, from, to, now time.Time, digest *[16]byte) ([]rollupRow, error) {
	before, err := snapshotAt(ctx, a.db, from.UnixMilli(), digest)
	if err != nil {
		return nil, err
	}
	var after *snapshot
	if now.Sub(to) < a.options.Interval {
		after, err = snapshotNow(a.options.Source, now, digest)
	} else {
		after, err = snapshotAt(ctx, a.db, to.UnixMilli(), digest)
	}
	if err != nil {
		return nil, err
	}
	return after.since(before)
}

// giveTexts looks up the texts of rows that have none.
func (a *Archive) giveTexts(ctx context.Context, rows []rollupRow, from, to time.Time) error {
	missing := slices.ContainsFunc(rows, func(row rollupRow) bool { return row.text == "" && !row.print.isSum() })
	if !missing {
		return nil
	}
	q, err := a.db.Querier(max(from.UnixMilli(), to.UnixMilli()-lookback.Milliseconds()), to.UnixMilli())
	if err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	d := hourDeriver{texts: make(map[[16]byte]string)}
	if err := d.infos(ctx, q); err != nil {
		return err
	}
	for i := range rows {
		if rows[i].text == "" {
			rows[i].text = d.texts[rows[i].key.Digest]
		}
	}
	return nil
}

// planRest answers for what no rollup was made of yet: the table's counters less what they were at
// the end of the last hour.
func (a *Archive) planRest(ctx context.Context, p *plan, done, now time.Time) error {
	p.to = now
	before, err := a.atClose(ctx, done.UnixMilli())
	if err != nil {
		return err
	}
	after, err := snapshotNow(a.options.Source, now, nil)
	if err != nil {
		return err
	}
	rows, err := after.since(before)
	if err != nil {
		return err
	}
	file, err := memoryFile("the current hour", done, now, rows)
	p.files = append(p.files, file)
	return err
}

// atClose is what was counted at the end of the last hour. It is kept until the next one ends.
func (a *Archive) atClose(ctx context.Context, at int64) (*snapshot, error) {
	a.lastClose.Lock()
	defer a.lastClose.Unlock()
	if s := a.lastClose.snapshot; s != nil && s.at == at {
		return s, nil
	}
	s, err := snapshotAt(ctx, a.db, at, nil)
	if err == nil {
		a.lastClose.snapshot = s
	}
	return s, err
}

func (a *Archive) localFile(n rollupName) *planned {
	return &planned{name: n.String(), begin: n.begin(), end: n.end(), open: func() (*rollupFile, func() error, error) {
		f, err := a.rollups.open(n)
		if err != nil {
			return nil, nil, err
		}
		return f.rollupFile, f.close, nil
	}}
}

// planRemote adds what only the bucket has: other gateways, and what this one has no longer, or had in a
// directory that is lost.
func (a *Archive) planRemote(ctx context.Context, p *plan, all, hours bool) {
	local := a.rollups.list(func(rollupName) bool { return true })
	if !all && len(local) > 0 && !local[0].begin().After(p.from) {
		return
	}
	own := labelsHash(a.options.Labels)
	instance := own
	if all {
		instance = ""
	}
	remote, err := listRollups(ctx, a.options.Bucket, instance)
	if err != nil {
		p.notes = append(p.notes, fmt.Sprintf("rollups in the bucket are left out: %v", err))
		return
	}
	for _, r := range remote {
		dir := path.Join(rollupPrefix, r.instance, r.epoch)
		mine := r.instance == own && r.epoch == a.rollups.state.Epoch
		names := slices.DeleteFunc(r.files, func(n rollupName) bool {
			return n.begin().Before(p.from) || n.end().After(p.to) || mine && len(local) > 0 && !n.begin().Before(local[0].begin())
		})
		p.files = append(p.files, choose(names, hours, func(n rollupName) *planned {
			name := path.Join(dir, n.String())
			return &planned{name: name, begin: n.begin(), end: n.end(), open: func() (*rollupFile, func() error, error) {
				f, err := openRemote(ctx, a.options.Bucket, name, n)
				return f, func() error { return nil }, err
			}}
		})...)
	}
}

// choose takes days that are there, and hours of the others; with hours it takes hours, and days of which there are none.
func choose(names []rollupName, hours bool, file func(rollupName) *planned) []*planned {
	ofDay := make(map[int64][]rollupName)
	days := make(map[int64]bool)
	for _, n := range names {
		day := n.begin().Truncate(rollupDay).Unix()
		if n.span == rollupDay {
			days[day] = true
		} else {
			ofDay[day] = append(ofDay[day], n)
		}
	}
	var out []*planned
	for _, n := range names {
		day := n.begin().Truncate(rollupDay).Unix()
		if n.span == rollupHour {
			if hours || !days[day] {
				out = append(out, file(n))
			}
			continue
		}
		if hours && len(ofDay[day]) > 0 {
			continue
		}
		f := file(n)
		for _, hour := range ofDay[day] {
			f.fallback = append(f.fallback, file(hour))
		}
		out = append(out, f)
	}
	return out
}
