package copier

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// The preparePhase does everything that precedes the first row. Its result is the snapshot that rows are read from, and, if changes are
// followed, the stream of them.
type preparePhase struct {
	*job
	objects  *schemaObjects
	stream   *changeStream
	handOver *handOverPhase

	snapshot rowstream.View // nil if clients were switched before
}

// run does everything that precedes the first row, once both sides are described.
func (p *preparePhase) run(ctx context.Context) error {
	recorded := &sourceRecord{p.job}
	if err := inOrder(ctx, p.acquireState, recorded.accept, recorded.adopt, p.handOver.prepare); err != nil || p.handOver.past() {
		return err
	}
	return inOrder(ctx, p.check, p.restartTables, p.stream.prepare, p.objects.listNotCopied, p.checkSource, p.begin, p.objects.createAccounts,
		func(ctx context.Context) error {
			return p.objects.create(ctx, inventory.Function, inventory.Procedure, inventory.View, inventory.Event)
		}, p.objects.compareAccounts, p.strip)
}

// plan runs the checks of run, and changes nothing.
func (p *preparePhase) plan(ctx context.Context) error {
	recorded := &sourceRecord{p.job}
	if err := inOrder(ctx, p.checkLocks, recorded.accept, p.handOver.check); err != nil || p.handOver.past() {
		return err
	}
	return inOrder(ctx, p.check, p.stream.plan, p.checkSource)
}

// close closes the snapshot.
func (p *preparePhase) close() {
	if p.snapshot != nil {
		_ = p.snapshot.Close() // its transactions are read-only
	}
}

// acquireState locks the state of the tables on the target and creates what it lacks.
func (p *preparePhase) acquireState(ctx context.Context) (err error) {
	specs := make([]*tabledef.Spec, len(p.tables))
	for i, t := range p.tables {
		specs[i] = t.Spec
	}
	if p.state.Lease, err = state.AcquireLease(ctx, p.to, p.state, specs, p.o.Patience); err != nil {
		return err
	}
	return p.state.Create(ctx, p.to)
}

// restartTables discards the recorded state of each table on a restart.
func (p *preparePhase) restartTables(ctx context.Context) error {
	for _, t := range p.tables {
		if !p.o.Restart {
			break
		}
		if err := restartTable(ctx, t, p.job); err != nil {
			return err
		}
	}
	return nil
}

// begin records the snapshot and creates the schemas, sequences and tables.
func (p *preparePhase) begin(ctx context.Context) error {
	position, err := p.stream.marked(p.snapshot.Position())
	if err != nil {
		return err
	}
	if err := p.boundRows(ctx); err != nil {
		return err
	}
	text := strings.TrimSpace(p.snapshot.How() + " " + p.snapshot.Position())
	switch {
	case p.shortViews():
		_ = p.snapshot.Close() // its position is known, and its transactions are read-only
		text += fmt.Sprintf("; rows are read in views of at most %v", p.o.MaxViewAge)
	case p.o.Follow:
		text += "; rows are read in one view, because stored generated columns are compared in it"
	}
	p.o.Observe(telemetry.Event{Kind: telemetry.EventSnapshot, Text: text})
	if err := p.objects.create(ctx, inventory.Schema, inventory.Sequence); err != nil {
		return err
	}
	if err := p.keepLookups(ctx); err != nil {
		return err
	}
	for _, t := range p.tables {
		if err := beginTable(ctx, t, p.to, p.state, p.source, position); err != nil {
			return err
		}
	}
	return nil
}

// strip prepares the target tables for rows. Foreign keys are dropped before the indexes that they need.
func (p *preparePhase) strip(ctx context.Context) error {
	for _, t := range p.tables {
		if err := dropForeignKeys(ctx, t, p.to); err != nil {
			return err
		}
	}
	for _, t := range p.tables {
		if err := stripIndexes(ctx, t, p.to); err != nil {
			return err
		}
	}
	return nil
}

// boundRows finds the last keys of the tables that are still to be copied.
func (p *preparePhase) boundRows(ctx context.Context) error {
	if !p.shortViews() {
		return nil
	}
	reader := p.snapshot.Reader(0)
	for _, t := range p.tables {
		if t.Past() || t.State != nil && t.State.Phase != tabledef.Copying {
			continue
		}
		last, err := reader.LastKey(ctx, t.Source)
		if err != nil {
			return err
		}
		t.Bound = tabledef.RowBound{Known: true, Last: last}
	}
	return nil
}

// check returns an error if the state or the rows in the target do not permit the copy. The state's tables
// may be missing.
func (p *preparePhase) check(ctx context.Context) error {
	for _, t := range p.tables {
		if err := p.swapped(ctx, t); err != nil {
			return err
		}
		if err := recallTable(ctx, t, p.to, p.o, p.state); err != nil {
			return err
		}
		if err := mayWriteTo(ctx, t, p.job); err != nil {
			return err
		}
	}
	if p.o.Verify {
		if err := rowstream.CheckSums(ctx, p.to); err != nil {
			return fmt.Errorf("verify at the target: %w", err)
		}
	}
	return nil
}

// checkSource takes the source's snapshot and checks the conditions by having the source parse them.
func (p *preparePhase) checkSource(ctx context.Context) (err error) {
	workers := p.o.Workers
	if p.shortViews() {
		workers = 2 // only its position is used; with one worker MySQL takes no lock and does not report the position
	}
	if p.snapshot, err = p.openSnapshot(ctx, workers); err != nil {
		return err
	}
	if p.o.Follow && p.snapshot.Identity() == "" {
		return errors.New("the source does not identify itself, so that a later view of it could be another server's: option follow requires that it does")
	}
	if p.o.Follow {
		if err := sameCascades(ctx, p.from, p.tables); err != nil {
			return err
		}
	}
	if err := p.checkOwners(ctx); err != nil {
		return err
	}
	if err := p.checkKept(ctx); err != nil {
		return err
	}
	for _, t := range p.tables {
		if t.Spec.Where == "" || t.Past() {
			continue
		}
		none := rowstream.ReadOptions{Where: "(" + t.Spec.Where + ") AND FALSE", Plan: t.Plan}
		for _, err := range p.snapshot.Reader(0).Read(ctx, t.Source, rowstream.Chunk{}, none) {
			if err != nil {
				return fmt.Errorf("check the condition %q of %s: %w", t.Spec.Where, t.Spec.Source(), err)
			}
		}
	}
	return nil
}
