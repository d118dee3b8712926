package statements

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/sizegen/heapsize"
)

// shortRange is the longest range that is read from samples.
const shortRange = history.SumsAge

// A planned is a file that a result is computed from.
type planned struct {
	name       string
	begin, end time.Time
	memory     bool       // the file is built from samples or counters
	bytes      int64      // of the heap, if it is
	fallback   []*planned // used instead if the file cannot be read
	open       func() (*rollup.File, error)
}

// A plan lists the files for a time range.
type plan struct {
	from, to time.Time
	source   string
	files    []*planned  // the newest first
	rest     *restOfHour // data newer than the last rollup; nil: none
	notes    []string
}

// A planError is an error of a file of a plan.
type planError struct {
	file *planned
	err  error
}

func (e *planError) Error() string { return e.file.name + ": " + e.err.Error() }
func (e *planError) Unwrap() error { return e.err }

// each opens the files one after the other.
func (p *plan) each(ctx context.Context, visit func(*rollup.File, *planned) error) error {
	for _, file := range p.files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f, err := file.open()
		if err == nil {
			err = errors.Join(visit(f, file), f.Close())
			readingOf(ctx).add(file, f)
		}
		if err != nil && ctx.Err() == nil {
			return &planError{file, err}
		}
	}
	return nil
}

// An openFile is a file of a plan that is being read.
type openFile struct {
	*rollup.File
	of *planned
}

// failed returns an error of this file.
func (f *openFile) failed(err error) error { return &planError{f.of, err} }

// together opens all files at once.
func (p *plan) together(ctx context.Context, visit func([]*openFile) error) (err error) {
	files := make([]*openFile, 0, len(p.files))
	defer func() {
		for _, f := range files {
			if endErr := f.Close(); err == nil && endErr != nil {
				err = f.failed(endErr)
			}
			readingOf(ctx).add(f.of, f.File)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx) // an interrupted read is not an error of the file
		}
	}()
	for _, file := range p.files {
		if ctx.Err() != nil {
			return nil
		}
		f, err := file.open()
		if err != nil {
			return &planError{file, err}
		}
		files = append(files, &openFile{f, file})
	}
	return visit(files)
}

// without replaces a file that cannot be read by its fallback, or leaves it out with a note.
func (p *plan) without(bad *planError) {
	i := slices.Index(p.files, bad.file)
	if i < 0 {
		panic("BUG: statements: a file is not part of its plan")
	}
	p.files = slices.Replace(p.files, i, i+1, bad.file.fallback...)
	if len(bad.file.fallback) == 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s is left out: %v", bad.file.name, bad.err))
	}
}

// try calls read, which reads the plan's files, until all of them can be read.
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

// memoryFile builds a file of rows in memory.
func memoryFile(name string, begin, end time.Time, rows []rollup.Row) (*planned, error) {
	for i := range rows {
		if row := &rows[i]; row.First < begin.UnixMilli() {
			row.First = 0 // the first call was before
		}
	}
	text, err := (&rollup.Rollup{Start: begin.UTC().Truncate(rollup.Hour), Span: rollup.Hour, Rows: rows, Uncompressed: true}).Encode()
	if err != nil {
		return nil, err
	}
	return &planned{name: name, begin: begin, end: end, memory: true, bytes: int64(heapsize.Bytes(text)), open: func() (*rollup.File, error) {
		return rollup.Open(bytes.NewReader(text), int64(len(text)))
	}}, nil
}

// A planQuery is the query that a plan is made for.
type planQuery struct {
	from, to time.Time
	all      bool  // gateways
	hours    bool  // prefer hours to days
	past     bool  // it is the range before another result, and does not extend to now
	like     *plan // a plan of the same range, whose rest is reused; nil: none
}

// plan returns the plan for a query.
func (a *ArchiveReader) plan(ctx context.Context, q planQuery) (*plan, error) {
	now := a.archive.Now()
	if from, to, ok := a.short(q.from, q.to, now); ok && !q.all {
		if !q.past {
			to = a.upToNow(to, now)
		}
		return a.planSamples(ctx, from, to, now)
	}
	from, to := q.from, q.to
	if to.After(now) {
		to = now
	}
	p := &plan{source: SourceRollups, from: from.UTC().Truncate(rollup.Hour), to: to}
	in := a.current()
	done := in.Rollups.Until()
	if (done.IsZero() || to.After(done)) && !q.past {
		if done.IsZero() {
			done = time.UnixMilli(min(localdb.Start(in.Samples.Current()), now.UnixMilli())).UTC()
		}
		if q.like != nil && q.like.rest != nil && q.like.rest.begin.Equal(done) {
			p.rest = q.like.rest
		} else {
			var err error
			if p.rest, err = a.planRest(ctx, in, done); err != nil {
				return nil, err
			}
		}
		p.to = p.rest.end
		p.files = append(p.files, p.rest.files...)
	} else if whole := to.UTC().Truncate(rollup.Hour); whole.Before(to) {
		p.to = whole.Add(rollup.Hour)
	}
	if now.Sub(p.from) > rollup.HourAge { // only days are kept that long
		p.from = p.from.Truncate(rollup.Day)
	}
	if now.Sub(p.to) > rollup.HourAge && p.to.Truncate(rollup.Day).Before(p.to) {
		p.to = p.to.Truncate(rollup.Day).Add(rollup.Day)
	}
	for _, in := range a.archive.Instances() {
		local := in.Rollups.List(func(n rollup.Name) bool { return !n.Begin().Before(p.from) && !n.End().After(p.to) })
		p.files = append(p.files, choose(local, q.hours, func(n rollup.Name) *planned {
			return &planned{name: n.String(), begin: n.Begin(), end: n.End(), open: func() (*rollup.File, error) { return in.Rollups.Open(n) }}
		})...)
		if err := planUnrolled(ctx, &in, p); err != nil {
			return nil, err
		}
	}
	a.planRemote(ctx, p, q.all, q.hours)
	slices.SortStableFunc(p.files, func(a, b *planned) int { return b.begin.Compare(a.begin) })
	return p, nil
}

// short reports whether a range is read from samples, and returns the part of it that they have: from the
// start of the history to now.
func (a *ArchiveReader) short(from, to, now time.Time) (time.Time, time.Time, bool) {
	if to.After(now) {
		to = now
	}
	instances := a.archive.Instances()
	first := int64(math.MaxInt64)
	for _, in := range instances {
		first = min(first, localdb.Start(in.Samples.Current()))
	}
	start := time.UnixMilli(first)
	if start.After(to) { // nothing was sampled yet: all counts are since then
		start = a.archive.Opened()
	}
	if start.After(to) {
		start = to
	}
	if from.Before(start) {
		for _, in := range instances {
			if older := in.Rollups.List(func(n rollup.Name) bool { return n.End().Before(start) }); len(older) > 0 {
				return from, to, false
			}
		}
		from = start
	}
	if from.After(to) {
		from = to
	}
	return from, to, to.Sub(from) <= shortRange
}

// upToNow returns now for a range that ends after the newest complete round: later calls are not in samples
// yet, and the counters have no other time than now. Before the first round that is everything since the
// history was opened.
func (a *ArchiveReader) upToNow(to, now time.Time) time.Time {
	if to.After(a.archive.Opened()) && to.After(a.archive.Whole()) {
		return now
	}
	return to
}

// planSamples returns a plan with the difference between the counts at two times.
func (a *ArchiveReader) planSamples(ctx context.Context, from, to, now time.Time) (*plan, error) {
	var live *snapshot
	var err error
	if to.Equal(now) && from.Before(now) { // a range of the future has no calls
		if live, to, err = a.liveSnapshot(a.current(), from); err != nil {
			return nil, err
		}
	}
	rows, err := a.sampled(ctx, from, to, live, nil)
	if err != nil {
		return nil, err
	}
	if err := a.fillTexts(ctx, rows, from, to); err != nil {
		return nil, err
	}
	file, err := memoryFile("the samples", from, to, rows)
	return &plan{from: from, to: to, source: SourceSamples, files: []*planned{file}}, err
}

// sampled returns the counts between two times, of all digests or of one. live has the table's counters if the
// range ends when they were read; nil otherwise.
func (a *ArchiveReader) sampled(ctx context.Context, from, to time.Time, live *snapshot, digest *[16]byte) ([]rollup.Row, error) {
	var sum snapshot
	for _, part := range a.sampledParts(from, to) {
		before, err := snapshotAt(ctx, part.Samples, part.from.UnixMilli(), digest)
		if err != nil {
			return nil, err
		}
		after := live
		if live == nil || part.Past {
			if after, err = snapshotAt(ctx, part.Samples, to.UnixMilli(), digest); err != nil {
				return nil, err
			}
		}
		rows, err := after.since(before)
		if err != nil {
			return nil, err
		}
		sum.rows = append(sum.rows, rows...)
	}
	return sum.rows, sum.order()
}

// A sampledPart is an instance that may have local samples of a range.
type sampledPart struct {
	history.Instance
	from time.Time // its first samples include earlier counts
}

// sampledParts returns the instances that may have local samples of a range.
func (a *ArchiveReader) sampledParts(from, to time.Time) (parts []sampledPart) {
	for _, in := range a.archive.Instances() {
		db, since := in.Samples.Current(), from
		if base := time.UnixMilli(in.Base); in.Base > 0 && since.Before(base) {
			since = base
		}
		if since.After(to) || in.Past && (localdb.Start(db) > to.UnixMilli() || localdb.LastTime(db) <= since.UnixMilli()) {
			continue
		}
		parts = append(parts, sampledPart{in, since})
	}
	return parts
}

// fillTexts looks up the missing texts of rows.
func (a *ArchiveReader) fillTexts(ctx context.Context, rows []rollup.Row, from, to time.Time) error {
	missing := slices.ContainsFunc(rows, func(row rollup.Row) bool { return row.Text == "" && !row.Print.IsSum() })
	if !missing {
		return nil
	}
	if back := to.Add(-stmtseries.Lookback); back.After(from) {
		from = back
	}
	texts, err := a.texts(ctx, from, to)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].Text == "" {
			rows[i].Text = texts[rows[i].Key.Digest]
		}
	}
	return nil
}

// texts returns the texts in the samples of a range; of all digests if none is given.
func (a *ArchiveReader) texts(ctx context.Context, from, to time.Time, digests ...[16]byte) (map[[16]byte]string, error) {
	all := make(map[[16]byte]string)
	for _, part := range a.sampledParts(from, to) {
		samples := stmtseries.Range{DB: part.Samples, From: from.UnixMilli(), To: to.UnixMilli(), Digests: digests, Counts: readingOf(ctx).counts()}
		texts, err := samples.Texts(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, texts)
	}
	return all, nil
}

// atClose returns the counts at the end of the last hour. They are cached until the next hour ends.
func (a *ArchiveReader) atClose(ctx context.Context, in *history.Instance, at int64) (*snapshot, error) {
	a.lastClose.Lock()
	defer a.lastClose.Unlock()
	if s := a.lastClose.snapshot; s != nil && s.at == at && a.lastClose.of == in.Samples {
		return s, nil
	}
	s, err := snapshotAt(ctx, in.Samples, at, nil)
	if err == nil {
		a.lastClose.of, a.lastClose.snapshot = in.Samples, s
	}
	return s, err
}

// planUnrolled adds the data of a past instance that is newer than its last rollup.
func planUnrolled(ctx context.Context, in *history.Instance, p *plan) error {
	db, begin := in.Samples.Current(), in.Rollups.Until()
	if begin.IsZero() {
		begin = time.UnixMilli(max(in.Base, localdb.Start(db)))
	}
	if begin.Before(p.from) {
		begin = p.from
	}
	end := time.UnixMilli(min(localdb.LastTime(db), p.to.UnixMilli()))
	if !in.Past || !begin.Before(end) {
		return nil
	}
	before, err := snapshotAt(ctx, in.Samples, begin.UnixMilli(), nil)
	if err != nil {
		return err
	}
	after, err := snapshotAt(ctx, in.Samples, end.UnixMilli(), nil)
	if err != nil {
		return err
	}
	rows, err := after.since(before)
	if err != nil || len(rows) == 0 {
		return err
	}
	file, err := memoryFile("the last hour of "+in.Labels[history.InstanceLabel], begin, end, rows)
	p.files = append(p.files, file)
	return err
}

// planRemote adds rollups that only the bucket has: of other gateways, and of this one if they are no longer
// local or were in a lost directory.
func (a *ArchiveReader) planRemote(ctx context.Context, p *plan, all, hours bool) {
	own := make(map[string]*history.Instance)
	have := make(map[string]bool)
	for _, in := range a.archive.Instances() {
		own[in.Hash], have[in.Hash] = &in, true
	}
	var remote []rollup.BucketDir
	var err error
	if all {
		remote, err = rollup.ListBucket(ctx, a.options.Bucket, "")
	} else {
		remote, err = a.listOwn(ctx, p, own)
	}
	if err != nil {
		p.notes = append(p.notes, fmt.Sprintf("rollups in the bucket are left out: %v", err))
		return
	}
	for _, r := range remote {
		dir := path.Join(rollup.Prefix, r.Instance, r.Epoch)
		local := int64(math.MaxInt64)
		if in := own[r.Instance]; in != nil && r.Epoch == in.Rollups.Epoch() {
			local = in.Rollups.First()
		}
		names := slices.DeleteFunc(r.Files, func(n rollup.Name) bool {
			return n.Begin().Before(p.from) || n.End().After(p.to) || n.Start >= local
		})
		have[r.Instance] = have[r.Instance] || len(names) > 0
		p.files = append(p.files, choose(names, hours, func(n rollup.Name) *planned {
			name := path.Join(dir, n.String())
			return &planned{name: name, begin: n.Begin(), end: n.End(), open: func() (*rollup.File, error) {
				return rollup.OpenRemote(ctx, a.options.Bucket, name, n)
			}}
		})...)
	}
	if all {
		a.noteMissing(p, have)
	}
}

// listOwn lists the bucket's rollups of the instances that lack some of the range locally.
func (a *ArchiveReader) listOwn(ctx context.Context, p *plan, own map[string]*history.Instance) (remote []rollup.BucketDir, err error) {
	for hash, in := range own {
		if in.Rollups.First() <= p.from.Unix() || in.Base > p.to.UnixMilli() {
			continue
		}
		of, err := rollup.ListBucket(ctx, a.options.Bucket, hash)
		if err != nil {
			return nil, err
		}
		remote = append(remote, of...)
	}
	return remote, nil
}

// noteMissing adds notes for gateways that have blocks of the range in the bucket but no rollups, such as
// those of a version without them.
func (a *ArchiveReader) noteMissing(p *plan, have map[string]bool) {
	for _, b := range a.options.Gateway.Blocks() {
		hash := rollup.LabelsHash(b.Labels)
		if b.Labels[history.InstanceLabel] == "" || have[hash] || b.MaxTime <= p.from.UnixMilli() || b.MinTime >= p.to.UnixMilli() {
			continue
		}
		have[hash] = true
		p.notes = append(p.notes, fmt.Sprintf("%s is left out: it has blocks of this time in the bucket and no rollups", b.Labels[history.InstanceLabel]))
	}
}

// choose returns the files of days, and of hours where there is no day; with hours, files of hours, and of
// days where there are no hours.
func choose(names []rollup.Name, hours bool, file func(rollup.Name) *planned) []*planned {
	ofDay := make(map[int64][]rollup.Name)
	days := make(map[int64]bool)
	for _, n := range names {
		day := n.Begin().Truncate(rollup.Day).Unix()
		if n.Span == rollup.Day {
			days[day] = true
		} else {
			ofDay[day] = append(ofDay[day], n)
		}
	}
	var out []*planned
	for _, n := range names {
		day := n.Begin().Truncate(rollup.Day).Unix()
		if n.Span == rollup.Hour {
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
