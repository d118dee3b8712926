package verify

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// maxMismatches is the maximum number of differing rows named per table. All are counted.
const maxMismatches = 1000

// Options specify the tables to compare and the connections.
type Options struct {
	Source binlog.Follower
	View   rowstream.View // the snapshot from which rows were copied; while following, only its position is used
	Tables []*tabledef.Table

	To     *mysqlconn.Client // reads the state; unused while following
	State  state.State
	Writer func() *state.Writer // returns a new connection to the target

	throttle.Tuning

	Only  [][]bool // the chunks to compare while following, by table and number; nil: all
	Track bool     // the follower records which chunks change from the start of a pass on

	Pacer   *throttle.Pacer
	Observe func(telemetry.Event)
	Started func(progress func() *telemetry.VerifyStatus) // called before the first comparison
}

// A Report is the result of comparing a table's rows on both sides.
type Report struct {
	Of       int    `json:"of_chunks"`       // chunks of the table
	Chunks   int    `json:"chunks"`          // compared by this run
	Before   int    `json:"verified_before"` // found equal by an earlier run that was interrupted
	Rows     int64  `json:"rows"`            // in the source, in the compared chunks
	Checksum string `json:"checksum"`        // over these rows, in the source
	Position string `json:"position"`        // of the source's binary log at which they were read

	Passes    int `json:"passes,omitempty"`    // while following: number of completed passes
	Undecided int `json:"undecided,omitempty"` // chunks whose rows changed in every comparison

	Missing   int64           `json:"missing"` // rows that only the source has
	Extra     int64           `json:"extra"`   // rows that only the target has
	Changed   int64           `json:"changed"` // rows of both sides with different values
	Different []ChunkMismatch `json:"different"`
	Truncated bool            `json:"truncated"` // more rows differ than Different names
}

// Mismatches returns the number of rows that differ.
func (v *Report) Mismatches() int64 { return v.Missing + v.Extra + v.Changed }

// Compared returns the number of chunks known to be equal or to differ.
func (v *Report) Compared() int { return v.Chunks + v.Before - v.Undecided }

// Incomplete reports whether some chunks were not compared, or could not be.
func (v *Report) Incomplete() bool { return v.Compared() < v.Of }

// A ChunkMismatch is a chunk that differs between the two sides.
type ChunkMismatch struct {
	Chunk    int           `json:"chunk"`
	After    []string      `json:"after"`              // start of its key range, exclusive; null: the first key
	Upto     []string      `json:"upto"`               // end of its key range; null: the last key
	Earlier  bool          `json:"earlier"`            // an earlier run copied it: the source may have changed since
	Position string        `json:"position,omitempty"` // while following: the position that the target had reached
	Source   SumReport     `json:"source"`
	Target   SumReport     `json:"target"`
	Rows     []RowMismatch `json:"rows"`
}

// A SumReport is a checksum and the number of its rows.
type SumReport struct {
	Rows     int64  `json:"rows"`
	Checksum string `json:"checksum"`
}

// A RowMismatch is a row that differs. Its key is data of the table.
type RowMismatch struct {
	Key  []string     `json:"key"` // values that are not UTF-8 as 0x…
	Kind MismatchKind `json:"kind"`

	sum     uint64 // checksum of the source's row
	encoded string // the key
}

// A MismatchKind is the way in which a row differs.
type MismatchKind string

// The kinds of mismatches.
const (
	RowMissing MismatchKind = "missing" // missing from the target
	RowExtra   MismatchKind = "extra"   // only in the target
	RowChanged MismatchKind = "changed" // different values
)

func sumReport(c rowstream.Checksum) SumReport { return SumReport{c.Rows, sumText(c.Sum)} }

func sumText(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// keyText returns a key as text for messages and JSON.
func keyText(key mysqlwire.TextRow) []string {
	if key == nil {
		return nil
	}
	text := make([]string, len(key))
	for i, v := range key {
		if utf8.Valid(v) {
			text[i] = string(v)
		} else {
			text[i] = "0x" + hex.EncodeToString(v)
		}
	}
	return text
}

// A comparison has the columns compared on both sides: the same values in the same order, under the names of
// each side.
type comparison struct {
	t      *tabledef.Table
	target *rowstream.Table // with the key of the source, under the target's names
	source rowstream.SumOptions
	there  rowstream.SumOptions
	rows   int64 // of a part of a chunk
}

// newComparison prepares the comparison of a table.
func newComparison(t *tabledef.Table, there *rowstream.Table) (*comparison, error) {
	c := &comparison{t: t, source: rowstream.SumOptions{Where: t.Spec.Where, Plan: t.Plan}}
	if o := t.Target.Owned; o != nil { // the rows of other sources are compared with those
		c.there.Where = o.Condition()
	}
	target := *there
	target.Key, target.Descending, c.target = nil, t.Source.Descending, &target
	for i := range t.Target.Columns {
		from := i
		if t.Plan != nil && t.Plan.Output != nil {
			from = t.Plan.Output[i].Column
		}
		if m := t.Spec.Mapping; m != nil {
			if m.Columns[i].From == "" {
				from = -1
			}
			here, there := m.Columns[i].Sums()
			c.source.Exprs, c.there.Exprs = append(c.source.Exprs, here), append(c.there.Exprs, there)
		}
		n := tabledef.ColumnNumber(there, t.Target.Columns[i].Name)
		if n < 0 {
			return nil, fmt.Errorf("verify table %s: the target's %s has no column %s any more", t.Spec.Source(), t.Spec.Target(), t.Target.Columns[i].Name)
		}
		c.source.Columns = append(c.source.Columns, from)
		c.there.Columns = append(c.there.Columns, n)
	}
	if err := t.Comparable(); err != nil {
		return nil, err
	}
	if len(t.Spec.Columns) == 0 {
		for i := range t.Source.Generated {
			c.addGenerated(t.Source, &target, i)
		}
	}
	own := len(there.Key) == len(t.Source.Key) // the target's key has the same columns
	for i, k := range t.Source.Key {
		n := -1
		for j, from := range c.source.Columns {
			if from == k {
				n = c.there.Columns[j]
			}
		}
		own = own && there.Key[i] == n
		target.Key = append(target.Key, n)
	}
	if !own {
		target.KeyName = "" // the server may find an index for ranges of the source's key
	}
	return c, nil
}

// A verifier compares the chunks of all tables.
type verifier struct {
	o           Options
	comparisons []*comparison

	mu      sync.Mutex
	queue   []verifyChunk // not yet taken
	reports []*Report
	sums    []uint64
	status  telemetry.VerifyStatus
	err     error // the first error
}

// A verifyChunk is a chunk to compare.
type verifyChunk struct {
	table   int
	chunk   rowstream.Chunk
	earlier bool // copied by an earlier run
}

// Once compares all rows on both sides, those of the source in the view that they were copied from. It skips
// chunks that an interrupted verification has found equal.
func Once(ctx context.Context, o Options) ([]*Report, error) {
	v := &verifier{o: o, sums: make([]uint64, len(o.Tables))}
	for i, t := range o.Tables {
		if err := v.prepare(ctx, o.To, i, t, false); err != nil {
			return nil, err
		}
	}
	v.status.Chunks = len(v.queue)
	o.Started(v.progress)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for i := range o.Workers {
		workers.Go(func() {
			w := v.newWorker()
			w.view = o.View.Reader(i)
			defer w.writer.Close()
			if err := v.work(ctx, w); err != nil {
				v.fail(err)
				cancel()
			}
		})
	}
	workers.Wait()
	if v.err != nil {
		return nil, v.err
	}
	for i, t := range o.Tables {
		v.reports[i].Checksum = sumText(v.sums[i])
		if err := o.State.ForgetVerified(ctx, o.To, t.Spec); err != nil {
			return nil, err
		}
	}
	return v.reports, nil
}

// A worker computes checksums on both sides, at the pace that the throttle permits.
type worker struct {
	view   rowstream.ViewReader
	writer *state.Writer // to the target
	pace   *throttle.Pace
}

func (v *verifier) newWorker() *worker { return &worker{writer: v.o.Writer(), pace: v.o.Pacer.Join()} }

// prepare queues the chunks of a table to compare: all of them, or without all those that an interrupted
// verification has not compared.
func (v *verifier) prepare(ctx context.Context, to *mysqlconn.Client, number int, t *tabledef.Table, all bool) error {
	there, err := rowstream.ReadTable(ctx, to, t.Spec.ToSchema, t.Spec.ToName)
	if err != nil {
		return err
	}
	c, err := newComparison(t, there)
	if err != nil {
		return err
	}
	now, err := v.o.State.Load(ctx, to, t.Spec, len(t.Source.Key))
	if err != nil {
		return err
	}
	c.rows = partRows(t, now, v.o.ChunkBytes)
	verified := make(map[int]bool)
	if !all {
		if verified, err = v.o.State.LoadVerified(ctx, to, t.Spec); err != nil {
			return err
		}
	}
	report := &Report{Of: len(now.Chunks), Position: v.o.View.Position(), Different: []ChunkMismatch{}}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, k := range now.Chunks {
		if v.o.Only != nil && !v.o.Only[number][i] {
			continue
		}
		if verified[k.Number] {
			report.Before++
			continue
		}
		earlier := i < len(t.State.Chunks) && t.State.Chunks[i].Copied
		v.queue = append(v.queue, verifyChunk{table: number, chunk: k.Chunk, earlier: earlier})
	}
	v.comparisons, v.reports = append(v.comparisons, c), append(v.reports, report)
	return nil
}

func (v *verifier) progress() *telemetry.VerifyStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.status
	for _, r := range v.reports {
		s.Mismatches += int(r.Mismatches())
	}
	return &s
}

func (v *verifier) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil || errors.Is(v.err, context.Canceled) {
		v.err = err
	}
	v.queue = nil
}

func (v *verifier) next() (verifyChunk, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.queue) == 0 {
		return verifyChunk{}, false
	}
	k := v.queue[0]
	v.queue = v.queue[1:]
	return k, true
}

// work compares chunks until the queue is empty.
func (v *verifier) work(ctx context.Context, w *worker) error {
	for {
		k, ok := v.next()
		if !ok {
			return nil
		}
		if err := v.compare(ctx, w, k); err != nil {
			return err
		}
	}
}

// compare compares a chunk when the throttle permits.
func (v *verifier) compare(ctx context.Context, w *worker, k verifyChunk) error {
	defer w.pace.End()
	if err := w.pace.Begin(ctx); err != nil {
		return err
	}
	c := v.comparisons[k.table]
	source, target, err := w.sums(ctx, c, k.chunk)
	if err != nil {
		return err
	}
	found := ChunkMismatch{
		Chunk: k.chunk.Number, After: keyText(k.chunk.After), Upto: keyText(k.chunk.Upto), Earlier: k.earlier,
		Source: sumReport(source), Target: sumReport(target), Rows: []RowMismatch{},
	}
	event := telemetry.Event{Kind: telemetry.EventVerified, Table: c.t.Spec.Source(), Chunk: k.chunk.Number, Rows: source.Rows}
	var counts Report
	if source != target {
		if target, err = w.narrow(ctx, c, k.chunk, source, &found, &counts); err != nil {
			return err
		}
	}
	if source != target {
		event.Kind, event.Text = telemetry.EventDiffers, counts.text()
	} else if err := w.writer.Retry(ctx, func() error { return v.o.State.Verified(ctx, w.writer.Conn, c.t.Spec, k.chunk) }); err != nil {
		return err
	}
	v.mu.Lock()
	v.reports[k.table].Chunks++
	v.reports[k.table].add(&found, &counts, source, target)
	v.sums[k.table] ^= source.Sum
	v.status.Compared++
	v.mu.Unlock()
	v.o.Observe(event)
	return nil
}

// add adds the result for a chunk.
func (v *Report) add(found *ChunkMismatch, counts *Report, source, target rowstream.Checksum) {
	v.Rows += source.Rows
	v.Missing, v.Extra, v.Changed = v.Missing+counts.Missing, v.Extra+counts.Extra, v.Changed+counts.Changed
	if source == target {
		return
	}
	named := 0
	for i := range v.Different {
		named += len(v.Different[i].Rows)
	}
	found.Rows = found.Rows[:min(len(found.Rows), maxMismatches-named)]
	v.Truncated = v.Truncated || int64(len(found.Rows)) < counts.Mismatches()
	if len(v.Different) < maxMismatches {
		v.Different = append(v.Different, *found)
	} else {
		v.Truncated = true
	}
}

// sums computes the checksums of a chunk on both sides, concurrently.
func (w *worker) sums(ctx context.Context, c *comparison, k rowstream.Chunk) (source, target rowstream.Checksum, err error) {
	var sourceErr error
	var reading sync.WaitGroup
	reading.Go(func() { source, sourceErr = rowstream.SumChunk(ctx, w.view, c.t.Source, k, c.source) })
	w.writer.Table, w.writer.Chunk = c.t.Spec.Source(), k.Number
	err = w.writer.Retry(ctx, func() (err error) {
		target, err = rowstream.SumChunkOf(ctx, w.writer.Conn, c.target, k, c.there)
		return err
	})
	reading.Wait()
	if err != nil {
		err = fmt.Errorf("verify at the target: %w", err)
	}
	return source, target, errors.Join(sourceErr, err)
}
