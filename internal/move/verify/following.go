package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Following repeatedly compares both sides while the target follows the source. One goroutine compares part
// after part of each chunk, several of them through one view (held).
//
// Both sides change during the comparison. A row is a mismatch if, in three consecutive comparisons, the
// source had the same row in its view and the target, read after it had reached that view's position, did not
// have it. If the row was not written between two comparisons, the target had applied all changes of it. If
// it was, the source's row is a different one, and the row is not counted. (The only undetected case is a row
// that is changed and changed back between all of the comparisons.)
type Following struct {
	verifier
	f        *follow.Follower
	again    chan struct{} // closed after the first pass
	passes   int           // number of completed passes
	whole    []*Report
	changing Changing      // of the current pass; used by its goroutine alone, as what follows
	held     *held         // nil: there is no view
	holds    time.Duration // for how long a view serves for further parts

	retry time.Duration // verifyRetry, but in tests
}

const (
	sameComparisons = 3  // comparisons in which a row must differ in the same way
	maxComparisons  = 10 // comparisons of a chunk whose rows are written continuously

	// passPause is the minimum pause after a pass. A pass that took longer is followed by a pause of the same
	// length.
	passPause = time.Minute

	verifyRetry = 2 * time.Second // after an error that may be temporary
)

// NewFollowing returns a verification that has not compared anything yet.
func NewFollowing(o Options, f *follow.Follower) *Following {
	return &Following{verifier: verifier{o: o}, f: f, again: make(chan struct{}), retry: verifyRetry, holds: longestHeld}
}

// Run executes passes until ctx is done or following has ended. It fails if comparisons fail for longer than
// the patience.
func (v *Following) Run(ctx context.Context) error {
	if err := v.f.WaitCaughtUp(ctx); err != nil {
		return ignoreShutdown(ctx, err)
	}
	w := v.newWorker()
	defer w.writer.Close()
	v.o.Started(v.progress)
	for {
		begun := time.Now()
		if err := v.comparePass(ctx, w); err != nil {
			return ignoreShutdown(ctx, err)
		}
		v.mu.Lock()
		v.whole = v.reports
		if v.passes++; v.passes == 1 {
			close(v.again)
		}
		v.mu.Unlock()
		if !telemetry.Sleep(ctx, max(passPause, time.Since(begun))) {
			return nil
		}
	}
}

// Pass compares all chunks once, after the target has caught up. It returns the rows that are undecided.
func (v *Following) Pass(ctx context.Context) ([]*Report, *Changing, error) {
	if err := v.f.WaitCaughtUp(ctx); err != nil {
		return nil, nil, err
	}
	w := v.newWorker()
	defer w.writer.Close()
	v.o.Started(v.progress)
	if err := v.comparePass(ctx, w); err != nil {
		return nil, nil, err
	}
	for _, r := range v.reports {
		r.Passes = 1
	}
	return v.reports, &v.changing, nil
}

// ignoreShutdown returns nil if following, and with it the comparison, has ended; otherwise err.
func ignoreShutdown(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, follow.ErrEnded) {
		return nil
	}
	return err
}

// comparePass compares every chunk once.
func (v *Following) comparePass(ctx context.Context, w *worker) (err error) {
	defer func() {
		if released := v.release(); err == nil {
			err = released
		}
	}()
	v.mu.Lock()
	v.queue, v.reports, v.comparisons, v.status = nil, nil, nil, telemetry.VerifyStatus{}
	v.sums = make([]uint64, len(v.o.Tables))
	v.changing = Changing{v: v, keys: make([]map[string]bool, len(v.o.Tables))}
	for i := range v.changing.keys {
		v.changing.keys[i] = make(map[string]bool)
	}
	v.mu.Unlock()
	for i, t := range v.o.Tables {
		if err := w.writer.Retry(ctx, func() error { return v.prepare(ctx, w.writer.Conn, i, t, true) }); err != nil {
			return err
		}
	}
	v.mu.Lock()
	v.status.Chunks = len(v.queue)
	v.mu.Unlock()
	if v.o.Track {
		v.f.Track(v.ranges())
	}
	for {
		next, ok := v.next()
		if !ok {
			return nil
		}
		k := &partedChunk{verifyChunk: next, rest: next.chunk}
		for failing := time.Now(); !k.ended; {
			err := v.decide(ctx, w, k)
			if err == nil {
				failing = time.Now()
				continue
			}
			if ctx.Err() != nil || errors.Is(err, follow.ErrEnded) || errors.As(err, new(*UnexplainedError)) || time.Since(failing) > v.o.Patience {
				return err
			}
			w.writer.Table, w.writer.Chunk = v.o.Tables[k.table].Spec.Source(), k.chunk.Number
			w.writer.Retries(err)
			w.writer.Close()
			if !telemetry.Sleep(ctx, v.retry) {
				return context.Cause(ctx)
			}
		}
	}
}

// decide compares the next part of a chunk until it is known whether it is equal.
func (v *Following) decide(ctx context.Context, w *worker, k *partedChunk) error {
	c := v.comparisons[k.table]
	part, last, err := v.part(ctx, w, c, k)
	if err != nil {
		return err
	}
	var steady []RowMismatch // rows that differed in the same way in all recent comparisons
	for look, same := 1, 0; ; look++ {
		l, err := v.compareOnce(ctx, w, c, part, look > 1)
		if err != nil {
			return err
		}
		found := l.found
		if look == maxComparisons {
			v.changing.keep(k.table, found, &l.counts)
		}
		if look > 1 {
			found.Rows = inBoth(steady, found.Rows)
		}
		if same++; len(found.Rows) == 0 {
			same = 0
		}
		steady = found.Rows
		if l.counts.Mismatches() == 0 || same >= sameComparisons || look == maxComparisons {
			if same < sameComparisons {
				found.Rows = nil
			}
			k.rest.After, k.ended = part.Upto, last
			v.recordPart(k, c, found, l.source, l.target, &l.counts)
			return nil
		}
		v.mu.Lock()
		v.status.Waiting = 1
		v.mu.Unlock()
	}
}

// inBoth returns the rows of now that are also in before, with the same row in the source.
func inBoth(before, now []RowMismatch) []RowMismatch {
	if len(before) == 0 {
		return now
	}
	had := make(map[string]uint64, len(before))
	for _, row := range before {
		had[row.name()] = row.sum
	}
	return slices.DeleteFunc(now, func(row RowMismatch) bool {
		sum, ok := had[row.name()]
		return !ok || sum != row.sum
	})
}

func (m *RowMismatch) name() string { return string(m.Kind) + "\x00" + strings.Join(m.Key, "\x00") }

// A comparedChunk is the result of comparing a chunk in one view of the source.
type comparedChunk struct {
	found          *ChunkMismatch
	counts         Report
	source, target rowstream.Checksum
}

// compareOnce compares a part of a chunk in a view of the source with the target, once the target has reached the view: in a new view,
// unless it is equal in one in which others were compared.
func (v *Following) compareOnce(ctx context.Context, w *worker, c *comparison, k rowstream.Chunk, fresh bool) (l *comparedChunk, err error) {
	defer w.pace.End()
	if err := w.pace.Begin(ctx); err != nil {
		return nil, err
	}
	compare := func(ctx context.Context) (err error) {
		l, err = v.compareIn(ctx, w, c, k)
		return err
	}
	err = v.inView(ctx, w, c.t, fresh, compare)
	if errors.Is(err, errStale) {
		err = v.inView(ctx, w, c.t, true, compare)
	}
	return l, err
}

// compareIn compares a part of a chunk in the current view.
func (v *Following) compareIn(ctx context.Context, w *worker, c *comparison, k rowstream.Chunk) (*comparedChunk, error) {
	if v.held.compared == 0 {
		if err := v.reach(ctx, w); err != nil {
			return nil, err
		}
	}
	l := &comparedChunk{}
	w.view = v.held.view.Reader(0)
	var err error
	if l.source, l.target, err = w.sums(ctx, c, k); err != nil {
		return nil, err
	}
	l.found = &ChunkMismatch{
		Chunk: k.Number, After: keyText(k.After), Upto: keyText(k.Upto), Position: v.held.reached.String(),
		Source: sumReport(l.source), Target: sumReport(l.target), Rows: []RowMismatch{},
	}
	stale := l.source != l.target && v.held.compared > 0
	v.used(stale)
	switch {
	case stale:
		return nil, errStale
	case l.source != l.target:
		if l.target, err = w.narrow(ctx, c, k, l.source, l.found, &l.counts); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// reach waits until the target has reached the current view.
func (v *Following) reach(ctx context.Context, w *worker) error {
	p, err := v.o.Source.CurrentPosition(ctx) // everything visible in the view is before it
	if err != nil {
		return err
	}
	v.held.reached = p
	w.pace.End()
	if err := v.f.CatchUp(ctx, p); err != nil {
		return err
	}
	return w.pace.Begin(ctx)
}

// recordPart records the result for a part: rows that differ, and whether others changed in every comparison.
// With the last part the chunk counts as compared.
func (v *Following) recordPart(k *partedChunk, c *comparison, found *ChunkMismatch, source, target rowstream.Checksum, last *Report) {
	var counts Report
	for i := range found.Rows {
		switch found.Rows[i].Kind {
		case RowMissing:
			counts.Missing++
		case RowExtra:
			counts.Extra++
		case RowChanged:
			counts.Changed++
		}
	}
	k.rows += source.Rows
	event := telemetry.Event{Kind: telemetry.EventVerified, Table: c.t.Spec.Source(), Chunk: k.chunk.Number, Rows: k.rows}
	if counts.Mismatches() > 0 {
		k.differs = true
		event.Kind, event.Text, event.Rows = telemetry.EventDiffers, counts.text(), source.Rows
	} else {
		target = source
		k.undecided = k.undecided || last.Mismatches() > 0
	}
	v.mu.Lock()
	report := v.reports[k.table]
	report.add(found, &counts, source, target)
	report.Truncated = report.Truncated || counts.Mismatches() == maxMismatches && last.Mismatches() > maxMismatches
	report.Position = found.Position
	v.sums[k.table] ^= source.Sum
	report.Checksum = sumText(v.sums[k.table])
	v.status.Waiting = 0
	if k.ended {
		report.Chunks++
		v.status.Compared++
		if k.undecided {
			report.Undecided++
		}
	}
	v.mu.Unlock()
	if event.Kind == telemetry.EventDiffers || k.ended && !k.differs {
		v.o.Observe(event)
	}
}

func (v *Report) text() string {
	return fmt.Sprintf("rows missing in the target: %d, only there: %d, with other values: %d", v.Missing, v.Extra, v.Changed)
}

// Passed reports whether every chunk was compared once.
func (v *Following) Passed() bool {
	select {
	case <-v.again:
		return true
	default:
		return false
	}
}

// Result returns the reports of the current pass if it has found anything, otherwise those of the last complete one.
func (v *Following) Result() []*Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	result := v.whole
	worse := slices.ContainsFunc(v.reports, func(r *Report) bool { return r.Mismatches() > 0 })
	if result == nil || worse {
		result = v.reports
	}
	for _, r := range result {
		r.Passes = v.passes
	}
	return result
}
