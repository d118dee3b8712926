package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// FromDump returns a function for Options.From that loads a dump.
func FromDump(from dump.Destination) func(context.Context) (binlog.Follower, error) {
	return func(ctx context.Context) (binlog.Follower, error) {
		d, err := dump.Open(ctx, from)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}

// Dump writes tables of the source to a directory or bucket; To of the options is not used. If it fails or is stopped, calling it again with the
// same options resumes it. Options of copies between servers are an error.
func Dump(ctx context.Context, o Options, to dump.Destination) (*dump.Report, error) {
	if err := o.validateDump(); err != nil {
		return nil, err
	}
	status := &controlled{last: telemetry.Status{Phase: telemetry.RunCopying}}
	o.meter(status)
	observe := o.Observe
	o.Observe = func(e telemetry.Event) {
		status.progressed(e.Progress)
		observe(e)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := newDumpRun(&o)
	defer r.close()
	defer r.pacer.Start(ctx, func(err error) { end(endError{err}) })()
	report, err := r.run(ctx, to)
	var reported endError
	if err != nil && errors.As(context.Cause(ctx), &reported) {
		err = reported.error
	}
	return report, err
}

// progressed sets the progress of a run that has no socket.
func (c *controlled) progressed(p *telemetry.CopyProgress) {
	if p != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last.Progress = p
	}
}

// PlanDump returns what Dump would do, or the error that Dump would return. It writes nothing.
func PlanDump(ctx context.Context, o Options, to dump.Destination) (planned []PlannedTable, _ error) {
	if err := o.validateDump(); err != nil {
		return nil, err
	}
	r := newDumpRun(&o)
	defer r.close()
	if err := r.prepare(ctx, to); err != nil {
		return nil, err
	}
	for i, t := range r.tables {
		p := PlannedTable{
			Source: t.Spec.Source(), Target: to.Name, Spec: t.State.Spec, Key: t.Source.KeyName, RowsEstimate: t.Source.RowsEstimate, BytesEstimate: t.Source.BytesEstimate,
			Chunks: int(t.Source.BytesEstimate/o.ChunkBytes) + 1, Indexes: []string{}, ForeignKeys: []string{}, Phase: "new", CopiedBefore: r.writer.Before(i),
		}
		if len(t.State.Chunks) > 0 {
			p.Phase = string(tabledef.Copying)
		}
		planned = append(planned, p)
	}
	return planned, nil
}

// validateDump sets defaults and returns an error if the options are invalid for a dump.
func (o *Options) validateDump() error {
	o.setDefaults()
	switch {
	case o.From == nil:
		return errors.New("no server to dump")
	case len(o.Tables) == 0:
		return errors.New("no tables to dump")
	case o.Workers < 0 || o.Workers > 256:
		return fmt.Errorf("option workers %d: use 1 to 256", o.Workers)
	case o.ChunkBytes < 1<<10 || o.ChunkBytes > 1<<30:
		return fmt.Errorf("option chunk-bytes %d: use 1KiB to 1GiB", o.ChunkBytes)
	case o.Follow || o.Cutover != nil || o.Swap != nil:
		return errors.New("a dump is of one point in time: changes are not followed, and no clients are switched to it")
	}
	for i := range o.Tables {
		if t := &o.Tables[i]; t.Source() != t.Target() || len(t.Columns) > 0 || t.Mapping != nil {
			return fmt.Errorf("table %s: a dump has all columns under the names of the source; rename tables and select columns when it is loaded", t.Source())
		}
	}
	return o.Throttle.Validate()
}

// A dumpRun is one attempt at a dump. It drives the phases of a run that has files as its target: prepare, rows, finish.
type dumpRun struct {
	*job
	writer   *dump.Writer
	snapshot rowstream.View
}

func newDumpRun(o *Options) *dumpRun {
	o.waits = &telemetry.Waits{Observe: o.Observe}
	j := newJob(o)
	j.pacer = o.newPacer()
	return &dumpRun{job: j}
}

func (r *dumpRun) close() {
	if r.snapshot != nil {
		_ = r.snapshot.Close() // its transactions are read-only
	}
	r.job.close()
}

// run executes the phases.
func (r *dumpRun) run(ctx context.Context, to dump.Destination) (*dump.Report, error) {
	if err := r.prepare(ctx, to); err != nil {
		return nil, err
	}
	if err := inOrder(ctx, r.writer.Save, r.rows, r.writer.Save); err != nil {
		return nil, err
	}
	report, err := r.writer.Finish(ctx)
	if s := r.pacer.Status(); err == nil && len(s.Limits) > 0 {
		report.Throttle = &s
	}
	return report, err
}

// prepare connects to the source, describes the tables and takes the snapshot. It writes nothing.
func (r *dumpRun) prepare(ctx context.Context, to dump.Destination) (err error) {
	if r.from, err = r.connectSource(ctx); err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	to.Patience, to.Observe = r.o.Patience, r.o.Observe
	if r.writer, err = dump.Prepare(ctx, dump.Options{
		From: r.from, To: to, Tables: r.o.Tables, Objects: r.o.Objects, Selection: r.o.Selection, Workers: r.o.Workers, Verify: r.o.Verify, Restart: r.o.Restart,
	}); err != nil {
		return err
	}
	r.tables = r.writer.Tables()
	if r.snapshot, err = r.openSnapshot(ctx, r.o.Workers); err != nil {
		return err
	}
	if err := r.writer.Begin(ctx, r.snapshot); err != nil {
		return err
	}
	r.o.Observe(telemetry.Event{Kind: telemetry.EventSnapshot, Text: strings.TrimSpace(r.snapshot.How() + " " + r.writer.Position())})
	return nil
}

// lastSave bounds the time to save the progress of a dump that fails or is stopped.
const lastSave = 5 * time.Second

// rows writes the rows. It saves the progress if that fails.
func (r *dumpRun) rows(ctx context.Context) error {
	err := newReading(&rowsPhase{job: r.job, snapshot: r.snapshot, files: r.writer}).run(ctx)
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	return errors.Join(err, r.writer.Save(ctx))
}

// ResolveDump is Resolve for a dump: it lists the objects of the source that a selection names. A source that lists none has no inventory, and only
// named tables.
func ResolveDump(ctx context.Context, o *Options, sel inventory.Selection) (*inventory.Inventory, error) {
	if sel.Users {
		return nil, errDumpedUsers
	}
	ctx, cancel := context.WithTimeoutCause(ctx, snapshotLimit, fmt.Errorf("list the objects of the source: it took longer than %v", snapshotLimit))
	defer cancel()
	j := newJob(o)
	defer j.close()
	var err error
	if j.from, err = o.From(ctx); err != nil {
		return nil, fmt.Errorf("connect to the source: %w", err)
	}
	source, ok := j.from.(session.Querier)
	if !ok {
		return nil, nil
	}
	for i := range o.Tables {
		o.Tables[i].Defaults()
		sel.Tables = append(sel.Tables, inventory.Pattern{Schema: o.Tables[i].Schema, Name: o.Tables[i].Name})
	}
	inv, err := inventory.Read(ctx, source, &sel)
	if err != nil {
		return nil, err
	}
	for _, t := range inv.Copied(inventory.Table) {
		described, err := j.from.Describe(ctx, t.Schema, t.Name)
		if err == nil {
			err = tabledef.Suitable(described)
		}
		if err != nil {
			t.Fate, t.Why = inventory.NeedsHand, err.Error()
		}
	}
	if err := inv.ReadReferences(ctx, source); err != nil {
		return nil, err
	}
	o.Objects, o.Selection = inv, sel
	return inv, o.addTables(inv)
}

// addTables adds the tables of an inventory, the largest first.
func (o *Options) addTables(inv *inventory.Inventory) error {
	tables := inv.Copied(inventory.Table)
	slices.SortStableFunc(tables, func(a, b *inventory.Object) int { return cmp.Compare(b.BytesEstimate, a.BytesEstimate) })
	for _, t := range tables {
		if !slices.ContainsFunc(o.Tables, func(s tabledef.Spec) bool { return s.Schema == t.Schema && s.Name == t.Name }) {
			o.Tables = append(o.Tables, tabledef.Spec{Schema: t.Schema, Name: t.Name})
		}
	}
	if err := inv.Err(); err != nil {
		return err
	}
	if len(o.Tables) == 0 {
		return errors.New("there is no table to copy")
	}
	return nil
}

// dumpTables adds all tables of a dump that lists no objects. It fails for one of a schema of the server's, which must be named.
func (o *Options) dumpTables(d *dump.Dump) error {
	for _, t := range d.Manifest().Tables {
		if err := inventory.CheckUnnamed(t.Schema, t.Name); err != nil {
			return err
		}
		o.Tables = append(o.Tables, tabledef.Spec{Schema: t.Schema, Name: t.Name})
	}
	return nil
}
