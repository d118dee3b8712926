package dump

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// createEnd follows the CREATE TABLE statement in its file.
const createEnd = ";\n"

// Options specify a dump.
type Options struct {
	From   rowstream.Server
	To     Destination
	Tables []tabledef.Spec

	// Objects are the objects of the tables' schemas, which are dumped with them; nil: the source does not list them. They were read with
	// Selection.
	Objects   *inventory.Inventory
	Selection inventory.Selection

	Workers int  // definitions that are read at a time
	Verify  bool // the source sums up each chunk too, and the sums are compared
	Restart bool // discard an unfinished dump
}

// A Report is the result of a dump.
type Report struct {
	Snapshot string        `json:"snapshot"` // how the source's snapshot was taken
	Position string        `json:"position"` // of the source's binary log at that snapshot; empty if the source reports none
	Manifest string        `json:"manifest"` // SHA-256 of the manifest's file
	Tables   []TableReport `json:"tables"`

	NotCopied []telemetry.NotCopied `json:"not_copied"` // objects of the source's schemas that the dump does not include
	Throttle  *throttle.Status      `json:"throttle,omitempty"`
}

// A TableReport is the result for one table.
type TableReport struct {
	Source string `json:"source"`
	Rows   int64  `json:"rows"`
	Chunks int    `json:"chunks"`
	Before int    `json:"before"` // chunks of an interrupted run whose rows have not changed
	Bytes  int64  `json:"bytes"`  // of rows
	Files  int    `json:"files"`
	Size   int64  `json:"size"` // of the files
}

// A Writer writes a dump in one run: Prepare, Begin, the chunks of all tables, Save, Finish. Package copier drives it, and reads the rows. Cut, Save,
// Checkpoint and its Chunks may be used concurrently.
type Writer struct {
	o   Options
	m   *Manifest // its chunks are under mu
	run string

	tables []*tableRun

	mu     sync.Mutex
	saved  time.Time // start of the last checkpoint
	pause  time.Duration
	saving bool
}

// A tableRun is a table of a run.
type tableRun struct {
	*tabledef.Table
	out    *Table
	sums   [][]int // further lists of columns that are summed up
	before int     // chunks of an interrupted run whose rows are not known to have changed
}

// Prepare describes the tables, and reads the manifest of an interrupted run, which this one resumes: chunks whose rows have not changed
// are not read again. It writes nothing.
func Prepare(ctx context.Context, o Options) (*Writer, error) {
	o.Workers = cmp.Or(o.Workers, 1)
	w := &Writer{o: o, run: strings.ToLower(rand.Text()[:8])}
	before, err := w.unfinished(ctx)
	if err != nil {
		return nil, err
	}
	w.m = &Manifest{ID: strings.ToLower(rand.Text()), Run: w.run, Started: time.Now().UTC(), Selection: selectionText(&o)}
	if w.m.Source, err = o.From.Identity(ctx); err != nil {
		return nil, err
	}
	if err := w.readVersion(ctx); err != nil {
		return nil, err
	}
	if o.Objects != nil {
		w.m.Objects = o.Objects.Objects
	}
	for i := range o.Tables {
		t, err := w.describe(ctx, &o.Tables[i])
		if err != nil {
			return nil, err
		}
		w.tables, w.m.Tables = append(w.tables, t), append(w.m.Tables, t.out)
	}
	if before == nil {
		return w, nil
	}
	return w, w.resume(before)
}

// Tables returns the tables, with the chunks of the interrupted run as not copied: whether their rows have changed is not known.
func (w *Writer) Tables() []*tabledef.Table {
	all := make([]*tabledef.Table, len(w.tables))
	for i, t := range w.tables {
		all[i] = t.Table
	}
	return all
}

// Before returns the number of chunks of a table that an interrupted run has written, whose rows are not known to have changed.
func (w *Writer) Before(table int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables[table].before
}

// unfinished returns the manifest of an interrupted run; nil: there is none, or it is discarded. A destination with anything else is an
// error.
func (w *Writer) unfinished(ctx context.Context) (*Manifest, error) {
	to := &w.o.To
	if err := to.noLinks(); err != nil {
		return nil, err
	}
	done, err := to.manifest(ctx, manifestName)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if done != nil {
		return nil, fmt.Errorf("dump to %s: it has a dump that was finished at %s: choose another directory, or delete that dump", to.Name, done.Finished.Format(time.RFC3339))
	}
	partial, partialErr := to.manifest(ctx, partialName)
	switch {
	case w.o.Restart && (partial != nil || errors.Is(partialErr, ErrDamaged)):
		return nil, nil
	case partialErr != nil:
		return nil, fmt.Errorf("resume the dump to %s: %w; option restart discards it", to.Name, partialErr)
	case partial != nil:
		return partial, nil
	case err != nil:
		return nil, fmt.Errorf("dump to %s: %w: choose another directory, or delete it", to.Name, err)
	}
	found, err := to.foreign(ctx)
	if err == nil && found != "" {
		err = fmt.Errorf("dump to %s: it is not empty, and has no unfinished dump: there is %s; choose an empty directory or another prefix", to.Name, found)
	}
	return nil, err
}

// selectionText describes what is dumped.
func selectionText(o *Options) string {
	var b strings.Builder
	s := &o.Selection
	kinds := "all"
	if s.Kinds != nil {
		kinds = fmt.Sprintf("%q", s.Kinds)
	}
	fmt.Fprintf(&b, "schemas %q, tables %v, excluded %v, kinds %s", s.Schemas, s.Tables, s.Exclude, kinds)
	for i := range o.Tables {
		if t := &o.Tables[i]; t.Where != "" || t.Shard.Count != 0 || o.Objects == nil {
			b.WriteString("; " + t.Text())
		}
	}
	return b.String()
}

// readVersion reads the version of the source, if it is a server that can be queried.
func (w *Writer) readVersion(ctx context.Context) error {
	q, ok := w.o.From.(session.Querier)
	if !ok {
		return nil
	}
	return q.Query(ctx, "SELECT @@version", func(row mysqlwire.TextRow) error {
		w.m.Version = string(row[0])
		return nil
	})
}

func (w *Writer) describe(ctx context.Context, spec *tabledef.Spec) (*tableRun, error) {
	source, err := w.o.From.Describe(ctx, spec.Schema, spec.Name)
	if err != nil {
		return nil, err
	}
	if err := tabledef.Suitable(source); err != nil {
		return nil, err
	}
	plan, err := spec.RowPlan(source)
	if err != nil {
		return nil, err
	}
	shape := *source
	shape.Create, shape.Cascades = "", nil
	list, set := rowstream.LoadColumns(source.Columns)
	out := &Table{
		Schema: spec.Schema, Name: spec.Name, Spec: spec.Text(), Shape: &shape,
		Load: "LOAD DATA LOCAL INFILE '…' REPLACE INTO TABLE " + source.SQLName() + " " + rowstream.LoadFormat + " " + list + set,
	}
	out.Create = File{Name: out.dir() + "/schema.sql", SHA256: sumOf([]byte(definition(source)))} // the sum of the file once it is written
	t := &tabledef.Table{Spec: spec, Source: source, Plan: plan, State: &tabledef.Recorded{Source: w.m.Source, Spec: out.Spec, Phase: tabledef.Copying}}
	return &tableRun{Table: t, out: out, sums: generatedSums(source)}, nil
}

// generatedSums returns the lists of columns, with generated ones, that a copy compares: all of them, and the stored ones with the key.
func generatedSums(t *rowstream.Table) (all [][]int) {
	if len(t.Generated) == 0 {
		return nil
	}
	all = append(all, numbers(len(t.Columns)+len(t.Generated)))
	var stored []int
	for i := range t.Generated {
		if t.Generated[i].Stored {
			stored = append(stored, len(t.Columns)+i)
		}
	}
	if stored != nil {
		all = append(all, append(stored, t.Key...))
	}
	return all
}

// resume takes over the chunks of an interrupted run, except those of tables that were altered since.
func (w *Writer) resume(before *Manifest) error {
	if before.Selection != w.m.Selection {
		return fmt.Errorf("resume the dump to %s: it was of other rows:\n  then: %s\n  now:  %s\nrepeat its command to resume it, or use option restart", w.o.To.Name, before.Selection, w.m.Selection)
	}
	if before.Source != w.m.Source {
		return fmt.Errorf("resume the dump to %s: its rows came from %s, not from %s; repeat its command to resume it, or use option restart", w.o.To.Name, before.Source, w.m.Source)
	}
	w.m.ID, w.m.Started = before.ID, before.Started
	for _, t := range w.tables {
		old := before.table(t.out.Schema, t.out.Name)
		if old == nil || old.Create.SHA256 != t.out.Create.SHA256 || !old.Shape.SameShape(t.Source) {
			continue
		}
		t.out.Chunks = old.Chunks
		for i, c := range old.Chunks {
			t.State.Chunks = append(t.State.Chunks, tabledef.RecordedChunk{Chunk: c.bounds(i)})
			if c.Done {
				t.before++
			}
		}
	}
	return nil
}

// definition returns the CREATE TABLE statement of a table without its counter.
func definition(t *rowstream.Table) string {
	return strings.Replace(t.Create, fmt.Sprintf(" AUTO_INCREMENT=%d", createtable.AutoIncrement(t.Create)), "", 1)
}

// Begin records the snapshot of the source that rows are read in, and has the source check the conditions. It writes nothing.
func (w *Writer) Begin(ctx context.Context, snapshot rowstream.View) error {
	w.m.Snapshot = snapshot.How()
	if err := w.readPosition(ctx, snapshot); err != nil {
		return err
	}
	return w.checkConditions(ctx, snapshot.Reader(0))
}

// Position returns the position of the source's binary log at the snapshot.
func (w *Writer) Position() string { return w.m.Position.String() }

// readPosition parses the position of the snapshot, and has MariaDB find the GTIDs for it.
func (w *Writer) readPosition(ctx context.Context, snapshot rowstream.View) error {
	p, err := binlog.ParsePosition(snapshot.Position())
	if err != nil {
		return err
	}
	w.m.Position = Position{File: p.File, Offset: p.Offset, GTID: p.GTID}
	q, ok := w.o.From.(session.Querier)
	if !ok || p.File == "" || p.GTID != "" || !session.IsMariaDB(w.m.Version) {
		return nil
	}
	err = q.Query(ctx, fmt.Sprintf("SELECT BINLOG_GTID_POS(%s, %d)", session.Literal(p.File), p.Offset), func(row mysqlwire.TextRow) error {
		w.m.GTID = string(row[0])
		return nil
	})
	if err != nil && !session.IsUnseen(err) { // file and offset are sufficient
		return fmt.Errorf("read the GTIDs of the position %s: %w", p, err)
	}
	return nil
}

// checkConditions has the source parse the conditions.
func (w *Writer) checkConditions(ctx context.Context, reader rowstream.Reader) error {
	for _, t := range w.tables {
		if t.Spec.Where == "" {
			continue
		}
		none := rowstream.ReadOptions{Where: "(" + t.Spec.Where + ") AND FALSE", Plan: t.Plan}
		for _, err := range reader.Read(ctx, t.Source, rowstream.Chunk{}, none) {
			if err != nil {
				return fmt.Errorf("check the condition %q of %s: %w", t.Spec.Where, t.Spec.Source(), err)
			}
		}
	}
	return nil
}

// Finish compares the definitions with those before, and writes the manifest. All rows were written, and saved.
func (w *Writer) Finish(ctx context.Context) (*Report, error) {
	if err := w.sameObjects(ctx); err != nil {
		return nil, err
	}
	if err := w.writeDefinitions(ctx); err != nil {
		return nil, err
	}
	if err := w.alone(ctx); err != nil {
		return nil, err
	}
	if err := w.o.To.removeOthers(ctx, w.m); err != nil {
		return nil, err
	}
	w.m.Finished = time.Now().UTC()
	text, err := w.m.encode()
	if err != nil {
		return nil, err
	}
	f, err := w.o.To.put(ctx, manifestName, text)
	if err == nil {
		err = w.o.To.remove(ctx, partialName)
	}
	if err != nil {
		return nil, fmt.Errorf("finish the dump to %s: %w", w.o.To.Name, err)
	}
	return w.report(f.SHA256), nil
}

// alone fails if another run has written to the destination.
func (w *Writer) alone(ctx context.Context) error {
	done, err := w.o.To.manifest(ctx, manifestName)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	partial, err := w.o.To.manifest(ctx, partialName)
	if err == nil && (done != nil || partial == nil || partial.Run != w.run) {
		err = fmt.Errorf("finish the dump to %s: another run has written to it: start one run at a time", w.o.To.Name)
	}
	return err
}

// sameObjects fails if the objects of the schemas have changed since they were listed, and reads the next values of sequences.
func (w *Writer) sameObjects(ctx context.Context) error {
	q, ok := w.o.From.(session.Querier)
	if w.o.Objects == nil || !ok {
		return nil
	}
	now, err := inventory.Read(ctx, q, &w.o.Selection)
	if err != nil {
		return err
	}
	if changed := w.o.Objects.Changed(now); len(changed) > 0 {
		return fmt.Errorf("all rows are dumped, but the source's objects have changed since they were listed: %s; run the same command again, which resumes", strings.Join(changed, "; "))
	}
	return w.o.Objects.ReadSequences(ctx, q)
}

// writeDefinitions writes the definitions of the tables, which must be those from before the snapshot: then they are those of the snapshot. Only
// the counters are newer.
func (w *Writer) writeDefinitions(ctx context.Context) error {
	return parallel.ForEach(ctx, w.o.Workers, w.tables, func(ctx context.Context, t *tableRun) error {
		now, err := w.o.From.Describe(ctx, t.Spec.Schema, t.Spec.Name)
		if err != nil {
			return err
		}
		if definition(now) != definition(t.Source) || !slices.Equal(now.Columns, t.Source.Columns) {
			return fmt.Errorf("table %s was altered while its rows were dumped: run the same command again, which reads them again", t.Spec.Source())
		}
		t.out.Create, err = w.o.To.put(ctx, t.out.Create.Name, []byte(now.Create+createEnd))
		return err
	})
}

func (w *Writer) report(sum string) *Report {
	r := &Report{Snapshot: w.m.Snapshot, Position: w.m.Position.String(), Manifest: sum, Tables: []TableReport{}, NotCopied: []telemetry.NotCopied{}}
	if w.o.Objects != nil {
		r.NotCopied = append(r.NotCopied, w.o.Objects.NotCopied()...)
	}
	for _, t := range w.tables {
		one := TableReport{Source: t.Spec.Source(), Chunks: len(t.out.Chunks), Before: t.before}
		for _, c := range t.out.Chunks {
			one.Rows, one.Bytes, one.Files = one.Rows+c.Rows, one.Bytes+c.Bytes, one.Files+len(c.Files)
			for _, f := range c.Files {
				one.Size += f.Size
			}
		}
		r.Tables = append(r.Tables, one)
	}
	return r
}
