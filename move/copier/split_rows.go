package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// The rows of a split are read once. Each part has its snapshot, state, lease and position. Once all parts are prepared, one reading reads a chunk and
// passes each of its rows to the parts whose condition it meets: tabledef.Table.Events, the one that decides for changes in the log too.
//
//	part 1: describe ──> lease ──> snapshot ──┐          ┌─> rows + chunk in target 1, one transaction ─┐
//	part 2: describe ──> lease ──> snapshot ──┴─ chunk ──┴─> rows + chunk in target 2, one transaction ─┴──> changes of each part
//
// For each part this is the copy that package copier's documentation proves correct. All views are taken after all snapshots, so each of them is at or
// after the part's position. The last keys, up to which rows are read, are of such a view too: a key that no change after the part's position has is
// not after them.
//
// A chunk is cut for all parts, and recorded by each before it is copied. A kill leaves lists of chunks that are the beginnings of one list;
// they are completed, and each chunk is copied to the parts that lack it. If the lists differ otherwise, or the tables do, each part reads independently.

// A splitTarget is the targets of several phases that have one reading.
type splitTarget struct{ parts []*oneTarget }

func newSplitTarget(phases []*rowsPhase) *splitTarget {
	s := &splitTarget{}
	for _, p := range phases {
		s.parts = append(s.parts, newOneTarget(p, nil))
	}
	return s
}

func (s *splitTarget) close() {
	for _, p := range s.parts {
		p.close()
	}
}

// cut implements rowTarget.
func (s *splitTarget) cut(ctx context.Context, table int, c rowstream.Chunk) error {
	return s.each(ctx, func(ctx context.Context, p *oneTarget) error { return p.cut(ctx, table, c) })
}

// finish implements rowTarget.
func (s *splitTarget) finish(ctx context.Context, table int) error {
	return s.each(ctx, func(ctx context.Context, p *oneTarget) error {
		if p.tables[table].State.Phase == tabledef.Finished {
			return nil
		}
		return p.finish(ctx, table)
	})
}

// each calls do for all parts concurrently. The first error ends the others.
func (s *splitTarget) each(ctx context.Context, do func(context.Context, *oneTarget) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var once sync.Once
	var first error
	for _, p := range s.parts {
		all.Go(func() {
			if err := do(ctx, p); err != nil {
				once.Do(func() { first = &partError{p.o.part, err} })
				cancel()
			}
		})
	}
	all.Wait()
	return first
}

// copy implements rowTarget: each part that lacks the chunk copies it in its own transaction. Once all of them wait for the rows, these are read and
// passed to all. A part that repeats its transaction waits for the others to be done or to repeat theirs, and then they are read again.
func (s *splitTarget) copy(ctx context.Context, table int, c rowstream.Chunk, read rowRead) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := make(chan *splitRead)
	ended := make(chan error, len(s.parts))
	active := 0
	for _, p := range s.parts {
		if p.has(table, c.Number) {
			continue
		}
		active++
		go func() {
			err := p.copy(ctx, table, c, func(write func(*rowstream.Batch) error, settle func() error) error {
				return p.readShared(ctx, table, c, waiting, write, settle)
			})
			if fromSource := new(state.SourceError); err != nil && !errors.As(err, fromSource) {
				err = &partError{p.o.part, err}
			}
			ended <- err
		}()
	}
	var first error
	var round []*splitRead
	for active > 0 {
		select {
		case r := <-waiting:
			round = append(round, r)
		case err := <-ended:
			active--
			if first = cmp.Or(first, err); err != nil {
				cancel()
			}
		}
		if first != nil {
			endRound(round, first)
			round = nil
		} else if active > 0 && len(round) == active {
			readRound(round, read)
			round = nil
		}
	}
	return first
}

// A splitRead is the request of a part for the rows of a chunk.
type splitRead struct {
	batches chan *rowstream.Batch // nil: settle
	taken   chan error            // the result for each; after an error the part reads no further
	end     error                 // of the reading, once batches is closed
}

// readShared requests the rows of a chunk, and passes those of the part to write.
func (w *oneTarget) readShared(ctx context.Context, table int, c rowstream.Chunk, waiting chan<- *splitRead, write func(*rowstream.Batch) error, settle func() error) error {
	t := w.tables[table]
	var filter *rowstream.Filter // nil: all rows are the part's
	if t.Events != nil {
		var err error
		if filter, err = rowstream.NewFilter(t.Events, len(t.Source.Columns)); err != nil {
			return state.SourceError{Err: err}
		}
	}
	r := &splitRead{batches: make(chan *rowstream.Batch), taken: make(chan error)}
	select {
	case waiting <- r:
	case <-ctx.Done():
		return state.SourceError{Err: context.Cause(ctx)}
	}
	for b := range r.batches {
		var err error
		switch {
		case b == nil:
			err = settle()
		case filter == nil:
			err = write(b)
		default:
			err = w.writeOwn(t, c, filter, b, write)
		}
		r.taken <- err
		if err != nil {
			return err
		}
	}
	return r.end
}

// writeOwn writes the rows of a batch that are the part's.
func (w *oneTarget) writeOwn(t *tabledef.Table, c rowstream.Chunk, filter *rowstream.Filter, b *rowstream.Batch, write func(*rowstream.Batch) error) error {
	own := &w.writer.Rows
	own.Reset(filter.Columns())
	own.Shrink(rowstream.RoomKept(0))
	if err := filter.AppendBatch(own, b); err != nil {
		return state.SourceError{Err: fmt.Errorf("read chunk %d of %s: %w", c.Number, t.Source.FullName(), err)}
	}
	if own.Rows == 0 {
		return nil
	}
	return write(own)
}

// errNoReader is the error of write in a round in which no part reads any further.
var errNoReader = errors.New("no target takes rows")

// readRound reads the rows of a chunk once for all parts of a round.
func readRound(round []*splitRead, read rowRead) {
	left := slices.Clone(round)
	pass := func(b *rowstream.Batch) error {
		for _, r := range left {
			r.batches <- b
		}
		left = slices.DeleteFunc(left, func(r *splitRead) bool { return <-r.taken != nil })
		if len(left) == 0 {
			return errNoReader
		}
		return nil
	}
	err := read(pass, func() error { return pass(nil) })
	endRound(left, err)
}

// endRound ends the reading of the parts of a round.
func endRound(round []*splitRead, err error) {
	for _, r := range round {
		r.end = err
		close(r.batches)
	}
}

// A partError is an error of the copy to one of the targets that have one reading.
type partError struct {
	part *splitPart
	err  error
}

func (e *partError) Error() string { return e.err.Error() }

func (e *partError) Unwrap() error { return e.err }

// A stoppedError is the error of a part whose reading an error of another part has ended.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string {
	return "the rows were read together with those of another target: " + e.err.Error()
}

func (e *stoppedError) Unwrap() error { return e.err }

// forPart returns the error of a shared reading for one of its parts.
func forPart(p *splitPart, err error) error {
	var of *partError
	if errors.As(err, &of) && of.part != p {
		return &stoppedError{err}
	}
	return err
}

// anyOf returns the condition, in SQL, that a row is of any of the phases; empty: all rows are read.
func anyOf(phases []*rowsPhase, table int) string {
	var all []string
	for _, p := range phases {
		where := p.tables[table].Spec.Where
		if where == "" {
			return ""
		}
		if where = "(" + where + ")"; !slices.Contains(all, where) {
			all = append(all, where)
		}
	}
	return strings.Join(all, " OR ")
}

// recordedBy returns what earlier runs have recorded of a table for all phases together: the longest list of chunks, those as copied that all targets
// have.
func recordedBy(phases []*rowsPhase, table int) *tabledef.Recorded {
	first := phases[0].tables[table].State
	if len(phases) == 1 {
		return first
	}
	all := &tabledef.Recorded{Phase: tabledef.Finished, Chunks: slices.Clone(longest(phases, table))}
	for _, p := range phases {
		s := p.tables[table].State
		if s.Phase == tabledef.Copying || s.Phase == tabledef.Indexing && all.Phase == tabledef.Finished {
			all.Phase = s.Phase
		}
		for i := range all.Chunks {
			all.Chunks[i].Copied = all.Chunks[i].Copied && p.has(table, i)
		}
	}
	return all
}

// longest returns the longest list of a table's chunks that one of the targets has.
func longest(phases []*rowsPhase, table int) (list []tabledef.RecordedChunk) {
	for _, p := range phases {
		if own := p.tables[table].State.Chunks; len(own) > len(list) {
			list = own
		}
	}
	return list
}

// mayJoin reports whether the rows of all phases can be read together: they are of the same tables of one server, in short views, and the chunks that
// are recorded are the beginnings of one list.
func mayJoin(phases []*rowsPhase) bool {
	first := phases[0]
	for _, p := range phases {
		if p.source != first.source || p.snapshot.Identity() != first.snapshot.Identity() || !p.shortViews() || len(p.tables) != len(first.tables) {
			return false
		}
		for i, t := range p.tables {
			if t.Spec.Source() != first.tables[i].Spec.Source() || t.Spec.Mapping != nil || t.Spec.Owner != nil || t.Past() || !t.Source.SameShape(first.tables[i].Source) {
				return false
			}
			list := longest(phases, i)
			for n, k := range t.State.Chunks {
				if k.Number != list[n].Number || !sameKey(k.After, list[n].After) || !sameKey(k.Upto, list[n].Upto) {
					return false
				}
			}
		}
	}
	return true
}

func sameKey(a, b mysqlwire.TextRow) bool { return state.EncodeKey(a) == state.EncodeKey(b) }

// completeChunks records for each target the chunks that others have and it has not.
func completeChunks(ctx context.Context, phases []*rowsPhase) error {
	for _, p := range phases {
		for i, t := range p.tables {
			for _, k := range longest(phases, i)[len(t.State.Chunks):] {
				if err := p.state.Cut(ctx, p.to, t.Spec, k.Chunk); err != nil {
					return &partError{p.o.part, err}
				}
				t.State.Chunks = append(t.State.Chunks, tabledef.RecordedChunk{Chunk: k.Chunk})
			}
		}
	}
	return nil
}

// findBounds finds the last keys of the tables that are still to be copied, in views that are taken after the snapshots of all phases.
func (r *reading) findBounds(ctx context.Context) error {
	reader := r.phases[0].shortReader()
	defer func() { _ = reader.Close() }() // its transaction is read-only
	for i, t := range r.tables {
		if phase, _, _ := r.progress(i); phase != tabledef.Copying {
			continue
		}
		last, err := reader.LastKey(ctx, t.Source)
		if err != nil {
			return r.phases[0].readError(t, err)
		}
		r.bounds[i] = tabledef.RowBound{Known: true, Last: last}
	}
	return nil
}

// A meeting is where the parts of a split wait for each other before their rows, which are then read once. A part that is in its next attempt, since
// it has lost its lease, is waited for unless it had its rows already.
type meeting struct {
	mu      sync.Mutex
	waiting []*arrival // by part; nil: it does not wait
	past    []bool     // it had all rows in its last attempt
}

// An arrival is a part that waits.
type arrival struct {
	ctx    context.Context
	number int
	phase  *rowsPhase
	met    chan met // receives one value
}

// met has the group for which the part is to read the rows, or the result of the part that has read them.
type met struct {
	group []*arrival
	err   error
}

func newMeeting(parts int) *meeting {
	return &meeting{waiting: make([]*arrival, parts), past: make([]bool, parts)}
}

// errAlone is the result for a part that is to read its rows independently.
var errAlone = errors.New("the rows are not read together")

// run copies the rows of a part, with those of the parts that wait for them too.
func (m *meeting) run(ctx context.Context, number int, p *rowsPhase) error {
	a := &arrival{ctx: ctx, number: number, phase: p, met: make(chan met, 1)}
	m.change(func() { m.waiting[number], m.past[number] = a, false })
	is, err := m.wait(a)
	if is.group != nil {
		err = m.together(is.group, a)
	}
	if errors.Is(err, errAlone) {
		err = newReading(p).run(ctx)
	}
	if err == nil {
		m.change(func() { m.past[number] = true })
	}
	return err
}

// change applies a change, and has the first part that waits read for all that do unless one is missing.
func (m *meeting) change(what func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what()
	var group []*arrival
	for i, a := range m.waiting {
		if a == nil && !m.past[i] {
			return
		}
		if a != nil {
			group = append(group, a)
		}
	}
	clear(m.waiting)
	if group != nil {
		group[0].met <- met{group: group}
	}
}

// wait returns what the part was waiting for.
func (m *meeting) wait(a *arrival) (met, error) {
	defer a.phase.o.waits.Begin("the other targets, so that rows are read once", "", 0)()
	select {
	case is := <-a.met:
		return is, is.err
	case <-a.ctx.Done():
	}
	m.mu.Lock()
	left := m.waiting[a.number] == a
	if left {
		m.waiting[a.number] = nil
	}
	m.mu.Unlock()
	if left {
		return met{}, context.Cause(a.ctx)
	}
	is := <-a.met // a reading that uses the connections of the part ends with its context
	return is, is.err
}

// together reads the rows for all parts of a group.
func (m *meeting) together(group []*arrival, self *arrival) error {
	phases := make([]*rowsPhase, len(group))
	ctx, cancel := context.WithCancelCause(self.ctx)
	defer cancel(nil)
	for i, a := range group {
		phases[i] = a.phase
		defer context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })()
	}
	err := errAlone
	if len(phases) > 1 && mayJoin(phases) {
		err = readTogether(ctx, phases)
	}
	for _, a := range group {
		if a != self {
			a.met <- met{err: forPart(a.phase.o.part, err)}
		}
	}
	return forPart(self.phase.o.part, err)
}

func readTogether(ctx context.Context, phases []*rowsPhase) error {
	if err := completeChunks(ctx, phases); err != nil {
		return err
	}
	r := newReading(phases...)
	if err := r.findBounds(ctx); err != nil {
		return err
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	joinLog(phases)
	return nil
}

// joinLog has the changes of the source read once for all phases.
func joinLog(phases []*rowsPhase) {
	first := phases[0]
	sources := make([]binlog.Follower, len(phases))
	for i, p := range phases {
		sources[i] = p.from
	}
	members := follow.NewCommonLog(first.connectSource, first.state.Followed(first.source, first.o.Tables).ID+"-0", sources, first.o.Metrics.changeBytes())
	for i, p := range phases {
		p.log = members[i]
	}
}
