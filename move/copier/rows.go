package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// While changes are followed, only the position of the snapshot is used. Rows are read through views that
// live for at most Options.MaxViewAge, each for one worker and one table. A view must be later than the
// snapshot, and nothing else is required of it; see doc.go.

// The rowsPhase copies the rows to one target. It has the counts of that target; its reading reads the rows, for this target alone or for
// several of a Split.
type rowsPhase struct {
	*job
	snapshot rowstream.View

	files *dump.Writer      // nil unless the target is files
	log   *follow.LogMember // the source's log, if it is read for all parts of a Split; otherwise nil

	lastKeys []mysqlwire.TextRow // of the tables; nil: unknown
	before   []int               // chunks copied by earlier runs, by table

	mu         sync.Mutex
	reading    *reading // nil before it starts
	rows       []int64
	bytes      []int64 // by this run
	estimates  []telemetry.Estimate
	rowsBefore []int64   // copied by earlier runs
	started    time.Time // when copying rows started
}

// run copies the rows that are missing in the target.
func (p *rowsPhase) run(ctx context.Context) error {
	if m := p.o.part.rows(); m != nil {
		return m.run(ctx, p.o.part.number, p)
	}
	return newReading(p).run(ctx)
}

// resume counts what earlier runs have copied, and shows the progress of a reading from here on.
func (p *rowsPhase) resume(ctx context.Context, r *reading) {
	p.findLastKeys(ctx)
	p.mu.Lock() // status may be requested concurrently
	defer p.mu.Unlock()
	p.rows, p.bytes, p.before = make([]int64, len(p.tables)), make([]int64, len(p.tables)), make([]int, len(p.tables))
	p.estimates = make([]telemetry.Estimate, len(p.tables))
	for i, t := range p.tables {
		var progress tableProgress
		progress, p.rows[i] = progressOf(t)
		p.before[i] = progress.done
		if p.files != nil {
			p.before[i] = p.files.Before(i)
		}
		p.resumeEstimate(i, t)
	}
	p.rowsBefore, p.started, p.reading = slices.Clone(p.rows), time.Now(), r
}

// has reports whether an earlier run has copied a chunk of a table.
func (p *rowsPhase) has(table, chunk int) bool {
	chunks := p.tables[table].State.Chunks
	return chunk < len(chunks) && chunks[chunk].Copied
}

// progressOf returns the state from which the machine resumes the table.
func progressOf(t *tabledef.Table) (p tableProgress, rows int64) {
	p = tableProgress{name: t.Spec.Source(), phase: t.State.Phase, chunks: len(t.State.Chunks)}
	for _, k := range t.State.Chunks {
		p.cut = k.Upto == nil // true for the last chunk
		p.next = rowstream.Chunk{Number: k.Number + 1, After: k.Upto}
		if k.Copied {
			p.done++
			rows += k.Rows
		} else {
			p.waiting = append(p.waiting, k.Chunk)
		}
	}
	if p.phase == tabledef.Copying && p.cut && p.done == p.chunks {
		p.phase = tabledef.Indexing // killed between the last chunk and the record of it
	}
	return p, rows
}

// copied returns the number of rows of a table in the target.
func (p *rowsPhase) copied(table int) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows[table]
}

// findLastKeys finds the last keys of the tables that are still to be copied, for the estimates of their rows. Those that are not found leave them unknown.
func (p *rowsPhase) findLastKeys(ctx context.Context) {
	p.lastKeys = make([]mysqlwire.TextRow, len(p.tables))
	for i, t := range p.tables {
		switch {
		case t.State.Phase != tabledef.Copying || len(t.Source.Key) == 0:
		case t.Bound.Known:
			p.lastKeys[i] = t.Bound.Last
		case !t.Past():
			p.lastKeys[i], _ = p.snapshot.Reader(0).LastKey(ctx, t.Source) // an error recurs when rows are read
		}
	}
}

// resumeEstimate starts the estimate of a table's rows with the chunks that earlier runs have copied.
func (p *rowsPhase) resumeEstimate(i int, t *tabledef.Table) {
	for n, k := range t.State.Chunks {
		if n == 0 {
			p.estimates[i].Begin(t.Source, k.Upto, p.lastKeys[i])
		}
		if k.Copied {
			p.estimates[i].Add(k.Chunk, k.Rows)
		}
	}
}

// result returns the number of rows and chunks of a table in the target, and the number of chunks that earlier runs have copied.
func (p *rowsPhase) result(table int) (rows int64, chunks, before int) {
	_, chunks, _ = p.reading.progress(table)
	return p.copied(table), chunks, p.before[table]
}

// show adds the progress of a table to its status, unless copying has not started.
func (p *rowsPhase) show(table int, s *telemetry.TableStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading == nil {
		return
	}
	phase, chunks, done := p.reading.progress(table)
	s.Phase, s.Rows, s.Bytes, s.Chunks, s.ChunksCopied = string(phase), p.rows[table], p.bytes[table], chunks, done
	if c := p.count(table); c.Copied {
		s.RowsEstimate, s.RowsDeviation = c.Rows, new(int64)
	} else if c.Sampled {
		s.RowsEstimate, s.RowsDeviation = c.Estimate, &c.Deviation
	}
}

// count returns the progress of a table. p.mu must be locked.
func (p *rowsPhase) count(i int) telemetry.TableCount {
	c := p.estimates[i].Count(p.rows[i], p.tables[i].Source)
	phase, _, _ := p.reading.progress(i)
	c.Copied = phase != tabledef.Copying
	return c
}

// begin starts the estimate of a table's rows with its first chunk.
func (p *rowsPhase) begin(table int, upto mysqlwire.TextRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.estimates[table].Begin(p.tables[table].Source, upto, p.lastKeys[table])
}

// add counts a chunk that was copied, and returns the progress with it.
func (p *rowsPhase) add(table int, c rowstream.Chunk, rows, bytes int64) *telemetry.CopyProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[table] += rows
	p.bytes[table] += bytes
	p.estimates[table].Add(c, rows)
	return p.sum()
}

// addBefore counts a chunk that an earlier run has copied, and returns the progress with it.
func (p *rowsPhase) addBefore(table int, c rowstream.Chunk, rows int64) *telemetry.CopyProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[table] += rows
	p.rowsBefore[table] += rows
	p.estimates[table].Add(c, rows)
	return p.sum()
}

// progress returns the progress of copying rows; nil before it starts.
func (p *rowsPhase) progress() *telemetry.CopyProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum()
}

// sum returns the progress of copying rows. p.mu must be locked.
func (p *rowsPhase) sum() *telemetry.CopyProgress {
	if p.reading == nil {
		return nil
	}
	var rows, bytes int64
	counts := make([]telemetry.TableCount, len(p.tables))
	for i := range p.tables {
		counts[i] = p.count(i)
		rows += p.rows[i] - p.rowsBefore[i]
		bytes += p.bytes[i]
	}
	return telemetry.NewCopyProgress(counts, rows, bytes, time.Since(p.started))
}

// shortReader returns a reader for one worker.
func (p *rowsPhase) shortReader() *rowstream.ShortReader {
	return rowstream.NewShortReader(rowstream.ShortOptions{
		Server: p.from, Identity: p.snapshot.Identity(), MaxAge: p.o.MaxViewAge, Patience: p.o.Patience,
		Waiting: func() func() {
			return p.o.waits.Begin("a view of a table of the source", "locks of others there", p.o.MaxViewAge)
		},
	})
}

// readError adds advice to an error of reading a table's rows.
func (p *rowsPhase) readError(t *tabledef.Table, err error) error {
	if !errors.Is(err, rowstream.ErrAltered) {
		return err
	}
	advice := "use option restart"
	if p.files != nil { // the next run discards the table's chunks
		advice = "run the same command again, which reads them again"
	}
	return fmt.Errorf("%w: table %s was altered on the source while its rows were being copied, so they have two forms; %s", err, t.Spec.Source(), advice)
}

// A reading reads the rows of tables once, for the targets of one or several phases. Its workers take their steps from the machine. Several
// phases are of one source and have the same tables; the first one's connection and options are used to read.
type reading struct {
	phases []*rowsPhase
	tables []*tabledef.Table   // of the first phase
	bounds []tabledef.RowBound // of the rows that are read
	sizes  []tabledef.Sizing   // of the chunks

	mu      sync.Mutex
	changed sync.Cond // signaled on each event of the machine
	machine *machine
	err     error // the first error
}

func newReading(phases ...*rowsPhase) *reading {
	first := phases[0]
	r := &reading{phases: phases, tables: first.tables, sizes: make([]tabledef.Sizing, len(first.tables))}
	r.changed.L = &r.mu
	progress := make([]tableProgress, len(r.tables))
	for i, t := range r.tables {
		progress[i], _ = progressOf(&tabledef.Table{Spec: t.Spec, State: recordedBy(phases, i)})
		r.bounds = append(r.bounds, t.Bound)
		r.sizes[i].Short = r.limited() && !r.toFiles()
	}
	r.machine = newMachine(progress, first.o.Workers)
	return r
}

// limited reports whether one of the copies has limits.
func (r *reading) limited() bool {
	return slices.ContainsFunc(r.phases, func(p *rowsPhase) bool { return p.o.Throttle.Limited() })
}

// toFiles reports whether rows are written to files: there is no transaction, and no chunk is read again.
func (r *reading) toFiles() bool { return r.phases[0].files != nil }

// run runs the workers until the machine returns stop.
func (r *reading) run(ctx context.Context) error {
	for _, p := range r.phases {
		p.resume(ctx, r)
		for i, t := range p.tables {
			p.o.Observe(telemetry.Event{
				Kind: telemetry.EventTable, Table: t.Spec.Source(), Chunks: p.before[i], Rows: p.copied(i), RowsEstimate: t.Source.RowsEstimate,
			})
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for i := range r.phases[0].o.Workers {
		workers.Go(func() {
			w := newWorker(r, i)
			defer w.close()
			if err := w.work(ctx); err != nil {
				r.fail(err)
				cancel()
			}
		})
	}
	workers.Wait()
	return r.err
}

// nextChunk returns the next chunk to cut, after the last one.
func (r *reading) nextChunk(table int) rowstream.Chunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machine.tables[table].next
}

// fail records the first error and ends the reading.
func (r *reading) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || errors.Is(r.err, context.Canceled) {
		r.err = err
	}
	r.machine.fail()
	r.changed.Broadcast()
}

// next blocks until there is a step for a worker.
func (r *reading) next() step {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		s := r.machine.next()
		if s.do != wait {
			return s
		}
		r.changed.Wait()
	}
}

// notify applies an event to the machine and wakes all workers.
func (r *reading) notify(event func(*machine)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	event(r.machine)
	r.changed.Broadcast()
}

// progress returns the phase of a table, and the number of its chunks that are cut, and copied to all targets.
func (r *reading) progress(table int) (phase tabledef.Phase, chunks, done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.machine.tables[table]
	return t.phase, t.chunks, t.done
}
